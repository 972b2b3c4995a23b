"""The scheduler's kept index of workers, and how it writes what was decided with it."""

from __future__ import annotations

import msgspec
from fleet_cases import ready
from virtual_time import play
from world import ADMIN, Process, World, world

from labfleet.controllers.scheduler import Scheduler
from labfleet.service.verbs import lifecycle as verbs


def test_what_the_scheduler_keeps_is_what_one_begun_anew_reads() -> None:
    """After bindings, endings, a cordon and a worker's end the kept index is the rebuilt one."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            await w.worker("w2")
            for name in ("s1", "s2", "s3"):
                await w.session(name)
            await w.until(w.told("s3", "worker="))
            await w.until(w.in_phase("w2", "READY", "ACTIVE"))
            assert await same_as_anew(w, process) == ["w1", "w2"]
            await verbs.cordon(w.services, ADMIN, "w2", "default")
            await w.until(
                lambda: all(w.phase(s) == "COMPLETED" for s in ("s1", "s2", "s3")), hours=6
            )
            assert await same_as_anew(w, process) == ["w1", "w2"]
            worker = w.get_worker("w1")
            spec = msgspec.structs.replace(worker.spec, desired="Terminated")
            await process.services.objects.save(
                msgspec.structs.replace(worker, spec=spec), cause=process.services.cause(ADMIN, "x")
            )
            await w.until(w.in_phase("w1", "TERMINATED"), hours=3)
            assert await same_as_anew(w, process) == ["w2"]

    play(story)


async def same_as_anew(w: World, process: Process) -> list[str]:
    """Compare the index of the running scheduler with a new one's; return whom it holds."""
    await process.services.fresh()
    kept = scheduler_of(process)
    made = Scheduler(process.contexts["scheduler"], w.store)
    found = []
    for each in (kept, made):
        # private _snapshot, _workers: nothing public shows what a cycle is decided on
        await each._snapshot()
        index = each._workers.fleet("default")
        found.append({name: index.get(name) for name in sorted(index.names())})
    assert found[0] == found[1]
    return list(found[0])


def scheduler_of(process: Process) -> Scheduler:
    """Return the scheduler that runs in a process."""
    found = process.controllers["scheduler"].reconcile.__self__  # type: ignore[attr-defined]
    assert isinstance(found, Scheduler)
    return found

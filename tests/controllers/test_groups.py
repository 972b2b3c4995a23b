"""Groups in the running product: their seats start together, and their records go with the seats'."""

from __future__ import annotations

from virtual_time import play
from world import World, later, world

from labfleet.controllers import assembly
from labfleet.resources.group import Group
from labfleet.resources.session import Session
from labfleet.service.kinds import group_seats


def counts(w: World) -> dict[str, int]:
    """How the seats of the one group stand, without those that are none."""
    (group,) = w.cache.all(Group)
    found = group_seats.counts(w.services, group)
    named = ((name, getattr(found, name)) for name in found.__struct_fields__)
    return {name: number for name, number in named if number}


def test_seats_start_together_and_the_record_goes_after_them() -> None:
    """A pool grows for three seats, they run from the slot's start, end, and are kept for a month."""

    async def story() -> None:
        async with world() as w:
            process = await w.start()
            await w.pool(scaling={"minWorkers": 0, "maxWorkers": 2})
            await w.definition()
            slot = {"start": later(w, 90), "end": later(w, 120)}
            await w.make("Group", "exam", {"definition": "two", "size": 3, "slot": slot})
            await w.until(lambda: len(w.cache.all(Session)) == 3)
            assert all(each.status.claim for each in w.cache.all(Session))
            assert counts(w) == {"waiting": 3}
            await w.until(lambda: counts(w) == {"running": 3})
            (group,) = w.cache.all(Group)
            assert group.status.start is not None
            assert (w.clock.now() - group.status.start).total_seconds() < 60
            await w.until(lambda: counts(w) == {"ended": 3})
            for task in process.tasks[1:]:
                task.cancel()
            await w.clock.sleep(29 * 86400)
            await process.reconcile("upkeep", assembly.UPKEEP)
            await w.let_pass(4)
            assert counts(w) == {"ended": 3}
            await w.clock.sleep(2 * 86400)
            await process.reconcile("upkeep", assembly.UPKEEP)
            await w.let_pass(4)
            assert (len(w.cache.all(Session)), len(w.cache.all(Group))) == (0, 1)
            await w.clock.sleep(86400)
            await process.reconcile("upkeep", assembly.UPKEEP)
            await w.let_pass(4)
            assert w.cache.all(Group) == ()

    play(story)

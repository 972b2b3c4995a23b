"""Small promises of the controllers' parts: deadlines, the shared list, waking oneself."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from virtual_time import play
from world import world

from labfleet.app.settings import Settings
from labfleet.controllers import context, garbage
from labfleet.controllers.session import act as session_act
from labfleet.controllers.worker import act as worker_act
from labfleet.controllers.worker import launch
from labfleet.controllers.worker.described import TAGS_KEPT, machine_status
from labfleet.controllers.worker.inventory import Inventory
from labfleet.engine import effects, election
from labfleet.interfaces.compute import Checks, Instance
from labfleet.kernel import errors
from labfleet.resources import providers
from labfleet.resources.machine import ScheduledEvent

CONTROLLERS = Path(__file__).resolve().parents[2] / "src" / "labfleet" / "controllers"


def test_every_call_fits_into_the_lease_that_is_sure() -> None:
    """Of the seed's 15 s too: calls without a saved effect whole, the others' beginning."""
    least = 15.0
    assert Settings().lease_seconds == least
    sure = least * (election.TRUST - 1 / election.RENEWALS)
    assert sure > effects.CALL_SECONDS + 1.0
    assert garbage.DEADLINE == effects.CALL_SECONDS
    assert {session_act.DEADLINE, worker_act.DEADLINE, launch.DEADLINE} == {
        effects.OPERATION_SECONDS
    }
    # What is noticed as a call that ends with the lease must really be one.
    assert effects.OPERATION_SECONDS > effects.CALL_SECONDS
    assert effects.MARGIN_SECONDS > 0


def test_a_region_that_is_down_is_asked_once_for_many_workers() -> None:
    """Thirty workers that look at once cost one call, not one time-out after the other."""

    async def story() -> None:
        async with world() as w:
            calls = []

            async def down(region: str) -> None:
                calls.append(region)
                await asyncio.sleep(1.0)
                raise errors.Throttled("slow down")

            w.compute.list_owned = down  # type: ignore[method-assign]
            inventory = Inventory(w.compute, w.clock)
            looks = [inventory.find("us-east-1", f"i-{n}") for n in range(30)]
            found = await asyncio.gather(*looks, return_exceptions=True)
            assert all(isinstance(each, errors.Temporary) for each in found)
            assert calls == ["us-east-1"]
            await w.clock.sleep(5.0)
            with pytest.raises(errors.Throttled):
                await inventory.all("us-east-1")

    play(story)


def test_a_machine_that_we_changed_is_asked_for_by_id_until_the_next_list() -> None:
    """What a listing cannot have seen is not believed, and costs no new list of everything."""

    async def story() -> None:
        async with world() as w:
            calls = []
            real = w.compute.list_owned

            async def slow(region: str) -> object:
                calls.append(region)
                listed = await real(region)
                await asyncio.sleep(1.0)
                return listed

            w.compute.list_owned = slow  # type: ignore[method-assign]
            machine = w.cloud.foreign(tags={"labfleet:owner": "inst"})
            await asyncio.sleep(30)
            inventory = Inventory(w.compute, w.clock)
            async with asyncio.TaskGroup() as group:
                group.create_task(inventory.all("us-east-1"))
                await asyncio.sleep(0.5)
                w.compute.stop_outside(machine)
                inventory.forget("us-east-1", machine.id)
            found = await inventory.find("us-east-1", machine.id)
            assert found is not None
            assert found.state == "stopping"
            assert len(calls) == 1
            await asyncio.sleep(60)
            found = await inventory.find("us-east-1", machine.id)
            assert found is not None
            assert found.state == "stopped"
            assert len(calls) == 2

    play(story)


def test_silence_is_counted_for_each_machine() -> None:
    """One that is not told of any more grows old while the rest of its region is listed as ever."""

    async def story() -> None:
        async with world() as w:
            mine = {"labfleet:owner": "inst"}
            told, silent = w.cloud.foreign(tags=mine), w.cloud.foreign(tags=mine)
            await asyncio.sleep(30)
            inventory = Inventory(w.compute, w.clock)
            for machine in (told, silent):
                await inventory.find("us-east-1", machine.id)
            listed = w.compute.list_owned

            async def without(region: str) -> object:
                return tuple(each for each in await listed(region) if each.id != silent.id)

            async def nothing(region: str, instance_id: str) -> object:
                raise errors.Temporary("no answer")

            w.compute.list_owned = without  # type: ignore[method-assign,assignment]
            w.compute.describe = nothing  # type: ignore[method-assign,assignment]
            for _ in range(10):
                await asyncio.sleep(30)
                await inventory.find("us-east-1", told.id)
                with pytest.raises(errors.Temporary):
                    await inventory.find("us-east-1", silent.id)
            assert inventory.silent_for("us-east-1", told.id) < 1
            assert inventory.silent_for("us-east-1", silent.id) >= 300

    play(story)


def test_what_has_ended_is_asked_for_once() -> None:
    """Terminated is for ever: a worker that failed with its machine costs no more calls."""

    async def story() -> None:
        async with world() as w:
            asked = []
            real = w.compute.describe

            async def counted(region: str, instance_id: str) -> object:
                asked.append(instance_id)
                return await real(region, instance_id)

            w.compute.describe = counted  # type: ignore[method-assign,assignment]
            machine = w.cloud.foreign()
            w.compute.end(machine)
            inventory = Inventory(w.compute, w.clock)
            for _ in range(20):
                found = await inventory.find("us-east-1", machine.id)
                assert found is not None
                assert found.state == "gone"
                await asyncio.sleep(30)
            assert asked == [machine.id]

    play(story)


def test_what_ec2_took_is_not_unseen_by_a_list_that_lags() -> None:
    """A state from before the call is old news, until another is shown or two minutes pass."""

    async def story() -> None:
        async with world() as w:
            machine = w.cloud.foreign()
            await asyncio.sleep(600)
            inventory = Inventory(w.compute, w.clock)

            async def shown() -> str | None:
                found = await inventory.find("us-east-1", machine.id)
                return None if found is None else found.state

            assert await shown() == "running"
            inventory.took("us-east-1", machine.id, "stopping")
            assert await shown() == "stopping"
            await asyncio.sleep(100)
            assert await shown() == "stopping"
            await asyncio.sleep(30)
            assert await shown() == "running"
            inventory.took("us-east-1", machine.id, "ending")
            w.compute.end(machine)
            assert await shown() == "gone"

    play(story)


def test_a_region_that_is_down_holds_up_no_other() -> None:
    """Lists and checks of the others are told while one region only fails."""

    async def story() -> None:
        async with world() as w:
            real = w.compute.list_owned

            async def partly(region: str) -> object:
                if region == "eu-west-1":
                    raise errors.Unreachable("no connection")
                return await real(region)

            w.compute.list_owned = partly  # type: ignore[method-assign,assignment]
            inventory = Inventory(w.compute, w.clock)
            for _ in range(3):
                with pytest.raises(errors.Temporary):
                    await inventory.all("eu-west-1")
                assert await inventory.all("us-east-1") == {}
                assert await inventory.checks("us-east-1") == {}

    play(story)


def test_checks_are_asked_for_once_for_everybody_and_end_in_unknown() -> None:
    """One question each half minute; without answers the last are told for three minutes."""

    async def story() -> None:
        async with world() as w:
            asked = []
            told = {"i-1": Checks("i-1", "ok", "impaired")}
            down = False

            async def checks(region: str) -> dict[str, Checks]:
                asked.append(region)
                if down:
                    raise errors.Throttled("slow down")
                return told

            w.compute.checks = checks  # type: ignore[method-assign]
            inventory = Inventory(w.compute, w.clock)
            for _ in range(30):
                assert await inventory.checks("us-east-1") == told
            assert len(asked) == 1
            down = True
            await asyncio.sleep(60)
            assert await inventory.checks("us-east-1") == told
            await asyncio.sleep(150)
            assert await inventory.checks("us-east-1") is None
            assert len(asked) == 3

    play(story)


def test_checks_and_plans_come_into_the_workers_status() -> None:
    """A running machine is ok unless told; impaired and scheduled things are taken over."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            assert w.get_worker().status.machine.host_check == "ok"
            name = w.get_worker().status.machine.id or ""
            plan = ScheduledEvent(code="instance-retirement")
            machine = w.cloud.vms[name]
            machine.instance_check, machine.events = "impaired", (plan,)
            await w.let_pass(120)
            assert w.get_worker().status.machine.machine_check == "impaired"
            assert [each.code for each in w.get_worker().status.machine.events] == [
                "instance-retirement"
            ]

    play(story)


def test_a_failing_call_backs_off_although_it_is_written_down() -> None:
    """Writing each failure into the status does not wake the session that failed."""

    async def story() -> None:
        async with world() as w:
            process = await w.start()
            await w.worker()
            await w.definition()
            await w.until(w.in_phase("w1", "READY"))
            w.strike = lambda name, _: "no-before" if name == "import_lab" else None
            await w.session()
            await w.until(w.in_phase("s1", "INSTANTIATING"))
            before = len(process.outcomes)
            await w.let_pass(300)
            tries = [each for each in process.outcomes[before:] if each[0] == "session"]
            assert 4 <= len(tries) <= 14
            w.strike = None
            await w.until(w.in_phase("s1", "RUNNING"))
            w.check()

    play(story)


def test_no_controller_writes_with_a_fence_that_may_be_none() -> None:
    """Leadership may end between a decision and its write; then nothing is written (seed 93)."""
    room = Path(context.__file__).parent
    loose = re.compile(r"fence=[a-z_.]*leadership\.fence")
    assert [path.name for path in room.rglob("*.py") if loose.search(path.read_text())] == []
    term = SimpleNamespace(leadership=election.AlwaysLeader(None))
    with pytest.raises(errors.Fenced):
        context.Context.fence(term)  # type: ignore[arg-type]  # all that it reads


def _calls(folder: Path, owner: str, names: set[str]) -> list[str]:
    """Return file and function of each call `owner.name(...)` in a folder's code."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Attribute) and called.attr in names:
                    of = called.value
                    word = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
                    if word == owner:
                        found.append(f"{path.name}:{function.name}")
    return found


def test_a_worker_is_written_in_one_place() -> None:
    """Every step of a worker is one record, made by one function."""
    places = _calls(CONTROLLERS / "worker", "context", {"record", "write"})
    assert set(places) == {"reconcile.py:_record"}


def test_only_decisions_say_what_is_so() -> None:
    """No controller puts or drops a condition: what is recorded was decided by a pure function."""
    assert _calls(CONTROLLERS, "conditions", {"put", "drop"}) == []


@pytest.mark.parametrize(("kind", "tagged"), [("aws", True), ("static", False)])
def test_tags_are_recorded_bounded_and_only_where_machines_have_them(kind, tagged):
    """EC2's fifty at most, in order; a static machine's are not known, which is not none."""
    assert providers.PROVIDERS[kind].tagged is tagged
    found = Instance("i-1", "running", tags={f"k{n:02d}": "v" for n in reversed(range(60))})
    seen = machine_status(found, tagged=tagged).tags_seen
    if tagged:
        assert list(seen) == [f"k{n:02d}" for n in range(TAGS_KEPT)]
        assert machine_status(Instance("i-1", "running"), tagged=True).tags_seen == {}
    else:
        assert seen is None

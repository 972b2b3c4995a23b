"""Small promises of the controllers' parts: deadlines, the shared list, waking oneself."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import play
from world import world

from labfleet.app.settings import Settings
from labfleet.controllers.session import act as session_act
from labfleet.controllers.worker import act as worker_act
from labfleet.controllers.worker import launch
from labfleet.controllers.worker.inventory import Inventory
from labfleet.engine import effects, election
from labfleet.kernel import errors


def test_every_call_fits_into_the_lease_that_is_sure() -> None:
    """Between two renewals a leader is sure of 0.9 - 1/3 of its lease; all calls are shorter."""
    lease = Settings().lease_seconds
    sure = lease * (election.TRUST - 1 / 3)
    for seconds in (
        session_act.DEADLINE, session_act.IMPORT_DEADLINE, worker_act.DEADLINE, launch.DEADLINE,
    ):  # fmt: skip
        assert seconds < sure
        assert seconds < lease * 0.6
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


def test_a_list_that_was_read_while_we_changed_something_is_read_again() -> None:
    """What a listing under way cannot have seen is not kept for the next look."""

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
            inventory = Inventory(w.compute, w.clock)
            async with asyncio.TaskGroup() as group:
                group.create_task(inventory.all("us-east-1"))
                await asyncio.sleep(0.5)
                inventory.forget("us-east-1")
            await inventory.all("us-east-1")
            await inventory.all("us-east-1")
            assert len(calls) == 2

    play(story)


def test_a_failing_call_backs_off_although_it_is_written_down() -> None:
    """Writing each failure into the status does not wake the session that failed."""

    async def story() -> None:
        async with world() as w:
            process = await w.start()
            await w.worker()
            await w.definition()
            await w.until(w.is_("w1", "READY"))
            w.strike = lambda name, _: "no-before" if name == "import_lab" else None
            await w.session()
            await w.until(w.is_("s1", "INSTANTIATING"))
            before = len(process.outcomes)
            await w.pass_(300)
            tries = [each for each in process.outcomes[before:] if each[0] == "session"]
            assert 4 <= len(tries) <= 14
            w.strike = None
            await w.until(w.is_("s1", "RUNNING"))
            w.check()

    play(story)

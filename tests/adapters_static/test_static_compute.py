"""Servers that are there already: each is given out once, parked if it has no switch, and let go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from labfleet.adapters.static import compute as static_compute
from labfleet.adapters.static.compute import FULL_SECONDS, StaticCompute
from labfleet.adapters.static.hooks import Hooks
from labfleet.adapters.static.sites import Server
from labfleet.interfaces.compute import LaunchRequest
from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.providers.static import StaticSettings

REGION = "static-lab-a"
SETTINGS = StaticSettings(site="lab-a")
SITE = {name: Server("lab-a", name, f"{name}.example.org") for name in ("cml-1", "cml-2")}


class Watch:
    """A clock that a test moves."""

    rate = 1.0

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        """Return seconds."""
        return self.at


def made(watch: Watch | None = None) -> StaticCompute:
    """Return a process's compute over a site of two servers without switches."""
    clock: Any = watch or Watch()
    return StaticCompute({"lab-a": SITE}, Hooks(), "us", clock)


def request(server: str, token: str = "t1") -> LaunchRequest:
    """Return a launch of a server."""
    return LaunchRequest(
        region=REGION, token=token, worker="w1", worker_uid="u1", attempt=1,
        choice={"machine": server}, settings=SETTINGS,
    )  # fmt: skip


def test_a_server_is_given_out_once() -> None:
    """Neither one that the store shows as taken, nor one promised or launched a moment ago."""
    compute = made()

    async def story() -> None:
        first = await compute.choose(SETTINGS, set)
        second = await compute.choose(SETTINGS, set)
        assert (first, second) == ({"machine": "cml-1"}, {"machine": "cml-2"})
        fresh = made()
        assert await fresh.choose(SETTINGS, lambda: {"cml-1.0abc1234def5"}) == second
        await fresh.launch(request("cml-1"))
        with pytest.raises(errors.OutOfCapacity):
            await fresh.launch(request("cml-1", "t2"))

    asyncio.run(story())


def test_a_full_site_is_asked_again_after_a_minute() -> None:
    """Until then `held` says why, so that nothing is searched in vain; a free server ends it."""
    watch = Watch()
    compute = made(watch)

    async def story() -> None:
        with pytest.raises(errors.OutOfCapacity) as caught:
            await compute.choose(SETTINGS, lambda: {"cml-1", "cml-2"})
        assert caught.value.retry_after == FULL_SECONDS
        assert isinstance(compute.held(SETTINGS), errors.OutOfCapacity)
        watch.at += FULL_SECONDS
        assert compute.held(SETTINGS) is None

    asyncio.run(story())


def test_only_servers_of_the_file_are_ever_taken() -> None:
    """A template cannot name a server, a site or an address that the file does not have."""

    async def story() -> None:
        for settings in (
            StaticSettings(site="lab-a", servers=("cml-9",)), StaticSettings(site="lab-b")
        ):  # fmt: skip
            with pytest.raises(errors.Invalid):
                await made().choose(settings, set)
        with pytest.raises(errors.Invalid):
            await made().launch(request("cml-9"))
        assert await made().describe(REGION, "cml-9.0abc1234def5") is None

    asyncio.run(story())


def test_a_server_without_a_switch_is_parked_and_given_back() -> None:
    """Stopped it goes on running; ended it is gone at once, and the next worker's is another one."""
    compute = made()

    async def story() -> None:
        first = await compute.launch(request("cml-1"))
        assert (first.state, first.public_ip) == ("running", "cml-1.example.org")
        seen = []
        for verb in (compute.stop, compute.start, compute.terminate):
            await verb(REGION, first.id)
            found = await compute.describe(REGION, first.id)
            seen.append(found and found.state)
        assert seen == ["stopped", "running", "gone"]
        second = await compute.launch(request("cml-1", "t2"))
        assert (second.id != first.id, second.state) == (True, "running")
        again = await compute.describe(REGION, first.id)
        assert again is not None
        assert again.state == "gone"

    asyncio.run(story())


def test_a_new_process_knows_a_machine_by_its_id() -> None:
    """It can stop and end what its predecessor launched; the same request is the same machine."""

    async def story() -> None:
        before = await made().launch(request("cml-1"))
        after = made()
        assert await after.find_launched(request("cml-1")) == ()
        found = await after.describe(REGION, before.id)
        assert found is not None
        assert (found.id, found.tags["labfleet:owner"]) == (before.id, "us")
        assert (await after.launch(request("cml-1"))).id == before.id
        await after.terminate(REGION, before.id)
        gone = await after.describe(REGION, before.id)
        assert gone is not None
        assert gone.state == "gone"

    asyncio.run(story())


def test_regions_of_sites_are_nobody_elses() -> None:
    """A site may be called like a region of EC2's and is not taken for one."""
    assert StaticSettings(site="us-east-1").region != AwsSettings().region


class Switches:
    """Servers with switches, some of which do not tell their state."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.stopped: list[str] = []

    async def start(self, server: Server) -> None:
        """Switch on."""

    async def stop(self, server: Server) -> None:
        """Switch off."""
        self.stopped.append(server.name)

    async def state(self, server: Server) -> Any:
        """Return running, or fail."""
        if server.name in self.silent:
            raise errors.Temporary(f"{server.name}: no answer")
        return "running"


def test_a_server_that_does_not_tell_is_the_only_one_missed() -> None:
    """The others are listed; who asks for it by id gets the error, and no list is empty for errors."""
    switches, watch = Switches(), Watch()
    compute = StaticCompute({"lab-a": SITE}, switches, "us", watch)  # type: ignore[arg-type]

    async def story() -> None:
        one = await compute.launch(request("cml-1"))
        two = await compute.launch(request("cml-2", "t2"))
        switches.silent = {"cml-1"}
        assert [each.id for each in await compute.list_owned(REGION)] == [two.id]
        with pytest.raises(errors.Temporary):
            await compute.describe(REGION, one.id)
        switches.silent = {"cml-1", "cml-2"}
        with pytest.raises(errors.Temporary):
            await compute.list_owned(REGION)

    asyncio.run(story())


def test_an_end_that_comes_late_leaves_the_next_worker_s_server_on() -> None:
    """A machine whose server another one has by now is ended without switching anything off."""
    switches, watch = Switches(), Watch()
    compute = StaticCompute({"lab-a": SITE}, switches, "us", watch)  # type: ignore[arg-type]

    async def story() -> None:
        await compute.launch(request("cml-1", "t2"))
        await compute.terminate(REGION, "cml-1.0abc1234def5")
        assert switches.stopped == []

    asyncio.run(story())


def test_ended_machines_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a server is given out and back."""
    monkeypatch.setattr(static_compute, "ENDED_KEPT", 3)
    compute = made()

    async def story() -> None:
        for number in range(10):
            first = await compute.launch(request("cml-1", f"t{number}"))
            await compute.terminate(REGION, first.id)

    asyncio.run(story())
    # private _known: what is remembered shows in no answer
    assert len(compute._known) == 3

"""Roles: leading, crashing, coming back, ending in order."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from engine_fakes import HandClock, SeededRng, pump
from loop_time import leap

from labfleet.engine import supervisor as supervisors
from labfleet.engine.supervisor import Role, State, Supervisor
from labfleet.engine.wakeup import Wakeup
from labfleet.interfaces import store as stores
from labfleet.kernel import errors


class Switch:
    """A leadership turned on and off by hand."""

    def __init__(self) -> None:
        self.token = 0
        self.held = False
        self._wakeup = Wakeup()

    @property
    def fence(self) -> stores.Fence | None:
        return stores.Fence("switch", self.token) if self.held else None

    def remaining(self) -> float:
        return math.inf if self.held else 0.0

    async def wait_held(self) -> None:
        while not self.held:
            await self._wakeup.sleep(None, asyncio.sleep)

    async def wait_lost(self) -> None:
        fence = self.fence
        while fence is not None and self.fence == fence:
            await self._wakeup.sleep(None, asyncio.sleep)

    def turn(self, *, on: bool) -> None:
        self.held = on
        self.token += on
        self._wakeup.wake()


@dataclass
class Seen:
    """Remembers every change of a role."""

    changes: list[tuple[str, State]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def role_changed(
        self, role: str, state: State, error: BaseException | None, wait: float
    ) -> None:
        self.changes.append((role, state))
        if error is not None:
            self.errors.append(error)
            assert wait > 0


class Part:
    """A role that says when it runs and how it ended."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log
        self.asked = asyncio.Event()

    async def run(self) -> None:
        self.log.append(f"{self.name} on")
        try:
            await self.asked.wait()
            self.log.append(f"{self.name} finished")
        except asyncio.CancelledError:
            self.log.append(f"{self.name} off")
            raise


class Stand:
    """A supervisor over some roles, running in the background."""

    def __init__(self, *roles: Role, **options) -> None:
        self.clock, self.switch, self.seen = HandClock(), Switch(), Seen()
        self.supervisor = Supervisor(
            roles,
            rng=SeededRng("0"),
            leadership=self.switch,
            observer=self.seen,
            machine=self.clock.monotonic,
            pause=self.clock.sleep,
            **options,
        )

    async def start(self) -> None:
        self.running = asyncio.create_task(self.supervisor.run())
        await pump()

    async def stop(self) -> None:
        self.supervisor.stop()
        await self.running


def crashing(times: int, error: Callable[[], Exception]) -> Callable[[], object]:
    """A run that crashes so many times and then stays."""
    left = [times]

    async def run() -> None:
        if left[0]:
            left[0] -= 1
            raise error()
        await asyncio.Event().wait()

    return run


@pytest.mark.asyncio
async def test_leading_role_follows_the_leadership() -> None:
    """It starts when leadership comes, is cancelled when it goes, and starts again."""
    log: list[str] = []
    part = Part("ctl", log)
    stand = Stand(Role("ctl", part.run, leads=True))
    await stand.start()
    assert log == []
    assert stand.supervisor.readiness()["ctl"].state is State.STANDBY
    assert stand.supervisor.readiness()["ctl"].ready
    for on in (True, False, True):
        stand.switch.turn(on=on)
        await pump()
    assert log == ["ctl on", "ctl off", "ctl on"]
    assert stand.seen.errors == []
    await stand.stop()


@pytest.mark.asyncio
async def test_change_of_term_restarts_a_leading_role() -> None:
    """Lost and won again in one moment is still a new term, and no crash."""
    log: list[str] = []
    stand = Stand(Role("ctl", Part("ctl", log).run, leads=True))
    stand.switch.turn(on=True)
    await stand.start()
    stand.switch.turn(on=False)
    stand.switch.turn(on=True)
    await pump()
    assert log == ["ctl on", "ctl off", "ctl on"]
    assert stand.seen.errors == []
    await stand.stop()


@pytest.mark.asyncio
async def test_crashed_role_comes_back_with_back_off() -> None:
    """A crash is reported with its error, waits longer each time, and harms no other role."""
    log: list[str] = []
    stand = Stand(
        Role("bad", crashing(3, lambda: KeyError("bug"))), Role("good", Part("good", log).run)
    )
    await stand.start()
    assert stand.supervisor.readiness()["bad"].message == "KeyError: 'bug'"
    assert not stand.supervisor.readiness()["bad"].ready
    await stand.clock.advance(0.4)
    assert len(stand.seen.errors) == 1
    await stand.clock.advance(8)
    assert [type(error) for error in stand.seen.errors] == [KeyError] * 3
    assert stand.supervisor.readiness()["bad"].ready
    assert log == ["good on"]
    await stand.stop()


@pytest.mark.asyncio
async def test_role_that_ends_unasked_is_a_crash() -> None:
    """A role that returns is reported and started again."""

    async def run() -> None:
        await asyncio.sleep(0)

    stand = Stand(Role("short", run))
    await stand.start()
    await stand.clock.advance(1)
    assert isinstance(stand.seen.errors[0], RuntimeError)
    assert stand.seen.changes.count(("short", State.RUNNING)) == 2
    await stand.stop()


@pytest.mark.asyncio
async def test_fenced_role_rests_briefly_each_time() -> None:
    """A refused fence is no growing failure: the role comes back within a second each time."""
    stand = Stand(Role("ctl", crashing(5, lambda: errors.Fenced("old")), leads=True))
    stand.switch.turn(on=True)
    await stand.start()
    await stand.clock.advance(5.1)
    assert stand.seen.changes.count(("ctl", State.STANDBY)) == 5
    assert stand.seen.errors == [], "a lost lead is no error"
    assert stand.supervisor.readiness()["ctl"].state is State.RUNNING
    await stand.stop()


@pytest.mark.asyncio
async def test_stop_ends_leading_roles_first_then_backwards() -> None:
    """Controllers finish before the election and the feed they need are taken away."""
    log: list[str] = []
    feed, election, api, ctl = (Part(name, log) for name in ("feed", "election", "api", "ctl"))
    stand = Stand(
        Role("feed", feed.run),
        Role("election", election.run),
        Role("api", api.run, stop=api.asked.set),
        Role("ctl", ctl.run, leads=True, stop=ctl.asked.set),
    )
    stand.switch.turn(on=True)
    await stand.start()
    await stand.stop()
    assert log[4:] == ["ctl finished", "api finished", "election off", "feed off"]
    assert {each.state for each in stand.supervisor.readiness().values()} == {State.STOPPED}


@pytest.mark.asyncio
async def test_stop_insists_after_its_deadline() -> None:
    """A role that does not finish when asked is cancelled at the deadline."""
    log: list[str] = []
    part = Part("slow", log)
    stand = Stand(Role("slow", part.run, stop=lambda: None), deadline=0.01)
    await stand.start()
    await stand.stop()
    assert log == ["slow on", "slow off"]


@pytest.mark.asyncio
@pytest.mark.parametrize("leads", [False, True])
async def test_cancelled_role_may_clean_up(leads: bool) -> None:
    """A role is cancelled once, so that its `finally` may await, as a lease's release does."""
    log: list[str] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await pump(10)
            log.append("released")

    stand = Stand(Role("election", run, leads=leads))
    stand.switch.turn(on=True)
    await stand.start()
    await stand.stop()
    assert log == ["released"]


@pytest.mark.asyncio
async def test_role_that_ignores_cancellation_is_named() -> None:
    """A role that swallows its cancellation is reported as stuck."""
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    stand = Stand(Role("stubborn", stubborn))
    await stand.start()
    stand.supervisor.stop()
    await pump()
    assert ("stubborn", State.STUCK) not in stand.seen.changes
    leap(supervisors.CANCEL_SECONDS)
    await pump()
    release.set()
    assert ("stubborn", State.STUCK) in stand.seen.changes
    await stand.running


@pytest.mark.asyncio
@pytest.mark.parametrize("leads", [False, True])
async def test_a_cancelled_supervisor_ends_though_a_role_fails_at_its_cancellation(
    leads: bool,
) -> None:
    """A role whose cancellation becomes an error, as with a TaskGroup, is not run once more."""
    runs = []

    async def run() -> None:
        runs.append("on")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise errors.Fenced("the lead is lost") from None

    stand = Stand(Role("controller", run, leads=leads))
    stand.switch.turn(on=True)
    await stand.start()
    stand.running.cancel()
    await pump(50)
    assert stand.running.done()
    assert runs == ["on"]


@pytest.mark.asyncio
async def test_stop_before_the_first_step_ends_at_once() -> None:
    """Stopping a supervisor that has hardly begun leaves nothing to wait for."""
    log: list[str] = []
    stand = Stand(Role("a", Part("a", log).run), Role("b", Part("b", log).run, leads=True))
    stand.supervisor.stop()
    async with asyncio.timeout(1):
        await stand.supervisor.run()
    assert log == []


@pytest.mark.asyncio
async def test_readiness_asks_the_running_role() -> None:
    """A role that runs but is not ready yet says so."""
    ready = False
    stand = Stand(Role("cache", Part("cache", []).run, ready=lambda: ready))
    await stand.start()
    assert not stand.supervisor.readiness()["cache"].ready
    ready = True
    assert stand.supervisor.readiness()["cache"].ready
    await stand.stop()

"""The journal of outside calls: what may start, and what nobody may believe."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from engine_fakes import HandClock, Ids
from hand_clock import START

from labfleet.engine import effects as journal
from labfleet.engine.effects import MARGIN_SECONDS, Effects
from labfleet.engine.election import AlwaysLeader
from labfleet.kernel import errors


class ShortLease(AlwaysLeader):
    """A leader whose lease ends soon."""

    def remaining(self) -> float:
        return 4.0


def make(rate: float = 1.0) -> tuple[Effects, HandClock]:
    clock = HandClock(rate)
    return Effects(clock, Ids(), AlwaysLeader()), clock


async def answer() -> str:
    return "i-123"


async def silence() -> str:
    await asyncio.Event().wait()
    return "never"


@pytest.mark.asyncio
async def test_call_passes_its_answer_on() -> None:
    """A call returns its answer; from then on the effect is not one of which nothing came."""
    effects, _ = make()
    effect = effects.open("LaunchInstance", deadline=5, parameters={"type": "m5.metal"})
    assert effects.known_not_done(effect)
    assert await effects.call(effect, answer, deadline=5) == "i-123"
    assert not effects.known_not_done(effect), "an outcome that cannot be saved must be looked up"
    assert effect.parameters == {"type": "m5.metal"}


@pytest.mark.asyncio
async def test_call_needs_lease_time() -> None:
    """A call that might outlast the lease is not started."""
    clock = HandClock()
    effects = Effects(clock, Ids(), ShortLease())
    effect = effects.open("LaunchInstance", deadline=5)
    with pytest.raises(errors.Temporary) as caught:
        await effects.call(effect, answer, deadline=5)
    assert caught.value.reason == "LeaseTooShort"
    assert effects.known_not_done(effect)
    assert await effects.call(effect, answer, deadline=3) == "i-123"


@pytest.mark.asyncio
async def test_a_long_call_needs_no_more_lease_than_a_short_one() -> None:
    """A launch may outlast the lead that began it: its saved effect is a lease of its own."""

    class Healthy(AlwaysLeader):
        def remaining(self) -> float:
            return journal.CALL_SECONDS + 0.1

    effects = Effects(HandClock(), Ids(), Healthy())
    effect = effects.open("launch", deadline=journal.OPERATION_SECONDS)
    assert await effects.call(effect, answer, deadline=journal.OPERATION_SECONDS) == "i-123"


@pytest.mark.asyncio
async def test_call_needs_room_before_the_effect_expires() -> None:
    """An effect saved too long ago is not called; reopened it is, under the same id."""
    effects, clock = make()
    effect = effects.open("ImportLab", deadline=10)
    await clock.advance(MARGIN_SECONDS + 1)
    assert not effects.fits(effect, deadline=10)
    with pytest.raises(errors.Temporary) as caught:
        await effects.call(effect, answer, deadline=10)
    assert caught.value.reason == "EffectExpired"
    again = effects.reopen(effect, deadline=10)
    assert (again.id, again.attempt) == (effect.id, 2)
    assert await effects.call(again, answer, deadline=10) == "i-123"


@pytest.mark.asyncio
async def test_no_answer_is_ambiguous() -> None:
    """A call without an answer in time may have happened: Ambiguous, and no longer `mine`."""
    effects, _ = make()
    effect = effects.open("ImportLab", deadline=5)
    with pytest.raises(errors.Ambiguous) as caught:
        await effects.call(effect, silence, deadline=0.01)
    assert caught.value.reason == "TimedOut"
    assert not effects.known_not_done(effect)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("error", "mine"),
    [
        (errors.Throttled("x"), True),
        (errors.Permanent("x"), True),
        (errors.Ambiguous("x"), False),
        (ZeroDivisionError(), False),
    ],
)
async def test_only_a_definite_failure_keeps_an_effect_mine(error: Exception, mine: bool) -> None:
    """After a definite failure nothing happened; after anything else one has to look."""
    effects, _ = make()
    effect = effects.open("ImportLab", deadline=5)

    async def fail() -> str:
        raise error

    with pytest.raises(type(error)):
        await effects.call(effect, fail, deadline=5)
    assert effects.known_not_done(effect) is mine


@pytest.mark.asyncio
async def test_cancelled_call_is_not_mine_any_more() -> None:
    """A call cut off by a lost leadership leaves an effect that must be looked up."""
    effects, _ = make()
    effect = effects.open("ImportLab", deadline=5)
    calling = asyncio.create_task(effects.call(effect, silence, deadline=5))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not effects.known_not_done(effect)


@pytest.mark.asyncio
async def test_foreign_effect_has_to_be_waited_out() -> None:
    """A successor does not believe 'not there' before the predecessor's call is surely over."""
    effects, clock = make(rate=60.0)
    effect = effects.open("LaunchInstance", deadline=10)
    successor = Effects(clock, Ids(), AlwaysLeader())
    assert not successor.known_not_done(effect)
    assert not successor.overdue(effect)
    await clock.advance((10 + MARGIN_SECONDS) * 60 - 1)
    assert not successor.overdue(effect)
    await clock.advance(1)
    assert successor.overdue(effect)


@pytest.mark.asyncio
@pytest.mark.parametrize("ahead", [-100.0, 0.0, 100.0])
async def test_a_long_call_is_waited_out_by_the_own_clock(ahead: float) -> None:
    """A successor whose wall clock goes ahead does not repeat a launch that is still under way."""
    span = journal.OPERATION_SECONDS + MARGIN_SECONDS
    effects, clock = make()
    effect = effects.open("launch", deadline=journal.OPERATION_SECONDS)
    other = HandClock()
    other.forward(ahead)
    successor = Effects(other, Ids(), AlwaysLeader())
    successor.noticed(effect)  # a standby reads of it when it is saved
    for passed in range(round(span)):
        assert not successor.overdue(effect), f"{passed} s after the call began"
        clock.forward(1)
        other.forward(1)
    assert successor.overdue(effect) is (ahead >= 0), "and its own reading of the end is kept"
    late = Effects(other, Ids(), AlwaysLeader())
    assert not late.overdue(effect), "a process that has just begun knows of no time before"
    other.forward(span - min(ahead, 0))
    assert late.overdue(effect)
    assert successor.overdue(effect)


@pytest.mark.asyncio
async def test_an_old_call_of_nobody_is_over_at_once() -> None:
    """After a night without any process nobody waits: no clock differs by so much."""
    effects, clock = make()
    effect = effects.open("launch", deadline=journal.OPERATION_SECONDS)
    clock.forward(journal.OPERATION_SECONDS + MARGIN_SECONDS + journal.SKEW_SECONDS)
    assert Effects(clock, Ids(), AlwaysLeader()).overdue(effect)


@pytest.mark.asyncio
async def test_a_wall_clock_set_back_gives_no_call_more_time() -> None:
    """A try that would end after the effect's time is not begun, whatever the wall clock says."""

    class Back(HandClock):
        def now(self) -> datetime:
            return START

    back = Back()
    effects = Effects(back, Ids(), AlwaysLeader())
    effect = effects.open("launch", deadline=journal.OPERATION_SECONDS)
    back.forward(MARGIN_SECONDS + 1)
    assert not effects.fits(effect, deadline=journal.OPERATION_SECONDS)


@pytest.mark.asyncio
async def test_foreign_effect_never_becomes_mine_by_calling() -> None:
    """Calling under an effect that was not opened here does not settle the first caller's try."""
    effects, clock = make()
    effect = effects.open("LaunchInstance", deadline=10)
    successor = Effects(clock, Ids(), AlwaysLeader())
    await successor.call(effect, answer, deadline=1)
    assert not successor.known_not_done(effect)


def test_memory_of_own_effects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of too many own effects counts as foreign, which is the safe side."""
    monkeypatch.setattr(journal, "MINE_LIMIT", 3)
    effects, _ = make()
    opened = [effects.open("X", deadline=1) for _ in range(4)]
    assert [effects.known_not_done(each) for each in opened] == [False, True, True, True]


@pytest.mark.asyncio
async def test_proof_of_death_replaces_waiting() -> None:
    """Where every earlier process is known to be dead, only its last bytes are waited for."""
    clock = HandClock()
    effect = Effects(clock, Ids(), AlwaysLeader()).open("ImportLab", deadline=60)
    await clock.advance(10)
    successor = Effects(clock, Ids(), AlwaysLeader(), sole_since=clock.now())
    own = successor.open("ImportLab", deadline=60)
    assert not successor.overdue(effect)
    await clock.advance(journal.DEAD_SECONDS)
    assert successor.overdue(effect)
    assert not successor.overdue(own)

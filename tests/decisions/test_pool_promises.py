"""How many workers a pool makes for promised slots, by how its boots went, and what it gives back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_scaling import NOW, ask, decide, worker

from labfleet.decisions.claims.growth import Due, Promised
from labfleet.decisions.pools import boot_odds, need
from labfleet.resources.worker import WorkerPhase

STARTING = WorkerPhase.STARTING
ODDS = boot_odds.odds([600.0 + 6 * each for each in range(95)], 5, ())
"""95 of 100 boots take 10 to 19.5 minutes, the others fail."""


def due(many: int, minutes: float = 20) -> Promised:
    """So many places whose slots begin in so many minutes."""
    return Promised(due=(Due(NOW + timedelta(minutes=minutes)),) * many)


def booting(many: int, age: int = 0, **over):
    """Workers that were made for promised slots and boot for so many seconds."""
    began = NOW - timedelta(seconds=age)
    fields = {"boot_since": began, "for_promises": True, "unused": True, **over}
    return [worker(f"w-default-{each:03d}", STARTING, **fields) for each in range(many)]


def test_all_that_a_slot_needs_come_up_with_the_stated_probability():
    """Nineteen places get so many more that nineteen are up in time in 99.5 of 100 cases."""
    made = len(decide(promised=due(19), odds=ODDS, max_workers=60).create)
    each = ODDS.up_within(1200)
    assert boot_odds.enough([each] * made, 19) >= 0.995 > boot_odds.enough([each] * (made - 1), 19)
    assert made > 19


def test_without_measured_boots_as_many_are_made_as_are_needed():
    """Of boots that nobody has seen nothing is known, so nothing is made on top."""
    assert len(decide(promised=due(5), max_workers=60).create) == 5


def test_what_still_boots_is_ever_more_likely_to_have_failed():
    """Four for two places are enough at five minutes of age; at 19 they are made up for."""
    young = decide(*booting(4, age=300), promised=due(2, 16), odds=ODDS, max_workers=9)
    old = decide(*booting(4, age=1140), promised=due(2, 16), odds=ODDS, max_workers=9)
    assert young.create == ()
    assert old.create


def test_the_surplus_is_given_back_once_the_needed_ones_are_up():
    """Two places, two workers up: the two that still boot go at once, and say why."""
    up = [worker(f"w-up-{each}", empty_since=NOW, for_promises=True) for each in range(2)]
    found = decide(*up, *booting(2, age=600), promised=due(2, 5), odds=ODDS, max_workers=9)
    assert {each.reason for each in found.retire} == {"NotNeeded"}
    assert {each.name for each in found.retire} == {"w-default-000", "w-default-001"}
    assert (found.create, len(found.events)) == ((), 2)


def test_nothing_is_given_back_that_a_promise_may_still_need():
    """One of two is up: what boots for the other place stays, and so does everything for who waits."""
    up = worker("w-up", empty_since=NOW, for_promises=True)
    pool = [up, *booting(2, age=600)]
    assert decide(*pool, promised=due(2, 5), odds=ODDS, max_workers=9).retire == ()
    both = [up, worker("w-up-2", empty_since=NOW), *booting(1, age=600)]
    waits = decide(*both, promised=due(2, 5), odds=ODDS, max_workers=9, waiting=(ask(),))
    assert waits.retire == ()


def test_what_is_kept_as_a_spare_is_not_given_back():
    """Three are made for two places and two spares: one spare is missing, so none of them goes."""
    for early in (True, False):
        found = decide(*booting(3, unlaunched=early), promised=due(2), spare_workers=2)
        assert found.retire == (), early


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_how_many_may_go_is_found_by_halving(many, most):
    """As many as may go and no more, with ten questions for a thousand workers."""
    names = [f"w-{each}" for each in range(many)]
    asked = list[int]()

    def kept(_look, without):
        asked.append(len(without))
        return len(without) <= most

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(need, "kept", kept)
        assert need.spared(None, names) == min(many, most)
    assert len(asked) <= 10


def test_after_the_slots_the_workers_go_without_the_wait_of_empty_ones():
    """The calendar says that nothing comes: half of them go after two minutes, then the rest."""
    since = NOW - timedelta(minutes=3)
    over = [
        worker(f"w-default-{each:03d}", empty_since=since, for_promises=True) for each in range(4)
    ]
    found = decide(*over, max_workers=9, last_scale_down=NOW)
    assert [each.reason for each in found.retire] == ["SlotOver", "SlotOver"]
    assert decide(*over, max_workers=9, promised=due(4, 5)).retire == ()
    others = [worker(f"w-default-{each:03d}", empty_since=since) for each in range(4)]
    assert decide(*others, max_workers=9).retire == ()


@given(
    st.lists(st.floats(1, 4000), max_size=40),
    st.integers(0, 10),
    st.lists(st.floats(1, 4000), max_size=20),
    st.floats(0, 5000),
    st.floats(0, 5000),
)
def test_odds_are_probabilities_that_grow_with_time(ups, failed, ended, seconds, age):
    """From 0 to less than 1, never less for more time, whatever was measured."""
    odds = boot_odds.odds(ups, failed, ended)
    assert 0 <= odds.up_within(seconds, age) < 1
    assert odds.up_within(seconds, age) <= odds.up_within(seconds + 60, age)


@given(st.lists(st.floats(0, 1), max_size=12), st.integers(0, 12), st.floats(0.05, 1))
def test_as_many_more_as_make_it_sure_and_not_one_more(chances, wanted, each):
    """The number that is lacking makes it sure, or is the bound; one fewer would not do."""
    more = boot_odds.lacking(chances, wanted, each, 0.99)
    most = max(0, wanted - len(chances)) + min(boot_odds.MORE, max(wanted, 2))
    assert 0 <= more <= most
    surely = boot_odds.enough([*chances, *[each] * more], wanted)
    assert surely >= 0.99 - 1e-9 or more == most
    if more:
        assert boot_odds.enough([*chances, *[each] * (more - 1)], wanted) < 0.99 + 1e-9

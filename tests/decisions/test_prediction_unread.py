"""What a learner no longer has, or never had, is read again: nothing that was learned is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from past_runs import MEMORY, learned, past

from labfleet.decisions.prediction import learner as module
from labfleet.decisions.prediction.learner import Learner
from labfleet.resources.history import KeptRun, RunKind, Source


def known(learner: Learner, family: str, owner: str = "") -> int:
    """Return how many runs of a family stand behind a forecast of memory."""
    found = learner.predict(RunKind.SIMULATION, "default", family, {}, owner=owner).of(MEMORY)
    return 0 if found is None else found.known


def read(learner: Learner, rows: list[KeptRun], family: str, owner: str = "") -> None:
    """Read what is missing of a family, from all rows that the learner has passed."""
    for key in learner.unread(RunKind.SIMULATION, "default", family, owner):
        mine = [each for each in rows if each.run.family == family]
        learner.adopt(key, learned(each for each in mine if each.place <= learner.version))


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from("abcde"), max_size=40), st.integers(0, 20), st.sampled_from("abcde")
)
def test_whatever_was_dropped_all_runs_of_a_family_are_known(
    families: list[str], since: int, asked: str
) -> None:
    """With room for two families and any beginning, a family that is read has each of its runs."""
    rows = [past(at, 100.0 + at, family=each) for at, each in enumerate(families, 1)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "FAMILIES", 2)
        learner = learned(rows, since=min(since, len(rows)))
        read(learner, rows, asked)
        assert known(learner, asked) == families.count(asked)
        assert learner.unread(RunKind.SIMULATION, "default", asked) == []
        more = past(len(rows) + 1, 50.0, family=asked)
        learner.learn(more)
        read(learner, [*rows, more], asked)
        assert known(learner, asked) == families.count(asked) + 1


def test_a_family_that_is_read_answers_the_same_wherever_it_is_read() -> None:
    """It is made of its own runs alone, whatever else the two learners know."""
    mine = [past(at, 100.0 + at % 7, family="mine") for at in range(1, 60)]
    others = [past(100 + at, 10.0 * at, family=f"o{at % 5}") for at in range(1, 60)]
    made = []
    for learner in (Learner(since=99), Learner(since=140)):
        for each in others:
            learner.learn(each)
        read(learner, mine, "mine")
        made.append(learner.predict(RunKind.SIMULATION, "default", "mine", {}).of(MEMORY))
    assert made[0] is not None
    assert made[0] == made[1]


def test_a_learner_that_has_all_reads_nothing() -> None:
    """From the beginning on, and with room for every family."""
    learner = learned([past(at, 100.0, family=f"f{at}") for at in range(1, 50)])
    assert not learner.partial
    assert learner.unread(RunKind.SIMULATION, "default", "new", "ada") == []


def test_a_familys_whole_window_needs_nothing_older() -> None:
    """No more of it is kept than that, so nothing is read once it is full."""
    learner = learned([past(at, 100.0) for at in range(1001, 1257)], since=1000)
    assert learner.unread(RunKind.SIMULATION, "default", "waku") == []
    assert len(learner.unread(RunKind.SIMULATION, "default", "other", "ada")) == 2


def test_what_an_owner_reported_is_read_for_that_owner_alone() -> None:
    """Both halves of a family are read apart: what all may learn, and what only its owner may."""
    more = {"owner": "ada", "source": Source.REPORTED}
    rows = [past(1, 100.0), past(2, 200.0, **more), past(3, 300.0, **more)]
    learner = Learner(since=3)
    read(learner, rows, "waku", "ada")
    assert (known(learner, "waku", "bob"), known(learner, "waku", "ada")) == (1, 1)
    alone = Learner(since=3)
    read(alone, rows[1:], "waku", "ada")
    assert (known(alone, "waku", "bob"), known(alone, "waku", "ada")) == (0, 2)

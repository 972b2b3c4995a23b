"""How a list of events is read: runs of what repeats, in the order of their last events."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.resources import happenings
from labfleet.resources.happenings import Said

WAITS = Said("a", "MODIFIED", "PENDING", "pools", "StatusChanged", "1 ready")
OTHER = Said("b", "MODIFIED", "PENDING", "pools", "StatusChanged", "1 ready")


def counts(*events: Said) -> list[tuple[str, int]]:
    """Return whose each run is and how long."""
    return [(run[0].object, len(run)) for run in happenings.folded(events, lambda each: each)]


def test_a_run_goes_on_past_what_happens_to_others() -> None:
    """Two objects that take turns have a row each, and the one that spoke last comes last."""
    assert counts(WAITS, OTHER, WAITS, OTHER, WAITS) == [("b", 2), ("a", 3)]


@pytest.mark.parametrize(
    "event",
    [
        Said("a", "DELETED", "PENDING", "pools", "StatusChanged", "1 ready"),
        Said("a", "MODIFIED", "READY", "pools", "StatusChanged", "1 ready"),
        Said("a", "MODIFIED", "PENDING", "ada", "StatusChanged", "1 ready"),
        Said("a", "MODIFIED", "PENDING", "pools", "ScalingUp", "1 ready"),
        Said("a", "MODIFIED", "PENDING", "pools", "StatusChanged", "2 ready"),
    ],
)
def test_what_says_something_new_is_a_row_of_its_own(event: Said) -> None:
    """Another change, phase, actor, word or sentence ends a run."""
    assert [n for _, n in counts(WAITS, WAITS, event)] == [2, 1]


def test_a_step_without_a_word_of_its_own_is_no_news() -> None:
    """The word StatusChanged without a sentence belongs to whatever was said before."""
    first = Said("a", "MODIFIED", "PENDING", "pools", "NoCapacity", "no room")
    after = Said("a", "MODIFIED", "PENDING", "pools", "StatusChanged", "")
    assert counts(first, after) == [("a", 2)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "x", "y"]))))
def test_folding_loses_no_event(drawn: list[tuple[str, str]]) -> None:
    """Every event is in one run, in order; the runs end in the order of the events."""
    said = [(n, Said(who, "MODIFIED", None, "c", "R", text)) for n, (who, text) in enumerate(drawn)]
    runs = happenings.folded(said, lambda each: each[1])
    assert sorted(n for run in runs for n, _ in run) == list(range(len(drawn)))
    ends = [run[-1][0] for run in runs]
    assert ends == sorted(ends)
    for run in runs:
        assert [n for n, _ in run] == sorted(n for n, _ in run)
        assert len({each.object for _, each in run}) == 1


def test_a_row_says_once_what_it_says() -> None:
    """A word and a sentence that are the same are told once; a count says since when."""
    since = datetime(2026, 11, 27, 11, 2, tzinfo=UTC)
    assert happenings.worded("Changed a: 1 -> 2", "a: 1 -> 2") == ("Changed", "a: 1 -> 2")
    assert happenings.worded("Ready", "Ready") == ("Ready", "")
    assert happenings.with_count("1 ready", 1, since) == "1 ready"
    assert happenings.with_count("1 ready", 10, since) == (
        "1 ready (10 times since 2026-11-27 11:02:00Z)"
    )
    assert happenings.with_count("", 2, None) == "(2 times)"

"""The rule on start ranges judges what cannot be chance, and nothing under faults."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from labfleet.interfaces.store import Teach
from labfleet.rehearsal.rules.start_ranges import (
    LEAST,
    CommittedHistory,
    StartRanges,
    Told,
    at_once,
)
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.history import Run, RunKind
from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionSpec, SessionStatus
from labfleet.resources.waiting import SessionOutlook

NOW = datetime(2026, 11, 30, tzinfo=UTC)


class Shared:
    """A database of which nothing is heard."""

    def __init__(self) -> None:
        self.heard: list[Callable[..., None]] = []


def rule(found: list[str], *, excused: bool = False) -> StartRanges:
    """Return the rule, which notes what is broken."""
    shared: Any = Shared()
    made = StartRanges(
        shared,
        lambda: 0.0,
        1.0,
        lambda word, said: found.append(f"{word}: {said}"),
        lambda: excused,
    )
    assert shared.heard == [made.committed]
    return made


def told(judged: StartRanges, held: list[bool]) -> StartRanges:
    """Have one range told at each look, which held or not."""
    for look, each in enumerate(held):
        judged.told[str(look)] = Told(look, "default", NOW, NOW, NOW, each)
    return judged


def test_a_share_that_chance_explains_is_no_violation() -> None:
    """A quarter missed where a fifth is stated, or nothing missed, or too few looks: fine."""
    found: list[str] = []
    told(rule(found), [at % 4 > 0 for at in range(40)]).end()
    told(rule(found), [True] * 100).end()
    told(rule(found), [False] * (LEAST - 1)).end()
    assert found == []


def test_a_share_that_chance_does_not_explain_is_one() -> None:
    """Two thirds missed of sixty looks are surely more than the stated fifth; faults excuse it."""
    found: list[str] = []
    held = [at % 3 == 0 for at in range(60)]
    told(rule(found, excused=True), held).end()
    assert found == []
    told(rule(found), held).end()
    (said,) = found
    assert said.startswith("starts: of 60 looks 40.0 missed the start, surely ")


def test_ranges_of_one_look_count_once() -> None:
    """Of forty that were told at one look, whatever became of them, nothing is judged."""
    found: list[str] = []
    judged = rule(found)
    for number in range(40):
        judged.told[str(number)] = Told(1, "default", NOW, NOW, NOW, held=number % 4 == 0)
    assert judged.shares == [0.25]
    judged.end()
    assert found == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"earliest": NOW, "latest": NOW - timedelta(minutes=1)},
        {"latest": NOW + timedelta(hours=2)},
        {"earliest": NOW - timedelta(days=400), "latest": NOW},
        {"earliest": NOW + timedelta(hours=2), "coverage": 0.8},
        {"position": 3},
    ],
)
def test_what_no_range_may_be_is_a_violation(wrong: dict[str, Any]) -> None:
    """A latest before the earliest or without one, a past start, a share of no range, a wrong place."""
    found: list[str] = []
    session = Session(metadata=Metadata(name="s", uid="s"), spec=SessionSpec(definition="two"))
    good: dict[str, Any] = {"line": "p", "position": 1, "waiting": 2, "at": NOW}
    judged = rule(found)
    judged.take(session, SessionOutlook(**good))
    assert found == []
    judged.take(session, SessionOutlook(**{**good, **wrong}))
    assert len(found) == 1


def test_the_history_is_what_the_commits_taught() -> None:
    """The newest runs of a family alone, and the first word of each."""
    history = CommittedHistory()
    for number, family in enumerate(("a", "b", "a", "a")):
        run = Run(
            kind=RunKind.BOOT, uid=str(number), family=family, duration_seconds=number, ended_at=NOW
        )
        history.teach(Teach(run))
        history.teach(Teach(run))
    asked = history.newest_runs(kind=RunKind.BOOT, family="a", namespace="default", limit=2)
    assert [each.run.uid for each in at_once(asked)] == ["3", "2"]
    assert at_once(history.history_size()).rows == 4


def test_who_is_overtaken_by_a_later_one_is_not_judged() -> None:
    """A session that was made after the look and placed first: of those that wait nothing is said."""
    judged = rule([])
    judged.told["a"] = Told(1, "default", NOW, NOW, NOW)
    judged.told["b"] = Told(1, "other", NOW, NOW, NOW)
    held = Reservation(holder="w", amounts=Amounts(), start=NOW)
    for came, left in ((NOW - timedelta(hours=1), {"a", "b"}), (NOW + timedelta(hours=1), {"b"})):
        meta = Metadata(name="late", uid="late", creation_timestamp=came)
        old = Session(metadata=meta, spec=SessionSpec(definition="two"))
        status = SessionStatus(reservation=held)
        judged.changed(old, Session(metadata=meta, spec=old.spec, status=status))
        assert set(judged.told) == left

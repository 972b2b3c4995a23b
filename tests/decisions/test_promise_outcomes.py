"""What became of a promise, and why: a closed list of causes, told once."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.lifecycle.session import promise
from labfleet.decisions.lifecycle.session.promise import Circumstances
from labfleet.resources.amounts import Amounts, Claim
from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus, Slot
from labfleet.resources.session_conditions import PhaseReason, SessionCondition, SessionReason

START = datetime(2026, 11, 27, 9, tzinfo=UTC)
GRACE = timedelta(minutes=30)
S = SessionPhase


def session(phase: SessionPhase, *, claimed: bool = True, **status: Any) -> Session:
    claim = Claim(pool="p", place=0, amounts=Amounts(), start=START, end=START + timedelta(hours=1))
    return Session(
        metadata=Metadata(name="s"),
        spec=SessionSpec(definition="d", slot=Slot(start=START)),
        status=SessionStatus(phase=phase, claim=claim if claimed else None, **status),
    )


def became(before: Session, minutes: float, **status: Any) -> str | None:
    after = msgspec.structs.replace(before.status, **status)
    return promise.outcome(before, after, GRACE, START + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("before", "minutes", "status", "outcome"),
    [
        (session(S.READY), 0, {"phase": S.RUNNING}, "kept"),
        (session(S.READY), 31, {"phase": S.RUNNING}, "missed"),
        (session(S.PENDING), 30, {"phase": S.EXPIRED}, "missed"),
        (session(S.INSTANTIATING), 5, {"phase": S.STOPPING, "outcome": S.FAILED}, "missed"),
        (session(S.STOPPING, outcome=S.FAILED), 6, {"phase": S.FAILED}, None),
        (session(S.INSTANTIATING), 5, {"phase": S.STOPPING, "outcome": S.PENDING}, None),
        (session(S.PENDING), 5, {"phase": S.CANCELLED}, None),
        (session(S.PENDING, claimed=False), 30, {"phase": S.EXPIRED}, None),
        (session(S.RUNNING, started_at=START), 50, {"phase": S.COLLECTING}, None),
        (session(S.RUNNING, started_at=START), 50, {"outcome": S.FAILED}, None),
    ],
)
def test_what_becomes_of_a_promise(
    before: Session, minutes: float, status: dict[str, Any], outcome: str | None
) -> None:
    """It is kept within the grace, missed after it or by its end, and judged once."""
    assert became(before, minutes, **status) == outcome


@given(
    reason=st.sampled_from(["", *map(str, PhaseReason)]),
    flags=st.lists(st.booleans(), min_size=len(fields(Circumstances)), max_size=11),
)
def test_a_cause_is_of_the_closed_list(reason: str, flags: list[bool]) -> None:
    """Whatever was the matter, the cause is one that the condition names; nothing is NotExplained."""
    found = promise.cause(reason, Circumstances(*flags))
    assert found in SessionCondition.PROMISE_KEPT.reasons
    assert found is not SessionReason.IN_TIME
    if any(flags):
        assert found is not SessionReason.NOT_EXPLAINED
    assert promise.cause("NeverStarted", Circumstances()) is SessionReason.NOT_EXPLAINED


@pytest.mark.parametrize("name", [each.name for each in fields(Circumstances)])
def test_each_circumstance_is_a_cause(name: str) -> None:
    """Each of them alone explains a promise that was not kept, by a word of its own."""
    words = {
        each.name: promise.cause("", Circumstances(**{each.name: True}))
        for each in fields(Circumstances)
    }
    assert list(words.values()).count(words[name]) == 1

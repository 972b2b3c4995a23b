"""Who uses a lab is warned before its end; who never came gives it back only where that was asked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, session

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.resources import conditions
from labfleet.resources.definition import Definition, DefinitionSpec
from labfleet.resources.hand_over import HandedOver
from labfleet.resources.meta import Metadata
from labfleet.resources.session import LabStatus, Session, SessionPhase
from labfleet.service.kinds import session_events

MINUTE = timedelta(minutes=1)
LAB = LabStatus(title="t", marker="u-1", id="l-1", state="STARTED", nodes=2, booted=2)


def defined(**spec: Any) -> Definition:
    """A definition."""
    return Definition(metadata=Metadata(name="d1"), spec=DefinitionSpec(topology="x", **spec))


def running(minutes: int = 60, **status: Any) -> Session:
    """A session that runs for so many minutes from the start."""
    return session(
        SessionPhase.RUNNING, start=START, started_at=START, end=START + minutes * MINUTE,
        lab=LAB, **status,
    )  # fmt: skip


def after(made: Session, at: datetime, definition: Definition | None = None) -> Session:
    """The session after one decision."""
    seen = lifecycle.SessionObservation(looked=True, lab=LAB, active=2, definition=definition)
    return msgspec.structs.replace(made, status=lifecycle.decide(made, seen, at).status)


def warned(before: Session, now: Session) -> list[int]:
    """The warnings that a change tells."""
    told = session_events.changed(before, now)
    return [each.data["minutes_left"] for each in told if each.type.endswith("ends_soon")]


def near(made: Session) -> str | None:
    """When the condition says that it ends; None without it."""
    fact = conditions.find(made.status.conditions, "EndsSoon")
    return None if fact is None else fact.message


@given(st.lists(st.integers(1, 90), min_size=1, max_size=5, unique=True), st.integers(2, 120))
def test_each_warning_is_told_once_and_in_order(minutes: list[int], length: int):
    """Looked at each minute, all warnings shorter than the slot come once, the longest first."""
    definition, made, told = defined(warn_minutes=tuple(minutes)), running(length), list[int]()
    for minute in range(length):
        now = after(made, START + minute * MINUTE, definition)
        told += warned(made, now)
        made = now
    assert told == sorted((each for each in minutes if each < length), reverse=True)


def test_an_extension_takes_the_warning_back_and_it_comes_again():
    """After more time was given the end is not near; when it is, it is said anew."""
    made = after(running(), START + 56 * MINUTE, defined())
    assert (made.status.warned_minutes, near(made)) == (5, "it ends at 2026-11-27 10:00:00Z")
    end = made.status.end + 30 * MINUTE
    slot = msgspec.structs.replace(made.spec.slot, end=end)
    longer = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, slot=slot))
    eased = after(longer, START + 57 * MINUTE, defined())
    assert (eased.status.warned_minutes, near(eased), warned(longer, eased)) == (None, None, [])
    again = after(eased, end - 15 * MINUTE, defined())
    assert warned(eased, again) == [15]


def test_a_definition_that_is_gone_warns_as_by_default():
    """Fifteen and five minutes before, whatever became of the definition."""
    assert after(running(), START + 50 * MINUTE).status.warned_minutes == 15


def test_whom_a_session_was_handed_over_to_has_the_whole_time_to_come():
    """Their minutes count from when it became theirs, however long it has run by then."""
    made = running(checked_in_at=None, handed_over=HandedOver(by="ana", at=START + 30 * MINUTE))
    for minute, gone in ((39, False), (40, True)):
        now = after(made, START + minute * MINUTE, defined(no_show_minutes=10)).status
        assert (now.phase is SessionPhase.COLLECTING) is gone


@pytest.mark.parametrize(
    ("asked", "came", "begun", "minute", "gone"),
    [
        (None, False, 0, 59, False),
        (10, False, 0, 9, False),
        (10, False, 0, 10, True),
        (10, True, 0, 59, False),
        (10, False, 8, 17, False),
        (10, False, 8, 18, True),
    ],
)
def test_absence_releases_only_where_it_was_asked(
    asked: int | None, came: bool, begun: int, minute: int, gone: bool
):
    """Never by default; its minutes count from when the lab ran, and who came keeps it."""
    made = running(checked_in_at=START if came else None)
    status = msgspec.structs.replace(made.status, started_at=START + begun * MINUTE)
    made = msgspec.structs.replace(made, status=status)
    now = after(made, START + minute * MINUTE, defined(no_show_minutes=asked)).status
    assert (now.phase is SessionPhase.COLLECTING) is gone
    if gone:
        assert (now.outcome, now.reason) == (SessionPhase.CANCELLED, "NoShow")
        assert now.message.startswith("nobody checked in within 10 minutes, by 2026-11-27 09:")

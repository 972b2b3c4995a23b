"""When an ending session waits for its lab to be kept, and that it never waits longer than its time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, definition
from session_records import brought_to, sessions, sights

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session import keeping
from labfleet.resources import conditions
from labfleet.resources.kept_work import KeptWork
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import SessionReason

S = SessionPhase
NAME = "WorkKept"


def asked(keep: str = "owner", **spec: Any) -> Any:
    """The definition of the sessions of these tests, which asks for this."""
    made = definition(replaces=True)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, keep=keep, **spec))


def ending(**seen: Any) -> tuple[Session, lifecycle.SessionObservation]:
    """A session in COLLECTING, and what is seen of it."""
    server = brought_to(S.COLLECTING)
    sight = lifecycle.SessionObservation(
        **{
            "definition": asked(),
            "looked": True,
            "lab": server.session.status.lab,
            "keep_seconds": 60.0,
            **seen,
        }
    )
    return server.session, sight


def after(seconds: float, session: Session, sight: lifecycle.SessionObservation) -> lifecycle.Step:
    """Decide so long after the session began to end."""
    begun = session.status.phase_since or START
    return lifecycle.decide(session, sight, begun + timedelta(seconds=seconds))


def fact(status: Any) -> Any:
    return conditions.find(status.conditions, NAME)


def test_it_waits_for_what_its_definition_asks_for_and_then_goes_on() -> None:
    """First the wait, recorded; once it is kept the observation, and the teardown after it."""
    session, sight = ending()
    step = after(1, session, sight)
    assert (step.action, step.status.phase) == (None, S.COLLECTING)
    waiting = msgspec.structs.replace(session, status=step.status)
    assert keeping.is_waiting(waiting)
    assert step.status.kept.readers == "owner"
    work = msgspec.structs.replace(step.status.kept, at=START, until=START)
    done = msgspec.structs.replace(session, status=keeping.kept(step.status, work, START))
    assert not keeping.is_waiting(done)
    assert after(2, done, sight).action == "observe"


@pytest.mark.parametrize(
    "seen", [{"definition": asked("none")}, {"definition": None}, {"keep_seconds": 0.0}]
)
def test_it_does_not_wait_where_nothing_is_to_be_kept(seen: dict[str, Any]) -> None:
    """By default, with a definition that is gone, and with keeping switched off."""
    step = after(1, *ending(**seen))
    assert (step.action, step.status.kept, fact(step.status)) == ("observe", None, None)


@pytest.mark.parametrize("seen", [{"definition": None}, {"keep_seconds": 0.0}])
def test_a_wait_ends_when_nobody_asks_for_it_any_more(seen: dict[str, Any]) -> None:
    """It is said, and the end goes on at once: a definition that is deleted leaves nothing open."""
    session, sight = ending()
    waiting = msgspec.structs.replace(session, status=after(1, session, sight).status)
    step = after(2, waiting, msgspec.structs.replace(sight, **seen))
    assert (fact(step.status).status, fact(step.status).reason) == ("False", "NotKept")
    assert step.action == "observe"


@pytest.mark.parametrize(("minutes", "longest"), [(1, 30), (2, 60), (10, 60)])
def test_its_wait_is_half_of_the_promised_teardown_at_most(minutes: int, longest: int) -> None:
    """Whatever is seen: the next slot starts on time."""
    for looked in (True, False):
        session, sight = ending(definition=asked(teardown_minutes=minutes), looked=looked)
        if not looked:
            sight = msgspec.structs.replace(sight, lab=None, trouble="no answer")
        assert fact(after(longest - 1, session, sight).status).status == "Unknown"
        late = after(longest + keeping.LATE.total_seconds(), session, sight)
        assert (fact(late.status).status, fact(late.status).reason) == ("False", "NoTime")


def test_it_does_not_wait_for_what_is_gone() -> None:
    """A lab that somebody deleted, a machine that has ended: said at once, and the end goes on."""
    for seen in ({"lab": None}, {"host_dead": True, "host_detail": "w1 is TERMINATED"}):
        step = after(1, *ending(**seen))
        assert step.status.phase is S.STOPPING
        assert (fact(step.status).status, fact(step.status).reason) == ("False", "NotSeen")


@given(sessions(), sights(), st.sampled_from(["none", "operators", "owner"]), st.integers(1, 240))
def test_no_session_waits_beyond_its_time(
    before: Session, seen: lifecycle.SessionObservation, keep: str, minutes: int
) -> None:
    """Whatever is recorded and seen, keeping settles once its time is over, and stays settled."""
    told = asked(keep, teardown_minutes=minutes)
    sight = msgspec.structs.replace(seen, definition=told, keep_seconds=60.0, watched_since=None)
    status = msgspec.structs.replace(before.status, phase=S.COLLECTING, phase_since=START)
    before = msgspec.structs.replace(before, status=status)
    end = START + timedelta(seconds=min(60, minutes * 30)) + keeping.LATE
    step = lifecycle.decide(before, sight, end)
    found = fact(step.status)
    assert found is None or found.status != "Unknown"
    again = lifecycle.decide(msgspec.structs.replace(before, status=step.status), sight, end)
    assert fact(again.status) == found


def test_a_message_names_a_few_of_many_nodes() -> None:
    """Nobody reads two hundred labels; the record has them all."""
    session, _ = ending()
    work = KeptWork(readers="owner", unread=200, missing=tuple(f"r{n}" for n in range(50)))
    found = fact(keeping.kept(session.status, work, START))
    assert found.message == "nothing was read out of r0, r1, r2 and 197 more"
    assert found.reason == SessionReason.KEPT_IN_PART


def test_each_allows_no_more_than_the_other() -> None:
    """The narrower of two policies, in whichever order."""
    assert keeping.narrower("owner", "operators") == "operators"
    assert keeping.narrower("operators", "owner") == "operators"
    assert keeping.narrower("owner", "none") == "none"
    assert keeping.narrower("owner", "owner") == "owner"

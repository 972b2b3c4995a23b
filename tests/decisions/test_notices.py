"""What owners are told: each thing once, in both zones, and nothing that they cannot feel."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from lifecycle_worlds import START, Server, session
from session_records import sessions

from labfleet.decisions import notices
from labfleet.resources import conditions
from labfleet.resources.definition import LabUser
from labfleet.resources.lab_orders import LabOrder
from labfleet.resources.notice import Notice, NoticeType
from labfleet.resources.session import (
    TERMINAL,
    Cancellation,
    Session,
    SessionAccess,
    SessionPhase,
    Slot,
)
from labfleet.resources.session_conditions import PhaseReason, SessionCondition, SessionReason

S, N = SessionPhase, NoticeType
NINE = datetime(2026, 11, 30, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
WARSAW = Slot(start=NINE, end=NINE + 2 * HOUR, zone="Europe/Warsaw")


def told(old: Session, new: Session) -> list[Notice]:
    """Return what the owner is told."""
    return list(notices.of_change(old, new))


def types(found: Iterable[Notice]) -> list[str]:
    """Return what each is about."""
    return [str(each.type) for each in found]


def booked(slot: Slot = WARSAW, phase: SessionPhase = S.PENDING, **status: Any) -> Session:
    """Return a booked session."""
    return session(phase, spec={"slot": slot}, start=slot.start, end=slot.end, **status)


def asked(old: Session, **slot: Any) -> Session:
    """Return the session with another slot, as a verb writes it."""
    wanted = msgspec.structs.replace(old.spec.slot, **slot)
    spec = msgspec.structs.replace(old.spec, slot=wanted)
    meta = msgspec.structs.replace(old.metadata, generation=old.metadata.generation + 1)
    status = msgspec.structs.replace(old.status, start=wanted.start, end=wanted.end)
    return msgspec.structs.replace(old, metadata=meta, spec=spec, status=status)


def now_is(old: Session, **status: Any) -> Session:
    """Return the session with another status."""
    return msgspec.structs.replace(old, status=msgspec.structs.replace(old.status, **status))


def lived(server: Server, *ends: SessionPhase) -> list[str]:
    """Return what is told from here to one of these phases."""
    found: list[Notice] = []
    for _ in range(2000):
        if server.session.status.phase in ends:
            break
        before = server.session
        server.step()
        found += told(before, server.session)
    return types(found)


def test_a_whole_life_is_told_in_a_few_sentences() -> None:
    """Of a dozen changes an owner hears four: it is ready, ends soon, ends sooner, and is over."""
    server = Server(session())
    server.bind()
    assert lived(server, S.COMPLETED) == [N.READY, N.ENDS_SOON, N.ENDS_SOON, N.STOPPED]
    assert len(set(server.trail)) > 5


def test_a_new_session_is_told_in_its_zone_and_in_utc() -> None:
    """T03: the hour stands beside its zone, and UTC beside it (facts/fleet-bugs.md#t03)."""
    said = notices.of_new(booked())
    assert said.type is N.BOOKED
    assert said.recipient == "ann"
    assert "2026-11-30 09:00 Europe/Warsaw (08:00Z) to 2026-11-30 11:00" in said.subject
    assert "no room is promised to it yet" in said.subject
    assert said.data["session"]["start"] == "2026-11-30T08:00:00.000Z"
    assert said.data["promised"] is False
    assert "as soon as there is room" in notices.of_new(session()).subject


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"end": NINE + 3 * HOUR}, N.EXTENDED, "ends later: at 2026-11-30 12:00 Europe/Warsaw"),
        ({"end": NINE + HOUR}, N.SHORTENED, "ends earlier: at 2026-11-30 10:00 Europe/Warsaw"),
        (
            {"start": NINE + timedelta(minutes=1), "end": NINE + 3 * HOUR},
            N.MOVED,
            "starts at 2026-11-30 09:01 Europe/Warsaw (08:01Z) instead of 2026-11-30 09:00",
        ),
    ],
)
def test_what_somebody_changed_of_a_slot_is_told_with_what_it_was(
    change: dict[str, datetime], kind: NoticeType, words: str
) -> None:
    """Whoever changed it, by however little: one notice, with the time before."""
    old = booked()
    (said,) = told(old, asked(old, **change))
    assert said.type is kind
    assert words in said.subject
    assert said.data["before"].startswith("2026-11-30T")


def test_a_start_that_wavers_is_not_told_sixty_times() -> None:
    """Of a start worked out anew each minute the owner hears what moves it by five minutes."""
    old, found = session(start=NINE), list[Notice]()
    for minute in range(60):
        new = now_is(old, start=NINE + timedelta(seconds=40 * (minute % 2)))
        found += told(old, new)
        old = new
    assert types(found) == []
    assert types(told(old, now_is(old, start=NINE + HOUR))) == [N.MOVED]


def test_an_end_that_the_start_works_out_is_no_news() -> None:
    """A lab as soon as possible gets its end when it runs; nobody gave it another one."""
    old = session(S.READY, end=START + HOUR)
    assert told(old, now_is(old, phase=S.RUNNING, end=START + 2 * HOUR)) == []


@pytest.mark.parametrize(
    ("phase", "now", "kind"),
    [
        (S.INSTANTIATING, {"phase": S.PENDING}, [N.MOVED]),
        (S.READY, {"phase": S.STOPPING, "outcome": S.PENDING}, [N.MOVED]),
        (S.SCHEDULED, {"phase": S.PENDING}, []),
        (S.PENDING, {"phase": S.SCHEDULED}, []),
    ],
)
def test_a_lost_place_is_told_once_the_boot_had_begun(
    phase: SessionPhase, now: dict[str, Any], kind: list[NoticeType]
) -> None:
    """A slot that is still ahead may change its worker without anybody noticing."""
    old = booked(phase=phase)
    new = now_is(old, reason=str(PhaseReason.WORKER_LOST), **now)
    assert types(told(old, new)) == kind
    if kind:
        assert "its worker is gone" in told(old, new)[0].subject
    again = now_is(new, phase=S.PENDING, outcome=None)
    assert new.status.outcome is None or told(new, again) == []


@pytest.mark.parametrize(
    ("now", "kind", "words"),
    [
        ({"phase": S.COLLECTING, "outcome": S.COMPLETED}, N.STOPPED, "is over"),
        ({"phase": S.CANCELLED}, N.STOPPED, "was stopped: cancelled by bob"),
        ({"phase": S.COLLECTING, "outcome": S.FAILED}, N.FAILED, "did not start: cancelled by bob"),
        ({"phase": S.EXPIRED}, N.FAILED, "did not start"),
    ],
)
def test_an_end_is_told_when_it_is_decided_and_never_again(
    now: dict[str, Any], kind: NoticeType, words: str
) -> None:
    """Observation and teardown follow, of which nobody hears more."""
    old = booked(phase=S.PENDING)
    new = now_is(old, message="cancelled by bob", **now)
    (said,) = told(old, new)
    assert said.type is kind
    assert words in said.subject
    assert said.data["outcome"] in {str(each) for each in TERMINAL}
    assert told(new, now_is(new, phase=S.FAILED)) == []


def test_an_end_that_comes_near_is_told_once_for_each_warning() -> None:
    """A warning is news, a nearer one too; the same again, or none, is not."""
    old = now_is(booked(), phase=S.RUNNING)
    soon, nearer = now_is(old, warned_minutes=15), now_is(old, warned_minutes=5)
    (said,) = told(old, soon)
    assert (said.type, said.data["minutes"]) == (N.ENDS_SOON, 15)
    assert "ends in less than 15 minutes, until 2026" in said.subject
    assert types(told(soon, nearer)) == [N.ENDS_SOON]
    assert told(soon, soon) == told(soon, old) == []


def test_danger_is_told_with_its_reason_and_when_it_is_over() -> None:
    """The first fact that all is well is no news; the one after a danger is."""
    old = booked()

    def fact(status: conditions.Status, reason: SessionReason) -> Session:
        name = SessionCondition.PROMISE_SAFE
        known = conditions.put((), name, status, reason, reason.sentence, now=START)
        return now_is(old, conditions=known)

    danger, kept = fact("False", SessionReason.PLACES_GONE), fact("True", SessionReason.KEPT)
    (said,) = told(old, danger)
    assert (said.type, said.data["reason"]) == (N.IN_DANGER, "PlacesGone")
    assert "fewer workers than it has promised" in said.subject
    assert types(told(danger, kept)) == [N.PROMISE_SAFE]
    assert told(danger, danger) == told(old, kept) == []


def test_a_notice_says_nothing_of_where_a_lab_is_or_of_accounts() -> None:
    """It may be handed on: addresses and accounts are for those who sign in."""
    access = SessionAccess(
        host="192.0.2.7", lab_url="https://cml/lab/1", lab_user=LabUser(name="student-account")
    )
    old = booked(phase=S.INSTANTIATING)
    (said,) = told(old, now_is(old, phase=S.READY, ready_at=NINE, access=access, worker="w-secret"))
    raw = msgspec.json.encode(said).decode()
    assert said.type is N.READY
    assert [
        each for each in ("192.0.2.7", "/lab/1", "student-account", "w-secret") if each in raw
    ] == []


@given(sessions(), sessions())
def test_any_change_is_told_in_few_short_sentences(old: Session, new: Session) -> None:
    """Total over all pairs of records; at most one of a kind, and none once it was over."""
    found = told(old, new)
    kinds = types(found)
    assert len(kinds) == len(set(kinds))
    assert len(kinds) <= 3
    assert all(0 < len(each.subject) <= notices.LONGEST for each in found)
    assert all(each.recipient == new.spec.owner for each in found)
    if old.status.phase in TERMINAL:
        assert kinds == []
    assert told(new, new) == []


def test_a_cancel_names_who_asked_for_it() -> None:
    """The sentence of the lifecycle is the notice's."""
    server = Server(session())
    server.bind()
    server.until(S.RUNNING)
    server.want(cancel=Cancellation(at=START, by="bob", reason="room is needed"))
    before = server.session
    server.step()
    (said,) = told(before, server.session)
    assert "was stopped: cancelled by bob: room is needed" in said.subject


def test_what_others_did_to_the_lab_is_told_once_and_own_orders_are_not() -> None:
    """An operator's order, and each way in which the lab was changed in CML; another message is no news."""
    old = booked(phase=S.RUNNING)
    at = {"at": NINE, "until": NINE + HOUR}
    own = LabOrder(id="1", verb="stop", by=old.spec.owner, **at)
    theirs = LabOrder(id="2", verb="wipe", node="r1", by="op", **at)
    for order, said in ((own, []), (theirs, ["notice.lab_ordered"])):
        new = msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, lab_order=order))
        assert types(told(old, new)) == said
        assert types(told(new, new)) == []

    def changed(before: Session, reason: SessionReason, message: str) -> Session:
        kind = SessionCondition.LAB_CHANGED
        facts = conditions.put(before.status.conditions, kind, "True", reason, message, now=NINE)
        return now_is(before, conditions=facts)

    one = changed(old, SessionReason.EDITED_OUTSIDE, "node added: r9")
    more = changed(one, SessionReason.EDITED_OUTSIDE, "nodes added: r8, r9")
    wiped = changed(more, SessionReason.WIPED_OUTSIDE, "it was wiped")
    [notice] = told(old, one)
    assert notice.subject.endswith("its lab is not as it was: node added: r9")
    assert told(one, more) == []
    assert types(told(more, wiped)) == ["notice.lab_changed"]

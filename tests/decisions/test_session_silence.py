"""What a session does while its worker's CML cannot be asked about its lab."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, definition, session
from session_records import sessions, sights

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session.draft import Draft, SessionObservation
from labfleet.resources import conditions
from labfleet.resources.session import TERMINAL, LabStatus, Session, SessionPhase, Slot

S = SessionPhase
BOOT = Draft(session(), SessionObservation(definition=definition(replaces=True)), START)
LIMIT = BOOT.budget.boot
SILENT = "CML on w1 does not answer: no route"
MADE = LabStatus(title="t", marker="u-1")
BOOTING = msgspec.structs.replace(MADE, id="l-1", state="STARTED", nodes=2)


def on(before: Session, seen: SessionObservation, now: datetime) -> Session:
    """Return the session as one decision leaves it."""
    status = lifecycle.decide(before, seen, now).status
    return msgspec.structs.replace(before, status=status)


def sight(
    *, answers: bool, may: bool = True, lab: LabStatus | None = BOOTING
) -> SessionObservation:
    """Return a look at a lab that comes no further, or at a server that is silent."""
    asked = definition(replaces=may)
    if not answers:
        return SessionObservation(definition=asked, trouble=SILENT)
    return SessionObservation(definition=asked, looked=True, lab=lab, converged=False)


@given(sessions(), sights(), st.booleans())
def test_no_boot_runs_out_while_nobody_can_ask(
    before: Session, seen: SessionObservation, was: bool
) -> None:
    """Whatever is recorded, a look without an answer is no reason for BootTimeout."""
    facts = conditions.put((), "HostReachable", "True" if was else "Unknown", "x", now=START)
    status = msgspec.structs.replace(before.status, conditions=facts, reason="")
    before = msgspec.structs.replace(before, status=status)
    blind = msgspec.structs.replace(seen, looked=False, lab=None, trouble=SILENT)
    after = lifecycle.decide(before, blind, START + timedelta(days=1))
    assert after.status.reason != "BootTimeout"


@given(sessions(), sights())
def test_what_may_be_on_a_silent_server_keeps_its_place(
    before: Session, seen: SessionObservation
) -> None:
    """With a lab on record, nothing is given back before it or its machine was seen gone."""
    status = msgspec.structs.replace(before.status, lab=before.status.lab or MADE)
    before = msgspec.structs.replace(before, status=status)
    blind = msgspec.structs.replace(seen, looked=False, lab=None, host_dead=False, trouble=SILENT)
    step = lifecycle.decide(before, blind, START + timedelta(days=1))
    held = before.status.phase not in {S.PENDING, S.SCHEDULED, *TERMINAL}
    assert not (held and step.release)


@given(sessions(), sights(), st.sampled_from(range(lifecycle.PLACEMENTS + 2)))
def test_what_may_be_on_a_silent_server_is_not_given_up(
    before: Session, seen: SessionObservation, placed: int
) -> None:
    """Silence moves a session or lets it wait, it never fails one, however often it was placed."""
    facts = conditions.put((), "HostReachable", "Unknown", "NotSeen", now=START)
    status = msgspec.structs.replace(
        before.status,
        phase=S.INSTANTIATING,
        lab=before.status.lab or MADE,
        placements=placed,
        conditions=facts,
        reason="",
    )
    before = msgspec.structs.replace(before, status=status)
    blind = msgspec.structs.replace(
        seen, looked=False, lab=None, trouble=SILENT, host_lost=False, host_dead=False, refused=None
    )
    after = lifecycle.decide(before, blind, START + timedelta(hours=6)).status
    assert (after.reason, after.outcome) != ("WorkerSilent", S.FAILED)


@given(sessions(), sights())
def test_what_was_never_imported_ends_without_its_server(
    before: Session, seen: SessionObservation
) -> None:
    """STOPPING asks nobody for a lab that was never sent."""
    status = msgspec.structs.replace(before.status, phase=S.STOPPING, lab=None)
    before = msgspec.structs.replace(before, status=status)
    blind = msgspec.structs.replace(seen, looked=False, lab=None, trouble=SILENT)
    step = lifecycle.decide(before, blind, START)
    assert step.release
    assert step.status.phase in TERMINAL | {S.PENDING}


spells = st.lists(st.tuples(st.booleans(), st.integers(1, 90)), min_size=1, max_size=12)


@given(spells)
def test_only_time_with_answers_is_boot_time(drawn: list[tuple[bool, int]]) -> None:
    """BootTimeout comes when the server has answered for the whole limit, and not before."""
    at = session(S.INSTANTIATING, worker="w1", lab=BOOTING, placements=1)
    at = on(at, sight(answers=True, may=False), START)
    now, answered, known = START, 0, True
    for answers, steps in drawn:
        for _ in range(steps):
            now += timedelta(seconds=5)
            answered += 5 if known else 0
            known = answers
            at = on(at, sight(answers=answers, may=False), now)
            if at.status.phase is not S.INSTANTIATING:
                assert at.status.reason == "BootTimeout"
                assert abs(answered - LIMIT) <= 10
                return
    assert answered <= LIMIT + 10


@pytest.mark.parametrize("may", [True, False])
def test_nothing_is_imported_where_nothing_would_start(may: bool) -> None:
    """It is placed again, and counted; a definition that says fail fails it, without a server."""
    at = session(S.INSTANTIATING, worker="w1", placements=1)
    unfit = msgspec.structs.replace(
        sight(answers=False, may=may), host_unfit="CML does not answer: no route"
    )
    step = lifecycle.decide(at, unfit, START)
    assert step.status.reason == "WorkerUnfit"
    if may:
        assert (step.status.phase, step.release, step.status.worker) == (S.PENDING, True, None)
        assert step.status.placements == 1  # the next placement is the second
    else:
        assert (step.status.phase, step.status.outcome) == (S.STOPPING, S.FAILED)
        ended = on(msgspec.structs.replace(at, status=step.status), unfit, START)
        assert ended.status.phase is S.FAILED
    assert "w1: CML does not answer" in step.status.message


def test_a_session_leaves_silent_workers_a_bounded_number_of_times() -> None:
    """The last placement that is left without an import fails it."""
    at = session(S.INSTANTIATING, worker="w1", placements=lifecycle.PLACEMENTS)
    unfit = msgspec.structs.replace(sight(answers=False), host_unfit="CML does not answer: x")
    assert on(at, unfit, START).status.outcome is S.FAILED


@pytest.mark.parametrize("lab", [None, MADE, BOOTING])
def test_a_wait_for_an_answer_ends_at_the_boot_limit(lab: LabStatus | None) -> None:
    """However healthy its worker seems: who cannot be asked for so long is left, or moved from."""
    at = session(S.INSTANTIATING, worker="w1", lab=lab, placements=1)
    at = on(at, sight(answers=False), START)
    soon = on(at, sight(answers=False), START + timedelta(seconds=LIMIT - 1))
    assert (soon.status.phase, SILENT in soon.status.message) == (S.INSTANTIATING, True)
    late = on(at, sight(answers=False), START + timedelta(seconds=LIMIT))
    assert late.status.reason == "WorkerSilent"
    if lab is None:
        assert late.status.phase is S.PENDING
    else:
        assert (late.status.phase, late.status.outcome) == (S.STOPPING, S.PENDING)


@pytest.mark.parametrize(("may", "placed"), [(False, 1), (True, lifecycle.PLACEMENTS)])
def test_what_may_not_move_waits_until_its_deadline(may: bool, placed: int) -> None:
    """By its definition, or as it moved too often: what is imported stays, and expires when too late."""
    end = START + timedelta(hours=5)
    at = session(
        S.INSTANTIATING,
        worker="w1",
        lab=BOOTING,
        placements=placed,
        spec={"slot": Slot(start=START, end=end)},
    )
    at = on(at, sight(answers=False, may=may), START)
    grace = timedelta(seconds=BOOT.budget.grace)
    waits = on(at, sight(answers=False, may=may), START + grace - timedelta(seconds=1))
    assert waits.status.phase is S.INSTANTIATING
    over = on(at, sight(answers=False, may=may), START + grace)
    assert (over.status.outcome, over.status.reason) == (S.EXPIRED, "NeverStarted")
    assert SILENT in over.status.message

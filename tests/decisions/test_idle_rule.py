"""What the idle rule wants of a worker in each state, and the step that carries it out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import machine
from test_idle import LONG, NOW, ON, QUIET, worker

from labfleet.decisions import parking
from labfleet.decisions.idle import IdleFacts
from labfleet.decisions.lifecycle.worker import idle_rule
from labfleet.decisions.lifecycle.worker.decide import WorkerObservation, decide
from labfleet.decisions.lifecycle.worker.draft import ACTOR as LIFE_CYCLE
from labfleet.decisions.lifecycle.worker.draft import Guard, Step
from labfleet.decisions.lifecycle.worker.idle_finding import IdleFinding
from labfleet.decisions.lifecycle.worker.idle_rule import Wish
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.meta import Effect
from labfleet.resources.worker import Drain, Health, IdleStatus, Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

DUE = IdleStatus(since=LONG, warned_at=NOW - timedelta(minutes=5))
AGED = Drain(deadline=NOW, reason="max age: old", requested_by=idle_rule.ACTOR)


def mine(spec: dict[str, Any] | None = None, **status: Any) -> Worker:
    """A worker whose machine is ours, empty and healthy for five hours, warned of when told so."""
    return worker({"machine": machine(), **(spec or {})}, **status)


def finding(**more: Any) -> IdleFinding:
    """A look that found no use."""
    return IdleFinding(**{"facts": QUIET, "settings": ON, "at": NOW, **more})


def whole(**more: Any) -> IdleFinding:
    """The same of a look at everything."""
    return finding(whole=True, revision=7, **more)


def step(who: Worker, **more: Any) -> Step:
    """A step of the life cycle that changes nothing."""
    return msgspec.structs.replace(Step(who.status, who.metadata.finalizers), **more)


def wish(who: Worker, found: IdleFinding) -> Wish:
    return idle_rule.judge(who, found, NOW).wish


def applied(who: Worker, found: IdleFinding) -> Step:
    return idle_rule.apply(who, step(who), found, NOW)


def changed(made: Step) -> Worker:
    """The worker that a step changed."""
    assert made.changed is not None
    return made.changed


BUSY = replace(QUIET, nodes=2)
CLOSED = parking.with_cordon(mine(idle=DUE), closed=True)
PARKED = parking.paused(CLOSED, NOW, by="r", reason="idle_timeout", auto=True)


# --- the way to a stop -------------------------------------------------------------------


def test_a_stop_goes_by_warning_cordon_and_whole_look() -> None:
    """Each is wanted only after the one before it; a cheap look never stops a worker."""
    fresh = mine(idle=IdleStatus(since=LONG))
    assert wish(fresh, finding()) is Wish.WARN
    warned = applied(fresh, finding())
    assert warned.status.idle.warned_at == NOW
    assert warned.changed is None
    waiting = msgspec.structs.replace(fresh, status=warned.status)
    assert wish(waiting, finding()) is Wish.NOTHING
    assert wish(mine(idle=DUE), finding()) is Wish.CORDON
    assert wish(mine(idle=DUE), whole()) is Wish.CORDON
    assert wish(CLOSED, finding()) is Wish.LOOK
    assert applied(CLOSED, finding()) == step(CLOSED)
    assert wish(CLOSED, whole()) is Wish.STOP


def test_the_stop_is_counted_marked_and_guarded_from_its_look_on() -> None:
    """It wants Stopped, once, says since when nothing was used, and takes the cordon back."""
    made = applied(CLOSED, whole())
    assert made.guard == Guard(unpaused=True, unreserved_since=7)
    assert made.actor == idle_rule.ACTOR
    assert made.reason == "stopped: unused since 2026-11-27 04:00Z"
    stopped = changed(made)
    assert parking.auto_stopped(stopped)
    assert not stopped.spec.cordoned
    idle = made.status.idle
    assert (idle.auto_pauses, idle.last_paused_reason, idle.warned_at) == (1, "idle_timeout", None)
    told = conditions.find(made.status.conditions, WorkerCondition.IDLE_WARNING)
    assert told is not None
    assert (told.status, told.reason) == ("False", WorkerReason.STOPPED)


def test_one_worker_of_a_pool_is_closed_at_a_time() -> None:
    """While the rule looks at another one, this one is left open."""
    who = mine({"pool": "p"}, idle=DUE)
    least = replace(QUIET, serving=3, least=1)
    assert wish(who, finding(facts=least)) is Wish.CORDON
    assert wish(who, finding(facts=least, peer_closed=True)) is Wish.NOTHING


def test_use_found_after_all_withdraws_warning_and_cordon() -> None:
    """Warned or closed, a worker in use is opened again and says what keeps it."""
    for who in (mine(idle=DUE), CLOSED):
        for found in (finding(facts=BUSY), whole(facts=BUSY)):
            made = applied(who, found)
            assert made.reason == "not stopped: kept by nodes, console, quiet_time"
            assert made.status.idle.warned_at is None
            assert made.guard is None
            told = conditions.find(made.status.conditions, WorkerCondition.IDLE_WARNING)
            assert told is not None
            assert (told.status, told.message) == ("False", "kept by nodes, console, quiet_time")
    opened = changed(applied(CLOSED, whole(facts=BUSY)))
    assert not opened.spec.cordoned
    assert not parking.cordoned(opened)


def test_a_cordon_by_people_is_enough_and_stays() -> None:
    """No second cordon is set on it, and none is taken back."""
    theirs = mine({"cordoned": True}, idle=DUE)
    assert wish(theirs, finding()) is Wish.LOOK
    assert changed(applied(theirs, whole())).spec.cordoned
    assert applied(theirs, whole(facts=BUSY)).changed is None


def test_a_verdict_is_noted_when_it_is_news() -> None:
    """The same verdict again is not written; another reason is."""
    who = mine(idle=IdleStatus(since=LONG))
    noted = applied(who, finding(facts=BUSY))
    assert noted.reason == "busy: nodes, console, quiet_time"
    assert noted.status.idle.signals == ("nodes", "console", "quiet_time")
    assert noted.changed is None
    known = msgspec.structs.replace(who, status=noted.status)
    assert wish(known, finding(facts=BUSY)) is Wish.NOTHING
    assert wish(known, finding(facts=replace(BUSY, sessions=1))) is Wish.NOTE


SETTINGS = st.builds(
    lambda snooze, timeout: msgspec.structs.replace(
        ON, snooze_minutes=snooze, timeout_minutes=timeout
    ),
    st.sampled_from([30, 60, 600]),
    st.sampled_from([60, 600]),
)


@settings(max_examples=settings.default.max_examples // 3)
@given(SETTINGS, SETTINGS, st.sampled_from([BUSY, QUIET]), st.booleans(), st.booleans())
def test_what_stands_recorded_is_the_newest_verdict(
    before: Idle, after: Idle, facts: IdleFacts, known: bool, used: bool
) -> None:
    """Whatever of a verdict changes, by use or by settings, is news and is written."""
    who = mine(idle=IdleStatus(since=LONG if known else None))
    for policy, seen in ((before, facts), (after, BUSY if used else facts)):
        found = finding(facts=seen, settings=policy)
        verdict = idle_rule.judge(who, found, NOW).verdict
        assert verdict is not None
        who = msgspec.structs.replace(who, status=applied(who, found).status)
        idle = who.status.idle
        assert (idle.verdict, idle.signals) == (verdict.verdict, verdict.kept_by)
        assert (idle.since, idle.snoozed_until) == (verdict.since, verdict.snoozed_until)


# --- age ---------------------------------------------------------------------------------


OLD = msgspec.structs.replace(ON, enabled=False, max_age_hours=1)


def test_a_worker_too_old_is_drained_one_of_a_pool_at_a_time() -> None:
    """The drain has a deadline and our name; a pause and a peer that ages hold it."""
    who = mine({"pool": "p"})
    made = applied(who, finding(settings=OLD))
    assert changed(made).spec.drain is not None
    assert idle_rule.aging(changed(made))
    assert changed(made).metadata.generation == who.metadata.generation + 1
    assert made.guard == Guard()
    for more in ({"paused": True}, {"peer_aging": True}):
        assert wish(who, finding(settings=OLD, **more)) is not Wish.RETIRE


def test_an_aged_worker_stops_once_a_whole_look_shows_it_empty() -> None:
    """Sessions, nodes and unread nodes keep it; its drain goes with the stop."""
    who = mine({"drain": AGED}, phase=WorkerPhase.DRAINING)
    assert wish(who, finding()) is Wish.LOOK
    assert wish(who, finding(paused=True)) is Wish.NOTHING
    for facts in (BUSY, replace(QUIET, sessions=1), replace(QUIET, nodes=None)):
        assert wish(who, whole(facts=facts)) is Wish.NOTHING
    made = applied(who, whole())
    assert (changed(made).spec.drain, changed(made).spec.desired) == (None, "Stopped")
    assert made.status.idle.last_paused_reason == "max_age"
    assert made.guard == Guard(unreserved_since=7)


# --- stopped by the rule -----------------------------------------------------------------


def parked(phase: WorkerPhase, *, minutes: int = 1, **spec: Any) -> Worker:
    """A worker that the rule stopped, so many minutes ago."""
    since = NOW - timedelta(minutes=minutes)
    status = msgspec.structs.replace(PARKED.status, phase=phase, phase_since=since)
    return msgspec.structs.replace(
        PARKED, status=status, spec=msgspec.structs.replace(PARKED.spec, **spec)
    )


@pytest.mark.parametrize(
    ("who", "found", "why"),
    [
        (parked(WorkerPhase.DRAINING), finding(facts=BUSY), "2 nodes run"),
        (
            parked(WorkerPhase.DRAINING),
            finding(facts=replace(QUIET, sessions=1)),
            "sessions are placed here",
        ),
        (
            parked(WorkerPhase.DRAINING, minutes=11),
            finding(),
            "the server could not be looked at",
        ),
        (parked(WorkerPhase.STOPPED), finding(wanted=True), "a session waits for it"),
    ],
)
def test_a_stopped_worker_is_started_again_for_a_reason(
    who: Worker, found: IdleFinding, why: str
) -> None:
    """Used again before it stopped, not seen for long, or wanted; never while paused."""
    made = applied(who, found)
    assert made.reason == f"started again: {why}"
    assert changed(made).spec.desired == "Ready"
    assert made.status.idle.auto_resumes == 1
    assert made.guard == Guard()
    assert applied(who, replace(found, paused=True)) == step(who)


def test_a_stopped_worker_without_a_reason_stays_so() -> None:
    """An old sample with nodes, a pool's worker and an empty one are no reasons."""
    old = replace(BUSY, read_at=NOW - timedelta(minutes=2))
    assert wish(parked(WorkerPhase.DRAINING), finding(facts=old)) is Wish.NOTHING
    assert wish(parked(WorkerPhase.STOPPED, pool="p"), finding(wanted=True)) is Wish.NOTHING
    assert wish(parked(WorkerPhase.STOPPED), finding()) is Wish.NOTHING


def failed(who: Worker, reason: WorkerReason) -> Worker:
    """The worker after it failed."""
    facts = conditions.put((), WorkerCondition.FAILED, "True", reason, "", now=NOW)
    status = msgspec.structs.replace(who.status, phase=WorkerPhase.FAILED, conditions=facts)
    return msgspec.structs.replace(who, status=status)


def test_a_failed_worker_of_a_pool_is_given_up_and_another_one_undrained() -> None:
    """Nobody replaces what is stopped or drained; without a pool people look at it."""
    lost = failed(parked(WorkerPhase.STOPPED, pool="p"), WorkerReason.INSTANCE_TERMINATED)
    made = applied(lost, finding())
    assert (changed(made).spec.desired, made.guard) == ("Terminated", Guard())
    assert wish(lost, finding(paused=True)) is Wish.NOTHING
    halted = failed(parked(WorkerPhase.STOPPED, pool="p"), WorkerReason.STOPPED_OUTSIDE)
    assert wish(halted, finding()) is Wish.NOTHING
    aged = failed(mine({"drain": AGED}), WorkerReason.INSTANCE_TERMINATED)
    alone = applied(aged, finding())
    assert (changed(alone).spec.drain, changed(alone).spec.desired) == (None, "Ready")
    assert changed(alone).metadata.generation == aged.metadata.generation
    pooled = failed(mine({"drain": AGED, "pool": "p"}), WorkerReason.STOPPED_OUTSIDE)
    assert changed(applied(pooled, finding())).spec.desired == "Terminated"


# --- in the worker's step ----------------------------------------------------------------


CALL = Effect(id="e", kind="renew", begun=NOW, expires=NOW)


def test_the_rule_waits_for_a_step_that_leaves_room() -> None:
    """Not beside a call, an open call, a new phase, another change or a failure."""
    other = msgspec.structs.replace(CLOSED.status, phase=WorkerPhase.ACTIVE)
    called = msgspec.structs.replace(CLOSED.status, effect=CALL)
    taken = [
        step(CLOSED, action="renew"),
        step(CLOSED, status=other),
        step(CLOSED, status=called),
        step(CLOSED, changed=CLOSED),
        step(CLOSED, problem=errors.Temporary("later")),
    ]
    for each in taken:
        assert idle_rule.apply(CLOSED, each, whole(), NOW) is each
        assert not idle_rule.judged(CLOSED, each)
    open_call = msgspec.structs.replace(CLOSED, status=called)
    assert idle_rule.apply(open_call, step(CLOSED), whole(), NOW) == step(CLOSED)
    assert idle_rule.judged(CLOSED, applied(CLOSED, whole()))
    assert idle_rule.judged(CLOSED, step(CLOSED))


def test_the_rule_judges_the_status_of_the_step() -> None:
    """A worker that this very step finds unhealthy is not stopped."""
    ill = msgspec.structs.replace(CLOSED.status, health=Health.DEGRADED)
    made = idle_rule.apply(CLOSED, step(CLOSED, status=ill), whole(), NOW)
    assert made.status.idle.signals == ("health",)
    assert made.status.health is Health.DEGRADED
    assert changed(made).spec.desired == "Ready"


_PHASES = st.sampled_from(list(WorkerPhase))
_FACTS = st.builds(
    lambda **given: replace(QUIET, **given),
    sessions=st.sampled_from([None, 0, 1]),
    nodes=st.sampled_from([None, 0, 3]),
    serving=st.sampled_from([None, 1, 3]),
    least=st.sampled_from([0, 1]),
    read_at=st.sampled_from([None, NOW, NOW - timedelta(hours=1)]),
    activity_at=st.sampled_from([None, NOW]),
    held=st.sampled_from([(), (("paused", "audit"),)]),
    gaps=st.sampled_from([(), (("nodes", "refused"),)]),
)
_FINDINGS = st.builds(
    IdleFinding,
    facts=_FACTS,
    settings=st.sampled_from([ON, OLD, msgspec.structs.replace(ON, warn_minutes=0)]),
    at=st.just(NOW),
    whole=st.booleans(),
    revision=st.sampled_from([None, 7]),
    paused=st.booleans(),
    peer_closed=st.booleans(),
    peer_aging=st.booleans(),
    wanted=st.booleans(),
)


@st.composite
def _workers(draw: st.DrawFn) -> Worker:
    spec: dict[str, Any] = {
        "machine": draw(st.sampled_from([machine(), None])),
        "pool": draw(st.sampled_from([None, "p"])),
        "desired": draw(st.sampled_from(["Ready", "Stopped", "Terminated"])),
        "cordoned": draw(st.booleans()),
        "drain": draw(st.sampled_from([None, AGED])),
        "idle_detection": draw(st.booleans()),
    }
    found = worker(
        spec,
        phase=draw(_PHASES),
        phase_since=draw(st.sampled_from([None, NOW, LONG])),
        idle=draw(st.sampled_from([IdleStatus(), IdleStatus(since=LONG), DUE])),
        effect=draw(st.sampled_from([None, None, CALL])),
    )
    marks = draw(st.sampled_from([{}, {parking.STOPPED_BY: "idle"}, {parking.CORDONED_BY: "idle"}]))
    metadata = msgspec.structs.replace(found.metadata, annotations=marks)
    return msgspec.structs.replace(found, metadata=metadata)


@given(_workers(), _FINDINGS)
def test_no_finding_in_no_state_does_harm(who: Worker, found: IdleFinding) -> None:
    """Stops rest on a whole look, are guarded and unpaused; phase and action are left alone."""
    made = applied(who, found)
    assert (made.status.phase, made.action) == (who.status.phase, None)
    assert made.finalizers == who.metadata.finalizers
    assert made == applied(who, found)
    after = who if made.changed is None else made.changed
    asked = after.spec.desired != who.spec.desired or (after.spec.drain and not who.spec.drain)
    if asked:
        assert made.guard is not None
        assert made.guard.unpaused
        assert not found.paused
        assert who.status.effect is None
    if asked and after.spec.desired == "Stopped":
        assert found.whole
        assert made.guard == Guard(unreserved_since=found.revision)
        assert found.revision is not None
        assert (found.facts.sessions, found.facts.nodes) == (0, 0)
        assert who.spec.cordoned or idle_rule.aging(who)
    assert after.metadata.uid == who.metadata.uid
    assert (made.actor == LIFE_CYCLE) is (made == step(who))


@given(_workers(), _FINDINGS)
def test_what_was_done_is_not_wanted_twice(who: Worker, found: IdleFinding) -> None:
    """The same finding again on the worker as recorded changes it no more than once."""
    made = applied(who, found)
    base = who if made.changed is None else made.changed
    recorded = msgspec.structs.replace(base, status=made.status)
    again = idle_rule.judge(recorded, found, NOW).wish
    before = idle_rule.judge(who, found, NOW).wish
    if made != step(who) and before is not Wish.WITHDRAW:
        assert again is not before


@given(_workers(), st.none() | _FINDINGS)
def test_a_step_with_a_finding_is_the_step_without_it_or_the_rule_s(
    who: Worker, found: IdleFinding | None
) -> None:
    """In `decide` the finding adds to what the phase's rules said and changes nothing of that."""
    plain = decide(who, WorkerObservation(), NOW)
    made = decide(who, WorkerObservation(idle=found), NOW)
    assert (made.status.phase, made.action, made.again) == (
        plain.status.phase, plain.action, plain.again,
    )  # fmt: skip
    if made.actor == LIFE_CYCLE:
        assert made == plain


def test_facts_have_no_default_that_stops() -> None:
    """A finding of which nothing is known wants no stop, whole or not."""
    for who in (mine(idle=DUE), CLOSED):
        assert wish(who, whole(facts=IdleFacts())) not in {Wish.STOP, Wish.CORDON}

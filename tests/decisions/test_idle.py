"""The verdict on idleness: nothing missing, failed, stale or busy ever makes a worker idle.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import idle, parking
from labfleet.decisions.idle import IdleFacts, judge
from labfleet.decisions.placement import Candidate, PlacementRequest
from labfleet.resources.amounts import Amounts
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.idle import Activity, ActivityEvent
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Metadata
from labfleet.resources.worker import (
    CmlStatus,
    Health,
    IdleStatus,
    Worker,
    WorkerPhase,
    WorkerSpec,
    WorkerStatus,
)

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
LONG = NOW - timedelta(hours=5)
ON = Idle(enabled=True, timeout_minutes=60, snooze_minutes=60, warn_minutes=5)
PERSON = "5c1f9d6a-3b52-4e0c-9a77-0d2f6be1c3a4"


def worker(spec: dict[str, Any] | None = None, **status: Any) -> Worker:
    """A healthy worker that has been up and empty for five hours."""
    given = {
        "phase": WorkerPhase.READY, "health": Health.HEALTHY, "ready_since": LONG,
        "empty_since": LONG, "idle": IdleStatus(since=LONG), **status,
    }  # fmt: skip
    return Worker(
        metadata=Metadata(name="w"), spec=WorkerSpec(**(spec or {})), status=WorkerStatus(**given)
    )


QUIET = IdleFacts(
    sessions=0, soon=0, nodes=0, cpu_percent=1.0, maintenance=False, read_at=NOW,
    activity=Activity(), activity_at=NOW,
)  # fmt: skip


def said(verdict: idle.IdleVerdict, name: str) -> str:
    """What one signal says."""
    return next(each.verdict for each in verdict.signals if each.name == name)


def events(*minutes: float, **over: Any) -> Activity:
    """Events of a person, so many minutes ago."""
    made = {"category": "start_lab", "user": PERSON, **over}
    told = (ActivityEvent(at=NOW - timedelta(minutes=each), **made) for each in minutes)
    return Activity(events=tuple(told))


def test_a_worker_that_nobody_used_for_the_timeout_is_idle() -> None:
    """Every signal is there, fresh and quiet: eligible, and each says so in a sentence."""
    found = judge(worker(), QUIET, ON, NOW)
    assert (found.verdict, found.idle, found.eligible) == ("idle", True, True)
    assert found.kept_by == ()
    assert all(each.told for each in found.signals)
    assert found.since == LONG


BUSY: dict[str, dict[str, Any]] = {
    "sessions": {"sessions": 1},
    "soon": {"soon": 1},
    "nodes": {"nodes": 1},
    "console": {"nodes": 2},
    "cpu": {"cpu_percent": 50.0},
    "network": {"network": 2e6, "network_watched": True},
    "pending": {"pending": ("import",)},
    "health": {"maintenance": True},
    "telemetry": {"activity": events(30)},
    "quiet_time": {"activity": events(59)},
}


@pytest.mark.parametrize("name", sorted(BUSY))
def test_each_sign_of_use_alone_keeps_the_worker(name: str) -> None:
    """And it is the one that is named."""
    found = judge(worker(), replace(QUIET, **BUSY[name]), ON, NOW)
    assert (found.verdict, found.idle, found.eligible) == ("busy", False, False)
    assert name in found.kept_by


@pytest.mark.parametrize(
    "name", ["sessions", "soon", "nodes", "cpu_percent", "maintenance", "read_at", "activity"]
)
def test_each_missing_signal_alone_keeps_the_worker(name: str) -> None:
    """None is unknown, and unknown is not idle."""
    found = judge(worker(), replace(QUIET, **{name: None}), ON, NOW)
    assert (found.verdict, found.idle, found.eligible) == ("unknown", False, False)


@pytest.mark.parametrize("name", ["nodes", "cpu", "maintenance", "telemetry"])
def test_each_failed_signal_alone_keeps_the_worker_and_says_why(name: str) -> None:
    """A value beside a failure is not believed."""
    found = judge(worker(), replace(QUIET, gaps=((name, "Timeout: too slow"),)), ON, NOW)
    assert found.verdict == "unknown"
    assert any("Timeout: too slow" in each.told for each in found.signals)


@pytest.mark.parametrize("name", ["read_at", "activity_at"])
def test_a_stale_reading_is_unknown(name: str) -> None:
    """Older than what is called fresh proves nothing of now."""
    old = replace(QUIET, **{name: NOW - timedelta(minutes=4)})
    assert judge(worker(), old, ON, NOW).verdict == "unknown"


def test_traffic_is_a_veto_only_when_it_is_measured() -> None:
    """CloudWatch off is no missing signal; on without a fresh number is one (case 26)."""
    assert judge(worker(), QUIET, ON, NOW).eligible
    assert judge(worker(), replace(QUIET, network_watched=True), ON, NOW).verdict == "unknown"
    little = replace(QUIET, network=1000.0, network_watched=True)
    assert judge(worker(), little, ON, NOW).eligible


def test_declined_telemetry_and_undated_events_prove_nothing() -> None:
    """Silence where people opted out, and an event whose time nobody can read."""
    for activity in (
        Activity(declined=True),
        Activity(events=(ActivityEvent(category="start_lab", user=PERSON),)),
        events(-60),
    ):
        found = judge(worker(), replace(QUIET, activity=activity), ON, NOW)
        assert said(found, "telemetry") == "unknown"
        assert not found.eligible


def test_no_clock_runs_while_nothing_is_recorded() -> None:
    """Hours of declined telemetry are no hours without use once somebody opts in."""
    subject = worker()
    blind = judge(subject, replace(QUIET, activity=Activity(declined=True)), ON, NOW)
    assert (blind.verdict, blind.since, blind.warn) == ("unknown", None, False)
    assert said(blind, "quiet_time") == "unknown"
    status = msgspec.structs.replace(
        subject.status, idle=msgspec.structs.replace(subject.status.idle, since=blind.since)
    )
    after = judge(msgspec.structs.replace(subject, status=status), QUIET, ON, NOW)
    assert (after.since, after.eligible) == (NOW, False)
    unread = worker(cml=CmlStatus(telemetry=False))
    assert judge(unread, replace(QUIET, activity=None), ON, NOW).since is None


def test_which_events_count() -> None:
    """Not those of system users, of other categories, of excluded ones; those of nobody do."""
    settings = msgspec.structs.replace(ON, excluded_categories=("export_lab",))
    for activity in (
        events(1, user="00000000-0000-4000-a000-000000000000"),
        events(1, category="weather"),
        events(1, category="export_lab"),
    ):
        assert judge(worker(), replace(QUIET, activity=activity), settings, NOW).eligible
    for activity in (events(1), events(1, user=None)):
        assert not judge(worker(), replace(QUIET, activity=activity), settings, NOW).eligible


def test_the_newest_ten_events_are_kept_newest_first() -> None:
    """Also across checks, each once."""
    found = judge(worker(), replace(QUIET, activity=events(*range(100, 130))), ON, NOW)
    ages = [(NOW - each.at).total_seconds() / 60 for each in found.recent if each.at]
    assert ages == list(range(100, 110))
    known = worker(idle=IdleStatus(since=LONG, recent=found.recent))
    again = judge(known, replace(QUIET, activity=events(*range(95, 105))), ON, NOW)
    assert len(again.recent) == 10
    assert again.last_activity_at == NOW - timedelta(minutes=95)


HOLDS: dict[str, tuple[dict[str, Any], dict[str, Any], Idle]] = {
    "fleet_switch": ({}, {}, Idle(snooze_minutes=60)),
    "worker_switch": ({"idle_detection": False}, {}, ON),
    "pool_minimum": ({}, {"serving": 2, "least": 2}, ON),
    "paused": ({}, {"held": (("paused", "audit"),)}, ON),
    "snooze": ({}, {}, Idle(enabled=True, snooze_minutes=600)),
}


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_what_only_holds_a_worker_leaves_it_idle_but_not_to_be_stopped(name: str) -> None:
    """Idle is about use, eligible about whether it may be stopped now."""
    spec, facts, settings = HOLDS[name]
    found = judge(worker(spec), replace(QUIET, **facts), settings, NOW)
    assert (found.idle, found.eligible, found.verdict) == (True, False, "busy")
    assert found.kept_by == (name,)


def test_the_clock_starts_at_ready_and_again_with_each_start() -> None:
    """Launch and stale marks from before the start do not count (cases 24, 25)."""
    up = NOW - timedelta(minutes=30)
    fresh = worker(ready_since=up, empty_since=up)
    found = judge(fresh, QUIET, ON, NOW)
    assert (found.since, found.eligible) == (up, False)
    assert found.snoozed_until == up + timedelta(minutes=60)
    resumed = worker(idle=IdleStatus(since=LONG, last_resumed_at=up))
    assert judge(resumed, QUIET, ON, NOW).since == up
    assert judge(worker(ready_since=None), QUIET, ON, NOW).since == NOW


def test_the_warning_comes_before_the_stop_and_only_when_nothing_else_keeps_it() -> None:
    """Five minutes before the timeout is over, not earlier, and not for a worker in use."""
    for minutes, warn in ((54, False), (56, True), (61, True)):
        since = NOW - timedelta(minutes=minutes)
        used = worker(idle=IdleStatus(since=since))
        assert judge(used, QUIET, ON, NOW).warn is warn
        assert judge(used, replace(QUIET, sessions=1), ON, NOW).warn is False
        assert judge(used, replace(QUIET, activity=None), ON, NOW).warn is False


def test_too_old_is_an_option_and_counts_from_the_start() -> None:
    """Off by default; the worker's own switch turns it off too."""
    old = worker(machine=MachineStatus(launched=NOW - timedelta(hours=30)))
    assert idle.too_old(old, ON, NOW) is None
    limit = Idle(max_age_hours=24)
    assert idle.too_old(old, limit, NOW) == "runs for more than 24 hours"
    assert idle.too_old(worker(), limit, NOW) is None
    off = msgspec.structs.replace(old, spec=WorkerSpec(idle_detection=False))
    assert idle.too_old(off, limit, NOW) is None


# --- properties --------------------------------------------------------------------------

_count = st.none() | st.integers(-1, 3)
_instant = st.none() | st.floats(-9000, 90_000).map(lambda s: NOW - timedelta(seconds=s))
_event = st.builds(
    ActivityEvent,
    category=st.sampled_from(["start_lab", "weather", "user_activity", ""]),
    at=_instant,
    user=st.sampled_from([None, PERSON, "00000000-0000-4000-a000-000000000000"]),
)
_activity = st.none() | st.builds(
    Activity, events=st.lists(_event, max_size=4).map(tuple), declined=st.booleans()
)
_facts = st.builds(
    IdleFacts,
    sessions=_count, soon=_count, nodes=_count,
    cpu_percent=st.none() | st.floats(), network=st.none() | st.floats(),
    network_watched=st.booleans(), maintenance=st.none() | st.booleans(),
    read_at=_instant, activity=_activity, activity_at=_instant,
    gaps=st.lists(st.tuples(st.sampled_from(["nodes", "cpu", "telemetry"]), st.just("x")),
                  max_size=2).map(tuple),
    pending=st.lists(st.just("import"), max_size=1).map(tuple),
    serving=_count, least=st.integers(0, 2),
    held=st.lists(st.just(("paused", "p")), max_size=1).map(tuple),
)  # fmt: skip
_worker = st.builds(
    worker,
    st.builds(dict, idle_detection=st.booleans()),
    phase=st.sampled_from(list(WorkerPhase)), health=st.sampled_from(list(Health)),
    ready_since=_instant, empty_since=_instant,
    idle=st.builds(IdleStatus, since=_instant, last_activity_at=_instant,
                   last_resumed_at=_instant),
)  # fmt: skip
_settings = st.builds(
    Idle,
    enabled=st.booleans(),
    timeout_minutes=st.sampled_from([1, 60]),
    snooze_minutes=st.sampled_from([0, 60]),
)


@given(_worker, _facts, _settings)
def test_every_worker_gets_a_verdict(who: Worker, facts: IdleFacts, settings: Idle) -> None:
    """Total: no facts raise, each signal says something, and eligible means idle and unheld."""
    found = judge(who, facts, settings, NOW)
    assert len({each.name for each in found.signals}) == len(found.signals)
    assert found.eligible == (found.verdict == "idle")
    assert found.idle or not found.eligible
    assert found.since is None or found.since <= NOW


@given(_worker, _facts, _settings, st.data())
def test_removing_a_signal_never_makes_a_worker_idle(
    who: Worker, facts: IdleFacts, settings: Idle, data: st.DataObject
) -> None:
    """Whatever is taken away from what is known, nobody is stopped for it."""
    before = judge(who, facts, settings, NOW)
    blank = IdleFacts()
    names = [each.name for each in fields(IdleFacts) if getattr(blank, each.name) is None]
    gone = data.draw(st.sets(st.sampled_from(names), min_size=1))
    # Without a pool nobody has a minimum; that is a fact, not a missing signal.
    gone -= {"serving"}
    less = replace(facts, **dict.fromkeys(gone))
    after = judge(who, less, settings, NOW)
    assert before.eligible or not after.eligible
    assert before.idle or not after.idle


@given(_worker, _facts, _settings, _event)
def test_more_activity_never_makes_a_worker_idle(
    who: Worker, facts: IdleFacts, settings: Idle, event: ActivityEvent
) -> None:
    """One event, session, node or chore more never turns a verdict to idle."""
    before = judge(who, facts, settings, NOW)
    known = facts.activity or Activity()
    more = msgspec.structs.replace(known, events=(*known.events, event))
    grown = [replace(facts, pending=(*facts.pending, "x"))]
    if facts.activity is not None:
        grown.append(replace(facts, activity=more))
    grown += [
        replace(facts, **{name: count + 1})
        for name in ("sessions", "soon", "nodes")
        if (count := getattr(facts, name)) is not None and count >= 0
    ]
    for each in grown:
        after = judge(who, each, settings, NOW)
        assert before.eligible or not after.eligible
        assert before.idle or not after.idle


@given(_worker, _facts, _settings)
def test_cpu_never_proves_idleness(who: Worker, facts: IdleFacts, settings: Idle) -> None:
    """Where the rest does not say idle, no value of CPU makes it so."""
    rest = judge(who, replace(facts, cpu_percent=None, gaps=()), settings, NOW)
    quiet = [each for each in rest.signals if each.name != "cpu"]
    for percent in (0.0, 0.1, 49.9):
        found = judge(who, replace(facts, cpu_percent=percent), settings, NOW)
        if any(each.verdict != "quiet" for each in quiet):
            assert not found.eligible


# --- parked workers ----------------------------------------------------------------------


def test_a_pause_and_a_resume_are_counted_by_whose_they_are() -> None:
    """Marks of the rule come with its pause and go with whatever follows."""
    stopped = parking.paused(worker(), NOW, by="idle-controller", reason="idle_timeout", auto=True)
    assert parking.auto_stopped(stopped)
    assert stopped.status.idle.auto_pauses == 1
    theirs = parking.paused(stopped, NOW, by="ada", reason="manual", auto=False)
    assert not parking.auto_stopped(theirs)
    assert (theirs.status.idle.manual_pauses, theirs.status.idle.last_paused_by) == (1, "ada")
    back = parking.resumed(stopped, NOW, auto=True)
    assert (back.spec.desired, back.status.idle.auto_resumes) == ("Ready", 1)
    assert back.metadata.annotations == {}
    assert back.status.idle.since is None


def test_only_the_rule_s_own_cordon_is_undone() -> None:
    """What a person cordoned stays cordoned over a pause."""
    ours = parking.with_cordon(worker(), closed=True)
    assert parking.cordoned(ours)
    assert not parking.paused(ours, NOW, by="r", reason="i", auto=True).spec.cordoned
    theirs = worker({"cordoned": True})
    assert parking.paused(theirs, NOW, by="r", reason="i", auto=True).spec.cordoned


def candidate(name: str, cpu: int = 4000) -> Candidate:
    """A worker that is up."""
    size = Amounts(cpu_milli=cpu, memory_mib=8192, nodes=50, labs=4)
    return Candidate(name=name, licensed=True, capacity=size)


def test_who_is_started_takes_what_fits_there() -> None:
    """One worker for two small requests, the one that fits for a large one, none for a giant."""
    small = PlacementRequest(amounts=Amounts(cpu_milli=1000, labs=1), start=NOW)
    large = PlacementRequest(amounts=Amounts(cpu_milli=8000, labs=1), start=NOW)
    giant = PlacementRequest(amounts=Amounts(cpu_milli=80_000, labs=1), start=NOW)
    there = [candidate("a"), candidate("b", 8000)]
    assert parking.to_start(there, [small, small], now=NOW) == ("a",)
    assert parking.to_start(there, [large], now=NOW) == ("b",)
    assert parking.to_start(there, [giant], now=NOW) == ()
    assert parking.to_start(there, [], now=NOW, least=1) == ("a",)
    assert parking.uncovered([candidate("c")], [small, large], now=NOW) == [large]

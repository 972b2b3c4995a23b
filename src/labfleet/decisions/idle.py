"""Is a worker idle, and may it be stopped? One verdict from all signals, each explained.

Pure and total. A worker is idle only when every signal is present, fresh and without use for the
whole timeout (facts/aws.md#idle): a signal that is missing, failed or stale keeps the worker, and
so does CPU above a threshold. CPU below it proves nothing: a person who reads looks idle, one who
types into a console uses no CPU (facts/aws.md#idle). Reasons that only forbid a stop (switches,
snooze, the pool's minimum) are kept apart from use, as `held`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.kernel import quantity
from labfleet.resources import patterns
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.idle import RECENT, Activity, ActivityEvent, IdleSignal, SignalVerdict
from labfleet.resources.worker import Health, Worker, WorkerPhase

CPU_BUSY = 50.0
"""Percent of the whole host above which a worker counts as used; below it proves nothing."""
NETWORK_BUSY = 1_000_000.0
"""Bytes a second, in and out together, above which a worker counts as used.

Bytes, not megabytes: facts/aws-bugs.md#case-29.
"""
CLOCKS_DIFFER = timedelta(minutes=5)
"""An event's time may be this far ahead of our clock before it counts as unreadable."""
STARTED = frozenset({"QUEUED", "STARTED", "BOOTED"})
"""States of a node that runs or is about to."""

_HOSTING = frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.READY_UNLICENSED})


USES = frozenset(
    {
        "phase", "sessions", "soon", "nodes", "console", "telemetry", "cpu", "network", "pending",
        "health", "quiet_time",
    }
)  # fmt: skip
"""Signals of use; the others only forbid a stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFacts:
    """What is known of one worker; None is unknown, never zero.

    `network` is bytes a second from CloudWatch, used only when `network_watched`. `read_at` is
    when nodes, CPU and maintenance were read, `activity_at` when the events were; a reading older
    than `fresh` is stale. `gaps` names what could not be read, with the reason. `sessions` are
    bound here, `soon` begin within the lead time and may be placed here. `pending` names what is
    under way. `serving` counts the pool's workers that serve or boot, this one included;
    `pool_unread`: they were not counted, because the worker is in use anyway. `held` says why it
    may not be stopped, besides the rules below (signal -> sentence).
    """

    sessions: int | None = None
    soon: int | None = None
    nodes: int | None = None
    cpu_percent: float | None = None
    network: float | None = None
    network_watched: bool = False
    maintenance: bool | None = None
    read_at: datetime | None = None
    activity: Activity | None = None
    activity_at: datetime | None = None
    fresh: timedelta = timedelta(minutes=3)
    gaps: tuple[tuple[str, str], ...] = ()
    pending: tuple[str, ...] = ()
    serving: int | None = None
    least: int = 0
    pool_unread: bool = False
    held: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleVerdict:
    """The verdict on one worker.

    `idle`: no sign of use for the whole timeout; `eligible`: idle, and nothing forbids a stop.
    `since` is when the last use ended, None while it is in use; `stop_at` is when the timeout
    ends without further use. `warn`: the stop is near and only time keeps the worker.
    """

    verdict: Literal["busy", "idle", "unknown"]
    signals: tuple[IdleSignal, ...]
    idle: bool
    eligible: bool
    warn: bool
    since: datetime | None
    stop_at: datetime | None
    last_activity_at: datetime | None
    recent: tuple[ActivityEvent, ...]
    snoozed_until: datetime | None

    @property
    def kept_by(self) -> tuple[str, ...]:
        """Name what keeps the worker."""
        return keeps(self.signals)


def keeps(signals: tuple[IdleSignal, ...]) -> tuple[str, ...]:
    """Name what keeps a worker: signals of use or holds, and only without any, unknown signals.

    So a read that sometimes fails does not change the answer for a worker in use.
    """
    found = tuple(each.name for each in signals if each.verdict in {"busy", "held"})
    return found or tuple(each.name for each in signals if each.verdict == "unknown")


def judge(worker: Worker, facts: IdleFacts, settings: Idle, now: datetime) -> IdleVerdict:
    """Return the verdict; equal facts give equal verdicts, also when some are missing."""
    known = worker.status.idle
    counted = tuple(_counted(facts.activity, settings, now))
    recent = _newest((*counted, *known.recent))
    seen = [each.at for each in recent if each.at is not None]
    last = max([*seen, *([known.last_activity_at] if known.last_activity_at else [])], default=None)
    uses = [
        _phase(worker),
        _sessions(facts),
        _soon(facts, settings),
        _nodes(facts, now),
        _console(facts, now),
        _telemetry(facts, counted, settings, now),
        _cpu(facts, now),
        _network(facts),
        _pending(facts),
        _health(worker, facts, now),
    ]
    used = any(each.verdict == "busy" for each in uses if each.name != "telemetry")
    blind = _blind(worker, facts)
    since = None if used or blind else _since(worker, last, now)
    stop_at = None if since is None else since + timedelta(minutes=settings.timeout_minutes)
    if blind and not used:
        told = "events of use are not recorded there, so no time without use is known"
        uses.append(_said("quiet_time", "unknown", "?", told))
    else:
        uses.append(_quiet(since, stop_at, settings, now))
    snoozed = _snoozed(worker, settings)
    holds = list(_holds(worker, facts, settings, snoozed, now))
    signals = (*uses, *holds)
    words = {each.verdict for each in signals}
    idle = all(each.verdict == "quiet" for each in uses)
    nearly = all(
        each.verdict == "quiet" or each.verdict in _TIMED.get(each.name, ()) for each in signals
    )
    late = None if stop_at is None else max([stop_at, *([snoozed] if snoozed else [])])
    return IdleVerdict(
        verdict="busy" if words & {"busy", "held"} else "unknown" if "unknown" in words else "idle",
        signals=signals,
        idle=idle,
        eligible=words == {"quiet"},
        warn=nearly and late is not None and now >= late - _warning(settings),
        since=since,
        stop_at=late,
        last_activity_at=last,
        recent=recent,
        snoozed_until=snoozed,
    )


_TIMED = {"quiet_time": ("busy",), "snooze": ("held",), "telemetry": ("busy",)}
"""Signals that change with time alone: while only they keep a worker, it may be warned."""


def _warning(settings: Idle) -> timedelta:
    return timedelta(minutes=settings.warn_minutes)


def _said(
    name: str, verdict: SignalVerdict, value: object, told: str, at: datetime | None = None
) -> IdleSignal:
    return IdleSignal(name=name, verdict=verdict, value=str(value), told=told, at=at)


def _minutes(number: float) -> str:
    return quantity.count(round(number), "minute")


def _are(number: int, word: str) -> str:
    return f"1 {word} is" if number == 1 else f"{number} {word}s are"


# --- use ---------------------------------------------------------------------------------


def _phase(worker: Worker) -> IdleSignal:
    phase = worker.status.phase
    if phase in _HOSTING:
        return _said("phase", "quiet", phase, "it is up and serves")
    return _said("phase", "busy", phase, f"only a worker that serves can be idle; it is {phase}")


def _sessions(facts: IdleFacts) -> IdleSignal:
    count = facts.sessions
    if count is None:
        return _said("sessions", "unknown", "?", "its sessions could not be read")
    if count > 0:
        return _said("sessions", "busy", count, f"{_are(count, 'session')} placed here")
    return _said("sessions", "quiet", 0, "no session is placed here")


def _soon(facts: IdleFacts, settings: Idle) -> IdleSignal:
    count, lead = facts.soon, settings.soon_minutes
    if count is None:
        return _said("soon", "unknown", "?", "waiting sessions could not be read")
    if count > 0:
        begin = "session that may come here begins"
        if count != 1:
            begin = "sessions that may come here begin"
        told = f"{count} {begin} within {quantity.count(lead, 'minute')}"
        return _said("soon", "busy", count, told)
    return _said(
        "soon",
        "quiet",
        0,
        f"nobody who may come here begins within {quantity.count(lead, 'minute')}",
    )


def _gap(facts: IdleFacts, name: str, at: datetime | None, now: datetime) -> str | None:
    """Return why a reading cannot be used, or None when it can."""
    for found, why in facts.gaps:
        if found == name:
            return why
    if at is None:
        return "it was not read yet"
    age = now - at
    if age > facts.fresh:
        return f"the last reading is {_minutes(age.total_seconds() / 60)} old"
    return None


def _nodes(facts: IdleFacts, now: datetime) -> IdleSignal:
    why = _gap(facts, "nodes", facts.read_at, now)
    if why is not None or facts.nodes is None:
        told = f"what runs on the server is unknown: {why or 'not told'}"
        return _said("nodes", "unknown", "?", told, facts.read_at)
    if facts.nodes > 0:
        runs = "node runs" if facts.nodes == 1 else "nodes run"
        told = f"{facts.nodes} {runs} on the server, ours or not"
        return _said("nodes", "busy", facts.nodes, told, facts.read_at)
    return _said("nodes", "quiet", 0, "no node runs on the server", facts.read_at)


def _console(facts: IdleFacts, now: datetime) -> IdleSignal:
    """Judge open consoles, which belong to running nodes; use of the web UI leaves events."""
    if _gap(facts, "nodes", facts.read_at, now) is not None or facts.nodes is None:
        told = "whether a console is open is unknown, because what runs is"
        return _said("console", "unknown", "?", told, facts.read_at)
    if facts.nodes > 0:
        told = "a running node's console may be in use; CML does not tell"
        return _said("console", "busy", "may be open", told, facts.read_at)
    return _said("console", "quiet", "none", "no node runs, so no console is open", facts.read_at)


def _telemetry(
    facts: IdleFacts, counted: tuple[ActivityEvent, ...], settings: Idle, now: datetime
) -> IdleSignal:
    at = facts.activity_at
    why = _gap(facts, "telemetry", at, now)
    if why is not None or facts.activity is None:
        told = f"events of use are unknown: {why or 'not told'}"
        return _said("telemetry", "unknown", "?", told, at)
    if facts.activity.declined:
        told = "telemetry is declined there, so its silence says nothing (cml.enableTelemetry)"
        return _said("telemetry", "unknown", "declined", told, at)
    undated = [each for each in counted if each.at is None]
    if undated:
        told = f"the time of a {undated[0].category[:40]} event cannot be read"
        return _said("telemetry", "unknown", "no time", told, at)
    if not counted:
        return _said("telemetry", "quiet", "no event", "nobody's action is on record", at)
    newest = counted[0]
    age = now - (newest.at or now)
    told = f"{newest.category[:40]} by {(newest.user or 'somebody')[:40]} {_ago(age)}"
    busy = age < timedelta(minutes=settings.timeout_minutes)
    return _said("telemetry", "busy" if busy else "quiet", newest.category[:40], told, at)


def _cpu(facts: IdleFacts, now: datetime) -> IdleSignal:
    why = _gap(facts, "cpu", facts.read_at, now)
    if why is not None or facts.cpu_percent is None:
        told = f"CPU is unknown: {why or 'not told'}"
        return _said("cpu", "unknown", "?", told, facts.read_at)
    shown = f"{facts.cpu_percent:.0f} %"
    # The comparison is written so that NaN keeps the worker.
    if facts.cpu_percent < CPU_BUSY:
        told = f"below {CPU_BUSY:.0f} %, which proves nothing and forbids nothing"
        return _said("cpu", "quiet", shown, told, facts.read_at)
    return _said("cpu", "busy", shown, f"something uses {CPU_BUSY:.0f} % or more", facts.read_at)


def _network(facts: IdleFacts) -> IdleSignal:
    if not facts.network_watched:
        return _said("network", "quiet", "-", "not measured: CloudWatch is off")
    if facts.network is None:
        return _said("network", "unknown", "?", "CloudWatch has no fresh number")
    shown = f"{facts.network / 1000:.0f} kB/s"
    if facts.network < NETWORK_BUSY:
        told = "little traffic, which proves nothing and forbids nothing"
        return _said("network", "quiet", shown, told)
    return _said("network", "busy", shown, "something is being transferred")


def _pending(facts: IdleFacts) -> IdleSignal:
    if facts.pending:
        told = "under way: " + ", ".join(facts.pending[:5])
        return _said("pending", "busy", len(facts.pending), told)
    return _said("pending", "quiet", 0, "nothing is under way")


def _health(worker: Worker, facts: IdleFacts, now: datetime) -> IdleSignal:
    health = worker.status.health
    if facts.maintenance:
        told = "maintenance mode is on: somebody works on the server"
        return _said("health", "busy", "maintenance", told, facts.read_at)
    why = _gap(facts, "maintenance", facts.read_at, now)
    if facts.maintenance is None or why is not None:
        told = f"whether it is in maintenance is unknown: {why or 'not told'}"
        return _said("health", "unknown", "?", told, facts.read_at)
    if health is not Health.HEALTHY:
        told = f"it is {health}, and what cannot be trusted proves nothing"
        return _said("health", "unknown", health, told)
    return _said("health", "quiet", health, "it answers and says that it is well")


def _since(worker: Worker, last: datetime | None, now: datetime) -> datetime:
    """Return since when nothing was used: the latest instant of possible use.

    The clock starts when the worker is ready, and again with each start (facts/aws-bugs.md#case-24,
    #case-25).
    """
    status = worker.status
    marks = [
        status.idle.since or now,
        status.ready_since or now,
        status.empty_since or now,
        *(each for each in (last, status.idle.last_resumed_at) if each is not None),
    ]
    return min(max(marks), now)


def _blind(worker: Worker, facts: IdleFacts) -> bool:
    """Tell whether people's activity is not recorded: then the idle timeout does not run."""
    if facts.activity is not None:
        return facts.activity.declined
    return worker.status.cml.telemetry is False


def _quiet(
    since: datetime | None, stop_at: datetime | None, settings: Idle, now: datetime
) -> IdleSignal:
    limit = settings.timeout_minutes
    if since is None or stop_at is None:
        told = f"it is in use or does not serve; {_minutes(limit)} without use are needed"
        return _said("quiet_time", "busy", "0 min", told)
    minutes = (now - since).total_seconds() / 60
    told = f"nothing was used for {minutes:.0f} of {_minutes(limit)}"
    quiet = now >= stop_at
    return _said("quiet_time", "quiet" if quiet else "busy", f"{minutes:.0f} min", told, since)


# --- holds -------------------------------------------------------------------------------


def _snoozed(worker: Worker, settings: Idle) -> datetime | None:
    starts = (worker.status.ready_since, worker.status.idle.last_resumed_at)
    begun = max((each for each in starts if each is not None), default=None)
    return None if begun is None else begun + timedelta(minutes=settings.snooze_minutes)


def _holds(
    worker: Worker, facts: IdleFacts, settings: Idle, snoozed: datetime | None, now: datetime
) -> Iterator[IdleSignal]:
    yield _switch("fleet_switch", on=settings.enabled, told="idle detection of the fleet")
    yield _switch("worker_switch", on=worker.spec.idle_detection, told="idle detection here")
    if snoozed is None:
        yield _said("snooze", "held", "?", "when it became ready is unknown")
    elif now < snoozed:
        left = (snoozed - now).total_seconds() / 60
        more = quantity.count(round(left), "more minute")
        told = f"it was started a short while ago; left alone for {more}"
        yield _said("snooze", "held", f"{left:.0f} min", told, snoozed)
    else:
        yield _said("snooze", "quiet", "over", "its start is long enough ago", snoozed)
    yield _minimum(facts)
    for name, told in facts.held:
        yield _said(name, "held", "yes", told)


def _switch(name: str, *, on: bool, told: str) -> IdleSignal:
    if on:
        return _said(name, "quiet", "on", f"{told} is on")
    return _said(name, "held", "off", f"{told} is off")


def _minimum(facts: IdleFacts) -> IdleSignal:
    if facts.pool_unread:
        return _said("pool_minimum", "quiet", "?", "its pool was not looked at: it is in use")
    if facts.serving is None:
        if facts.least <= 0:
            return _said("pool_minimum", "quiet", "none", "no pool needs it")
        return _said("pool_minimum", "held", "?", "how many others serve is unknown")
    shown = f"{facts.serving} of {facts.least}"
    if facts.serving - 1 < facts.least:
        told = (
            f"its pool shall keep {quantity.count(facts.least, 'worker')} and has {facts.serving}"
        )
        return _said("pool_minimum", "held", shown, told)
    return _said("pool_minimum", "quiet", shown, "its pool has enough without it")


# --- events of use -----------------------------------------------------------------------


def _counted(activity: Activity | None, settings: Idle, now: datetime) -> Iterator[ActivityEvent]:
    """Yield the events of people's use, newest first, those without a date before all."""
    if activity is None:
        return
    # An invalid expression excludes nobody: then more events count as use, never fewer.
    named = settings.system_users if patterns.problem(settings.system_users) is None else ""
    system = re.compile(named) if named else None
    users = {each.user for each in activity.events if each.user is not None}
    ours = {each for each in users if system is not None and system.search(each)}
    kept = []
    for each in activity.events:
        wanted = each.category in settings.activity_categories
        if not wanted or each.category in settings.excluded_categories:
            continue
        if each.user in ours:
            continue
        ahead = each.at is not None and each.at > now + CLOCKS_DIFFER
        kept.append(msgspec.structs.replace(each, at=None) if ahead else each)
    yield from sorted(kept, key=_newness)


def _newness(event: ActivityEvent) -> float:
    return float("-inf") if event.at is None else -event.at.timestamp()


def _newest(events: tuple[ActivityEvent, ...]) -> tuple[ActivityEvent, ...]:
    dated = {each for each in events if each.at is not None}
    return tuple(sorted(dated, key=_order))[:RECENT]


def _order(event: ActivityEvent) -> tuple[float, str, str]:
    return (_newness(event), event.category, event.user or "")


def _ago(age: timedelta) -> str:
    minutes = max(age.total_seconds(), 0.0) / 60
    return f"{_minutes(minutes)} ago"


# --- age ---------------------------------------------------------------------------------


def too_old(worker: Worker, settings: Idle, now: datetime) -> str | None:
    """Return why a worker has run for too long since its start, or None (an option)."""
    begun = worker.status.machine.launched or worker.status.ready_since
    if settings.max_age_hours is None or begun is None or not worker.spec.idle_detection:
        return None
    if now - begun < timedelta(hours=settings.max_age_hours):
        return None
    return f"runs for more than {quantity.count(settings.max_age_hours, 'hour')}"


def unused(verdict: IdleVerdict) -> bool:
    """Tell whether nothing runs or is placed there now, for the stop of a worker too old."""
    names = {"sessions", "nodes", "console"}
    return all(each.verdict == "quiet" for each in verdict.signals if each.name in names)

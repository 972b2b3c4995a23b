"""What an explanation of an object holds, and the parts that all kinds have in common."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from labfleet.decisions import wording
from labfleet.kernel.clock import utc_text
from labfleet.resources import runbook as runbooks
from labfleet.resources.alerts import Raised
from labfleet.resources.amounts import Amounts
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.declaration import Entry
from labfleet.resources.meta import Record, Resource
from labfleet.resources.prediction import Prediction


class Blocker(Record, frozen=True, kw_only=True):
    """One blocker. `until` is when it ends by itself, None when unknown.

    kind: Kind of the object.
    name: Name of the object.
    phase: Where it stands.
    owner: Whose it is.
    since: Since when it is in the way.
    until: When it ends by itself; null when that is not known.
    why: Why it is in the way.
    help: What a person could do.
    """

    kind: str
    name: str
    phase: str
    owner: str = ""
    since: datetime | None = None
    until: datetime | None = None
    why: str = ""
    help: str = ""


class Deadline(Record, frozen=True, kw_only=True):
    """The next instant at which something happens by itself.

    at: When it happens.
    what: What happens then.
    """

    at: datetime
    what: str


class Expected(Record, frozen=True, kw_only=True):
    """When something starts, and what that depends on.

    earliest: Not before this; null when nobody can tell.
    latest: Not after this; null when nobody can tell.
    coverage: Share of such ranges that hold the start; null when something is only declared.
    because: What it depends on, or why nobody can tell.
    worker_by: Until when its worker is up; null for one that is, or when nobody can tell.
    """

    earliest: datetime | None = None
    latest: datetime | None = None
    coverage: float | None = None
    because: str = ""
    worker_by: datetime | None = None


class Remedy(NamedTuple):
    """What would help, for those who may change objects of a kind, and what for all others."""

    what: str
    kind: str = ""
    others: str = ""


class ClusterLoad(Record, frozen=True, kw_only=True):
    """What a cluster holds now, and how far it may be filled.

    held: What its runs may need together, their bounds added up.
    others: What pods take that are of no run.
    target: How far it may be filled.
    runs: How many runs hold something.
    """

    held: Amounts
    others: Amounts
    target: Amounts
    runs: int


class Explanation(Record, frozen=True, kw_only=True):
    """Phase and since when, conditions, recorded decision, what it waits for, what is next.

    kind: Kind of the object.
    name: Name of the object.
    namespace: Namespace of the object.
    phase: Where it stands; null for a kind without phases.
    since: Since when it stands there.
    summary: Why it is as it is, in one sentence.
    conditions: Facts about it, each with its reason.
    decision: The last decision about it.
    waiting_for: What it waits for.
    next_deadline: The next instant at which something happens by itself.
    next: What happens by itself, in sentences.
    held_by: Promises that keep a deleted object, in words.
    paused: The pause that holds it up, in a sentence; null when none does.
    blockers: What keeps it from going on.
    runbook: What the runbook says of its phase and of why it is in it; null when it may stay in it.
    alerts: Raised alerts with cause, command and fix.
    more: Sentences that stand in no other field: by which strategy its worker was chosen, how far its
    people may extend it, which seats of a group are in danger, what it asks for in vain.
    lines: The whole explanation in sentences.
    uid: Identity of the object that is explained; another one may get its name.
    attempts: A session's earlier and next attempts, in sentences.
    prediction: What a simulation is expected to need; null for other kinds.
    evidence: What a simulation's bounds rest on, in sentences.
    load: What a simulation's cluster holds now; null for other kinds, and once it is over.
    again: When a denied simulation would start if it were asked for again, in words.
    headline: Where a session stands, in one line: a word, a colon and what it is about.
    expected: When a session starts that has not; null for other kinds, and once it runs.
    earlier: What would have it start earlier, of all that the reader may do.
    """

    kind: str
    name: str
    namespace: str
    phase: str | None
    since: datetime | None
    summary: str
    conditions: tuple[Condition, ...] = ()
    decision: Decision | None = None
    waiting_for: tuple[str, ...] = ()
    next_deadline: Deadline | None = None
    next: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    paused: str | None = None
    blockers: tuple[Blocker, ...] = ()
    runbook: Entry | None = None
    alerts: tuple[Raised, ...] = ()
    more: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    uid: str = ""
    attempts: tuple[str, ...] = ()
    prediction: Prediction | None = None
    evidence: tuple[str, ...] = ()
    load: ClusterLoad | None = None
    again: str = ""
    headline: str = ""
    expected: Expected | None = None
    earlier: tuple[str, ...] = ()


def made(
    obj: Resource,
    *,
    phase: str | None,
    since: datetime | None,
    why: str,
    conditions: tuple[Condition, ...],
    decision: Decision | None,
    waits: list[str],
    deadline: Deadline | None,
    where: str,
    reason: str = "",
) -> Explanation:
    """Return the explanation of these parts, with all that every kind has.

    `reason` chooses among what the runbook says of the phase.
    """
    held = obj.metadata.finalizers if obj.deleting else ()
    if held:
        waits = [*waits, "what holds it: " + ", ".join(held)]
    state = f"{obj.kind} {obj.name}: {phase or 'there'}{where}"
    lines = [state + ("" if since is None else f" since {shown(since)}") + "."]
    pending = [f"It waits for {what}." for what in waits]
    coming = [] if deadline is None else [f"At {shown(deadline.at)} {deadline.what}."]
    if why:
        lines.append(why)
    lines += pending
    lines += _decided(decision)
    lines += [
        f"{each.type} is {each.status}: {each.reason}. {each.message}".rstrip()
        for each in conditions
        if each is next(other for other in conditions if other.type == each.type)
    ]
    lines += coming
    return Explanation(
        kind=obj.kind,
        name=obj.name,
        namespace=obj.metadata.namespace,
        phase=None if phase is None else str(phase),
        since=since,
        summary=why or " ".join(pending) or lines[0],
        conditions=conditions,
        decision=decision,
        waiting_for=tuple(waits),
        next_deadline=deadline,
        next=(*pending, *coming),
        held_by=tuple(held),
        runbook=runbooks.of_phase(obj.kind, phase or "", reason),
        lines=tuple(lines),
        uid=obj.metadata.uid,
    )


def plain(obj: Resource, about: str = "", waits: Iterable[str] = ()) -> Explanation:
    """Return what can be said of an object of any kind; `about` is one more sentence on it."""
    phase = getattr(obj.status, "phase", None)
    since = getattr(obj.status, "phase_since", obj.metadata.creation_timestamp)
    return made(
        obj,
        phase=phase,
        since=since,
        why=about or getattr(obj.status, "message", ""),
        conditions=getattr(obj.status, "conditions", ()),
        decision=None,
        waits=list(waits),
        deadline=None,
        where="",
    )


def _decided(decision: Decision | None) -> list[str]:
    if decision is None:
        return []
    lines = [f"Decision at {shown(decision.at)}: {decision.outcome}. {decision.message}"]
    for each in decision.candidates:
        if each.fits:
            mark = "chosen" if each.name == decision.chosen else "would fit"
            lines.append(f"  {each.name}: {mark}")
        else:
            lack = f", short {wording.short(each.shortages)}" if each.shortages else ""
            lines.append(f"  {each.name}: {', '.join(each.reasons)}{lack}")
    left = decision.evaluated - len(decision.candidates)
    if left > 0:
        counts = ", ".join(f"{n} {word}" for word, n in decision.rejected_by_reason.items())
        lines.append(f"  and {left} more ({counts})")
    return lines


def shown(at: datetime) -> str:
    """Return an instant for people."""
    return utc_text(at, seconds=True)

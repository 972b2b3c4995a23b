"""A period of a real server, read from its event log: its fleet, its demand, its outcome.

Reads, never writes. Sessions that were asked for in the period become wishes with everything
that people did to them. Each object of the fleet is as it was at the beginning, or when it was
created. What ran before the period is not played. The period is cut to what the log covers. The
outcome counts up to the period's end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from labfleet.controllers import upkeep
from labfleet.interfaces.store import Event
from labfleet.kernel import errors
from labfleet.rehearsal.figures.tally import Tally
from labfleet.rehearsal.plans.demand import Act, Crowd, PlannedSession, ordered
from labfleet.rehearsal.plans.plan import Recorded
from labfleet.rehearsal.plans.plan_words import Wrong
from labfleet.rehearsal.plans.planned_fleet import spec_of
from labfleet.resources import kinds
from labfleet.resources.meta import DEFAULT_NAMESPACE, Key
from labfleet.resources.session import Session
from labfleet.stores import opening

HERE = ("demand", "recorded")
OTHER_VERSION = frozenset({"SchemaAltered", "SchemaTooNew"})
SLACK = timedelta(minutes=1)
"""A log that lacks no more than this of a period counts as covering it."""
FLEET = ("Template", "Pool", "Definition")


@dataclass(slots=True)
class Recording:
    """What a period was."""

    begin: datetime
    end: datetime
    fleet: dict[tuple[str, str], dict[str, Any]]
    crowd: Crowd
    tally: Tally


@dataclass(slots=True)
class _Person:
    """One session while its events come."""

    first: Session
    last: Session
    acts: list[Act] = field(default_factory=list)


def of_store(asked: Recorded, folder: Path) -> Recording:
    """Return the recording that a plan asks for; a relative SQLite path counts from `folder`."""
    url = _url(asked.store, folder)
    try:
        horizon, newest = opening.kept(url)
        young = None if newest is None else newest - upkeep.AUDIT_AGE
        events = opening.recorded(url)
        return read(
            events,
            asked.begin,
            asked.to,
            horizon=horizon,
            young=young,
            namespace=asked.namespace,
        )
    except Wrong:
        raise
    except errors.LabfleetError as problem:
        told = problem.message
        if problem.reason in OTHER_VERSION:
            which = url if url.startswith("sqlite") else "the database"
            told = (
                f"{which} was written by another version of labfleet ({told}); "
                "ask with the version that runs that server"
            )
        elif problem.reason == "NoSuchFile":
            told += "; write the path of the server's own store"
        raise Wrong(told, *HERE, "store") from None


def _url(store: str, folder: Path) -> str:
    scheme, _, rest = store.partition(":///")
    if scheme == "sqlite" and rest and not rest.startswith("/"):
        return f"sqlite:///{(folder / rest).absolute()}"
    return store


def read(
    events: Iterable[Event], begin: datetime | None, end: datetime | None, *,
    horizon: int = 0, young: datetime | None = None, namespace: str = DEFAULT_NAMESPACE,
) -> Recording:  # fmt: skip
    """Return the recording of begin..end, or of the part of it that the log covers.

    The log is complete from the first event beyond the store's `horizon`, but not before `young`.
    Raises Wrong when the log has nothing of it, or nobody asked for anything in it. A what-if
    plays one namespace and ignores the others.
    """
    fleet: dict[tuple[str, str], dict[str, Any]] = {}
    people: dict[Key, _Person] = {}
    first, events = _whole(events, horizon, young)
    tally = Tally(first if begin is None or first - begin > SLACK else begin)
    newest = first
    for event in events:
        newest = max(newest, event.at)
        if event.key.namespace != namespace:
            continue
        inside = end is None or event.at < end
        if not inside and event.key.kind != "Session":
            continue
        at = tally.seconds(event.at)
        obj: Any = kinds.decode(event.key.kind, event.doc, event.revision)
        if event.key.kind in FLEET and (at <= 0 or (event.key.kind, obj.name) not in fleet):
            if event.type != "DELETED" and not obj.deleting:
                fleet[event.key.kind, obj.name] = spec_of(obj)
            elif at <= 0:
                fleet.pop((event.key.kind, obj.name), None)
        elif event.key.kind == "Session":
            _session(event, obj, at, people, tally if inside else None)
        elif event.key.kind == "Worker":
            if event.type == "DELETED":
                tally.worker_gone(obj.metadata.uid, at)
            else:
                tally.worker(obj, at)
    until = newest if end is None or end - newest > SLACK else end
    covers = f"the log covers {_shown(first)} to {_shown(newest)}"
    if until <= tally.origin:
        word = "to" if end is not None and end <= first else "from"
        raise Wrong(f"nothing was recorded then: {covers}", *HERE, word)
    seconds = tally.seconds(until)
    wishes = [
        _wish(person, tally)
        for person in people.values()
        if 0 <= tally.seconds(_created(person.first)) < seconds
    ]
    if not wishes:
        told = f"nobody asked for a session from {_shown(tally.origin)} to {_shown(until)}"
        raise Wrong(f"{told}; {covers}", *HERE)
    notes = _short(begin, end, first, newest, seconds)
    return Recording(tally.origin, until, fleet, Crowd(ordered(wishes), seconds, (), notes), tally)


def _whole(
    events: Iterable[Event], horizon: int, young: datetime | None
) -> tuple[datetime, Iterable[Event]]:
    """Return since when the log is complete, and all events, with those that compaction kept."""
    source, before = iter(events), []
    for event in source:
        before.append(event)
        if event.revision > horizon or (young is not None and event.at >= young):
            return event.at, itertools.chain(before, source)
    if not before:
        raise Wrong("the log of this store is empty", *HERE, "store")
    return before[-1].at, before


def _short(
    begin: datetime | None, end: datetime | None, first: datetime, newest: datetime, seconds: float
) -> tuple[str, ...]:
    """Return a note about a log that does not cover the whole period."""
    early = begin is not None and first - begin > SLACK
    late = end is not None and end - newest > SLACK
    if not early and not late:
        return ()
    whole = ((end or newest) - (begin or first)).total_seconds()
    share = f"{seconds / 3600:.1f} of {whole / 3600:.1f} h"
    told = f"the log covers {_shown(first)} to {_shown(newest)}: only {share} are played"
    if early:
        told += "; what was before is not in it (compacted, or the server was not there yet)"
    return (told,)


def _shown(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _created(session: Session) -> datetime:
    created = session.metadata.creation_timestamp
    if created is None:
        raise errors.Invalid(f"{session.key} has no creation time")
    return created


def _session(
    event: Event, new: Session, at: float, people: dict[Key, _Person], tally: Tally | None
) -> None:
    """Note what people did between two events of a session; no tally after the period."""
    if event.type == "DELETED":
        return
    if tally is not None:
        tally.session(new, at)
    person = people.get(new.key)
    if person is None or person.first.metadata.uid != new.metadata.uid:
        people[new.key] = _Person(new, new)
        return
    old, person.last = person.last, new
    if new.spec.cancel is not None and old.spec.cancel is None:
        person.acts.append(Act(at, "cancel"))
    elif new.deleting and not old.deleting:
        person.acts.append(Act(at, "delete"))
    before, after = old.status.end or old.spec.slot.end, new.spec.slot.end
    if after is not None and after != old.spec.slot.end and before is not None:
        longer = (after - before).total_seconds()
        if longer > 0:
            person.acts.append(Act(at, "extend", longer))


def _wish(person: _Person, tally: Tally) -> PlannedSession:
    spec = person.first.spec
    start, end = spec.slot.start, spec.slot.end
    return PlannedSession(
        tally.seconds(_created(person.first)),
        spec.definition,
        spec.owner,
        person.first.name,
        None if start is None else tally.seconds(start),
        None if end is None else tally.seconds(end),
        spec.track,
        spec.priority,
        tuple(person.acts),
    )

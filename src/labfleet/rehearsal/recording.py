"""A period of a real server, read from its event log: its fleet, its demand, what came of it.

Reads, never writes. Sessions that were asked for in the period become wishes with everything
that people did to them; the fleet is as it was at the beginning, or when it was made. What
stood or ran before the period is not played.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from labfleet.interfaces.store import Event
from labfleet.kernel import errors
from labfleet.rehearsal.demand import Act, Crowd, Wish, ordered
from labfleet.rehearsal.plan import spec_of
from labfleet.rehearsal.tally import Tally
from labfleet.resources import kinds
from labfleet.resources.meta import Key
from labfleet.resources.session import Session

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


def read(events: Iterable[Event], begin: datetime | None, end: datetime | None) -> Recording:
    """Return the recording of begin..end; Invalid when nothing happened in it."""
    fleet: dict[tuple[str, str], dict[str, Any]] = {}
    people: dict[Key, _Person] = {}
    tally: Tally | None = None
    newest = begin
    for event in events:
        if end is not None and event.at >= end and event.key.kind != "Session":
            continue
        newest = event.at if newest is None or event.at > newest else newest
        tally = tally or Tally(begin or event.at)
        at = tally.seconds(event.at)
        obj: Any = kinds.decode(event.key.kind, event.doc, event.revision)
        if event.key.kind in FLEET and (at <= 0 or (event.key.kind, obj.name) not in fleet):
            if event.type != "DELETED" and not obj.deleting:
                fleet[event.key.kind, obj.name] = spec_of(obj)
        elif event.key.kind == "Session":
            _session(event, obj, at, people, tally)
        elif event.key.kind == "Worker":
            if event.type == "DELETED":
                tally.worker_gone(obj.metadata.uid, at)
            else:
                tally.worker(obj, at)
    if tally is None or newest is None:
        raise errors.Invalid("the recording is empty", reason="NoEvents")
    end = end or newest
    seconds = tally.seconds(end)
    wishes = [
        _wish(person, tally)
        for person in people.values()
        if 0 <= tally.seconds(_created(person.first)) < seconds
    ]
    return Recording(tally.origin, end, fleet, Crowd(ordered(wishes), seconds), tally)


def _created(session: Session) -> datetime:
    created = session.metadata.creation_timestamp
    if created is None:
        raise errors.Invalid(f"{session.key} has no creation time")
    return created


def _session(
    event: Event, new: Session, at: float, people: dict[Key, _Person], tally: Tally
) -> None:
    """Note what people did between two events of a session."""
    if event.type == "DELETED":
        return
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


def _wish(person: _Person, tally: Tally) -> Wish:
    spec = person.first.spec
    start, end = spec.slot.start, spec.slot.end
    return Wish(
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

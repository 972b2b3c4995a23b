"""The seats of a group as sessions: how they are made, named, found again and counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from labfleet.kernel import errors, ids
from labfleet.resources.definition import Definition
from labfleet.resources.group import (
    LABEL,
    SEATS_LIMIT,
    Group,
    GroupSpec,
    Seat,
    SeatCounts,
    lasting,
    seats_of,
    spare_names,
)
from labfleet.resources.learned_demand import LearnedDemand
from labfleet.resources.meta import Metadata
from labfleet.resources.session import (
    TERMINAL,
    Session,
    SessionPhase,
    SessionSeat,
    SessionSpec,
    SessionStatus,
    Slot,
)
from labfleet.service.core import intake
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, session_rules, session_times

_PLAIN = re.compile(r"\d{1,4}|spare-\d{1,3}")
_PHASES = {
    SessionPhase.PENDING: "waiting",
    SessionPhase.SCHEDULED: "waiting",
    SessionPhase.INSTANTIATING: "starting",
    SessionPhase.READY: "ready",
    SessionPhase.RUNNING: "running",
    SessionPhase.COLLECTING: "ending",
    SessionPhase.STOPPING: "ending",
    SessionPhase.COMPLETED: "ended",
    SessionPhase.CANCELLED: "ended",
    SessionPhase.FAILED: "failed",
    SessionPhase.EXPIRED: "failed",
}
_BEGUN = frozenset({"running", "ending", "ended"})


def checked(spec: GroupSpec) -> list[Seat]:
    """Return all seats of a group; Invalid names every seat that cannot be."""
    seats = seats_of(spec)
    problems = list(_wrong(spec, seats))
    if problems:
        raise intake.invalid(*problems)
    return seats


def _wrong(spec: GroupSpec, seats: list[Seat]) -> Iterator[tuple[str, str]]:
    if spec.slot.start is None:
        yield "spec.slot.start", "a group is booked for a time; say when it starts"
    if not seats:
        yield "spec.size", "say how many seats there are, or name them in seats"
    spares = spare_names(spec)
    given = sum(each.name not in spares for each in spec.seats)
    if spec.size is not None and spec.size < given:
        yield "spec.size", f"is less than the {given} seats that are named"
    if len(seats) > SEATS_LIMIT:
        yield "spec.size", f"at most {SEATS_LIMIT} seats at once, not {len(seats)}: book two groups"
    names, people = dict[str, int](), dict[str, int]()
    for number, seat in enumerate(seats):
        where = f"spec.seats[{number}]"
        for field, text, known in (("name", seat.name, names), ("person", seat.person, people)):
            if text != text.strip() or not text.isprintable():
                what = "must not begin or end with a space, nor hold control characters"
                yield f"{where}.{field}", what
            if text and known.setdefault(text, number) != number:
                yield f"{where}.{field}", f"{text!r} is given to seat {known[text]} of the list too"


def sessions(
    services: ServiceContext,
    group: Group,
    seats: Iterable[Seat],
    definition: Definition,
    demand: LearnedDemand | None = None,
) -> list[Session]:
    """Return the sessions of new seats, named and with their slots, without claims.

    Invalid for a slot that cannot be, naming the seats whose factor makes it too long.
    """
    slot, now = group.spec.slot, services.clock.now()
    asked = SessionSpec(definition=group.spec.definition, slot=slot)
    start, end = session_times.resolved(asked, definition, now)
    made, taken, problems = list[Session](), set[str](), list[tuple[str, str]]()
    for seat in seats:
        last = start + lasting(end - start, seat.factor)
        try:
            session_times.longest(definition, start, last, f"seat {seat.name}: factor")
        except errors.Invalid as error:
            problems += error.problems
            continue
        name = _free(services, group, seat.name, taken)
        taken.add(name)
        new = Session(
            metadata=_metadata(services, group, name, now),
            spec=SessionSpec(
                definition=group.spec.definition,
                owner=seat.person,
                slot=Slot(start=start, end=last, zone=slot.zone),
                track=group.spec.track,
                time_factor=seat.factor,
            ),
            status=SessionStatus(
                seat=SessionSeat(
                    group=group.name,
                    uid=group.metadata.uid,
                    seat=seat.name,
                    booked_by=group.spec.owner,
                )
            ),
        )
        made.append(session_rules.pinned(new, definition, now, demand))
    if problems:
        raise intake.invalid(*problems, reason="TooLong")
    return made


def with_people(spec: GroupSpec, people: Mapping[str, Seat]) -> GroupSpec:
    """Return a group's spec with other people on some of its seats, chosen by the seats' names."""
    names = [each.name for each in seats_of(spec)]
    known = [
        msgspec.structs.replace(seat, person=people[name].person, email=people[name].email)
        if name in people
        else seat
        for name, seat in zip(names, spec.seats, strict=False)
    ]
    further = [
        Seat(name=name, person=people[name].person, email=people[name].email)
        for name in names[len(spec.seats) :]
        if name in people
    ]
    return msgspec.structs.replace(spec, seats=(*known, *further))


def _metadata(services: ServiceContext, group: Group, name: str, now: datetime) -> Metadata:
    return Metadata(
        name=name,
        namespace=group.namespace,
        uid=services.ids.uid(),
        labels={**group.metadata.labels, LABEL: group.name},
        generation=1,
        creation_timestamp=now,
    )


def name_of(group: str, seat: str) -> str:
    """Return the name of a seat's session: `exam-007`, and for any other text a name with a hash.

    `a` with seat `b-c` and `a-b` with seat `c` stay two names (facts/fleet-bugs.md#t26).
    """
    plain = f"{group}-{seat}"
    return plain if _PLAIN.fullmatch(seat) and ids.is_name(plain) else ids.slug(f"{group}/{seat}")


def _free(services: ServiceContext, group: Group, seat: str, taken: set[str]) -> str:
    """Return a name that no session has: an earlier group of this name may have left some."""
    name = name_of(group.name, seat)
    if name in taken or services.cache.get(Session, name, group.namespace) is not None:
        tail = services.ids.uid().replace("-", "")[-12:]
        name = f"{name[: ids.NAME_LIMIT - len(tail) - 1].rstrip('-')}-{tail}"
    return name


def of(services: ServiceContext, group: Group) -> list[Session]:
    """Return the sessions of a group as the cache has them: of each seat the last attempt."""
    found = services.cache.by(indices.SESSIONS_OF_GROUP, group.metadata.uid)
    return [each for each in found if each.status.retried_as is None]


def name_in(session: Session) -> str:
    """Return the name of the seat that a session is; of one that is none its own."""
    seat = session.status.seat
    return session.name if seat is None else seat.seat


def is_open(session: Session) -> bool:
    """Tell whether a seat may still be used: it is neither over nor about to be."""
    ending = session.spec.cancel is not None or session.deleting
    return not ending and _PHASES[session.status.phase] not in {"ending", "ended", "failed"}


def counts(services: ServiceContext, group: Group) -> SeatCounts:
    """Return how the seats of a group stand now."""
    now, found, late = services.clock.now(), dict[str, int](), 0
    for each in of(services, group):
        word = _PHASES[each.status.phase]
        found[word] = found.get(word, 0) + 1
        begun = each.status.start is not None and each.status.start <= now
        late += begun and each.status.phase not in TERMINAL and word not in _BEGUN
    return SeatCounts(**found, late=late)

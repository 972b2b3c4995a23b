"""Group: the seats of one class or exam, booked together by one person.

Each seat is a session of its own. What a seat's session does is read there; a group keeps which
sessions are its seats.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec

from labfleet.resources.declaration import Kind, columns, filters
from labfleet.resources.definition import Family
from labfleet.resources.meta import Record, Resource
from labfleet.resources.session import FACTOR_LIMIT, Slot

SEATS_LIMIT = 500
"""Seats of one group, spare ones included: they are booked in one commit."""
LABEL = "labfleet.dev/group"
"""Label of the sessions that are seats, with the group's name, to choose them by."""
_TEXT_LIMIT = 256 * 1024
_MINUTE = timedelta(minutes=1)


class Seat(Record, frozen=True, kw_only=True):
    """One seat that differs from the others: it has a name or a person of its own.

    name: Name of the seat; empty means the lowest number that no other seat has, such as 007. The
    name of a spare seat, such as spare-1, means that one.
    person: Who sits there, by the name that their token carries; empty while nobody is named.
    email: Address of that person; only who booked the group and operators read it.
    factor: How many times the group's length the seat lasts, for people who get more time; it may
    be changed later.
    """

    name: Annotated[str, msgspec.Meta(max_length=64)] = ""
    person: Annotated[str, msgspec.Meta(max_length=256)] = ""
    email: Annotated[str, msgspec.Meta(max_length=254)] = ""
    factor: Annotated[float, msgspec.Meta(ge=1, le=FACTOR_LIMIT)] = 1.0


class GroupSpec(Record, frozen=True, kw_only=True):
    """What is booked. Later the end (for all seats), who sits where, and seats' factors may change.

    definition: Name of the definition whose lab each seat runs; left out where a family is named.
    family: Family of definitions, whose newest version that is not deprecated becomes the definition
    when the seats are booked; null where the definition is named.
    owner: Who booked it: sees, extends and ends the seats, whoever sits there; a user's own name
    unless an operator says another.
    slot: From when to when all seats run; it needs a start. What was moved, extended or shortened
    since stands in the status.
    track: Lab track whose workers may host it; null means the definition's.
    seats: Seats with a name or a person of their own.
    size: How many seats there are, those of `seats` included; null means as many as these.
    spare: How many seats there are beyond these, for whoever comes unannounced.
    when_full: What becomes of a group that does not fit: all of it is refused, or as many seats as
    fit are booked, in their order.
    description: What it is for, for people.
    """

    definition: Annotated[str, msgspec.Meta(max_length=256)] = ""
    owner: Annotated[str, msgspec.Meta(max_length=256)] = ""
    slot: Slot = Slot()
    track: str | None = None
    seats: Annotated[tuple[Seat, ...], msgspec.Meta(max_length=SEATS_LIMIT)] = ()
    size: Annotated[int, msgspec.Meta(ge=1, le=SEATS_LIMIT)] | None = None
    spare: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    when_full: Literal["refuse", "some"] = "refuse"
    description: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    family: Family | None = None


class BookedSeat(Record, frozen=True, kw_only=True, gc=False):
    """Which session a seat is.

    name: Name of the seat.
    session: Name of its session; null when there was no room for the seat.
    """

    name: str
    session: str | None = None


class SeatCounts(Record, frozen=True, kw_only=True):
    """How the seats of a group stand, by their sessions; of one that was tried again, the last try.

    waiting: Booked, and not begun.
    starting: Their labs are being started.
    ready: Up, before the slot begins.
    running: In use.
    ending: Being stopped.
    ended: Over, by the end of the slot or because somebody ended them.
    failed: Failed, or never started.
    late: Of those above, not running although the slot has begun.
    """

    waiting: int = 0
    starting: int = 0
    ready: int = 0
    running: int = 0
    ending: int = 0
    ended: int = 0
    failed: int = 0
    late: int = 0


class SeatTimes(Record, frozen=True, kw_only=True):
    """From when to when the seats of a group are, those with times of their own included.

    first_start: When the first of them begins; null when none has a start.
    last_end: When the last of them ends; null when none has an end.
    differ: How many that may still be used begin or end otherwise than the group says: somebody
    changed them alone.
    """

    first_start: datetime | None = None
    last_end: datetime | None = None
    differ: int = 0


class SeatsChanged(Record, frozen=True, kw_only=True):
    """Seats whose times one change of their group changed alike.

    seats: Their names.
    start_before: When they began before it; null when they had no start.
    end_before: When they ended before it.
    start: When they begin since; null when they have no start.
    end: When they end since.
    """

    seats: tuple[str, ...]
    start_before: datetime | None = None
    end_before: datetime
    start: datetime | None = None
    end: datetime


class GroupStatus(Record, frozen=True, kw_only=True):
    """What was booked, and how the seats stand.

    start: When its seats begin, as it was asked for last for all of them.
    end: When they end, as it was asked for last for all of them; with a factor, later.
    asked: How many seats were asked for.
    booked: How many of them got a session.
    seats: Which session each seat is.
    counts: How the seats stand; counted when it is read, null where nobody has, as in a stream.
    message: Sentence for people on what was booked.
    changes: Which seats' times its last change changed; in a dry run, which it would.
    times: From when to when its seats are; worked out when it is read, null where nobody has.
    """

    start: datetime | None = None
    end: datetime | None = None
    asked: int = 0
    booked: int = 0
    seats: tuple[BookedSeat, ...] = ()
    counts: SeatCounts | None = None
    message: str = ""
    changes: tuple[SeatsChanged, ...] = ()
    times: SeatTimes | None = None


class Group(Resource, frozen=True, kw_only=True):
    """The seats of one class or exam, booked together by one person."""

    spec: GroupSpec
    status: GroupStatus = GroupStatus()
    kind: str = "Group"


def lasting(span: timedelta, factor: float) -> timedelta:
    """Return how long a seat with a factor lasts where the others last a span.

    In whole minutes, rounded up; without a factor it is the span.
    """
    return span if factor <= 1 else -(-(span * factor) // _MINUTE) * _MINUTE


def seats_of(spec: GroupSpec) -> list[Seat]:
    """Return all seats with their names: those of `seats`, numbered ones, then the spare ones.

    One of `seats` that is named as a spare one, such as spare-1, is that one, with somebody on it.
    A name that is given twice is there twice; whoever books refuses it.
    """
    named = {each.name for each in spec.seats if each.name}
    numbers = _numbers(named)
    made = [each if each.name else _named(each, next(numbers)) for each in spec.seats]
    spares = spare_names(spec)
    more = max(0, (spec.size or 0) - len(spec.seats) + len(named.intersection(spares)))
    made += [Seat(name=next(numbers)) for _ in range(more)]
    return made + [Seat(name=each) for each in spares if each not in named]


def spare_names(spec: GroupSpec) -> list[str]:
    """Return the names of a group's spare seats."""
    return [f"spare-{number}" for number in range(1, spec.spare + 1)]


def _numbers(taken: set[str]) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        if f"{number:03d}" not in taken:
            yield f"{number:03d}"


def _named(seat: Seat, name: str) -> Seat:
    return msgspec.structs.replace(seat, name=name)


KIND = Kind(
    name="Group",
    plural="groups",
    short=("grp", "class"),
    type=Group,
    summary="The seats of one class or exam, booked together by one person.",
    columns=columns(
        "DEFINITION=spec.definition",
        "OWNER=spec.owner",
        "START=status.start",
        "END=status.end*",
        "ASKED=status.asked",
        "BOOKED=status.booked",
        "RUNNING=status.counts.running*",
        "FAILED=status.counts.failed*",
        "LATE=status.counts.late*",
        "DIFFER=status.times.differ*",
        "MESSAGE=status.message*",
    ),
    filters=filters("owner=spec.owner", "definition=spec.definition"),
    frozen=("definition", "family", "owner", "track", "size", "spare", "when_full"),
    partial=("slot",),
    text_limit=_TEXT_LIMIT,
    named_by="definition",
    navigable=True,
    derived=("status.counts", "status.times"),
)

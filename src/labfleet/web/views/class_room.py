"""The data of the pages of classes: a grid of seats for whoever teaches, and the classes ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from labfleet.kernel import errors
from labfleet.resources import zones
from labfleet.resources.group import Group, SeatCounts
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.session import TERMINAL, Session
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import classes
from labfleet.service.reads.classes import ClassNow, SeatNow
from labfleet.web import seat_acts, seat_words, values, words
from labfleet.web.acts import table
from labfleet.web.acts.act import Offer
from labfleet.web.seat_acts import SeatAct
from labfleet.web.seat_words import Left
from labfleet.web.values import Cell
from labfleet.web.view import Asked
from labfleet.web.ways_in import Reached, reached

ROOT = "/class"
CONSOLES = 2
"""Ways into one lab that its seat shows; its page lists all."""
_ON_SEATS = frozenset({"extend", "check-in", "retry"})
_NO_SEAT = Cell("absent", "no room")


@dataclass(frozen=True, slots=True)
class SeatTile:
    """One seat as it is shown; `href` is "" when it has no session."""

    name: str
    person: str
    href: str
    session: str
    state: Cell
    left: Left | None
    late: bool
    came: Cell | None
    absent: bool
    ends: str
    reached: Reached
    acts: tuple[SeatAct, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the seats: its word, how many they are, and its address; the open one has none."""

    title: str
    many: int
    href: str


@dataclass(frozen=True, slots=True)
class ClassRoom:
    """The page of one class."""

    name: str
    namespace: str
    address: str
    title: str
    description: str
    when: str
    now: str
    counts: SeatCounts
    parts: tuple[Part, ...]
    seats: tuple[SeatTile, ...]
    listed: tuple[SeatTile, ...]
    acts: tuple[Offer, ...]
    course: tuple[str, str]
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One class in the list: name and page, when, what, and how its seats stand."""

    name: str
    href: str
    group: str
    when: str
    definition: str
    owner: str
    booked: str
    counts: SeatCounts
    state: Cell


@dataclass(frozen=True, slots=True)
class ClassList:
    """The classes that are not over."""

    rows: tuple[ClassRow, ...]
    left_out: int
    booking: tuple[Offer, ...] = ()


def address(group: Group) -> str:
    """Return the page of a class."""
    return values.address(ROOT.strip("/"), group.name, group.namespace)


async def listed(services: ServiceContext, caller: Caller, _asked: Asked) -> ClassList:
    """Return the classes of the caller that are not over."""
    found, now = await classes.ahead(services, caller), services.clock.now()
    rows = tuple(_class(each, now) for each in found.groups)
    return ClassList(rows, found.left_out, table.of_kind(caller, Group.__name__))


def _class(group: Group, now: datetime) -> ClassRow:
    status, slot = group.status, group.spec.slot
    begun = status.start is not None and status.start <= now
    state = ("now", "good", "●") if begun else ("ahead", "calm", "○")
    return ClassRow(
        name=group.name,
        href=address(group),
        group=values.address("groups", group.name, group.namespace),
        when=zones.span(status.start, status.end, slot.zone),
        definition=group.spec.definition,
        owner=group.spec.owner,
        booked=f"{status.booked} of {status.asked}",
        counts=status.counts or SeatCounts(),
        state=Cell("state", state[0], tone=state[1], shape=state[2]),
    )


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> ClassRoom:
    """Return the page of the class at this address; Gone when it is not for the caller to see."""
    namespace = asked.last("namespace", DEFAULT_NAMESPACE)
    found, now = await classes.read(services, caller, asked.name, namespace), services.clock.now()
    tiles = [_tile(caller.principal, found, each, now) for each in found.seats]
    chosen = asked.last("show", "all")
    kept = _PARTS.get(chosen)
    if kept is None:
        raise errors.Invalid(f"There is no such part of a class; there are {', '.join(_PARTS)}.")
    rows, first = [each for each in tiles if kept[1](each)], _first(asked.last("page", "1"))
    group, home = found.group, address(found.group)
    definition, course = found.definition, found.course
    number, last = first // words.ROWS + 1, first + words.ROWS
    return ClassRoom(
        name=group.name,
        namespace=group.namespace,
        address=home,
        title=group.spec.definition if definition is None else definition.spec.title
        or definition.name,
        description=group.spec.description,
        when=zones.span(group.status.start, group.status.end, group.spec.slot.zone),
        now=zones.both(now, group.spec.slot.zone),
        counts=found.counts,
        parts=tuple(
            Part(title, sum(map(fits, tiles)), "" if name == chosen else _at(home, name))
            for name, (title, fits) in _PARTS.items()
        ),
        seats=tuple(rows[first:last]),
        listed=tuple(tiles),
        acts=table.offered(services, caller, group),
        course=("", "") if course is None else (
            course.name, values.address("courses", course.name, course.namespace)
        ),
        before=_at(home, chosen, number - 1) if number > 1 else "",
        after=_at(home, chosen, number + 1) if last < len(rows) else "",
    )  # fmt: skip


def _first(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 3 or int(text) < 1:
        raise errors.Invalid("There is no such page: give its number, from 1.")
    return (int(text) - 1) * words.ROWS


def _at(home: str, part: str, number: int = 1) -> str:
    asked = {} if part == "all" else {"show": part}
    asked |= {} if number == 1 else {"page": str(number)}
    if not asked:
        return home
    return f"{home}{'&' if '?' in home else '?'}{urlencode(asked)}"


def _tile(who: Principal, room: ClassNow, seat: SeatNow, now: datetime) -> SeatTile:
    session = seat.session
    if session is None:
        return SeatTile(
            seat.name, seat.person, "", "", _NO_SEAT, None, False, None, False, "", Reached(), ()
        )
    status = session.status
    came = None if status.checked_in_at is None else values.instant(status.checked_in_at, now)
    end = status.end or session.spec.slot.end
    offered = seat_acts.of(who, session, room.definition, now)
    return SeatTile(
        name=seat.name,
        person=seat.person,
        href=values.address("sessions", session.name, session.namespace, session.metadata.uid),
        session=session.name,
        state=seat_words.standing(session, now),
        left=seat_words.left(session, room.definition, now),
        late=seat_words.is_late(session, now),
        came=came,
        absent=_absent(session, now),
        ends="" if end is None else zones.both(end, session.spec.slot.zone),
        reached=reached(status.access, CONSOLES),
        acts=tuple(each for each in offered if each.verb in _ON_SEATS),
    )


def _absent(session: Session, now: datetime) -> bool:
    """Tell whether its person should be there, and nobody has said that they are."""
    start = session.status.start or session.spec.slot.start
    begun = start is not None and start <= now
    return begun and session.status.phase not in TERMINAL and session.status.checked_in_at is None


_PARTS: dict[str, tuple[str, Callable[[SeatTile], bool]]] = {
    "all": ("All", lambda _tile: True),
    "late": ("Late", lambda tile: tile.late),
    "absent": ("Not checked in", lambda tile: tile.absent),
    "running": ("Running", lambda tile: tile.left is not None),
    "failed": ("Failed", lambda tile: tile.state.tone == "bad"),
}
"""Which seats a class is shown by, by the value of `show` in its address."""

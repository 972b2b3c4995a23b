"""The data of an object's own page: state, reason, decision, conditions, ports, history.

For a deleted object it is made from the history. Reads what `explain` recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from urllib.parse import quote
from zoneinfo import ZoneInfo

from labfleet.decisions import wording
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import paths
from labfleet.resources.decision import Verdict
from labfleet.resources.group import Group
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker
from labfleet.service.core import access, lookup, views
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import group_seats, session_kept, session_told
from labfleet.service.kinds.pool_leads import Leads
from labfleet.service.reads import classes, explain, notices
from labfleet.service.reads.explain import Explanation
from labfleet.service.verbs import objects
from labfleet.web import (
    charts,
    course_dates,
    life_line,
    overview,
    panel_table,
    seat_words,
    values,
    words,
)
from labfleet.web.acts import table
from labfleet.web.acts.act import Offer
from labfleet.web.charts import Used
from labfleet.web.course_dates import DateRow
from labfleet.web.life_line import Step
from labfleet.web.overview import RecentEvent, Table
from labfleet.web.panel_table import Opened
from labfleet.web.seat_words import Left
from labfleet.web.values import Cell
from labfleet.web.view import Asked

FEW = 10
"""So many of its newest events stand on an object's first tab; the tab of events has all."""
_CALENDAR = "/api/v1/calendar.ics"


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything on an object's page; `found` is None for a deleted object."""

    kind: str
    plural: str
    name: str
    namespace: str
    found: Explanation | None
    state: Cell | None
    since: Cell | None
    deadline: Cell | None
    advice: str
    starts: str
    facts: tuple[tuple[str, Cell], ...]
    verdicts: tuple[tuple[Verdict, str], ...]
    sessions: Table | None
    events: tuple[RecentEvent, ...]
    all_events: str
    """Where all its events are, when there are more than stand here."""
    times: Mapping[str, Cell]
    used: Used | None = None
    told: tuple[tuple[Cell, str], ...] = ()
    """What its owner was told, and when; the newest first."""
    bad: frozenset[tuple[str, str]] = frozenset()
    """Conditions and the status of each with which it asks for somebody."""
    commands: tuple[str, ...] = ()
    """Commands of the CLI that do more with it, without its name."""
    other: str = ""
    """The page of the object that has the name now, when another one was asked for."""
    opened: Opened = Opened()
    """Its tabs, and what the open one shows."""
    life: tuple[Step, ...] = ()
    """The steps of a session's life."""
    left: Left | None = None
    """How long a session still lasts, while its lab is up."""
    dates: tuple[DateRow, ...] = ()
    """The dates of a course."""
    acts: tuple[Offer, ...] = ()
    """What its reader may do with it."""


async def detail(
    services: ServiceContext, caller: Caller, row: Kind, name: str, asked: Asked
) -> Detail:
    """Return an object's page; Gone when nothing is known of it, Denied when it is not for you.

    With `uid` in the query it is that object's page, also when another one has its name now. With
    `tab` it is open at that tab.
    """
    namespace, uid = asked.last("namespace", "default"), asked.last("uid")
    now = services.clock.now()
    try:
        found = await explain.explain(services, caller, row, name, namespace)
        obj: Resource | None = await lookup.found(services, caller, row.type, name, namespace)
    except errors.Gone:
        found, obj = None, None
    if obj is not None:
        show = TABLE[row.name].shown
        obj = views.of(services, caller.principal, obj if show is None else show(services, obj))
    real = name if obj is None else obj.name
    past = await _past(services, caller, row, real, namespace, gone=obj is None)
    meant = uid or ("" if obj is None else obj.metadata.uid)
    other = ""
    if obj is not None and obj.metadata.uid != meant:
        other, obj, found = values.address(row.plural, real, namespace), None, None
    address = values.address(row.plural, real, namespace, uid)
    happened = overview.recent_events(past[::-1], caller, now, only=meant)
    tabs = Opened()
    if obj is not None:
        tabs = await panel_table.opened(services, caller, obj, asked, address)
    deadline = None if found is None else found.next_deadline
    return Detail(
        kind=row.name,
        plural=row.plural,
        name=real,
        namespace=namespace,
        found=found,
        state=_state(row, found),
        since=None if found is None or found.since is None else values.instant(found.since, now),
        deadline=None if deadline is None else values.instant(deadline.at, now),
        advice=_advice(found),
        starts=""
        if found is None or found.expected is None
        else session_told.words(found.expected),
        facts=() if obj is None else _facts(services, caller, row, obj),
        verdicts=_verdicts(found),
        sessions=_sessions(services, caller, obj),
        # Those of another object of this name are not its history.
        events=happened[:FEW] if tabs.tabs else happened,
        all_events=_href(tabs, "Events") if len(happened) > FEW else "",
        times=_times(found, now),
        # A session has a tab for it.
        used=None if isinstance(obj, Session) else await charts.of(services, obj),
        told=_told(past, meant, now),
        bad=frozenset((str(name), str(status)) for name, status in row.news),
        commands=_commands(obj),
        other=other,
        opened=tabs,
        life=_life(services, obj, past, now),
        left=seat_words.left(obj, None, now) if isinstance(obj, Session) else None,
        dates=course_dates.of(obj),
        acts=() if obj is None else table.offered(services, caller, obj),
    )  # fmt: skip


def _href(opened: Opened, title: str) -> str:
    """Return the address of a tab; "" for the open one, and where there is none."""
    return next((each.href for each in opened.tabs if each.title == title), "")


def _verdicts(found: Explanation | None) -> tuple[tuple[Verdict, str], ...]:
    """Return what was looked at for it, each with what it was short of in words."""
    if found is None or found.decision is None:
        return ()
    return tuple((each, wording.short(each.shortages)) for each in found.decision.candidates)


async def _past(
    services: ServiceContext, caller: Caller, row: Kind, name: str, namespace: str, *, gone: bool
) -> tuple[stores.Event, ...]:
    try:
        return await objects.events(services, caller, row, name, namespace, limit=words.LOOKED)
    except errors.Gone:
        if gone:
            raise
        return ()


def _told(past: tuple[stores.Event, ...], uid: str, now: datetime) -> tuple[tuple[Cell, str], ...]:
    """Return what the owner of the object with that uid was told, the newest first."""
    newest = notices.told(past[::-1], uid=uid)[::-1][: words.EVENTS]
    return tuple((values.instant(each.at, now), each.notice.subject) for each in newest)


def _times(found: Explanation | None, now: datetime) -> dict[str, Cell]:
    """Return since when each condition is as it is."""
    known = () if found is None else found.conditions
    return {each.type: values.instant(each.last_transition_time, now) for each in known}


def _life(
    services: ServiceContext, obj: Resource | None, past: tuple[stores.Event, ...], now: datetime
) -> tuple[Step, ...]:
    if not isinstance(obj, Session):
        return ()
    looked_for = Leads(services.cache).looked_for(obj)
    phases = life_line.entered(past[::-1], obj.metadata.uid)
    return life_line.of(obj, phases, looked_for, now)


def _state(row: Kind, found: Explanation | None) -> Cell | None:
    if found is None:
        return Cell("state", "gone", tone="calm", shape="■")
    return None if found.phase is None else values.state(row.name, found.phase)


def _advice(found: Explanation | None) -> str:
    """Return what helps when its phase lasts; "" when it may last."""
    if found is None or found.runbook is None:
        return ""
    return found.runbook.fix.replace("NAME", Key("", found.namespace, found.name).argument)


def _facts(
    services: ServiceContext, caller: Caller, row: Kind, obj: Resource
) -> tuple[tuple[str, Cell], ...]:
    """Return the columns of the tables, and those that the CLI shows in wide output."""
    now, held = services.clock.now(), overview.uses(services, row.name)
    section = words.section(row.name)
    shown = [] if section is None else [
        column for column in section.columns
        if column.show not in {"name", "state"} and column.title not in {"Why", "What it does"}
    ]  # fmt: skip
    readable = overview.readable(caller.principal)
    facts = [(column.title, values.cell(column, obj, now, held, readable)) for column in shown]
    # A column of several paths shows the first that is known, so none of them is shown again.
    taken = {path for column in shown for path in column.path.split("|")}
    taken |= {"status.phase", "status.message"}
    for each in row.columns:
        derived = each.path.startswith(row.derived) if row.derived else False
        if not derived and each.path not in taken:
            getter = paths.getter(type(obj), each.path)
            value = None if getter is None else getter(obj)
            if value in ("", ()):
                continue
            title = words.label(each.title)
            if each.path == "status.seat.group" and value:
                facts.append((title, _group(services, caller, obj, str(value))))
                continue
            text = _absent(each.path) if value is None else (
                values.sized(each.path.split("|")[0], value) or Cell("text", _plain(value))
            )  # fmt: skip
            if each.path == "spec.definition" and value and "definitions" in readable:
                href = values.address("definitions", value, obj.metadata.namespace)
                text = Cell("link", str(value), href=href)
            facts.append(
                (title, values.instant(value, now) if isinstance(value, datetime) else text)
            )
    if isinstance(obj, Session):
        facts.append(("Slot", Cell("text", _slot(obj))))
        facts.append(("Calendar", Cell("link", "my sessions as a file", href=_CALENDAR)))
        facts += _reached(obj)
        facts += _kept(caller, obj, now)
        facts += _attempts(obj)
    if isinstance(obj, Group):
        facts += _class(services, caller, obj)
    created = obj.metadata.creation_timestamp
    if created is not None:
        facts.append(("Created", values.instant(created, now)))
    return tuple(facts)


def _group(services: ServiceContext, caller: Caller, obj: Resource, name: str) -> Cell:
    """Return the group of a seat; a link for those who may see it."""
    group = services.cache.get(Group, name, obj.metadata.namespace)
    if group is None or not access.sees(caller.principal, group):
        return Cell("text", name)
    return Cell("link", name, href=values.address("groups", name, obj.metadata.namespace))


def _class(services: ServiceContext, caller: Caller, obj: Group) -> Iterator[tuple[str, Cell]]:
    """Yield the links to the page of the class, and to the course that it is a date of."""
    where = values.address("class", obj.name, obj.namespace)
    yield "Class", Cell("link", "its seats as a grid, and a list to print", href=where)
    course = classes.course_of(services, caller, obj)
    if course is not None:
        href = values.address("courses", course.name, course.namespace)
        yield "Course", Cell("link", course.name, href=href)


def _reached(obj: Session) -> list[tuple[str, Cell]]:
    """Return where the lab is reached, as far as it is shown; nothing while there is none."""
    found = obj.status.access
    if found is None:
        return []
    facts = [("Reached at", Cell("text", found.host or found.message))]
    if found.lab_url is not None:
        facts.append(("Lab", _link(found.lab_url)))
    if found.cml_url is not None:
        facts.append(("CML", _link(found.cml_url)))
    if found.lab_user is not None:
        asked = f"; its password: {found.lab_user.ask}" if found.lab_user.ask else ""
        facts.append(("Sign in to CML as", Cell("text", f"{found.lab_user.name}{asked}")))
    return facts


def _kept(caller: Caller, obj: Session, now: datetime) -> Iterator[tuple[str, Cell]]:
    """Yield the link to what is kept of the lab, to who may have it; nothing where none is."""
    work = obj.status.kept
    if work is None or work.at is None or work.until is None or now >= work.until:
        return
    mine = obj.spec.owner == caller.principal.name and work.readers == "owner"
    if mine or caller.principal.role in session_kept.ALL:
        where = f"/api/v1/sessions/{quote(obj.name)}/kept-lab?namespace={quote(obj.namespace)}"
        yield "Kept lab", Cell("link", "its YAML, with passwords if it has some", href=where)


def _link(url: str) -> Cell:
    """Return a URL to follow; only what a client opens is a link, an address of it is text."""
    opened = url.partition(":")[0] not in {"tcp", "udp"}
    return Cell("link", url, href=url) if opened else Cell("text", url)


def _absent(path: str) -> Cell:
    if path.startswith(("spec.", "status.seat.")):
        return Cell("absent", "none")
    if path == "status.start":
        # A start is decided here, not observed; a session that never ran has none.
        return Cell("absent", "not set")
    if path == "status.kept.until":
        return Cell("absent", "nothing is kept")
    return Cell("unknown", "unknown", why="not seen yet")


def _slot(obj: Session) -> str:
    """Return from when to when in the slot's own zone, and say which zone that is."""
    wanted, status = obj.spec.slot, obj.status
    try:
        zone: tzinfo = ZoneInfo(wanted.zone)
    except (KeyError, ValueError, OSError):
        zone = UTC
    start, end = status.start or wanted.start, status.end or wanted.end
    shown = [
        word if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M}"
        for at, word in ((start, "as soon as it can"), (end, "its definition's length"))
    ]
    return f"{' to '.join(shown)} ({zone})"


def _attempts(obj: Session) -> Iterator[tuple[str, Cell]]:
    """Yield links to the attempt before a session and to the one after it."""
    attempts = (("Tries again", obj.status.retry_of), ("Tried again as", obj.status.retried_as))
    for title, other in attempts:
        if other is not None:
            page = values.address("sessions", other.name, obj.namespace, other.uid)
            yield title, Cell("link", other.name, href=page)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(str(each) for each in value)
    return str(value)


def _commands(obj: Resource | None) -> tuple[str, ...]:
    """Return what else a person may run for an object: pages only show."""
    if isinstance(obj, Worker) and obj.status.ports is not None:
        return ("ports",)
    if isinstance(obj, Session) and obj.status.phase is SessionPhase.RUNNING:
        return ("observe",)
    return ()


def _sessions(services: ServiceContext, caller: Caller, obj: Resource | None) -> Table | None:
    """Return the sessions that are the seats of a group; None for another kind."""
    if not isinstance(obj, Group):
        return None
    seats = group_seats.of(services, obj)
    here = [each for each in seats if access.sees(caller.principal, each)]
    section = words.section("Session")
    assert section is not None  # noqa: S101 - sessions have a table, for the type checker
    now, readable = services.clock.now(), overview.readable(caller.principal)
    return overview.table(section, here, now, {}, readable)

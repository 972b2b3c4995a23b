"""The data of the page of one's own labs: what runs, what comes, what is over, and what to do.

Made for a telephone and for whoever sits at a lab: its words are those of `seat_words`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from labfleet.resources import conditions, zones
from labfleet.resources.session import Session, SessionAccess, SessionPhase
from labfleet.resources.session_conditions import SessionCondition
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import session_view
from labfleet.service.reads import own_labs
from labfleet.service.reads.own_labs import OwnLab
from labfleet.web import seat_acts, seat_words, values
from labfleet.web.acts import table
from labfleet.web.acts.act import Offer
from labfleet.web.seat_acts import SeatAct
from labfleet.web.seat_words import Left
from labfleet.web.values import Cell
from labfleet.web.view import Asked
from labfleet.web.ways_in import Reached, reached

ROOT = "/my-labs"
CONSOLES = 40
"""Ways into one lab that its card lists; its page lists all."""


@dataclass(frozen=True, slots=True)
class Card:
    """One lab: state, time, where to click, and what its person may do."""

    title: str
    name: str
    href: str
    state: Cell
    lines: tuple[str, ...]
    left: Left | None
    when: str
    reached: Reached
    acts: tuple[SeatAct, ...]


@dataclass(frozen=True, slots=True)
class MyLabs:
    """The page: cards under their headings, what is offered, and how much is left out."""

    sections: tuple[tuple[str, tuple[Card, ...]], ...]
    offered: tuple[Card, ...]
    older: int
    left_out: int
    empty: bool
    booking: tuple[Offer, ...]


async def page(services: ServiceContext, caller: Caller, _asked: Asked) -> MyLabs:
    """Return the page of the caller; Denied to machines."""
    found, now = await own_labs.read(services, caller), services.clock.now()
    who = caller.principal
    headed = (("Now", found.now), ("Next", found.next), ("Past", found.past))
    return MyLabs(
        sections=tuple(
            (title, tuple(_card(who, each, now) for each in labs)) for title, labs in headed if labs
        ),
        offered=tuple(_offered(each) for each in found.offered),
        older=found.older,
        left_out=found.left_out,
        empty=not (found.now or found.next or found.past),
        booking=table.of_kind(caller, Session.__name__),
    )


def _card(who: Principal, lab: OwnLab, now: datetime) -> Card:
    session = lab.session
    return Card(
        title=_title(lab),
        name=session.name,
        href=values.address("sessions", session.name, session.namespace, session.metadata.uid),
        state=seat_words.standing(session, now),
        lines=tuple(_lines(lab, now)),
        left=seat_words.left(session, lab.definition, now),
        when=_when(session),
        reached=_reached(session.status.access),
        acts=tuple(seat_acts.of(who, session, lab.definition, now)),
    )


def _reached(access: SessionAccess | None) -> Reached:
    """Return where a lab is reached; why it is not, in words of whoever sits there."""
    found = reached(access, CONSOLES)
    if access is None or not found.note:
        return found
    if access.message == session_view.HIDDEN:
        return replace(found, note="Whoever runs your class says where it is reached.")
    return replace(found, note="It cannot be reached just now; where it is stands here again soon.")


def _title(lab: OwnLab) -> str:
    definition = lab.definition
    return lab.session.spec.definition if definition is None else (
        definition.spec.title or definition.name
    )  # fmt: skip


def _when(session: Session) -> str:
    status, slot = session.status, session.spec.slot
    return zones.span(slot.start or status.start, slot.end or status.end, slot.zone)


def _lines(lab: OwnLab, now: datetime) -> list[str]:
    """Return what there is to say of a lab beside its state, the most pressing first."""
    session, told = lab.session, lab.told
    status, said = session.status, list[str]()
    if status.phase is SessionPhase.PENDING:
        said += _waiting(lab)
    if seat_words.is_late(session, now):
        said.append("It is late: its time has begun, and it does not run yet.")
    if lab.released is not None and lab.released > now:
        until = zones.both(lab.released, session.spec.slot.zone)
        said.append(f"Say that you are there by {until}; else it is given back.")
    if status.phase in seat_words.UP and lab.left:
        said.append(f"You may extend it {lab.left}.")
    if told is None:
        why = seat_words.ended(session)
        said += [f"{why[:1].upper()}{why[1:]}"] if why else []
        said += _kept(session, now)
    if status.offer is not None:
        said.append(f"You offer it to {status.offer.to}; it is yours until they take it.")
    if told is not None and status.seat is not None and status.seat.booked_by:
        said.append(f"{status.seat.booked_by} booked it; ask them for another time.")
    return said


def _waiting(lab: OwnLab) -> list[str]:
    """Return where it stands in the line, when it starts, and what would help its person."""
    session, told = lab.session, lab.told
    said = [seat_words.place(session)] if seat_words.place(session) else []
    fact = conditions.find(session.status.conditions, SessionCondition.PROMISE_SAFE)
    if fact is not None and fact.status == "False":
        said.append(
            "What was promised to it may not be there in time; those who look after it know."
        )
    if told is None:
        return said
    said += [f"Sooner: {each}." for each in told.earlier]
    if told.runbook is not None and session.status.outlook is not None:
        said.append(told.runbook.fix)
    return said


def _kept(session: Session, now: datetime) -> list[str]:
    work = session.status.kept
    if work is None or work.at is None or work.until is None or work.readers != "owner":
        return []
    if work.until <= now:
        return []
    return [f"Your work is kept until {zones.both(work.until, session.spec.slot.zone)}."]


def _offered(session: Session) -> Card:
    """Return the card of a lab that somebody offers: what their notice says, and no more."""
    offer = session.status.offer
    by = "" if offer is None else offer.by
    title = session.spec.definition
    return Card(
        title=title,
        name=session.name,
        href="",
        state=Cell("state", "offered to you", tone="wait", shape="○"),
        lines=(f"{by} offers it to you. It is yours once you take it.",),
        left=None,
        when=_when(session),
        reached=Reached(),
        acts=(seat_acts.taking(session),),
    )

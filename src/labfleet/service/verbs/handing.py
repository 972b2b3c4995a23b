"""Give a session, or a seat of a group, to another person: hand over, and take.

Whoever answers for a session gives it. A person offers their own, and it is the other's once they
take it: so nobody is made to answer for what others asked for. Operators give at once, and so does
whoever booked a group with its seats, which go on counting for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from labfleet.kernel import errors
from labfleet.resources.group import Group, Seat
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.session import Session, SessionSeat
from labfleet.service.core import access, intake, lookup
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext, Stale, retried
from labfleet.service.kinds import group_seats, session_handing
from labfleet.service.kinds.admitted import Admitted, with_generation
from labfleet.service.kinds.session_booker import demand_booker
from labfleet.service.verbs import lifecycle, objects

_NOTHING: Mapping[str, str] = {}
TRIES = 4
"""How often a seat is given in a group that others change meanwhile."""


async def hand_over(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    to: str,
    email: str | None = None,
    environment: Mapping[str, str] = _NOTHING,
    uid: str | None = None,
) -> Session:
    """Give a session to a person, or offer it when it is the caller's own.

    Denied (SeatOfGroup) to who only sits on a seat. Refused: SlotOver that it is over. Invalid when
    a value is given that whoever takes it says. `uid` as in `lifecycle.cancel`.
    """
    access.demand(caller.principal, "hand-over", Session.__name__)
    session_handing.demand_person(to)
    found = await lookup.found(services, caller, Session, name, namespace)
    lookup.demand_uid(found, uid)
    if found.status.seat is not None:
        demand_booker(caller, found, "hand over")
        if email is not None or environment:
            what = "a seat keeps no values; e-mail addresses stand in its group"
            raise intake.invalid(("environment" if environment else "studentEmail", what))
        return await _seat(services, caller, found, found.status.seat, to)
    offers = caller.principal.role is Role.USER
    if offers and (email is not None or environment):
        where = "studentEmail" if email is not None else "environment"
        raise intake.invalid((where, "is said by whoever takes the session"))

    async def change(old: Session) -> Admitted:
        lookup.demand_uid(old, found.metadata.uid)
        session_handing.demand_open(old, "handed over")
        if offers:
            return session_handing.offered(services, caller, old, to)
        if old.spec.owner == to:
            return Admitted(old)
        by = caller.principal.name
        return await session_handing.taken(
            services, caller, old, by, to=to, email=email, environment=environment
        )

    reason = "Offered" if offers else "HandedOver"
    return await lifecycle.changed(
        services,
        caller,
        Session,
        (name, namespace),
        action="hand-over",
        reason=reason,
        change=change,
    )


async def _seat(
    services: ServiceContext, caller: Caller, session: Session, seat: SessionSeat, to: str
) -> Session:
    """Give a seat to somebody, in its group, which says who sits where."""

    async def attempt() -> None:
        now = await lookup.found(services, caller, Session, session.name, session.namespace)
        lookup.demand_uid(now, session.metadata.uid)
        session_handing.demand_open(now, "handed over")
        group = await services.objects.get(Group, seat.group, session.namespace)
        if group is None or group.metadata.uid != seat.uid:
            message = f"group {seat.group!r} of session {session.name!r} was deleted"
            raise Refused(message, reason="GroupGone")
        await _seated(services, caller, group, seat, to)

    for left in reversed(range(TRIES)):
        try:
            await attempt()
            break
        except Stale:
            if not left:
                raise
    return await lookup.found(services, caller, Session, session.name, session.namespace)


async def _seated(
    services: ServiceContext, caller: Caller, group: Group, seat: SessionSeat, to: str
) -> None:
    new = group_seats.with_people(group.spec, {seat.seat: Seat(name=seat.seat, person=to)})
    people = [
        {"name": each.name, "person": each.person, "email": each.email, "factor": each.factor}
        for each in new.seats
    ]
    body = {
        "metadata": {"resourceVersion": group.metadata.resource_version},
        "spec": {"seats": people},
    }
    await objects.patch(
        services, caller, KINDS["Group"], group.name, body, namespace=group.namespace
    )


async def take(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    email: str | None = None,
    environment: Mapping[str, str] = _NOTHING,
    uid: str | None = None,
) -> Session:
    """Take a session that its person offers to the caller; it counts for the caller from then on.

    Gone to everybody else, whether there is such a session or not. QuotaExceeded when the caller
    may not have another one. Taking what one has already changes nothing.
    """
    access.demand(caller.principal, "hand-over", Session.__name__)
    who = caller.principal.name

    async def attempt() -> Session:
        old = await _offered_to(services, caller, name, namespace)
        lookup.demand_uid(old, uid)
        offer = old.status.offer
        if offer is None or offer.to != who:
            return old
        session_handing.demand_open(old, "taken")
        admitted = await session_handing.taken(
            services, caller, old, offer.by, to=who, email=email, environment=environment
        )
        _, stored = await services.objects.save(
            with_generation(old, admitted.obj), cause=services.cause(caller, "HandedOver")
        )
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    async with objects.in_turn(services, caller, Session.__name__):
        return await retried(attempt)


async def _offered_to(
    services: ServiceContext, caller: Caller, name: str, namespace: str
) -> Session:
    """Return the session if it is offered to the caller, or theirs already; else raise Gone."""
    found = None
    if not intake.name_problem(name) and not intake.name_problem(namespace):
        found = await services.objects.get(Session, name, namespace)
    who = caller.principal.name
    offer = None if found is None else found.status.offer
    mine = found is not None and found.spec.owner == who
    if found is None or not (mine or (offer is not None and offer.to == who)):
        raise errors.Gone(f"no session {name[:80]!r} is offered to {who}")
    return found

"""The rules of giving a session to another person: what passes on, and what stays behind.

One rule for sessions and for the seats of groups. What was personal stays with whoever had it
before: e-mail address, values of variables, check-in, and the kept lab that it was to begin with.
What was booked passes on: slot, claim, worker, length, and how far it has been extended. An order of
its lab that is still open ends, unless it is begun and no wipe: nobody's work is lost to what somebody
before them ordered, and no lab stays off between a stop and a start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from labfleet.decisions import lab_orders
from labfleet.resources.definition import Definition
from labfleet.resources.hand_over import HandedOver, SessionOffer
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.service.core import intake
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import session_rules, session_shares
from labfleet.service.kinds.admitted import Admitted, with_spec, with_status

_ENDING = TERMINAL | {SessionPhase.COLLECTING, SessionPhase.STOPPING}
_NO_LAB = frozenset({SessionPhase.PENDING, SessionPhase.SCHEDULED})
_GIVEN = "the session was given to somebody else before it was done"


def given(
    session: Session,
    to: str,
    *,
    by: str,
    at: datetime,
    email: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Session:
    """Return a session as another person's, without what was personal of the one before."""
    order, known = session.spec.lab_order, session.status.lab_order
    if order is None or not lab_orders.outlives_its_person(order, known):
        known = lab_orders.closed(order, known, _GIVEN, at)
    session = with_spec(
        session,
        owner=to,
        student_email=email,
        environment=dict(environment or {}),
        continue_from=None,
    )
    return with_status(
        session,
        offer=None,
        continues=None,
        handed_over=HandedOver(by=by, at=at),
        checked_in_at=None,
        checked_in_by="",
        lab_order=known,
    )


def demand_person(to: str) -> None:
    """Raise Invalid for a name that no token can carry."""
    if not to or to != to.strip() or not to.isprintable():
        what = "name the person as their token does, without control characters"
        raise intake.invalid(("to", what))


def demand_open(session: Session, deed: str) -> None:
    """Raise Refused (SlotOver) for a session that is over, or about to be."""
    phase = session.status.phase
    if phase in _ENDING or session.spec.cancel is not None or session.deleting:
        message = f"session {session.name!r} is over or ending ({phase}) and cannot be {deed}"
        raise Refused(message, reason="SlotOver")


def offered(services: ServiceContext, caller: Caller, old: Session, to: str) -> Admitted:
    """Offer a session to somebody, who may take it; to offer it to oneself takes that back.

    Who has it keeps it and answers for it until then, so nobody's share is filled by others.
    """
    known = old.status.offer
    if to == old.spec.owner:
        return Admitted(with_status(old, offer=None))
    if known is not None and known.to == to:
        return Admitted(old)
    offer = SessionOffer(to=to, by=caller.principal.name, at=services.clock.now())
    return Admitted(with_status(old, offer=offer))


async def taken(
    services: ServiceContext,
    caller: Caller,
    old: Session,
    by: str,
    *,
    to: str,
    email: str | None,
    environment: Mapping[str, str],
) -> Admitted:
    """Give a session to a person; of a caller of role user their share is judged as for a new one.

    QuotaExceeded (TooManySessions, TooManyHours), Invalid (VariableMissing) when a lab that is
    still to be made needs values.
    """
    new = given(old, to, by=by, at=services.clock.now(), email=email, environment=environment)
    session_rules.demand_printable(new)
    if old.status.phase in _NO_LAB:
        definition = await services.objects.get(Definition, old.spec.definition, old.namespace)
        if definition is not None:
            session_rules.demand_values(new, definition)
    if caller.principal.role is Role.USER:
        session_shares.few_enough(services, to, old.namespace)
        session_shares.short_enough(services, [new])
    return Admitted(new)

"""Who may order what of the lab of a session that runs.

Its people start, stop and restart it and its nodes, as its definition says (`labControl`); wiping
loses their work, so they may only where it says that too. Operators may order all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from labfleet.decisions import lab_orders
from labfleet.decisions.lifecycle.session import budget, live_lab
from labfleet.kernel import errors
from labfleet.resources import conditions, refs
from labfleet.resources.definition import Definition
from labfleet.resources.lab_orders import LabControl, LabOrder, LabOrderProgress, LabVerb
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import SessionCondition
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds.admitted import Admitted, with_spec

SHOWN = 5
ORDERS = 200
"""How many orders of a session's lab its people may give: each costs its server something."""
PATIENCE = timedelta(minutes=10)
"""How long CML may take for an order, beside the boot of the lab."""
LOST = (
    "everything that was done in it and not saved outside: its disks, and what was configured there"
)


def demand_confirmed(verb: LabVerb, *, confirm: bool, what: str) -> None:
    """Raise Invalid (ConfirmWipe) for a wipe that does not say that the loss is meant."""
    if verb == "wipe" and not confirm:
        message = f"a wipe of {what} loses {LOST}; give confirm to say that this is meant"
        raise errors.Invalid(message, reason="ConfirmWipe")


def demand_allowed(services: ServiceContext, who: Principal, session: Session, verb: str) -> None:
    """Raise Denied (NotControlled) when the session's definition does not let its people do that."""
    if who.role is not Role.USER:
        return
    definition = services.cache.find(refs.definition_of(session))
    allowed = _control(session, definition)
    if allowed == "wipe" or (allowed == "power" and verb != "wipe"):
        return
    what = "nothing of its lab" if allowed == "none" else "no wipe"
    message = (
        f"definition {session.spec.definition!r} lets people order {what} (labControl: {allowed}): "
        "ask an operator"
    )
    raise errors.Denied(message, reason="NotControlled")


def _control(session: Session, definition: Definition | None) -> LabControl:
    """Return what people may order; nothing where the definition of the session is gone."""
    pin = session.status.definition
    if definition is None or (pin is not None and pin.uid != definition.metadata.uid):
        return "none"
    return definition.spec.lab_control


def ordered(
    services: ServiceContext, caller: Caller, old: Session, verb: LabVerb, node: str
) -> Admitted:
    """Return the session with an order of its lab; the same that is still open is not given twice.

    Refused (NotRunning, NoLab) when there is no lab to be ordered about, (OrderOpen) while something
    else is under way, and (TooManyOrders) when its people have given as many as they may.
    """
    demand_allowed(services, caller.principal, old, verb)
    if old.status.phase is not SessionPhase.RUNNING:
        told = f"only the lab of a RUNNING session takes orders; {old.name!r} is {old.status.phase}"
        raise Refused(told, reason="NotRunning")
    if old.status.lab is None or old.status.lab.id is None:
        raise Refused(f"the lab of session {old.name!r} is not known", reason="NoLab")
    now = services.clock.now()
    boot = budget.of(old, services.cache.find(refs.definition_of(old))).boot
    order = LabOrder(
        id=services.ids.uid(),
        verb=verb,
        node=node,
        at=now,
        until=now + PATIENCE + timedelta(seconds=boot),
        by=caller.principal.name,
        number=1 if old.spec.lab_order is None else old.spec.lab_order.number + 1,
    )
    if repeats(live_lab.open_order(old), order):
        return Admitted(old)
    if order.number > ORDERS and caller.principal.role is Role.USER:
        told = f"{ORDERS} orders of the lab of session {old.name!r} were given: ask an operator"
        raise Refused(told, reason="TooManyOrders")
    return Admitted(with_spec(old, lab_order=order))


def lines(session: Session) -> Iterator[str]:
    """Yield what was ordered of its lab, what is off for that, and what others did to it."""
    order, known, off = session.spec.lab_order, session.status.lab_order, session.status.lab_off
    if order is not None and session.status.phase is SessionPhase.RUNNING:
        yield progress_words(order, known, f"node {order.node}" if order.node else "its lab")
    if off is not None:
        what = (
            "Its lab is" if off.whole else f"Nodes of its lab are ({', '.join(off.nodes[:SHOWN])})"
        )
        yield f"{what} off, as {off.by or 'somebody'} ordered; `labfleet lab start` ends that."
    fact = conditions.find(session.status.conditions, SessionCondition.LAB_CHANGED)
    if fact is not None and fact.status == "True":
        yield f"Its lab is not as it was: {fact.message}."


def progress_words(order: LabOrder, known: LabOrderProgress | None, what: str) -> str:
    """Return how far an order about a lab or a node is, in a sentence."""
    at = None if known is None or known.id != order.id else known
    state = "waiting" if at is None else at.state
    why = f" ({at.message})" if at is not None and at.message else ""
    return f"{order.verb.title()} of {what}, as {order.by or 'somebody'} ordered: {state}{why}."


def repeats(before: LabOrder | None, order: LabOrder) -> bool:
    """Tell whether an open order asks for the same; Refused when it asks for something else."""
    if before is None:
        return False
    if lab_orders.same(before, order):
        return True
    raise Refused(open_words(before), reason="OrderOpen")


def open_words(order: LabOrder) -> str:
    """Return that an order is under way, in words."""
    what = f"node {order.node!r}" if order.node else "the lab"
    return f"{order.verb} of {what} is under way, as {order.by or 'somebody'} ordered: wait for it"

"""Orders to start, stop, restart or wipe a lab or one of its nodes.

Each writes what is ordered, with an operation id and until when it is tried, and nothing more: the
controller does it and says in `status.labOrder` how far it is.
"""

from __future__ import annotations

from labfleet.resources.lab_orders import Label, LabVerb
from labfleet.resources.meta import Record
from labfleet.resources.session import Session
from labfleet.service.core import intake, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import session_lab
from labfleet.service.kinds.admitted import Admitted
from labfleet.service.verbs import lifecycle


class LabOrderRequest(Record, frozen=True, kw_only=True):
    """What is ordered of a lab.

    order: What is to be done; a restart is a stop, and a start once everything is off.
    node: Label or CML's name of the one node that is meant; empty means all of the lab.
    confirm: Whether it is meant that a wipe loses what was done in the lab.
    """

    order: LabVerb
    node: Label = ""
    confirm: bool = False


async def order(
    services: ServiceContext,
    caller: Caller,
    where: tuple[str, str],
    sent: LabOrderRequest,
    *,
    uid: str | None = None,
) -> Session:
    """Order something of the lab of a session that runs; `where` is its name and namespace.

    Refused, Denied or Invalid as the rules in `session_lab` say. `uid` as in `lifecycle.cancel`.
    """
    _one_line(sent.node)
    session_lab.demand_confirmed(sent.order, confirm=sent.confirm, what=f"session {where[0]!r}")

    async def change(old: Session) -> Admitted:
        lookup.demand_uid(old, uid)
        return session_lab.ordered(services, caller, old, sent.order, sent.node)

    return await lifecycle.changed(
        services, caller, Session, where, action="operate", reason=f"Lab{sent.order.title()}Ordered",
        change=change,
    )  # fmt: skip


def _one_line(node: str) -> None:
    if node and not node.isprintable():
        raise intake.invalid(("node", "a label is one line of printable text"))

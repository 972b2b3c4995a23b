"""Verbs on a worker's licence and console: register, deregister, renew, read the console.

Each writes what is asked, with an operation id, and nothing more: the worker's controller does it
and says in `status.licence.order` how far it is. What surely cannot be is refused here, in words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases
from labfleet.kernel import errors
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.meta import SecretRef
from labfleet.resources.worker import LicenceOrder, Worker
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.core import access, ledger_rows
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.admitted import Admitted, with_spec
from labfleet.service.verbs import lifecycle

NAMED = 3
"""How many sessions a refusal names."""


async def register(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    token: SecretRef | None = None,
    product: str | None = None,
    again: bool = False,
    force: bool = False,
) -> Worker:
    """Have a worker registered, whatever `autoLicense` says; beside its sessions.

    `token` and `product` stand in for the template's from now on, and with one of them, or with
    `again`, a registered server registers anew. Another product needs an empty worker: Refused
    (HostsSessions) unless `force`, which ends the sessions. Refused (NoToken) without a token.
    """
    if force:
        access.demand(caller.principal, "force", "Worker")

    async def change(old: Worker) -> Admitted:
        before, settings = old.spec.licence, old.spec.licensing
        wanted = _order(services, caller, "register", before, licensed=True, force=force)
        wanted = msgspec.structs.replace(
            wanted,
            product=product or (None if before is None else before.product),
            token=token or (None if before is None else before.token),
            renewed=again or token is not None or product is not None,
        )
        if token is None and (settings is None or settings.token is None):
            message = f"worker {name!r} has no licence token: give a reference to one"
            raise Refused(message, reason="NoToken")
        admitted = _asked(old, wanted)
        changed: Any = admitted.obj
        if phases.returning(changed) and not force:
            return await _empty(services, old, admitted, "another product needs an empty worker")
        return admitted

    return await _ordered(services, caller, (name, namespace), "LicenceRegister", change)


async def deregister(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, force: bool = False
) -> Worker:
    """Have a worker give its licence back and stay without one until `register`.

    Refused (HostsSessions) while sessions are on it, for CML gives none back while nodes run;
    `force` ends them, and stops what else runs there.
    """
    if force:
        access.demand(caller.principal, "force", "Worker")

    async def change(old: Worker) -> Admitted:
        before = old.spec.licence
        wanted = _order(services, caller, "deregister", before, licensed=False, force=force)
        admitted = _asked(old, wanted)
        if force:
            return admitted
        return await _empty(services, old, admitted, "CML gives no licence back while nodes run")

    return await _ordered(services, caller, (name, namespace), "LicenceDeregister", change)


async def renew(services: ServiceContext, caller: Caller, name: str, namespace: str) -> Worker:
    """Have a worker's registration and authorization renewed now.

    Refused (NotRegistered) when it has none, and (OrderOpen) while something else is under way.
    """

    async def change(old: Worker) -> Admitted:
        before, open_ = old.spec.licence, phases.open_order(old)
        if open_ is not None and open_.verb != "renew":
            message = f"{open_.verb} of the licence of {name!r} is under way"
            raise Refused(message, reason="OrderOpen")
        if old.status.licence.registered is False:
            message = f"worker {name!r} has no licence to renew: register it first"
            raise Refused(message, reason="NotRegistered")
        licensed = None if before is None else before.licensed
        wanted = _order(services, caller, "renew", before, licensed=licensed, force=False)
        if before is not None:
            wanted = msgspec.structs.replace(wanted, product=before.product, token=before.token)
        return _asked(old, wanted)

    return await _ordered(services, caller, (name, namespace), "LicenceRenew", change)


async def console(services: ServiceContext, caller: Caller, name: str, namespace: str) -> Worker:
    """Ask for the console text of a worker's machine; `reads.console_text` has the answer later.

    Refused (NoMachine) where there is no machine whose console could be read.
    """

    async def change(old: Worker) -> Admitted:
        lifecycle.alive(old)
        if old.status.machine.id is None:
            message = f"worker {name!r} has no machine of a provider, and so no console"
            raise Refused(message, reason="NoMachine")
        return Admitted(with_spec(old, console_asked=services.clock.now()))

    return await lifecycle.changed(
        services, caller, Worker, (name, namespace),
        action="observe", reason="ConsoleAsked", change=change,
    )  # fmt: skip


def _order(
    services: ServiceContext,
    caller: Caller,
    verb: Any,
    before: LicenceOrder | None,
    *,
    licensed: bool | None,
    force: bool,
) -> LicenceOrder:
    """Return a new order; what stood in for the template's settings is kept."""
    kept = before or LicenceOrder(id="", verb=verb, at=services.clock.now())
    return LicenceOrder(
        id=services.ids.uid(),
        verb=verb,
        at=services.clock.now(),
        by=caller.principal.name,
        licensed=licensed,
        product=kept.product,
        token=kept.token,
        force=force,
    )


def _asked(old: Worker, wanted: LicenceOrder) -> Admitted:
    """Return the worker with the order; the same that is still open is not ordered twice."""
    known = phases.open_order(old)
    if known is not None:
        same = msgspec.structs.replace(wanted, id=known.id, at=known.at, by=known.by)
        if same == known:
            return Admitted(old)
    return Admitted(with_spec(old, licence=wanted))


async def _empty(services: ServiceContext, old: Worker, admitted: Admitted, why: str) -> Admitted:
    """Raise Refused (HostsSessions) while sessions hold something there; none may come meanwhile."""
    revision = await services.fresh()
    here = services.cache.by(indices.SESSIONS_HERE, old.key.path)
    bound = sorted(each.name for each in here if each.status.phase in session_phases.BOUND)
    if bound:
        named = ", ".join(bound[:NAMED]) + (", …" if len(bound) > NAMED else "")
        message = (
            f"{why}, and worker {old.name!r} has {count(len(bound), 'session')}: {named}; "
            "drain it first, or force it, which ends them"
        )
        raise Refused(message, reason="HostsSessions")
    still = ledger_rows.untouched(ledger_rows.of(old.key), revision)
    return Admitted(admitted.obj, (*admitted.preconditions, still))


async def _ordered(
    services: ServiceContext,
    caller: Caller,
    where: tuple[str, str],
    reason: str,
    change: Callable[[Worker], Awaitable[Admitted]],
) -> Worker:
    async def checked(old: Worker) -> Admitted:
        lifecycle.alive(old)
        if phases.observed(old):
            what = f"worker {old.name!r} is only observed; first: labfleet adopt {old.key.argument}"
            raise Refused(what, reason="NotAdopted")
        if conditions.is_true(old.status.conditions, WorkerCondition.DUPLICATE_IDENTITY):
            message = f"an older worker has the identity of {old.name!r}, and so its licence"
            raise Refused(message, reason="DuplicateIdentity")
        if old.spec.machine is None:
            raise errors.Invalid(f"worker {old.name!r} has no machine", reason="NoMachine")
        return await change(old)

    return await lifecycle.changed(
        services, caller, Worker, where, action="license", reason=reason, change=checked
    )

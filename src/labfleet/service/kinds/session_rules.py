"""Rules of sessions: owner and limit, pinned definition, slot, what may change later."""

from __future__ import annotations

from datetime import datetime

import msgspec

from labfleet.decisions import families, ledger, wording
from labfleet.interfaces import store as stores
from labfleet.resources import meta
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.definition import Definition, DefinitionPin, family_of
from labfleet.resources.group import GroupSpec
from labfleet.resources.learned_demand import LearnedDemand
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    Cancellation,
    Session,
    SessionSpec,
)
from labfleet.resources.strategy import OFFERED, not_offered
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.access import Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import (
    indices,
    session_claims,
    session_demand,
    session_kept,
    session_times,
)
from labfleet.service.kinds.admitted import Admitted, referred, with_spec, with_status
from labfleet.service.kinds.session_booker import demand_booker
from labfleet.service.kinds.session_shares import few_enough, short_enough

_BY_VERBS = ("cancel", "observe_requested", "observe_requested_by", "lab_order")


def _camel(field: str) -> str:
    head, *rest = field.split("_")
    return head + "".join(part.title() for part in rest)


async def create_session(services: ServiceContext, caller: Caller, new: Session) -> Admitted:
    """Fix owner, definition and slot; the session then waits to be placed."""
    spec, who = new.spec, caller.principal
    owner = spec.owner or who.name
    if who.role is Role.USER and owner != who.name:
        raise intake.invalid(("spec.owner", "you can make sessions for yourself only"))
    if not owner.isprintable():
        raise intake.invalid(("spec.owner", "must not hold control characters"))
    if who.role is Role.USER and spec.priority > 0:
        raise intake.invalid(("spec.priority", "only an operator may raise a priority above 0"))
    for field in _BY_VERBS:
        if getattr(spec, field):
            raise intake.invalid((f"spec.{_camel(field)}", "is set by a verb, not by hand"))
    if spec.slot.end is not None and (spec.duration_minutes or spec.time_factor != 1):
        field = "durationMinutes" if spec.duration_minutes else "timeFactor"
        what = f"slot.end says when it ends whatever {field} is; give one of them"
        if field == "timeFactor":
            what += ", for example durationMinutes instead of slot.end"
        raise intake.invalid((f"spec.{field}", what))
    space = new.metadata.namespace
    definition = await named(services, spec, space)
    own_track(caller, spec.track, definition)
    if who.role is Role.USER:
        few_enough(services, owner, space)
    new = with_spec(new, owner=owner, definition=definition.name)
    new = await session_kept.continued(services, caller, new, definition)
    return await fixed(services, caller, new, definition)


def own_track(caller: Caller, track: str | None, definition: Definition) -> None:
    """Refuse a user another track than the definition's: it would start paid machines for it."""
    home = definition.spec.track or "default"
    if caller.principal.role is Role.USER and (track or home) != home:
        what = f"{definition.name!r} runs on track {home!r}; leave it out"
        raise intake.invalid(("spec.track", what))


async def named(
    services: ServiceContext, spec: SessionSpec | GroupSpec, namespace: str
) -> Definition:
    """Return the definition that a new session or group names, or its family's newest in use.

    Where both are named the definition counts, and must be of that family: so what was read back
    can be sent again under another name.
    """
    family = spec.family
    if spec.definition:
        found = await usable(services, spec.definition, namespace)
        if family not in {None, family_of(found)}:
            what = f"{found.name!r} is of family {family_of(found)!r}, not {family!r}; name one of them"
            raise intake.invalid(("spec.family", what))
        return found
    if family is None:
        raise intake.invalid(("spec.definition", "name a definition, or a family of definitions"))
    await services.fresh()
    known = services.cache.by(indices.DEFINITIONS_OF_FAMILY, (namespace, family))
    newest = families.newest(known, family)
    if newest is None and known:
        what = f"every version of family {family!r} is deprecated"
        raise intake.invalid(("spec.family", what), reason="DefinitionDeprecated")
    if newest is None:
        names = {
            family_of(each)
            for each in services.cache.all(Definition)
            if each.namespace == namespace
        }
        what = f"no definition is of family {family!r}" + intake.hint(family, sorted(names))
        raise intake.invalid(("spec.family", what), reason="UnknownName")
    return await usable(services, newest.name, namespace)


async def usable(services: ServiceContext, name: str, namespace: str) -> Definition:
    """Return the definition that a new session names, if sessions may be made of it."""
    found = await referred(services, Definition, name, namespace, "spec.definition")
    if found.spec.deprecated:
        instead = found.spec.replacement
        what = f"{found.name!r} is deprecated" + (f"; use {instead!r}" if instead else "")
        raise intake.invalid(("spec.definition", what), reason="DefinitionDeprecated")
    if found.spec.lab_type not in OFFERED:
        what = not_offered(found.spec.lab_type)
        raise intake.invalid(("spec.definition", what), reason="NoMatchingType")
    return found


def demand_printable(session: Session) -> None:
    """Raise Invalid for values that are more than one line of text."""
    for name, value in session.spec.environment.items():
        if not value.isprintable():
            raise intake.invalid((f"spec.environment.{name}", "must be one line of printable text"))


def demand_values(session: Session, definition: Definition) -> None:
    """Raise Invalid (VariableMissing) for a session that lacks values which its definition needs."""
    missing = [each for each in definition.spec.variables if each not in session.spec.environment]
    if missing:
        named = ", ".join(missing[:5])
        what = f"definition {definition.name!r} needs {named}; give each a value"
        raise intake.invalid(("spec.environment", what), reason="VariableMissing")


def _suits(session: Session, definition: Definition, needs: Amounts) -> None:
    """Raise Invalid for values that a definition misses, or for limits below what it counts with."""
    demand_printable(session)
    demand_values(session, definition)
    limits = session.spec.limits or Amounts()
    bounds = [name for name in DIMENSIONS if getattr(limits, name)]
    short = ledger.shortages(needs, limits, Amounts(), dimensions=bounds)
    if short:
        what = f"definition {definition.name!r} needs {wording.short(short)} more"
        raise intake.invalid(("spec.limits", what), reason="AboveLimits")


async def fixed(
    services: ServiceContext, caller: Caller, new: Session, definition: Definition
) -> Admitted:
    """Fix a new session's definition, track, slot and claim: what it is from now on."""
    demand = await session_demand.of_new(services, definition, new.spec.track)
    new = pinned(new, definition, services.clock.now(), demand)
    if caller.principal.role is Role.USER:
        short_enough(services, [new])
    taken = await session_claims.of_new(services, caller, new, definition)
    return Admitted(
        with_status(new, claim=taken.claim),
        (stores.AtRevision(definition.key, definition.revision), *taken.preconditions),
        (ledger_rows.touch(ledger_rows.of(definition.key)), *taken.writes),
    )


def pinned(
    new: Session, definition: Definition, now: datetime, demand: LearnedDemand | None = None
) -> Session:
    """Return a new session with its definition, track, slot and learned demand, as they stay."""
    spec = new.spec
    _suits(new, definition, definition.status.demand if demand is None else demand.amounts)
    start, end = session_times.resolved(spec, definition, now)
    pin = DefinitionPin(
        name=definition.name,
        uid=definition.metadata.uid,
        version=definition.spec.version,
        topology_digest=definition.status.topology_digest,
        pinned_at=now,
    )
    new = with_spec(new, track=spec.track or definition.spec.track)
    # A session without a start begins when it runs, so its times are not known yet.
    asap = spec.slot.start is None
    return with_status(
        new,
        phase_since=now,
        definition=pin,
        demand=demand,
        start=None if asap else start,
        end=end if not asap or spec.slot.end is not None else None,
    )


async def update_session(
    services: ServiceContext, caller: Caller, old: Session, new: Session
) -> Admitted:
    """Allow another end, time factor, priority and e-mail address; cancel, observe and move are verbs."""
    for field in _BY_VERBS:
        if getattr(old.spec, field) != getattr(new.spec, field):
            raise intake.invalid((f"spec.{_camel(field)}", "is set by a verb, not by hand"))
    before, after = old.spec.slot, new.spec.slot
    if (before.start, before.zone) != (after.start, after.zone):
        what = "only the end may change; labfleet move moves a slot"
        raise intake.invalid(("spec.slot", what), reason="FrozenField")
    if old.spec.time_factor != new.spec.time_factor:
        if before.end != after.end:
            raise intake.invalid(("spec.timeFactor", "change the end and the factor one by one"))
        as_before = with_spec(new, time_factor=old.spec.time_factor)
        return await session_times.with_factor(services, caller, as_before, new.spec.time_factor)
    if before.end == after.end:
        return Admitted(new)
    if after.end is None:
        raise intake.invalid(("spec.slot.end", "cannot be taken back"))
    present = old.status.end or before.end
    if present is not None and after.end < present:
        return await session_times.shortened(services, caller, new, after.end)
    return await session_times.extended(services, caller, new, after.end)


async def delete_session(services: ServiceContext, caller: Caller, old: Session) -> Admitted:
    """End a session that still runs, and keep its record until everything of it is gone."""
    demand_booker(caller, old, "delete")
    if old.status.phase in TERMINAL and old.status.reservation is None:
        return Admitted(old)
    if old.status.phase not in TERMINAL and old.spec.cancel is None:
        old = cancelled(services, caller, old, "deleted")
    if old.status.worker is not None or old.status.reservation is not None:
        metadata = meta.with_finalizer(old.metadata, FINALIZER_LAB)
        old = msgspec.structs.replace(old, metadata=metadata)
    return Admitted(old)


def cancelled(services: ServiceContext, caller: Caller, old: Session, reason: str) -> Session:
    """Return the session with its cancellation recorded."""
    demand_booker(caller, old, "cancel")
    by = caller.principal.name
    return with_spec(old, cancel=Cancellation(at=services.clock.now(), by=by, reason=reason))

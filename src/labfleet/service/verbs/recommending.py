"""Applies what is recommended for a definition as its family's next version, undoes it, proposes it.

Never automatic: somebody asks, and the event says who. Sessions that were accepted keep the version
that they pinned. Each verb is one commit.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from labfleet.decisions import demand, families, lab_reviews
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import topology
from labfleet.resources.amounts import MOST, Amounts
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.lab_bound import SIZED, LabBound
from labfleet.resources.lab_recommendation import (
    AppliedSize,
    ProposedSize,
    SizedAmounts,
    Value,
)
from labfleet.resources.meta import Metadata
from labfleet.service.core import access, idempotency, intake, lookup
from labfleet.service.core.service_context import Caller, Refused, ServiceContext, retried
from labfleet.service.kinds import family_use, rules
from labfleet.service.kinds.admitted import with_generation, with_spec, with_status
from labfleet.service.kinds.session_retry import OURS
from labfleet.service.reads import recommendations

TEXT_LIMIT = 1024
NODES_NAMED = 5


async def apply(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    value: Value,
    custom: SizedAmounts | None = None,
    reason: str = "",
    key: str | None = None,
) -> Definition:
    """Make the next version of a definition's family, which asks for other amounts; return it.

    Only of the newest version that sessions may use, so that two who apply at once do not undo each
    other. Refused: NotNewest, DefinitionDeprecated, TooFewSessions, NothingProposed,
    NothingToApply; Invalid: BelowReserved, for less memory or CPU than the nodes reserve, and
    AboveWorkers.
    """
    access.demand(caller.principal, "apply", "Definition")
    _plain(value, custom, reason)
    sent = None if custom is None else msgspec.to_builtins(custom)
    memo = idempotency.memo(caller, key, "apply", namespace, name, value, sent, reason)

    async def attempt() -> Definition:
        await services.fresh()
        old = await lookup.found(services, caller, Definition, name, namespace)
        if memo is not None:
            done = await idempotency.replayed(services, memo, "Definition")
            if isinstance(done, Definition):
                return done
        versions = family_use.versions(services.cache, old)
        _newest(old, versions)
        sized = await _sized(services, old, value, custom)
        applied = _applied(services, caller, old, value, reason)
        admitted = await rules.create(
            services, caller, _next(services, old, versions, sized, applied)
        )
        # What is written is written at its version already.
        taken = old.status.proposal is not None
        others = (with_status(old, proposal=None),) if taken else ()
        unchanged = () if taken else (stores.AtRevision(old.key, old.revision),)
        told = f"Applied {value} to {old.name}"
        _, stored = await services.objects.save(
            admitted.obj,
            *others,
            cause=services.cause(caller, f"{told}: {reason}" if reason else told),
            preconditions=(*unchanged, *admitted.preconditions),
            writes=(
                *admitted.writes,
                *(() if memo is None else (memo.write(services, admitted.obj),)),
            ),
        )
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


def _applied(
    services: ServiceContext, caller: Caller, old: Definition, value: Value, reason: str
) -> AppliedSize:
    demanded = old.status.demand
    asked = {name: min(MOST, amount) for name in SIZED if (amount := getattr(demanded, name))}
    return AppliedSize(
        source=old.name,
        value=value,
        declared=SizedAmounts(**asked),
        by=caller.principal.name,
        at=services.clock.now(),
        reason=reason,
    )


async def undo(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, reason: str = ""
) -> Definition:
    """Deprecate the version that a recommendation made; return it.

    Named is that version, which is out of use then however often that is asked, or one that its
    author wrote: then the last one in use that was made of it. Sessions that have it keep it; new
    ones that name the family get the version before. Refused: NothingToUndo, LastVersion.
    """
    access.demand(caller.principal, "apply", "Definition")
    _short(reason)

    async def attempt() -> Definition:
        await services.fresh()
        named = await lookup.found(services, caller, Definition, name, namespace)
        versions = family_use.versions(services.cache, named)
        made = named if named.status.applied is not None else _made_last(named, versions)
        if made.spec.deprecated:
            return made
        left = [each for each in versions if not each.spec.deprecated and each.name != made.name]
        if not left:
            what = f"{made.name!r} is the only version of its family that new sessions may use"
            raise Refused(f"{what}; take the deprecation of another back", reason="LastVersion")
        used = left[-1]
        changed = with_generation(made, with_spec(made, deprecated=True, replacement=used.name))
        admitted = await rules.update(services, caller, made, changed)
        told = f"Undone: new sessions get {used.name}"
        _, stored = await services.objects.save(
            admitted.obj,
            cause=services.cause(caller, f"{told}: {reason}" if reason else told),
            # Else both are out of use when somebody deprecates that one at the same time.
            preconditions=(*admitted.preconditions, stores.AtRevision(used.key, used.revision)),
            writes=admitted.writes,
        )
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


async def propose(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    value: Value | None,
    custom: SizedAmounts | None = None,
    reason: str = "",
) -> Definition:
    """Record what somebody proposes that a definition asks for; None takes a proposal back.

    Its amounts are fixed now, so that an admin applies what was proposed. A proposal replaces the
    one before. Refused as `apply` says.
    """
    access.demand(caller.principal, "recommend", "Definition")
    if value is not None:
        _plain(value, custom, reason)
    if value == "proposed":
        raise intake.invalid(("value", "is what a proposal itself may not be"))

    async def attempt() -> Definition:
        await services.fresh()
        old = await lookup.found(services, caller, Definition, name, namespace)
        proposal = None
        if value is not None:
            _newest(old, family_use.versions(services.cache, old))
            sized = await _sized(services, old, value, custom)
            proposal = ProposedSize(
                value=value,
                amounts=sized,
                by=caller.principal.name,
                at=services.clock.now(),
                reason=reason,
            )
        told = "Proposal taken back" if proposal is None else f"Proposed {value}"
        _, stored = await services.objects.save(
            with_status(old, proposal=proposal),
            cause=services.cause(caller, f"{told}: {reason}" if reason else told),
        )
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


def _plain(value: Value, custom: SizedAmounts | None, reason: str) -> None:
    """Raise Invalid unless amounts are given exactly with `custom`."""
    _short(reason)
    if (value == "custom") != (custom is not None and custom != SizedAmounts()):
        what = "say at least one amount" if value == "custom" else "only goes with value custom"
        raise intake.invalid(("custom", what))


def _short(reason: str) -> None:
    if len(reason) > TEXT_LIMIT:
        raise intake.invalid(("reason", f"at most {TEXT_LIMIT} characters"))


def _newest(old: Definition, versions: Sequence[Definition]) -> None:
    """Refuse to go on from a version that no new session gets."""
    if old.deleting:
        raise Refused(f"definition {old.name!r} is being deleted", reason="DefinitionTerminating")
    if old.spec.deprecated:
        what = f"{old.name!r} is deprecated"
        raise Refused(f"{what}; apply to a version in use", reason="DefinitionDeprecated")
    newest = families.newest(versions, family_of(old))
    if newest is not None and newest.name != old.name:
        what = f"{newest.name!r} is a newer version of family {family_of(old)!r} than {old.name!r}"
        raise Refused(f"{what}; apply to that one", reason="NotNewest")


async def _sized(
    services: ServiceContext, old: Definition, value: Value, custom: SizedAmounts | None
) -> SizedAmounts:
    """Return the amounts that a value means; Refused or Invalid when they cannot be asked for."""
    found = await recommendations.known(services, old)
    if value == "custom":
        sized = custom or SizedAmounts()
    elif value == "proposed":
        if old.status.proposal is None:
            raise Refused(f"nobody proposes anything for {old.name!r}", reason="NothingProposed")
        sized = old.status.proposal.amounts
    else:
        sized = lab_reviews.sizes(found.found, value)
        if sized == SizedAmounts():
            told = "; ".join(_told(each) for each in found.found.values())
            what = f"there is no {value} of what sessions of {old.name!r} used ({told})"
            raise Refused(what, reason="TooFewSessions")
    wanted = lab_reviews.with_sizes(found.asked.declared, sized)
    if wanted == found.asked.declared:
        raise Refused(f"{old.name!r} asks for just that already", reason="NothingToApply")
    problem = lab_reviews.refused(wanted, found.asked)
    if problem is not None:
        reason, what = problem
        if wanted.memory_mib < found.asked.reserved.memory_mib:
            what += f"; lower ram of the nodes in the topology first: {_largest(old)}"
        raise intake.invalid(("value", what), reason=reason)
    return sized


def _told(each: LabBound) -> str:
    return f"{each.resource}: {each.sentence}"


def _largest(old: Definition) -> str:
    """Return the nodes that reserve most, with their ram."""
    try:
        parsed = topology.parse(old.spec.topology)
    except errors.Invalid:
        return "its topology cannot be read"
    nodes = sorted(demand.memory_of(parsed).items(), key=lambda each: (-each[1], each[0]))
    named = ", ".join(f"{label[:32]} {ram} MiB" for label, ram in nodes[:NODES_NAMED])
    more = len(nodes) - NODES_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _next(
    services: ServiceContext,
    old: Definition,
    versions: Sequence[Definition],
    sized: SizedAmounts,
    applied: AppliedSize,
) -> Definition:
    """Return the next version of a family: the lab of the last one, which asks for other amounts."""
    family = family_of(old)
    taken = {
        each.name for each in services.cache.all(Definition) if each.namespace == old.namespace
    }
    known = old.spec.resources or Amounts()
    spec = msgspec.structs.replace(
        old.spec,
        family=family,
        version=families.next_version(versions),
        resources=lab_reviews.with_sizes(known, sized),
        replacement=None,
    )
    metadata = Metadata(
        name=families.next_name(family, versions, taken),
        namespace=old.namespace,
        labels=old.metadata.labels,
        annotations={
            key: value
            for key, value in old.metadata.annotations.items()
            if not key.startswith(OURS)
        },
        uid=services.ids.uid(),
        generation=1,
        creation_timestamp=services.clock.now(),
    )
    made = Definition(metadata=metadata, spec=spec)
    return with_status(made, applied=applied)


def _made_last(named: Definition, versions: Sequence[Definition]) -> Definition:
    """Return the last version in use made of one by a recommendation; else Refused (NothingToUndo)."""
    usable = [each for each in versions if not each.spec.deprecated]
    for each in reversed(usable):
        applied = each.status.applied
        if applied is not None and applied.source == named.name:
            return each
    what = f"no version in use was made of {named.name!r} by a recommendation"
    raise Refused(what, reason="NothingToUndo")

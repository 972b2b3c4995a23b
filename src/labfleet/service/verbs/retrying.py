"""`retry`: a failed session is tried again, as a new session with a link to it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec

from labfleet.resources.session import Session, Slot
from labfleet.service.core import access, idempotency, intake, lookup
from labfleet.service.core.service_context import Caller, ServiceContext, retried
from labfleet.service.kinds import session_claims, session_retry
from labfleet.service.kinds.admitted import with_status
from labfleet.service.verbs import objects

TEXT_LIMIT = 1024


async def retry(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    slot: Slot | None = None,
    reason: str = "",
    key: str | None = None,
    uid: str | None = None,
) -> Session:
    """Return the attempt after this session; made now unless there is one.

    One session has one next attempt, however often and by how many it is asked for: both are written
    in one commit. When that record is gone, another one is made. Refused as
    `session_retry.next_attempt` says; `key` and `uid` as in `extend`.
    """
    access.demand(caller.principal, "retry", "Session")
    if len(reason) > TEXT_LIMIT:
        raise intake.invalid(("reason", f"at most {TEXT_LIMIT} characters"))
    wanted = None if slot is None else msgspec.to_builtins(slot)
    memo = idempotency.memo(caller, key, "retry", namespace, name, wanted, reason)

    async def attempt() -> Session:
        async with in_turn(services, caller, namespace):
            return await made()

    async def made() -> Session:
        old = await lookup.found(services, caller, Session, name, namespace)
        lookup.demand_uid(old, uid)
        if memo is not None:
            done = await idempotency.replayed(services, memo, "Session")
            if isinstance(done, Session):
                # The repeated request was about that session, whatever has its name now.
                of = done.status.retry_of
                lookup.demand_uid(old, None if of is None else of.uid)
                return done
        known = await successor(services, old)
        if known is not None:
            return known
        admitted = await session_retry.next_attempt(services, caller, old, slot)
        fresh = msgspec.structs.replace(
            admitted.obj.metadata,
            uid=services.ids.uid(),
            generation=1,
            creation_timestamp=services.clock.now(),
        )
        new = msgspec.structs.replace(admitted.obj, metadata=fresh)
        assert isinstance(new, Session)  # noqa: S101 - of a session comes a session
        told = f"Retried: attempt {new.status.retry_count + 1} of {old.name} is {new.name}"
        _, stored = await services.objects.save(
            new,
            with_status(old, retried_as=session_retry.link(new)),
            cause=services.cause(caller, f"{told}: {reason}" if reason else told),
            preconditions=admitted.preconditions,
            writes=(*admitted.writes, *(() if memo is None else (memo.write(services, new),))),
        )
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


def in_turn(
    services: ServiceContext, caller: Caller, namespace: str
) -> AbstractAsyncContextManager[None]:
    """Return the turn of a new attempt, which takes a claim as a new session does."""
    line = session_claims.line(services, namespace)
    return objects.in_turn(services, caller, "Session", line)


async def successor(services: ServiceContext, old: Session) -> Session | None:
    """Return the next attempt of a session, if there is one and its record is still there."""
    known = old.status.retried_as
    if known is None:
        return None
    found = await services.objects.get(Session, known.name, old.namespace)
    return found if found is not None and found.metadata.uid == known.uid else None

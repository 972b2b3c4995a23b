"""What was kept of a session's lab: downloaded, and deleted before its time."""

from __future__ import annotations

from labfleet.kernel import errors
from labfleet.resources.session import Session
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import session_kept
from labfleet.service.kinds.admitted import Admitted
from labfleet.service.verbs import lifecycle


async def download(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, uid: str | None = None
) -> bytes:
    """Return the kept lab's YAML; Denied to who may not have it, Gone when nothing is kept.

    It may hold passwords: it goes to the caller and nowhere else.
    """
    access.demand(caller.principal, "download", Session.__name__)
    session = await lookup.found(services, caller, Session, name, namespace)
    lookup.demand_uid(session, uid)
    session_kept.demand_reader(services, caller.principal, session)
    session_kept.demand_kept(session, services.clock.now())
    text = await services.kept.kept_content(session.metadata.uid)
    if text is None:
        message = f"what was kept of session {session.name!r} was deleted"
        raise errors.Gone(message, reason="NothingKept")
    return text


async def discard(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, uid: str | None = None
) -> Session:
    """Delete what was kept of a session's lab; its record says that nothing is kept any more.

    The record first: what a server that is ended in between leaves behind nobody can ask for, and
    asking again drops it. Refused (KeptLabAwaited) while a session waits to begin with it: that one
    would fail at its import.
    """

    async def change(old: Session) -> Admitted:
        lookup.demand_uid(old, uid)
        session_kept.demand_reader(services, caller.principal, old)
        if old.status.kept is None:
            session_kept.demand_kept(old, services.clock.now())
        await services.fresh()
        waiting = session_kept.awaited_by(services, old)
        if waiting is not None:
            what = f"session {waiting.name!r} is to begin with what is kept of {old.name!r}"
            raise Refused(f"{what}; cancel it first", reason="KeptLabAwaited")
        return Admitted(session_kept.without(old))

    changed = await lifecycle.changed(
        services,
        caller,
        Session,
        (name, namespace),
        action="download",
        reason="KeptLabDeleted",
        change=change,
    )
    await services.kept.drop_kept_lab(changed.metadata.uid)
    return changed

"""What is worked out of a session when it is read, for whom: where its lab is reached, its e-mail."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from labfleet.decisions import reach
from labfleet.resources import refs
from labfleet.resources.meta import Ref
from labfleet.resources.session import Session, SessionAccess
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import Role
from labfleet.service.core.views import Sources

ALL, NO_EMAIL = "all", "no e-mail"
HIDDEN = "not shown to you here (setting access.userSees)"
"""What stands where a lab is reached, for who may not see it."""


def sight(sources: Sources, principal: Principal) -> str:
    """Return how much the caller sees of where labs are reached: nothing, ports, all, no e-mail."""
    if not access.reads_addresses(principal):
        return NO_EMAIL
    limited = principal.role is Role.USER
    return sources.settings.now().access.user_sees if limited else ALL


def view(sources: Sources, principal: Principal) -> Callable[[Session], Session]:
    """Return what shows a session with `status.access` as far as the caller may see it."""
    cache, much = sources.cache, sight(sources, principal)

    # The labs of a list share a few workers and definitions: each is looked at once for them all.
    @functools.cache
    def place(ref: Ref[Worker] | None) -> reach.Place | None:
        worker = cache.find(ref)
        return None if worker is None else reach.place(worker)

    definition = functools.cache(cache.find)

    def show(session: Session) -> Session:
        if much == NO_EMAIL:
            session = without_address(session)
        # Lists ask this for each of a thousand rows: what has no lab costs no look at others.
        if not reach.is_there(session):
            return session
        there = place(refs.worker_of(session))
        if there is None:
            return session
        found = reach.access_at(there, session, definition(refs.definition_of(session)))
        shown = _limited(found, much)
        return msgspec.structs.replace(
            session, status=msgspec.structs.replace(session.status, access=shown)
        )

    return show


def without_address(session: Session) -> Session:
    """Return a session without its person's e-mail address."""
    if session.spec.student_email is None:
        return session
    spec = msgspec.structs.replace(session.spec, student_email=None)
    return msgspec.structs.replace(session, spec=spec)


def _limited(found: SessionAccess, much: str) -> SessionAccess:
    if much == "nothing":
        return SessionAccess(message=HIDDEN)
    if much == "ports":
        return msgspec.structs.replace(found, cml_url=None, lab_url=None, lab_user=None)
    return found


def moved(old: Worker | None, new: Worker | None) -> bool:
    """Tell whether a worker's change changes where the labs on it are reached."""
    return _place(old) != _place(new)


def _place(worker: Worker | None) -> tuple[object, ...]:
    if worker is None or worker.spec.machine is None:
        return ()
    shown, cml = worker.status.machine, worker.spec.machine.cml
    addresses = (shown.public_address, shown.private_address, cml.api_base_url, cml.port)
    return (shown.id, shown.state, *addresses)

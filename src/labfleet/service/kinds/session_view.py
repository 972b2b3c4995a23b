"""A session as its reader sees it: where its lab is reached, its e-mail, how it was placed."""

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
    """Return what the caller sees: all, no e-mail, or what people see and where they reach labs."""
    if not access.reads_addresses(principal):
        return NO_EMAIL
    if principal.role is not Role.USER:
        return ALL
    return f"{Role.USER}, {sources.settings.now().access.user_sees}"


def view(sources: Sources, principal: Principal) -> Callable[[Session], Session]:
    """Return what shows a session with `status.access` as far as the caller may see it."""
    cache, bare = sources.cache, private(principal)
    people = principal.role is Role.USER
    much = sources.settings.now().access.user_sees if people else ALL

    # The labs of a list share a few workers and definitions: each is looked at once for them all.
    @functools.cache
    def place(ref: Ref[Worker] | None) -> reach.Place | None:
        worker = cache.find(ref)
        return None if worker is None else reach.place(worker)

    definition = functools.cache(cache.find)

    def show(session: Session) -> Session:
        if bare is not None:
            session = bare(session)
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


def private(principal: Principal) -> Callable[[Session], Session] | None:
    """Return what leaves out of a session what the caller never reads of it; None for who reads all."""
    if not access.reads_addresses(principal):
        return without_address
    return without_ranking if principal.role is Role.USER else None


def without_ranking(session: Session) -> Session:
    """Return a session without how its workers were ranked: figures and prices of the fleet.

    What each lacked stays, because its person can ask for less.
    """
    decision = session.status.decision
    if decision is None:
        return session
    replace = msgspec.structs.replace
    looked = tuple(replace(each, score=None) for each in decision.candidates)
    bare = replace(decision, candidates=looked, strategy="", parts={}, latency_ms=None)
    return replace(session, status=replace(session.status, decision=bare))


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

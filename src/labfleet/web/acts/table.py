"""Everything that people can do on pages, in the order in which it is offered."""

from __future__ import annotations

from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web.acts import (
    act,
    booking,
    class_acts,
    generic,
    lab_acts,
    learning_acts,
    pool_acts,
    session_acts,
    upkeep_acts,
    upkeep_worker_acts,
    worker_acts,
)
from labfleet.web.acts.act import ROOT, Act, Offer

ACTS: tuple[Act, ...] = (
    *worker_acts.ACTS,
    *upkeep_worker_acts.ACTS,
    *lab_acts.WORKER_ACTS,
    *booking.ACTS,
    *session_acts.ACTS,
    *lab_acts.SESSION_ACTS,
    *pool_acts.ACTS,
    *class_acts.ACTS,
    *learning_acts.ACTS,
    *upkeep_acts.ACTS,
)


def _of_kind(kind: str) -> tuple[Act, ...]:
    """Return all acts of a kind: its own, and those that every kind has where it has none of its own."""
    own = [each for each in ACTS if each.kind == kind]
    taken = {each.verb for each in own}
    row = KINDS.get(kind)
    more = () if row is None else generic.of(row)
    return (*own, *(each for each in more if each.verb not in taken))


def every() -> tuple[Act, ...]:
    """Return all acts of all kinds."""
    return tuple(each for kind in KINDS for each in _of_kind(kind))


def of(kind: str) -> tuple[Act, ...]:
    """Return what can be done with single objects of a kind."""
    return tuple(each for each in _of_kind(kind) if not each.whole)


def on_kind(kind: str) -> tuple[Act, ...]:
    """Return what can be done with a kind as a whole, such as making one of it."""
    return tuple(each for each in _of_kind(kind) if each.whole)


def offered(services: ServiceContext, caller: Caller, obj: Resource) -> tuple[Offer, ...]:
    """Return what a page offers this caller to do with an object, in the order of the table."""
    return act.offers(services, caller, of(obj.kind), obj)


def of_kind(caller: Caller, kind: str) -> tuple[Offer, ...]:
    """Return what a page offers this caller to do with a kind as a whole."""
    return tuple(
        Offer(each.title, act.address(each))
        for each in on_kind(kind)
        if not act.denied(caller.principal, each)
    )


def at(path: str) -> tuple[Act, str] | None:
    """Return the act at an address and the name of the object that it is on; None for no act."""
    verb, _, rest = path.removeprefix(ROOT).partition("/")
    plural, _, name = rest.partition("/")
    kind = next((row.name for row in KINDS.values() if row.plural == plural), "")
    for each in _of_kind(kind):
        if each.verb == verb and each.whole == (name == ""):
            return each, name
    return None

"""What a caller may see of a group: machines see who sits where, and nobody's e-mail address."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from labfleet.resources.group import Group
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.views import Sources


def sight(sources: Sources, principal: Principal) -> str:
    """Return whether the caller sees e-mail addresses."""
    del sources
    return "all" if access.reads_addresses(principal) else "no e-mail"


def view(sources: Sources, principal: Principal) -> Callable[[Group], Group] | None:
    """Return what leaves out e-mail addresses; None for who sees all."""
    del sources
    return private(principal)


def private(principal: Principal) -> Callable[[Group], Group] | None:
    """Return what leaves out what the caller never reads of a group; None for who reads all."""
    return None if access.reads_addresses(principal) else without_addresses


def without_addresses(group: Group) -> Group:
    """Return a group without the addresses of those who sit there."""
    if not any(each.email for each in group.spec.seats):
        return group
    seats = tuple(msgspec.structs.replace(each, email="") for each in group.spec.seats)
    return msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, seats=seats))

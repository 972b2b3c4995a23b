"""The page of what somebody may do: acts on whole kinds and on several objects, and their role."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.resources.kinds import KINDS
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web.acts import table
from labfleet.web.acts.act import Offer
from labfleet.web.view import Asked

ROOT = "/actions"


@dataclass(frozen=True, slots=True)
class Ability:
    """One kind: its title, what may be done with it as a whole, and what the role allows in words."""

    title: str
    acts: tuple[Offer, ...]
    allowed: str


@dataclass(frozen=True, slots=True)
class ActionsPage:
    """What a caller may do, by kind, and the roles that there are."""

    abilities: tuple[Ability, ...]


async def page(_services: ServiceContext, caller: Caller, _asked: Asked) -> ActionsPage:
    """Return what the caller's role allows, of what can be done at all, as `access` has it."""
    found = []
    for row in KINDS.values():
        used = {"read", *(each.right for each in (*table.of(row.name), *table.on_kind(row.name)))}
        allowed = [
            access.deed_of(action, row.name) for action in access.ACTIONS
            if action in used and access.may(caller.principal, action, row.name)
        ]  # fmt: skip
        acts = table.of_kind(caller, row.name)
        if allowed:
            said = "; ".join(allowed)
            found.append(Ability(row.plural.capitalize(), acts, f"{said[:1].upper()}{said[1:]}."))
    return ActionsPage(tuple(found))

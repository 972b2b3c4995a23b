"""Authorization: what each role may do and set, and which objects a caller may see.

What only holds for a kind stands in that kind's rules (`service/kinds`).

Authentication (whose token this is) is in `tokens`; here the principal is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.roles import Role

__all__ = [
    "ACTIONS", "SYSTEM", "Principal", "Role", "deed_of", "demand", "demand_fields", "may",
    "of_owner", "only_owner", "owners", "reads_addresses", "sees",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller: `id` is the token's, `owner` the name that its sessions carry."""

    id: str
    role: Role
    owner: str = ""

    @property
    def name(self) -> str:
        """Return the caller's name for events and sessions."""
        return self.owner or self.id


# For verbs that the product's own controllers call in process.
SYSTEM = Principal("labfleet", Role.SYSTEM)

ACTIONS = {
    "read": "read {kinds}",
    "create": "create {kinds}",
    "update": "change {kinds}",
    "delete": "delete {kinds}",
    "drain": "take {kinds} in or out of service",
    "force": "end what still runs on {kinds}",
    "cleanup": "remove records of ended {kinds}",
    "operate": "operate or leave alone labs of {kinds}",
    "release": "release ports that labs on {kinds} hold",
    "license": "register, renew or give back licences of {kinds}",
    "cancel": "cancel {kinds}",
    "extend": "extend {kinds}",
    "shorten": "shorten {kinds}",
    "move": "move {kinds} to another slot",
    "check-in": "check in to {kinds}",
    "hand-over": "hand over or take {kinds}",
    "retry": "retry {kinds}",
    "observe": "look into {kinds}",
    "download": "have what was kept of {kinds}",
    "record": "report on {kinds}",
    "admit": "ask for or end {kinds}",
    "recommend": "read what is recommended for {kinds}, or propose it",
    "apply": "apply what is recommended for {kinds}",
    "pause": "pause or resume automatic actions",
    "tokens": "create, list or revoke {kinds}",
}
"""What each action lets somebody do, in words that a refusal repeats.

`read` is get, list, events, explain and the stream; `drain` also cordon, start and stop; `observe`
also a machine's console text.
"""

_MACHINES = frozenset({Role.CONTROLLER, Role.RUNNER})
_WRITES = frozenset({"create", "update", "delete"})
_EVERYWHERE = {
    Role.ADMIN: frozenset(ACTIONS),
    Role.OPERATOR: frozenset(ACTIONS) - {"tokens", "apply"},
    Role.USER: frozenset[str](),
    Role.CONTROLLER: frozenset({"read"}),
    Role.RUNNER: frozenset[str](),
    Role.SYSTEM: frozenset({"read"}),
}
"""What a role may do with any kind; all else is granted by the kind's rules, or forbidden."""


def may(principal: Principal, action: str, kind: str) -> bool:
    """Tell whether the tables allow the action on this kind."""
    rules, role = TABLE.get(kind), principal.role
    if rules is not None and rules.admins_only and action in _WRITES and role is not Role.ADMIN:
        return False
    if action in _EVERYWHERE[role]:
        return True
    return rules is not None and action in rules.grants.get(role, frozenset())


def demand(principal: Principal, action: str, kind: str) -> None:
    """Raise Denied (reason Forbidden) unless the table allows the action on this kind."""
    if not may(principal, action, kind):
        deed = deed_of(action, kind)
        raise errors.Denied(f"role {principal.role} may not {deed}", reason="Forbidden")


def deed_of(action: str, kind: str) -> str:
    """Return what an action with objects of a kind is, such as `read workers`."""
    row = KINDS.get(kind)
    return ACTIONS[action].format(kinds=f"{kind.lower()}s" if row is None else row.plural)


def demand_fields(principal: Principal, action: str, kind: str, spec: object) -> None:
    """Raise Denied (reason ForbiddenField) for a field of a raw spec that the role may not set."""
    rules = TABLE.get(kind)
    fields = None if rules is None else rules.fields.get(principal.role, {}).get(action)
    if fields is None or not isinstance(spec, Mapping):
        return
    given = [str(name)[:64] for name, value in spec.items() if value is not None]
    wrong = sorted(name for name in given if name not in fields)
    if wrong:
        message = (
            f"role {principal.role} may not set {', '.join(wrong[:5])} of {KINDS[kind].one}, "
            f"only {', '.join(sorted(fields))}"
        )
        raise errors.Denied(message, reason="ForbiddenField")


def reads_addresses(principal: Principal) -> bool:
    """Tell whether a caller may read people's e-mail addresses where they may read the object.

    They are for the people themselves, operators, admins, and webhooks, which those set up; a machine
    that reports on labs or runs needs none.
    """
    return principal.role not in _MACHINES


def only_owner(principal: Principal, kind: str) -> str | None:
    """Return the only owner whose objects of this kind the caller may see; None means all.

    Those that the owner booked for others count as theirs (`of_owner`).
    """
    rules = TABLE.get(kind)
    owned = rules is not None and principal.role in rules.owned
    return principal.name if owned else None


def sees(principal: Principal, obj: Resource) -> bool:
    """Tell whether the caller may see this object."""
    if not may(principal, "read", obj.kind):
        return False
    owner = only_owner(principal, obj.kind)
    return owner is None or of_owner(owner, obj)


def of_owner(owner: str, obj: Resource) -> bool:
    """Tell whether an object is an owner's, or one that the owner booked for somebody else."""
    return owner in owners(obj)


def owners(obj: Resource) -> frozenset[str]:
    """Return whose an object is: its owner's, and of whoever booked it; none of what has no owner."""
    owner, rules = getattr(obj.spec, "owner", None), TABLE.get(obj.kind)
    booked = () if rules is None or rules.booked is None else rules.booked.values(obj)
    return frozenset(booked if owner is None else (owner, *booked))

"""Authorization: roles, one table of rules and fields, and which objects a caller may see.

Authentication (whose token this is) is in `tokens`; here the principal is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from labfleet.kernel import errors
from labfleet.resources.cluster import Simulation
from labfleet.resources.meta import Resource
from labfleet.resources.session import Session


class Role(StrEnum):
    """The kind of a caller: people, then programs, then the product itself, which has no token."""

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    CONTROLLER = "controller"
    RUNNER = "runner"
    SYSTEM = "system"


FOR_TOKENS = tuple(role for role in Role if role is not Role.SYSTEM)
"""The roles that a token may have."""
EARLIER = {"internal": Role.CONTROLLER}
"""Roles of tokens made by earlier versions: what they are now."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. `owner` is the name that this caller's sessions carry."""

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
    "read": "get, list, events, explain, stream",
    "create": "create",
    "update": "replace and patch",
    "delete": "delete",
    "drain": "drain, cancel a drain, cordon, uncordon, set what a worker shall become",
    "force": "end what still runs on a worker",
    "cleanup": "remove records of ended workers",
    "cancel": "end a session",
    "extend": "move a session's end",
    "observe": "ask for an observation",
    "record": "record an observation",
    "admit": "ask whether a simulation may run, and report its end",
    "pause": "pause and resume automatic actions",
    "tokens": "create, list and revoke tokens",
}

_ANY = frozenset({"*"})
_SESSION = frozenset({"Session"})
_WORKER = frozenset({"Worker"})
_BOTH = _SESSION | _WORKER

# The whole table: role -> action -> kinds. Everything else is forbidden.
RULES: dict[Role, dict[str, frozenset[str]]] = {
    Role.ADMIN: dict.fromkeys(ACTIONS, _ANY),
    Role.OPERATOR: {action: _ANY for action in ACTIONS if action != "tokens"},
    Role.USER: {
        "read": frozenset({"Session", "Definition"}),
        "create": _SESSION,
        "delete": _SESSION,
        "cancel": _SESSION,
        "extend": _SESSION,
        "observe": _SESSION,
    },
    # Upstream's controllers: they report and look after workers, and touch no person's session.
    Role.CONTROLLER: {
        "read": _ANY,
        "create": _WORKER,
        "drain": _WORKER,
        "cleanup": _WORKER,
        "record": _BOTH,
    },
    # A program that runs simulations: it asks, and ends and reads its own.
    Role.RUNNER: {"read": frozenset({"Simulation"}), "admit": frozenset({"Simulation"})},
    Role.SYSTEM: {
        "read": _ANY,
        "create": _BOTH,
        "delete": _BOTH,
        "drain": _WORKER,
        "force": _WORKER,
        "cleanup": _WORKER,
        "cancel": _SESSION,
        "extend": _SESSION,
        "observe": _SESSION,
        "record": _BOTH,
        "admit": frozenset({"Simulation"}),
    },
}

# Role -> (action, kind) -> the fields of `spec` that this role may set; no row: all of them.
FIELDS: dict[Role, dict[tuple[str, str], frozenset[str]]] = {
    Role.USER: {
        ("create", "Session"): frozenset(
            {"definition", "owner", "slot", "track", "priority", "reservationId"}
        ),
    },
    # A machine or an origin of its own would send a password of ours to any address, and start an
    # instance with any profile and program.
    Role.CONTROLLER: {("create", "Worker"): frozenset({"template"})},
}


# Kinds that only an admin writes (facts/upstream.md#stream-and-roles); pausing is an action of its
# own.
_ADMINS_OWN = frozenset({"Settings"})
_WRITES = frozenset({"create", "update", "delete"})


def may(principal: Principal, action: str, kind: str) -> bool:
    """Tell whether the table allows the action on this kind."""
    if kind in _ADMINS_OWN and action in _WRITES and principal.role is not Role.ADMIN:
        return False
    kinds = RULES[principal.role].get(action, frozenset())
    return kind in kinds or "*" in kinds


def demand(principal: Principal, action: str, kind: str) -> None:
    """Raise Denied (reason Forbidden) unless the table allows the action on this kind."""
    if not may(principal, action, kind):
        message = f"role {principal.role} may not {ACTIONS[action].split(',')[0]} ({kind})"
        raise errors.Denied(message, reason="Forbidden")


def demand_fields(principal: Principal, action: str, kind: str, spec: object) -> None:
    """Raise Denied (reason ForbiddenField) for a field of a raw spec that the role may not set."""
    fields = FIELDS.get(principal.role, {}).get((action, kind))
    if fields is None or not isinstance(spec, Mapping):
        return
    wrong = [str(name)[:64] for name, value in spec.items() if value is not None]
    wrong = [name for name in wrong if name not in fields]
    if wrong:
        message = (
            f"role {principal.role} may not set {', '.join(sorted(wrong)[:5])} of a "
            f"{kind.lower()}, only {', '.join(sorted(fields))}"
        )
        raise errors.Denied(message, reason="ForbiddenField")


_OWN = {(Role.USER, "Session"), (Role.RUNNER, "Simulation")}


def only_owner(principal: Principal, kind: str) -> str | None:
    """Return the only owner whose objects of this kind the caller may see; None means all."""
    return principal.name if (principal.role, kind) in _OWN else None


def sees(principal: Principal, obj: Resource) -> bool:
    """Tell whether the caller may see this object."""
    if not may(principal, "read", obj.kind):
        return False
    owner = only_owner(principal, obj.kind)
    owned = isinstance(obj, Session | Simulation)
    return owner is None or (owned and obj.spec.owner == owner)

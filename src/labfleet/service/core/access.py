"""Authorization: roles, one table of rules, and which objects a caller may see.

Authentication (whose token this is) is in `tokens`; here the principal is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from labfleet.kernel import errors
from labfleet.resources import session
from labfleet.resources.meta import Resource


class Role(StrEnum):
    """The kind of a caller."""

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    INTERNAL = "internal"


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
SYSTEM = Principal("labfleet", Role.INTERNAL)

ACTIONS = {
    "read": "get, list, events, explain, stream",
    "create": "create",
    "update": "replace and patch",
    "delete": "delete",
    "drain": "drain, cancel a drain, cordon, uncordon, set what a worker shall become",
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
_BOTH = frozenset({"Session", "Worker"})

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
    Role.INTERNAL: {
        "read": _ANY,
        "create": _BOTH,
        "delete": _BOTH,
        "drain": frozenset({"Worker"}),
        "cancel": _SESSION,
        "extend": _SESSION,
        "observe": _SESSION,
        "record": _BOTH,
        "admit": frozenset({"Simulation"}),
    },
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


def only_owner(principal: Principal, kind: str) -> str | None:
    """Return the only owner whose objects of this kind the caller may see; None means all."""
    if principal.role is Role.USER and kind == "Session":
        return principal.name
    return None


def sees(principal: Principal, obj: Resource) -> bool:
    """Tell whether the caller may see this object."""
    if not may(principal, "read", obj.kind):
        return False
    owner = only_owner(principal, obj.kind)
    return owner is None or (isinstance(obj, session.Session) and obj.spec.owner == owner)

"""Who may call: bearer tokens and what each may do.

The rules are few: everything, reading only, or one namespace. Roles and bindings are stored and
not asked.
"""

import hashlib
from dataclasses import dataclass, field

from kubernetes_simulator.core.errors import ApiError, forbidden, too_many
from kubernetes_simulator.core.kinds import Resource

READING = frozenset({"get", "list", "watch"})
MOST_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a token stands for.

    user: the name that refusals tell. reads_only: nothing may be changed. namespace: the one that
    may be seen; "" for all. expires: when the token ends, in seconds since 1970; None: never.
    """

    user: str
    reads_only: bool = False
    namespace: str = ""
    expires: float | None = None
    groups: tuple[str, ...] = ("system:authenticated",)


ADMIN = Caller("kubernetes-admin", groups=("system:masters", "system:authenticated"))


def fingerprint(token: str) -> str:
    """Return what a token is stored as."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(slots=True)
class Access:
    """The tokens that are good, by fingerprint, and who sends none; None: that is refused."""

    callers: dict[str, Caller] = field(default_factory=dict)
    nobody: Caller | None = None

    def allow(self, token: str, caller: Caller) -> None:
        """Let a token be good; 429 when there are too many."""
        if len(self.callers) >= MOST_TOKENS:
            raise too_many("too many tokens")
        self.callers[fingerprint(token)] = caller

    def rotate(self, token: str, fresh: str) -> None:
        """Put a fresh token in the place of an old one, which is refused from now on."""
        caller = self.callers.pop(fingerprint(token), None)
        if caller is None:
            raise ApiError(404, "NotFound", "no such token")
        self.callers[fingerprint(fresh)] = caller

    def revoke(self, token: str) -> None:
        """Refuse a token from now on."""
        self.callers.pop(fingerprint(token), None)

    def caller(self, header: str, now: float) -> Caller:
        """Return who calls; 401 if nobody that is known."""
        if not header and self.nobody is not None:
            return self.nobody
        scheme, _, token = header.partition(" ")
        found = self.callers.get(fingerprint(token.strip()))
        if scheme.lower() != "bearer" or found is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if found.expires is not None and found.expires <= now:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return found


def may(caller: Caller, verb: str, namespace: str) -> bool:
    """Tell whether a caller may do something; discovery is open to all who are known."""
    if caller.reads_only and verb not in READING:
        return False
    return not caller.namespace or caller.namespace == namespace


def require(caller: Caller, verb: str, resource: Resource, namespace: str, name: str) -> None:
    """Raise the 403 of a caller who may not."""
    inside = name if resource.plural == "namespaces" and verb == "get" else namespace
    if may(caller, verb, inside):
        return
    where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
    called = f'"{name}" ' if name else ""
    full = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    raise forbidden(
        f'{full} {called}is forbidden: User "{caller.user}" cannot {verb} resource '
        f'"{resource.plural}" in API group "{resource.group}"{where}',
        {key: value for key, value in details.items() if value},
    )

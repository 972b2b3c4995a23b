"""What people can ask of a process, in its verbs; each method says how to ask one replica.

Here are the service's verbs, called inside the process. Other doors offer the same methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from labfleet.rehearsal.replicas.replica import Replica
from labfleet.resources.kinds import KINDS
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.parts import Caller
from labfleet.service.verbs import adoption, objects, settings_verbs
from labfleet.service.verbs import lifecycle as verbs

Ask = Callable[[Replica], Awaitable[Any]]
Desired = Literal["Ready", "Stopped", "Terminated"]
ADMIN = Caller(Principal("admin", Role.ADMIN, "ada"))


class Desk(Protocol):
    """Everything that people ask for; what an Ask raises is an error of kernel.errors."""

    def create(self, kind: str, name: str | None, spec: Mapping[str, Any], key: str) -> Ask: ...
    def delete(self, kind: str, name: str) -> Ask: ...
    def cancel(self, session: str, reason: str) -> Ask: ...
    def extend(self, session: str, by: timedelta, key: str) -> Ask: ...
    def observe(self, session: str) -> Ask: ...
    def drain(self, worker: str, deadline: datetime, reason: str, *, force: bool) -> Ask: ...
    def change_drain(
        self, worker: str, *, deadline: datetime | None = None, force: bool | None = None
    ) -> Ask: ...
    def cancel_drain(self, worker: str) -> Ask: ...
    def cordon(self, worker: str, *, closed: bool) -> Ask: ...
    def desire(self, worker: str, desired: Desired) -> Ask: ...
    def settings(self, values: Mapping[str, Any]) -> Ask: ...
    def pause(self, pool: str | None, reason: str) -> Ask: ...
    def resume(self, pool: str | None) -> Ask: ...
    def adopt(self, worker: str) -> Ask: ...


class Verbs:
    """The desk of direct seeds: the service's verbs, without HTTP."""

    def create(self, kind: str, name: str | None, spec: Mapping[str, Any], key: str) -> Ask:
        """Make an object; the key makes a repeated request the same one."""
        body = {"metadata": {"name": name} if name else {}, "spec": dict(spec)}
        return lambda at: at.ask(
            lambda parts: objects.create(parts, ADMIN, KINDS[kind], body, key=key)
        )

    def delete(self, kind: str, name: str) -> Ask:
        """Ask for an object's end."""
        return lambda at: at.ask(lambda parts: objects.delete(parts, ADMIN, KINDS[kind], name))

    def cancel(self, session: str, reason: str) -> Ask:
        """End a session before its time."""
        return lambda at: at.ask(lambda parts: verbs.cancel(parts, ADMIN, session, reason=reason))

    def extend(self, session: str, by: timedelta, key: str) -> Ask:
        """Move a session's end."""
        return lambda at: at.ask(lambda parts: verbs.extend(parts, ADMIN, session, by=by, key=key))

    def observe(self, session: str) -> Ask:
        """Ask for a look at a running session."""
        return lambda at: at.ask(lambda parts: verbs.observe(parts, ADMIN, session))

    def drain(self, worker: str, deadline: datetime, reason: str, *, force: bool) -> Ask:
        """Ask for a worker to be emptied."""
        return lambda at: at.ask(
            lambda parts: verbs.drain(
                parts, ADMIN, worker, deadline=deadline, reason=reason, force=force
            )
        )

    def change_drain(
        self, worker: str, *, deadline: datetime | None = None, force: bool | None = None
    ) -> Ask:
        """Move a drain's deadline, or let it end what still runs."""
        return lambda at: at.ask(
            lambda parts: verbs.change_drain(parts, ADMIN, worker, deadline=deadline, force=force)
        )

    def cancel_drain(self, worker: str) -> Ask:
        """Take a drain back."""
        return lambda at: at.ask(lambda parts: verbs.cancel_drain(parts, ADMIN, worker))

    def cordon(self, worker: str, *, closed: bool) -> Ask:
        """Close a worker for new sessions, or open it."""
        return lambda at: at.ask(lambda parts: verbs.cordon(parts, ADMIN, worker, closed=closed))

    def desire(self, worker: str, desired: Desired) -> Ask:
        """Say what a worker shall become."""
        return lambda at: at.ask(lambda parts: verbs.desire(parts, ADMIN, worker, desired=desired))

    def settings(self, values: Mapping[str, Any]) -> Ask:
        """Change settings by name."""
        return lambda at: at.ask(lambda parts: settings_verbs.change(parts, ADMIN, values))

    def pause(self, pool: str | None, reason: str) -> Ask:
        """Stop automatic actions, of a pool or of all."""
        if pool is None:
            return lambda at: at.ask(
                lambda parts: settings_verbs.pause(parts, ADMIN, reason=reason)
            )
        return lambda at: at.ask(
            lambda parts: settings_verbs.pause_pool(parts, ADMIN, pool, reason=reason)
        )

    def resume(self, pool: str | None) -> Ask:
        """Let automatic actions go on."""
        if pool is None:
            return lambda at: at.ask(lambda parts: settings_verbs.resume(parts, ADMIN))
        return lambda at: at.ask(
            lambda parts: settings_verbs.pause_pool(parts, ADMIN, pool, paused=False)
        )

    def adopt(self, worker: str) -> Ask:
        """Take a server of others into our care."""
        return lambda at: at.ask(lambda parts: adoption.adopt(parts, ADMIN, worker))

"""The requests that people can make; each method returns a function that asks one replica.

`DirectClient` calls the service's verbs inside the process. `http_client` has the same methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.replicas.run_wish import RunWish, Told, told
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.session import Slot
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import admission, adoption, licences, objects, retrying, settings_verbs
from labfleet.service.verbs import lifecycle as verbs

ReplicaCall = Callable[[Replica], Awaitable[Any]]
Desired = Literal["Ready", "Stopped", "Terminated"]
ADMIN = Caller(Principal("admin", Role.ADMIN, "ada"))


class FleetClient(Protocol):
    """Everything that people ask for, in one namespace; an Ask raises errors of kernel.errors."""

    @property
    def namespace(self) -> str: ...
    def create(
        self, kind: str, name: str | None, spec: Mapping[str, Any], key: str
    ) -> ReplicaCall: ...
    def delete(self, kind: str, name: str) -> ReplicaCall: ...
    def end_pool(self, pool: str) -> ReplicaCall: ...
    def cancel(self, session: str, reason: str) -> ReplicaCall: ...
    def extend(self, session: str, by: timedelta, key: str) -> ReplicaCall: ...
    def retry(self, session: str, key: str) -> ReplicaCall: ...
    def observe(self, session: str) -> ReplicaCall: ...
    def drain(
        self, worker: str, deadline: datetime, reason: str, *, force: bool
    ) -> ReplicaCall: ...
    def change_drain(
        self, worker: str, *, deadline: datetime | None = None, force: bool | None = None
    ) -> ReplicaCall: ...
    def cancel_drain(self, worker: str) -> ReplicaCall: ...
    def cordon(self, worker: str, *, closed: bool) -> ReplicaCall: ...
    def desire(self, worker: str, desired: Desired) -> ReplicaCall: ...
    def license(
        self, worker: str, verb: str, *, force: bool = False, product: str | None = None
    ) -> ReplicaCall: ...
    def settings(self, values: Mapping[str, Any]) -> ReplicaCall: ...
    def pause(self, pool: str | None, reason: str) -> ReplicaCall: ...
    def resume(self, pool: str | None) -> ReplicaCall: ...
    def adopt(self, worker: str) -> ReplicaCall: ...
    def request_run(self, wish: RunWish, key: str | None) -> ReplicaCall: ...
    def run_lives(self, name: str) -> ReplicaCall: ...
    def run_ended(self, name: str, status: str, observed: Mapping[str, float]) -> ReplicaCall: ...
    def run_phase(self, name: str, wait: int) -> ReplicaCall: ...


@dataclass(frozen=True, slots=True)
class DirectClient:
    """The client of direct seeds: calls the service's verbs without HTTP, in one namespace."""

    namespace: str = DEFAULT_NAMESPACE

    def create(self, kind: str, name: str | None, spec: Mapping[str, Any], key: str) -> ReplicaCall:
        """Make an object; the key makes a repeated request the same one."""
        body = {"metadata": {"name": name} if name else {}, "spec": dict(spec)}
        return lambda at: at.ask(
            lambda services: objects.create(
                services,
                ADMIN,
                KINDS[kind],
                body,
                namespace=self.namespace,
                key=keyed(self.namespace, key),
            )
        )

    def delete(self, kind: str, name: str) -> ReplicaCall:
        """Ask for an object's end."""
        return lambda at: at.ask(
            lambda services: objects.delete(services, ADMIN, KINDS[kind], name, self.namespace)
        )

    def end_pool(self, pool: str) -> ReplicaCall:
        """Say that a pool shall end, whatever it has promised."""
        body = {"spec": {"desired": "Terminated"}}
        return lambda at: at.ask(
            lambda services: objects.patch(
                services, ADMIN, KINDS["Pool"], pool, body, namespace=self.namespace
            )
        )

    def cancel(self, session: str, reason: str) -> ReplicaCall:
        """End a session before its time."""
        return lambda at: at.ask(
            lambda services: verbs.cancel(services, ADMIN, session, self.namespace, reason=reason)
        )

    def extend(self, session: str, by: timedelta, key: str) -> ReplicaCall:
        """Move a session's end."""
        return lambda at: at.ask(
            lambda services: verbs.extend(
                services, ADMIN, session, self.namespace, by=by, key=keyed(self.namespace, key)
            )
        )

    def retry(self, session: str, key: str) -> ReplicaCall:
        """Try a failed session again, now."""
        return lambda at: at.ask(
            lambda services: retrying.retry(
                services,
                ADMIN,
                session,
                self.namespace,
                slot=Slot(),
                key=keyed(self.namespace, key),
            )
        )

    def observe(self, session: str) -> ReplicaCall:
        """Ask for a look at a running session."""
        return lambda at: at.ask(
            lambda services: verbs.observe(services, ADMIN, session, self.namespace)
        )

    def drain(self, worker: str, deadline: datetime, reason: str, *, force: bool) -> ReplicaCall:
        """Ask for a worker to be emptied."""
        return lambda at: at.ask(
            lambda services: verbs.drain(
                services,
                ADMIN,
                worker,
                self.namespace,
                deadline=deadline,
                reason=reason,
                force=force,
            )
        )

    def change_drain(
        self, worker: str, *, deadline: datetime | None = None, force: bool | None = None
    ) -> ReplicaCall:
        """Move a drain's deadline, or let it end what still runs."""
        return lambda at: at.ask(
            lambda services: verbs.change_drain(
                services, ADMIN, worker, self.namespace, deadline=deadline, force=force
            )
        )

    def cancel_drain(self, worker: str) -> ReplicaCall:
        """Take a drain back."""
        return lambda at: at.ask(
            lambda services: verbs.cancel_drain(services, ADMIN, worker, self.namespace)
        )

    def cordon(self, worker: str, *, closed: bool) -> ReplicaCall:
        """Close a worker for new sessions, or open it."""
        return lambda at: at.ask(
            lambda services: verbs.cordon(services, ADMIN, worker, self.namespace, closed=closed)
        )

    def desire(self, worker: str, desired: Desired) -> ReplicaCall:
        """Say what a worker shall become."""
        return lambda at: at.ask(
            lambda services: verbs.desire(services, ADMIN, worker, self.namespace, desired=desired)
        )

    def license(
        self, worker: str, verb: str, *, force: bool = False, product: str | None = None
    ) -> ReplicaCall:
        """Have a licence registered, given back or renewed."""
        where = (worker, self.namespace)
        if verb == "renew":
            return lambda at: at.ask(lambda services: licences.renew(services, ADMIN, *where))
        if verb == "deregister":
            return lambda at: at.ask(
                lambda services: licences.deregister(services, ADMIN, *where, force=force)
            )
        return lambda at: at.ask(
            lambda services: licences.register(
                services, ADMIN, *where, product=product, again=True, force=force
            )
        )

    def settings(self, values: Mapping[str, Any]) -> ReplicaCall:
        """Change settings by name."""
        return lambda at: at.ask(lambda services: settings_verbs.change(services, ADMIN, values))

    def pause(self, pool: str | None, reason: str) -> ReplicaCall:
        """Stop automatic actions, of a pool or of all."""
        if pool is None:
            return lambda at: at.ask(
                lambda services: settings_verbs.pause(services, ADMIN, reason=reason)
            )
        return lambda at: at.ask(
            lambda services: settings_verbs.pause_pool(
                services, ADMIN, pool, self.namespace, reason=reason
            )
        )

    def resume(self, pool: str | None) -> ReplicaCall:
        """Let automatic actions go on."""
        if pool is None:
            return lambda at: at.ask(lambda services: settings_verbs.resume(services, ADMIN))
        return lambda at: at.ask(
            lambda services: settings_verbs.pause_pool(
                services, ADMIN, pool, self.namespace, paused=False
            )
        )

    def adopt(self, worker: str) -> ReplicaCall:
        """Take a server of others into our care."""
        return lambda at: at.ask(
            lambda services: adoption.adopt(services, ADMIN, worker, self.namespace)
        )

    def request_run(self, wish: RunWish, key: str | None) -> ReplicaCall:
        """Ask whether a run may start; the answer is a Told."""
        memo = None if key is None else keyed(self.namespace, key)

        async def asked(services: ServiceContext) -> Told:
            made = await admission.request_run(
                services, ADMIN, wish.spec(), namespace=self.namespace, key=memo
            )
            decision = made.status.decision
            return told("waiting" if decision is None else decision.outcome, made.name)

        return lambda at: at.ask(asked)

    def run_lives(self, name: str) -> ReplicaCall:
        """Report that a run lives."""
        return lambda at: at.ask(
            lambda services: admission.simulation_heartbeat(services, ADMIN, name, self.namespace)
        )

    def run_ended(self, name: str, status: str, observed: Mapping[str, float]) -> ReplicaCall:
        """Report how a run ended and what it used, by upstream 004's names."""
        return lambda at: at.ask(
            lambda services: admission.simulation_complete(
                services, ADMIN, name, self.namespace, status=status, observed=observed
            )
        )

    def run_phase(self, name: str, wait: int) -> ReplicaCall:
        """Read the phase of a run, waiting so many seconds while it is not decided."""

        async def read(services: ServiceContext) -> str:
            row = KINDS["Simulation"]
            found = await objects.get(services, ADMIN, row, name, self.namespace, wait=wait)
            return str(found.status.phase)

        return lambda at: at.ask(read)


def keyed(namespace: str, key: str) -> str:
    """Return an idempotency key that is unique to this namespace."""
    return key if namespace == DEFAULT_NAMESPACE else f"{namespace}-{key}"

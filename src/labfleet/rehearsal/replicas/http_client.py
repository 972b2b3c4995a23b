"""The client of wire seeds: people's requests go through the real HTTP application.

Each living process has an application of its own, as `app` builds it, made at the first request to
that process. Requests enter as ASGI, without a socket: token, routes, bodies, idempotency
keys and problem documents are the product's. A problem document is raised here as the
error that its status stands for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from labfleet.api import application
from labfleet.api.front import Front
from labfleet.api.streams.ring import Ring
from labfleet.kernel import errors
from labfleet.rehearsal.replicas.fleet_client import ADMIN, Desired, ReplicaCall, keyed
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.replicas.run_wish import RunWish, Told, told
from labfleet.rehearsal.time.loop import Process
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.service.core.tokens import Tokens

_RAISED: dict[int, type[errors.LabfleetError]] = {
    400: errors.Invalid,
    401: errors.Denied,
    403: errors.Denied,
    404: errors.Gone,
    409: errors.Conflict,
    410: errors.TooOld,
    429: errors.Throttled,
    503: errors.Temporary,
    504: errors.Ambiguous,
}


@dataclass(slots=True)
class HttpClient:
    """Asks over HTTP; `on_defect` hears of each 500. `replies` counts answers by status."""

    on_defect: Callable[[str], None]
    namespace: str = DEFAULT_NAMESPACE
    replies: dict[int, int] = field(default_factory=dict)
    _apps: WeakKeyDictionary[Process, tuple[Front, Tokens]] = field(
        default_factory=WeakKeyDictionary
    )
    _token: str = ""

    # --- what can be asked -------------------------------------------------------------

    def create(self, kind: str, name: str | None, spec: Mapping[str, Any], key: str) -> ReplicaCall:
        """Make an object; the key makes a repeated request the same one."""
        body = {"metadata": {"name": name} if name else {}, "spec": dict(spec)}
        return self._post(f"/api/v1/{KINDS[kind].plural}", body, key)

    def delete(self, kind: str, name: str) -> ReplicaCall:
        """Ask for an object's end."""
        return lambda at: self._send(at, "DELETE", f"/api/v1/{KINDS[kind].plural}/{name}")

    def end_pool(self, pool: str) -> ReplicaCall:
        """Say that a pool shall end, whatever it has promised."""
        body = {"spec": {"desired": "Terminated"}}
        return lambda at: self._send(at, "PATCH", f"/api/v1/pools/{pool}", body)

    def cancel(self, session: str, reason: str) -> ReplicaCall:
        """End a session before its time."""
        return self._post(f"/api/v1/sessions/{session}/cancel", {"reason": reason})

    def extend(self, session: str, by: timedelta, key: str) -> ReplicaCall:
        """Move a session's end."""
        body = {"bySeconds": int(by.total_seconds())}
        return self._post(f"/api/v1/sessions/{session}/extend", body, key)

    def retry(self, session: str, key: str) -> ReplicaCall:
        """Try a failed session again, now."""
        return self._post(f"/api/v1/sessions/{session}/retry", {"slot": {}}, key)

    def observe(self, session: str) -> ReplicaCall:
        """Ask for a look at a running session."""
        return self._post(f"/api/v1/sessions/{session}/observe", {})

    def drain(self, worker: str, deadline: datetime, reason: str, *, force: bool) -> ReplicaCall:
        """Ask for a worker to be emptied."""
        body = {"deadline": deadline.isoformat(), "reason": reason, "force": force}
        return self._post(f"/api/v1/workers/{worker}/drain", body)

    def change_drain(
        self, worker: str, *, deadline: datetime | None = None, force: bool | None = None
    ) -> ReplicaCall:
        """Move a drain's deadline, or let it end what still runs."""
        body: dict[str, Any] = {}
        if deadline is not None:
            body["deadline"] = deadline.isoformat()
        if force is not None:
            body["force"] = force
        return self._post(f"/api/v1/workers/{worker}/change-drain", body)

    def cancel_drain(self, worker: str) -> ReplicaCall:
        """Take a drain back."""
        return self._post(f"/api/v1/workers/{worker}/cancel-drain", {})

    def cordon(self, worker: str, *, closed: bool) -> ReplicaCall:
        """Close a worker for new sessions, or open it."""
        return self._post(f"/api/v1/workers/{worker}/{'cordon' if closed else 'uncordon'}", {})

    def desire(self, worker: str, desired: Desired) -> ReplicaCall:
        """Say what a worker shall become."""
        return self._post(f"/api/v1/workers/{worker}/desired", {"desired": desired})

    def license(
        self, worker: str, verb: str, *, force: bool = False, product: str | None = None
    ) -> ReplicaCall:
        """Have a licence registered, given back or renewed."""
        body: dict[str, Any] = {} if verb == "renew" else {"force": force}
        if verb == "register":
            body |= {"product": product, "again": True}
        return self._post(f"/api/v1/workers/{worker}/{verb}-licence", body)

    def settings(self, values: Mapping[str, Any]) -> ReplicaCall:
        """Change settings by name."""
        return self._post("/api/v1/settings/change", {"set": dict(values)})

    def pause(self, pool: str | None, reason: str) -> ReplicaCall:
        """Stop automatic actions, of a pool or of all."""
        return self._post(f"/api/v1/{_what(pool)}/pause", {"reason": reason})

    def resume(self, pool: str | None) -> ReplicaCall:
        """Let automatic actions go on."""
        return self._post(f"/api/v1/{_what(pool)}/resume", {})

    def adopt(self, worker: str) -> ReplicaCall:
        """Take a server of others into our care."""
        return self._post(f"/api/v1/workers/{worker}/adopt", {})

    def request_run(self, wish: RunWish, key: str | None) -> ReplicaCall:
        """Ask whether a run may start, as run scripts do; the answer is a Told."""

        async def asked(at: Replica) -> Told:
            reply = await self._send(at, "POST", "/request_run", wish.sent(), key)
            return told(reply["decision"], reply["record"])

        return asked

    def run_lives(self, name: str) -> ReplicaCall:
        """Report that a run lives."""
        return self._post("/simulation_heartbeat", {"simulation_id": name})

    def run_ended(self, name: str, status: str, observed: Mapping[str, float]) -> ReplicaCall:
        """Report how a run ended and what it used, by upstream 004's names."""
        body = {"simulation_id": name, "status": status, "observed": dict(observed)}
        return self._post("/simulation_complete", body)

    def run_phase(self, name: str, wait: int) -> ReplicaCall:
        """Read the phase of a run, waiting so many seconds while it is not decided."""

        async def read(at: Replica) -> str:
            found = await self._send(at, "GET", f"/api/v1/simulations/{name}?wait={wait}")
            return str(found["status"]["phase"])

        return read

    # --- how ---------------------------------------------------------------------------

    def _post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> ReplicaCall:
        return lambda at: self._send(at, "POST", path, body, key)

    async def _send(
        self,
        at: Replica,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Any:
        app, tokens = self._app(at)
        if not self._token:
            who = ADMIN.principal
            made = await at.ask(lambda _: tokens.create(who, role=who.role, owner="ada"))
            self._token = made.text
        headers = {"authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["content-type"] = "application/json"
        if key is not None:
            headers["idempotency-key"] = keyed(self.namespace, key)
        content = b"" if body is None else json.dumps(body).encode()
        query = "" if self.namespace == DEFAULT_NAMESPACE else f"?namespace={self.namespace}"
        status, raw = await at.ask(lambda _: _exchange(app, method, path + query, headers, content))
        self.replies[status] = self.replies.get(status, 0) + 1
        if status < 300:
            return json.loads(raw) if raw else True
        problem = json.loads(raw)
        if status == 500:
            self.on_defect(f"{method} {path} was answered with {problem['detail']}")
        kind = _RAISED.get(status, errors.Permanent)
        raise kind(problem["detail"], reason=problem["reason"])

    def _app(self, at: Replica) -> tuple[Front, Tokens]:
        """Return the application of a process, made the first time."""
        found = self._apps.get(at.around.process)
        if found is None:
            around = at.around
            tokens = Tokens(around.store, around.clock, around.ids)
            app = application.build(
                at.services,
                tokens,
                Ring(around.store),
                readiness=lambda: {"api": None},
                metrics=lambda: (b"", "text/plain"),
                on_defect=lambda _, error: self.on_defect(f"{type(error).__name__}: {error}"),
            )
            found = self._apps[around.process] = (app, tokens)
        return found


def _what(pool: str | None) -> str:
    return "settings" if pool is None else f"pools/{pool}"


async def _exchange(
    app: Front, method: str, path: str, headers: Mapping[str, str], content: bytes
) -> tuple[int, bytes]:
    """Send one request to an application; return status and body."""
    path, _, query = path.partition("?")
    asked = iter([{"type": "http.request", "body": content, "more_body": False}])
    status, body = 0, bytearray()

    async def receive() -> dict[str, Any]:
        for message in asked:
            return message
        await asyncio.Event().wait()  # the client waits for its answer
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            body.extend(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    await app(scope, receive, send)
    return status, bytes(body)

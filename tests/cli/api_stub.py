"""A stub of the API on loopback: objects, faults, streams, and what was asked of it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from labfleet.resources import kinds

PLURALS = {row.plural: row.name for row in kinds.KINDS.values()}


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Stub:
    """Objects, faults to give first, streams to play, and what was asked."""

    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    faults: list[Any] = field(default_factory=list)
    refusals: list[Any] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    after_write: list[Any] = field(default_factory=list)
    on_get: list[Any] = field(default_factory=list)
    replies: dict[str, Any] = field(default_factory=dict)
    revision: int = 10
    connections: int = 0
    url: str = ""
    on_stream_end: Any = None
    paused: str = ""
    warning: str = ""
    location: str = ""

    def put(self, kind: str, name: str, **services: Any) -> dict[str, Any]:
        """Keep an object as the server would."""
        self.revision += 1
        obj = {
            "apiVersion": "labfleet.dev/v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "labels": services.pop("labels", {}),
                "annotations": {},
                "generation": 1,
                "resourceVersion": str(self.revision),
                "creationTimestamp": "2026-11-27T11:00:00Z",
            },
            "spec": services.pop("spec", {}),
            "status": services.pop("status", {}),
        }
        self.objects[(kind, name)] = obj
        return obj

    def sent(self) -> list[dict[str, Any]]:
        """Return every object that was sent to be applied."""
        applies = [each for each in self.seen if each.path == "/api/v1/apply"]
        return [
            one for each in applies if each.query["mode"] == "apply" for one in each.body["items"]
        ]

    def calls(self, method: str) -> list[Seen]:
        """Return what came with this method."""
        return [each for each in self.seen if each.method == method]

    def answer(self, ask: Seen) -> tuple[int, Any]:
        """Return status and body for a request."""
        key = f"{ask.method} {ask.path}"
        if key in self.answers:
            return self.answers[key]
        parts = [unquote(each) for each in ask.path.removeprefix("/api/v1/").split("/")]
        if parts == ["version"]:
            return 200, {"version": "0.1.0", "time": "2026-11-27T12:00:00.000Z", "rate": 1.0}
        if parts[0] == "tokens":
            return self._tokens(ask, parts)
        if parts == ["apply"]:
            return 200, {"items": [self._applied(ask, each) for each in ask.body["items"]]}
        kind = PLURALS.get(parts[0])
        if kind is None:
            return _problem(404, "NotFound", f"no route {ask.path}")
        if len(parts) == 1:
            return self._many(ask, kind)
        obj = self.objects.get((kind, parts[1]))
        if ask.method == "GET" and self.on_get:
            self.on_get.pop(0)(self)
            obj = self.objects.get((kind, parts[1]))
        if obj is None:
            return _problem(404, "NotFound", f"{kind.lower()}/{parts[1]} does not exist")
        if len(parts) == 3:
            return 200, self._done(obj, parts[2], ask.body or {}) if ask.method == "POST" else obj
        return self._one(ask, kind, obj)

    def _done(self, obj: dict[str, Any], verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Set in an object's spec what a verb asks for, as the server does."""
        wishes: dict[str, dict[str, Any]] = {
            "cordon": {"cordoned": True}, "uncordon": {"cordoned": False}, "drain": {"drain": body},
            "cancel-drain": {"drain": None}, "change-drain": {"drain": body}, "desired": body,
            "idle-detection": {"idleDetection": body.get("enabled")},
            "pause": {"paused": True}, "resume": {"paused": False},
        }  # fmt: skip
        if verb in wishes:
            obj["spec"] = {**obj["spec"], **wishes[verb]}
        return obj

    def _applied(self, ask: Seen, body: dict[str, Any]) -> dict[str, Any]:
        """Create or merge one object as the server does; `refusals` are given first."""
        kind, name, mode = body["kind"], body["metadata"]["name"], ask.query["mode"]
        if mode == "check":
            return {"result": "valid"}
        if self.refusals:
            refusal = self.refusals.pop(0)
            if refusal is not None:
                return {"result": "refused", "problem": refusal}
        before = self.objects.get((kind, name))
        spec = {**(before or {}).get("spec", {}), **body.get("spec", {})}
        labels = {**(before or {"metadata": {}})["metadata"].get("labels", {}),
                  **body["metadata"].get("labels", {})}  # fmt: skip
        same = before is not None and (before["spec"], before["metadata"]["labels"]) == (
            spec, labels)  # fmt: skip
        result = "created" if before is None else "unchanged" if same else "configured"
        status = (before or {}).get("status", {})
        if mode == "apply" and not same:
            made = self.put(kind, name, spec=spec, labels=labels, status=status)
        else:
            metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
            made = {"kind": kind, "metadata": metadata, "spec": spec, "status": status}
        return {"result": result, "object": made, "before": before}

    def _many(self, ask: Seen, kind: str) -> tuple[int, Any]:
        if ask.method == "POST":
            key = ask.headers["idempotency-key"]
            if key not in self.replies:
                name = ask.body["metadata"]["name"]
                if (kind, name) in self.objects:
                    return _problem(409, "Conflict", f"{name} exists")
                made = self.put(kind, name, spec=ask.body.get("spec", {}))
                made["metadata"]["labels"] = ask.body["metadata"].get("labels", {})
                self.replies[key] = made
            return 201, self.replies[key]
        items = [obj for (each, _), obj in sorted(self.objects.items()) if each == kind]
        start = int(ask.query.get("cursor", 0))
        size = int(ask.query.get("limit", 500))
        rest = str(start + size) if start + size < len(items) else None
        cursor = f"e1.{self.revision}"
        return 200, {
            "kind": "List", "items": items[start : start + size], "cursor": cursor, "next": rest,
        }  # fmt: skip

    def _one(self, ask: Seen, kind: str, obj: dict[str, Any]) -> tuple[int, Any]:
        if ask.method == "PUT":
            if ask.body["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                return _problem(409, "Conflict", "stale resourceVersion")
            made = self.put(kind, obj["metadata"]["name"], spec=ask.body["spec"])
            made["metadata"]["labels"] = ask.body["metadata"].get("labels", {})
            return 200, made
        if ask.method == "DELETE":
            if ask.query.get("uid", obj["metadata"]["uid"]) != obj["metadata"]["uid"]:
                return _problem(404, "NotFound", "another one has its name now")
            del self.objects[(kind, obj["metadata"]["name"])]
            return 200, obj
        return 200, obj

    def _tokens(self, ask: Seen, services: list[str]) -> tuple[int, Any]:
        row = {"id": "t1", "role": "user", "owner": "ada", "created": "2026-11-27T11:00:00Z",
               "expires": None, "revoked": None}  # fmt: skip
        if ask.method == "POST":
            return 201, {**row, **ask.body, "token": "lf_t1_shownonce"}
        if ask.method == "DELETE":
            return 200, {**row, "revoked": "2026-11-27T12:00:00Z"}
        return 200, {"items": [row]}


def _problem(status: int, reason: str, detail: str) -> tuple[int, Any]:
    return status, {
        "type": "about:blank", "title": reason, "status": status, "detail": detail,
        "reason": reason, "requestId": "req-7",
    }  # fmt: skip


class _Asked(BaseHTTPRequestHandler):
    stub: Stub
    protocol_version = "HTTP/1.1"
    # Head and body are two writes: the second would wait 40 ms for the first one's acknowledgement.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """Count the connection."""
        super().setup()
        self.stub.connections += 1

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do(self) -> None:
        """Record, then answer."""
        size = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(size)
        parts = urlsplit(self.path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        ask = Seen(self.command, parts.path, dict(parse_qsl(parts.query)), headers,
                   json.loads(raw) if raw else None)  # fmt: skip
        if parts.path != "/api/v1/version":
            self.stub.seen.append(ask)
        if parts.path == "/api/v1/events":
            self._stream()
            return
        told = parts.path != "/api/v1/version"
        fault = self.stub.faults.pop(0) if self.stub.faults and told else None
        if fault == "drop":
            self.close_connection = True
            return
        if fault == "drop after":
            self.stub.answer(ask)
            self.close_connection = True
            return
        if isinstance(fault, tuple):
            self._send(fault[0], fault[1])
            return
        status, body = self.stub.answer(ask)
        self._send(status, json.dumps(body))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do

    def _send(self, status: int, text: str) -> None:
        raw = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("X-Request-Id", "req-header")
        if self.stub.location:
            self.send_header("Location", self.stub.location)
        if self.stub.warning:
            self.send_header("Labfleet-Warning", quote(self.stub.warning))
        if self.stub.paused:
            self.send_header("Labfleet-Paused", quote(self.stub.paused))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self) -> None:
        self.close_connection = True
        if not self.stub.streams:
            # Nothing more to play: refuse, so that the watch ends in the test.
            self._send(403, json.dumps({"detail": "the play is over", "reason": "Forbidden"}))
            return
        text = self.stub.streams.pop(0)
        if text == "503":
            self._send(503, json.dumps({"detail": "not yet", "reason": "Busy"}))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())


@contextmanager
def serving(made: Stub):
    """Serve the API's contract on a free port of the loopback."""
    handler = type("Handler", (_Asked,), {"stub": made})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

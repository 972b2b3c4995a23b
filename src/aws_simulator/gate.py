"""The WSGI gate before moto: control endpoint, faults, request buckets, checks and the journal.

The order of a call: fault before → bucket → check → moto → fault after. Dropping a connection
shuts the socket that werkzeug leaves in the environ, so the client sees a reset, not an error.
"""

import re
import socket
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from aws_simulator import checks, faults
from aws_simulator.calls import (
    Call,
    Environ,
    Reply,
    StartResponse,
    error_reply,
    html_reply,
    read_call,
    run_inner,
)
from aws_simulator.journal import INSTANCE_ID
from aws_simulator.world import Request, World

MAX_DELAY = 120.0
ERROR_CODE = re.compile(rb"<Code>([^<]+)</Code>")
STATUS_500 = ("InsufficientInstanceCapacity",)
IDS_KEPT = 50
Control = Callable[[Environ], Reply]


class Gate:
    """The application that the server runs."""

    def __init__(self, world: World, inner: Any, control: Control) -> None:
        """Stand before moto's application; `control` answers `/_fake`."""
        self.world = world
        self.inner = inner
        self.control = control
        self.last_trace = ""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO", "").startswith("/_fake"):
            return self.control(environ).send(start_response)
        try:
            call = read_call(environ)
        except ValueError as error:
            empty = Call("ec2", "", "", "", {}, is_json=False)
            return error_reply(empty, 413, "RequestEntityTooLarge", str(error)).send(start_response)
        self.world.local.request = Request(action=call.action, form=call.form)
        try:
            reply, fault = self._answer(call, environ)
        finally:
            self.world.local.request = None
        self._record(call, reply, fault)
        if reply is None or fault == "drop_after":
            _drop(environ)
            return []
        return reply.send(start_response)

    def _answer(self, call: Call, environ: Environ) -> tuple[Reply | None, str]:
        with self.world.lock:
            rule = faults.choose(
                self.world.rules,
                self.world.dice,
                service=call.service,
                action=call.action,
                region=call.region,
                form=call.form,
            )
        if rule is not None:
            time.sleep(min(rule.delay, MAX_DELAY))
            if rule.fault == "drop_before":
                return None, rule.fault
            if rule.fault == "html":
                return html_reply(502), rule.fault
            if rule.fault == "error" or rule.fault in faults.ERRORS:
                return error_reply(call, *rule.error()), rule.fault
        refusal = self._refusal(call)
        if refusal is not None:
            return error_reply(call, *refusal), ""
        self.world.settle()
        reply = self._moto(call, environ)
        self.world.settle()
        if rule is None:
            return reply, ""
        if rule.fault == "empty":
            return Reply(reply.status, reply.headers, b""), rule.fault
        if rule.fault == "truncated":
            return Reply(
                reply.status, reply.headers, reply.body[: len(reply.body) // 2]
            ), "truncated"
        return reply, rule.fault

    def _refusal(self, call: Call) -> checks.Error | None:
        if call.service != "ec2":
            return None
        preset = self.world.config.buckets
        if preset != "off":
            with self.world.lock:
                passed = self.world.buckets.take(
                    call.account,
                    call.region,
                    call.action,
                    narrowed=call.narrowed,
                    now=self.world.clock.now(),
                    scale=0.1 if preset == "tenth" else 1.0,
                )
            if not passed:
                return faults.ERRORS["throttle"]
        return checks.check(call.action, call.form)

    def _moto(self, call: Call, environ: Environ) -> Reply:
        try:
            reply = run_inner(self.inner, environ)
        except NotImplementedError as error:
            return error_reply(call, 400, "InvalidParameterValue", str(error))
        except ValueError as error:
            if "NextToken" in call.form:
                return error_reply(call, 400, "InvalidNextToken", "The page token is not valid.")
            return self._broken(call, error)
        except Exception as error:  # noqa: BLE001 - the edge of somebody else's application
            return self._broken(call, error)
        if reply.code == 400 and _error_of(reply) in STATUS_500:
            return Reply("500 Error", reply.headers, reply.body)
        return reply

    def _broken(self, call: Call, error: Exception) -> Reply:
        self.last_trace = "".join(traceback.format_exception(error))[-4000:]
        return error_reply(call, 500, "InternalError", f"{type(error).__name__}: {error}")

    def _record(self, call: Call, reply: Reply | None, fault: str) -> None:
        found: list[str] = []
        if reply is not None and not call.action.startswith("Describe"):
            text = reply.body.decode("utf-8", "replace")
            found = list(dict.fromkeys(INSTANCE_ID.findall(text)))[:IDS_KEPT]
        with self.world.lock:
            self.world.journal.add(
                time=self.world.clock.now(),
                source="api",
                service=call.service,
                action=call.action,
                region=call.region,
                account=call.account,
                token=call.token,
                ids=call.ids[:IDS_KEPT],
                result=tuple(found),
                status=reply.code if reply is not None else 0,
                error=_error_of(reply) if reply is not None and reply.code >= 400 else "",
                fault=fault,
            )


def _error_of(reply: Reply) -> str:
    found = ERROR_CODE.search(reply.body)
    return found.group(1).decode() if found else f"HTTP {reply.code}"


def _drop(environ: Environ) -> None:
    connection: socket.socket | None = environ.get("werkzeug.socket")
    if connection is not None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

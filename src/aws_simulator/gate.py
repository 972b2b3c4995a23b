"""The WSGI gate before moto: control endpoint, faults, request buckets, checks and the journal.

The order of a call: fault before → caller → bucket → checks → our answer or moto's → fault after.
Dropping a connection shuts the socket that werkzeug leaves in the environ, so the client sees a
reset, not an error.
"""

import itertools
import re
import socket
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from aws_simulator import callers, checks, existence, faults, images, listing, paging, stubs
from aws_simulator.calls import (
    Call,
    Environ,
    Refusal,
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
BASES = ("/_control", "/_fake")
ERROR_CODE = re.compile(rb"<Code>([^<]+)</Code>")
JSON_CODE = re.compile(rb'"__type"\s*:\s*"([^"]+)"')
STATUS_500 = ("InsufficientInstanceCapacity",)
HAZARDS = ("StopInstances", "TerminateInstances")
IDS_KEPT = 1000
PARAMS_KEPT = 100
NOT_KEPT = ("Action", "Version", "UserData", "ClientToken")
Control = Callable[[Environ], Reply]


class Gate:
    """The application that the server runs."""

    def __init__(self, world: World, inner: Any, control: Control) -> None:
        """Stand before moto's application; `control` answers `/_control`."""
        self.world = world
        self.inner = inner
        self.control = control
        self.last_trace = ""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO", "").startswith(BASES):
            return self.control(environ).send(start_response)
        try:
            call = read_call(environ)
        except ValueError as error:
            empty = Call("ec2", "", "", "", {}, is_json=False)
            return error_reply(empty, 413, "RequestEntityTooLarge", str(error)).send(start_response)
        request = Request(action=call.action, form=call.form)
        self.world.local.request = request
        try:
            noted = self._before(call)
            reply, fault = self._answer(call, environ, request)
        finally:
            self.world.local.request = None
        self._record(call, reply, fault, noted)
        if reply is not None and request.rule is not None:
            reply = self._after(request.rule, reply)
        if reply is None or fault in ("drop_after", "hang_after"):
            _drop(environ)
            return []
        return reply.send(start_response)

    def _before(self, call: Call) -> dict[str, Any]:
        """Return what the journal says of the world before a call changes it."""
        if call.service != "ec2" or not call.mutating or not call.ids:
            return {}
        self.world.settle()
        with self.world.lock:
            tags = images.backend_of(call.region, call.account).tags
            name = self.world.config.owner_tag
            owners = tuple(str(tags.get(each, {}).get(name, "")) for each in call.ids)
        cml, facts = self.world.cml, dict[str, Any]()
        if cml is not None and call.action in HAZARDS:
            for each in call.instance_ids[:IDS_KEPT]:
                facts[each] = cml.facts(each)
        return {"owners": owners[:IDS_KEPT], "facts": facts}

    def _answer(self, call: Call, environ: Environ, request: Request) -> tuple[Reply | None, str]:
        with self.world.lock:
            rule = faults.choose(
                self.world.rules,
                self.world.rng,
                service=call.service,
                action=call.action,
                region=call.region,
                form=call.form,
                key=call.key,
                now=self.world.clock.now(),
            )
        if rule is not None:
            request.rule = rule
            if rule.fault == "hang_before":
                self._wait(rule.delay or MAX_DELAY)
                return None, rule.fault
            if rule.fault not in faults.AFTER:
                self._wait(rule.delay)
            if rule.fault == "drop_before":
                return None, rule.fault
            if rule.fault == "html":
                return html_reply(502), rule.fault
            if rule.fault == "error" or rule.fault in faults.ERRORS:
                return error_reply(call, *rule.error()), rule.fault
        self.world.settle()
        try:
            reply = self._served(call, environ)
        except Refusal as no:
            reply = error_reply(call, no.status, no.code, no.message)
        self.world.settle()
        return reply, "" if rule is None else rule.fault

    def _after(self, rule: faults.Rule, reply: Reply) -> Reply:
        """Apply a fault to the reply, after the call had its effect and was journaled."""
        if rule.fault == "hang_after":
            self._wait(rule.delay or MAX_DELAY)
        elif rule.fault in faults.AFTER:
            self._wait(rule.delay)
        if rule.fault == "empty":
            return Reply(reply.status, reply.headers, b"")
        if rule.fault == "truncated":
            return Reply(reply.status, reply.headers, reply.body[: len(reply.body) // 2])
        return reply

    def _wait(self, seconds: float) -> None:
        """Let real seconds pass, or less when the server stops."""
        if seconds > 0:
            self.world.closing.wait(min(seconds, MAX_DELAY))

    def _served(self, call: Call, environ: Environ) -> Reply:
        """Answer a call without moto where moto is slow or lacks it; Refusal for an error."""
        turned_away = callers.check(self.world.config, call, time.time())
        if turned_away is not None:
            raise Refusal(*turned_away)
        if not self._pass_bucket(call):
            raise Refusal(*faults.ERRORS["throttle" if call.service == "ec2" else "throttling"])
        if call.service == "servicequotas":
            return stubs.service_quotas(self.world, call)
        if call.service != "ec2":
            return self._moto(call, environ)
        objection = checks.check(call.action, call.form)
        if objection is not None:
            raise Refusal(*objection)
        paging.check(call)
        backend = images.backend_of(call.region, call.account)
        with self.world.lock:
            existence.check(self.world, call, backend)
        return self._ec2(call, environ, backend)

    def _ec2(self, call: Call, environ: Environ, backend: Any) -> Reply:
        ours = {
            "DescribeInstances": lambda: listing.describe_instances(self.world, call, backend),
            "DescribeInstanceStatus": lambda: listing.describe_status(self.world, call, backend),
            "GetConsoleOutput": lambda: stubs.console_output(self.world, call),
            "ModifyInstanceCpuOptions": lambda: stubs.modify_cpu_options(self.world, call),
        }
        answer = ours.get(call.action)
        lists = call.action.startswith("Describe")
        if answer is None or (lists and not self.world.config.own_writer):
            return self._moto(call, environ)
        if call.dry_run:
            raise Refusal(
                412, "DryRunOperation", "Request would have succeeded, but DryRun is set."
            )
        try:
            return answer()
        except EC2ClientError as error:
            raise Refusal(400, error.code, str(error.message)) from error

    def _pass_bucket(self, call: Call) -> bool:
        config = self.world.config
        own = config.bucket_limits.get(call.action)
        if own is None and (config.buckets == "off" or call.service != "ec2"):
            return True
        with self.world.lock:
            return self.world.buckets.take(
                call.account,
                call.region,
                call.action,
                narrowed=call.narrowed,
                now=self.world.clock.now(),
                scale=0.1 if config.buckets == "tenth" and own is None else 1.0,
                instances=call.instances if own is None else 0,
                own=(own[0], own[1]) if own is not None else None,
            )

    def _moto(self, call: Call, environ: Environ) -> Reply:
        try:
            reply = run_inner(self.inner, environ)
        except Refusal:
            raise
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

    def _record(self, call: Call, reply: Reply | None, fault: str, noted: dict[str, Any]) -> None:
        found: list[str] = []
        if reply is not None and call.mutating and call.service == "ec2":
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
                key=call.key,
                narrowed=call.narrowed,
                dry_run=call.dry_run,
                params=_kept(call),
                **noted,
            )


def _error_of(reply: Reply) -> str:
    found = ERROR_CODE.search(reply.body) or JSON_CODE.search(reply.body)
    return found.group(1).decode() if found else f"HTTP {reply.code}"


def _kept(call: Call) -> dict[str, str]:
    """Return the fields of a change that the journal keeps; user data may hold secrets."""
    if not call.mutating or call.service != "ec2":
        return {}
    named = ((key, value) for key, value in call.form.items() if key not in NOT_KEPT)
    return dict(itertools.islice(named, PARAMS_KEPT))


def _drop(environ: Environ) -> None:
    connection: socket.socket | None = environ.get("werkzeug.socket")
    if connection is not None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

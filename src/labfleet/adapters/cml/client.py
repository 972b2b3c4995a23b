"""Calls of the CML API with login, deadline, circuit breaker and error handling.

A call logs in with one repeat after a 401, has one deadline for everything, classifies errors and
removes secrets from them. This module knows URLs and statuses, not labs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from labfleet.adapters.cml import errors as translate
from labfleet.adapters.cml.breaker import Breaker
from labfleet.adapters.cml.login import Login
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines, NotSent, Reply, ReplyLost, Transport
from labfleet.interfaces.lab_host import HostAddress
from labfleet.kernel import errors, json_bounds

NAME = "Labfleet"
SMALL_REPLY = 64 * 1024
"""Bytes up to which a reply is read without counting: it cannot hold what takes long."""
REPLY_VALUES = 500_000
"""Ten times those of the largest lab; as many are made in a fifth of a second."""
COMMON: Mapping[str, str] = MappingProxyType({"X-CML-CLIENT": NAME, "User-Agent": NAME})
"""Headers of every call."""
REMEMBERED = 16384
"""Longest answer, in bytes, that is compared with the next one."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: `path` quoted and relative; `kind` is the body's Content-Type, if any."""

    method: str
    path: str
    deadlines: Deadlines
    repeat: translate.Repeat = "read"
    body: bytes | None = field(default=None, repr=False)
    kind: str | None = None

    @property
    def label(self) -> str:
        """Method and path without the query, for people."""
        return f"{self.method} {self.path.partition('?')[0]}"


class Client:
    """One boot of one server. Raises kernel errors only.

    `absent`: paths that this server's release does not have -> what it said.
    """

    def __init__(self, transport: Transport, address: HostAddress, limits: Limits) -> None:
        self.limits = limits
        self.worker = address.worker
        self.absent: dict[str, str] = {}
        self._answers: dict[str, tuple[bytes, object]] = {}
        self._transport = transport
        self._address = address
        self._login = Login(self._authenticate)
        self._breaker = Breaker(failures=limits.breaker_failures, rest=limits.breaker_rest)
        self._scrub = translate.Scrub().add(address.password)
        self._authorized: tuple[str, Mapping[str, str]] | None = None

    def __repr__(self) -> str:
        """Name the worker and nothing secret."""
        return f"Client({self.worker})"

    @property
    def fingerprint(self) -> str | None:
        """The certificate last seen."""
        return self._transport.fingerprint

    def keep_secret(self, secret: str) -> None:
        """Never let this text into an error of ours."""
        self._scrub = self._scrub.add(secret)

    async def get(self, path: str) -> Any:
        """Return the decoded JSON of a GET."""
        call = Call("GET", path, self.limits.read)
        return self.decode(await self.send(call), call)

    async def read(self, path: str, parse: Callable[[Any], T]) -> T:
        """Return a GET's answer as parsed; the same object as long as the answer is the same.

        Health and licence hardly ever change, so many kept samples share one object.
        """
        call = Call("GET", path, self.limits.read)
        reply = await self.send(call)
        last = self._answers.get(path)
        if last is not None and last[0] == reply.body:
            return cast("T", last[1])
        made = parse(self.decode(reply, call))
        if len(reply.body) <= REMEMBERED:
            self._answers[path] = (reply.body, made)
        else:
            self._answers.pop(path, None)
        return made

    async def change(self, method: str, path: str, value: object = msgspec.UNSET) -> Reply:
        """Do a mutation that may be repeated; `value` becomes a JSON body."""
        body = None if value is msgspec.UNSET else msgspec.json.encode(value)
        kind = None if body is None else "application/json"
        return await self.send(Call(method, path, self.limits.write, "safe", body, kind))

    async def send(self, call: Call) -> Reply:
        """Return the 2xx reply of an authenticated call, or raise."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._breaker.check(now, self._where(call))
        try:
            reply = await self._with_token(call, now + call.deadlines.total)
        except errors.LabfleetError as error:
            self._breaker.failed(error, loop.time())
            raise self._cleaned(error) from None
        self._breaker.succeeded()
        return reply

    async def log_in(self) -> None:
        """Make sure that there is a login the server accepts; Denied when it does not."""
        # Later releases may drop authok; the login before it has proved the password.
        with contextlib.suppress(errors.Gone):
            await self.send(Call("GET", "authok", self.limits.read))

    async def ask(self, path: str) -> Reply:
        """Return the reply of an unauthenticated GET, whatever its status; no breaker."""
        call = Call("GET", path, self.limits.probe)
        deadline = asyncio.get_running_loop().time() + call.deadlines.total
        try:
            reply = await self._exchange(call, COMMON, deadline)
        except errors.LabfleetError as error:
            raise self._cleaned(error) from None
        if reply.status < 500:
            self._breaker.link_works()
        return reply

    def decode(self, reply: Reply, call: Call) -> Any:
        """Return the JSON of a 2xx reply; Protocol when it is none, or too full or deep to be read."""
        large = len(reply.body) > SMALL_REPLY
        wrong = json_bounds.fault(reply.body, REPLY_VALUES) if large else None
        if wrong is not None:
            raise errors.Protocol(f"{self._where(call)}: the reply is too {wrong} to be read")
        try:
            return msgspec.json.decode(reply.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise errors.Protocol(
                f"{self._where(call)}: {len(reply.body)} bytes came back that are no JSON"
            ) from None

    async def close(self) -> None:
        """Drop the connections."""
        await self._transport.close()

    def _where(self, call: Call) -> str:
        return f"{self.worker}: {call.label}"

    def _cleaned(self, error: errors.LabfleetError) -> errors.LabfleetError:
        error.message = self._scrub.clean(error.message)
        error.args = (error.message,)
        if isinstance(error, errors.Invalid):
            error.problems = tuple(
                (self._scrub.clean(at), self._scrub.clean(what)) for at, what in error.problems
            )
        return error

    async def _with_token(self, call: Call, deadline: float) -> Reply:
        token = self._login.current or await self._token(call, deadline)
        reply = await self._exchange(call, self._headers(token), deadline)
        if reply.status == 401:  # one new login for each call, never more (facts/cml-issues.md#f24)
            self._login.reject(token)
            token = await self._token(call, deadline)
            reply = await self._exchange(call, self._headers(token), deadline)
            if reply.status == 401:
                self._login.reject(token)
        if 200 <= reply.status < 300 and not translate.is_page(reply):
            return reply
        error = translate.refusal(
            reply,
            where=self._where(call),
            repeat=call.repeat,
            licensing=call.path.startswith("licensing"),
        )
        if reply.status == 403 and await self._in_maintenance(deadline):
            raise errors.Temporary(error.message, reason="Maintenance")
        raise error

    async def _token(self, call: Call, deadline: float) -> str:
        return await self._login.token(deadline, where=self._where(call))

    def _headers(self, token: str) -> Mapping[str, str]:
        """Return the headers of an authenticated call; the same object for the same token."""
        if self._authorized is None or self._authorized[0] != token:
            made = {**COMMON, "Authorization": f"Bearer {token}"}
            self._authorized = (token, MappingProxyType(made))
        return self._authorized[1]

    async def _in_maintenance(self, deadline: float) -> bool:
        """Ask whether a 403 means maintenance; no answer counts as no (facts/cml-issues.md#f42)."""
        call = Call("GET", "system/maintenance_mode", self.limits.probe)
        try:
            reply = await self._exchange(call, COMMON, deadline)
            value = self.decode(reply, call) if reply.status == 200 else None
        except errors.LabfleetError:
            return False
        return isinstance(value, dict) and value.get("maintenance_mode") is True

    async def _authenticate(self, deadline: float) -> str:
        body = {"username": self._address.username, "password": self._address.password}
        call = Call(
            "POST", "authenticate", self.limits.read, "safe",
            msgspec.json.encode(body), "application/json",
        )  # fmt: skip
        reply = await self._exchange(call, COMMON, deadline)
        where = self._where(call)
        if reply.status in (401, 403) and not translate.is_page(reply):
            raise errors.Denied(
                f"{where}: the server does not accept user {self._address.username!r} "
                "with this password",
                reason="BadCredentials",
            )
        if not 200 <= reply.status < 300 or translate.is_page(reply):
            raise translate.refusal(reply, where=where, repeat="safe")
        token = self.decode(reply, call)
        if not isinstance(token, str):
            raise errors.Protocol(f"{where}: the login gave no token")
        self.keep_secret(token)
        return token

    async def _exchange(self, call: Call, headers: Mapping[str, str], deadline: float) -> Reply:
        remaining = deadline - asyncio.get_running_loop().time()
        if call.body is not None and len(call.body) > self.limits.request_bytes:
            raise errors.Invalid(f"{self._where(call)}: {len(call.body)} bytes are too many")
        if call.kind is not None:
            headers = {**headers, "Content-Type": call.kind}
        try:
            return await self._transport.request(
                call.method,
                call.path,
                call.body,
                call.deadlines.within(remaining),
                headers=headers,
            )
        except (NotSent, ReplyLost) as error:
            raise translate.failure(error, where=self._where(call), repeat=call.repeat) from error

"""Takes the right behaviour of facts/cml-issues.md away, one issue at a time: `offNN`."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import networks
import pytest

from labfleet.adapters.cml import (
    breaker,
    concurrency_limits,
    licensing,
    observation,
    parsing,
    transport,
    waiting,
)  # fmt: skip
from labfleet.adapters.cml import errors as translate
from labfleet.adapters.cml.client import Client
from labfleet.adapters.cml.host import CmlHost
from labfleet.adapters.http import tls
from labfleet.adapters.http.transport import Deadlines, Reply, Transport
from labfleet.interfaces.lab_host import HostAddress
from labfleet.kernel import errors

Patch = pytest.MonkeyPatch


def off2(patch: Patch) -> None:
    """Go where the environment's proxy is, as clients of other libraries do."""

    def by_proxy(address: HostAddress, seen: str | None, limits: transport.Limits) -> Transport:
        proxied = replace(address, base_url=os.environ["HTTPS_PROXY"])
        return transport.connect(proxied, seen, limits)

    patch.setattr(networks, "connect", by_proxy)


def off3(patch: Patch) -> None:
    """Add up what may be bought, as the public tool did."""
    patch.setattr(
        licensing,
        "capacity",
        lambda _p, _r, features: sum(each.get("max") or 0 for each in features.values()),
    )


def off4(patch: Patch) -> None:
    """Read the user quota for the quota."""
    real = licensing.with_diagnostics
    patch.setattr(
        licensing,
        "with_diagnostics",
        lambda found, value: real(found, {**value, "quota": value["user_quota"]}),
    )


def off5(patch: Patch) -> None:
    """Look every id up among the nodes that are known, as the client does."""
    # private _read_stats, _with_token: the defence is taken out at the one step that holds it
    real = observation.Look._read_stats

    async def strict(self: Any) -> Any:
        stats = await real(self)
        known = {each.id: each for each in self._nodes}
        return {"nodes": {key: known[key] and value for key, value in stats["nodes"].items()}}

    patch.setattr(observation.Look, "_read_stats", strict)


def off7(patch: Patch) -> None:
    """Accept the empty 204 only."""
    real = Client.send

    async def send(self: Any, call: Any) -> Reply:
        reply = await real(self, call)
        if call.method != "GET" and reply.status != 204:
            raise errors.Protocol("204 expected")
        return reply

    patch.setattr(Client, "send", send)


def off8(patch: Patch) -> None:
    """Take the breaker away."""
    patch.setattr(breaker.Breaker, "check", lambda *_: None)


def off9(patch: Patch) -> None:
    """Let 404 of a delete through."""
    patch.setattr(CmlHost, "delete", lambda self, key: self._teardown("DELETE", key, ""))


def off10(patch: Patch) -> None:
    """Make contexts as everybody does."""

    def common(mode: str, _ca: str | None) -> ssl.SSLContext:
        made = ssl.create_default_context()
        if mode != "verify":
            made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        return made

    common.cache_clear = lambda: None  # type: ignore[attr-defined]
    patch.setattr(tls, "context", common)


def off11(patch: Patch) -> None:
    """Ask each node for its addresses, one by one."""
    patch.setattr(observation.Look, "_read_addresses", _one_by_one)


async def _one_by_one(self: Any) -> dict[str, Any]:
    for each in self._nodes:
        await self._client.get(f"{self._base}/nodes/{each.id}/layer3_addresses")
    return {}


def off14(patch: Patch) -> None:
    """Judge by the status alone."""
    patch.setattr(translate, "CAPACITY", ())


def off15(patch: Patch) -> None:
    """Trust whoever answers."""
    patch.setattr(tls.Pin, "accepts", lambda *_: True)


def off16(patch: Patch) -> None:
    """Let the first failing call end the look."""

    async def strict(_self: Any, _what: str, reading: Awaitable[Any], _otherwise: Any) -> Any:
        return await reading

    patch.setattr(observation.Look, "_try", strict)


def off20(patch: Patch) -> None:
    """Take the keys for granted."""
    real = parsing.lab
    patch.setattr(parsing, "lab", lambda raw: (raw["owner_username"], real(raw))[1])


def off21(patch: Patch) -> None:
    """Let everybody go at once."""

    @contextlib.asynccontextmanager
    async def turn(_self: Any, _key: str) -> Any:
        yield

    patch.setattr(concurrency_limits.ConcurrencyLimits, "turn", turn)


def off24(patch: Patch) -> None:
    """Log in again at every 401."""
    real = Client._with_token

    async def loop(self: Any, call: Any, where: str, deadline: float) -> Reply:
        for _ in range(5):
            with contextlib.suppress(errors.Denied):
                return await real(self, call, where, deadline)
        return await real(self, call, where, deadline)

    patch.setattr(Client, "_with_token", loop)


def off29(patch: Patch) -> None:
    """Begin from the start each time, as the script did."""
    real = licensing.register

    async def blind(client: Client, product: str, token: str, *, expansion_nodes: int) -> None:
        await client.change("PUT", "licensing/product_license", product)
        await real(client, product, token, expansion_nodes=expansion_nodes)

    patch.setattr(licensing, "register", blind)


def off37(patch: Patch) -> None:
    """Wait without a limit."""
    patch.setattr(
        Deadlines, "within", lambda _self, _seconds: Deadlines(connect=60, read=60, total=60)
    )


def off38(patch: Patch) -> None:
    """Ask as 2.10.1's client does."""

    async def new(self: Any, _node: str) -> None:
        await self._client.get(f"{self._base}/interfaces?data=true&operational=true")

    patch.setattr(observation.Look, "_read_node", new)


def off39(patch: Patch) -> None:
    """Take every body for JSON."""
    patch.setattr(translate, "is_page", lambda _reply: False)


def off41(patch: Patch) -> None:
    """Look at the queue alone."""
    patch.setattr(waiting, "licence", lambda _value: [])


def off44(patch: Patch) -> None:
    """Call every 4xx a failure."""
    real = translate.refusal

    def hard(reply: Reply, **given: Any) -> errors.LabfleetError:
        found = real(reply, **given)
        return errors.Invalid(found.message) if reply.status == 409 else found

    patch.setattr(translate, "refusal", hard)

"""Public CML issues (facts/cml-issues.md) that are the adapter's, each by its number.

Each `fNN` is the claim; `issues_off.offNN` takes the right behaviour away, and then the claim must
fail: both are run. The controllers' issues are in tests/controllers/test_public_issues_fleet.py
and test_cml_trouble.py, the simulator's in tests/cml_simulator/test_sim_issues.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import issues_off as off
import networks
import pytest
from loop_time import leap, locks, seen
from loopback_cml import LAB, World, world
from scripted_cml import LAB as LAB_ID
from scripted_cml import ScriptedCml, done, host_on, licence, ok, page, refused

from cml_simulator.core.profile import Rules
from labfleet.adapters.cml import hosts, licensing, waiting
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http import tls
from labfleet.adapters.http.transport import Deadlines, Reply
from labfleet.controllers.worker import measure
from labfleet.kernel import errors
from labfleet.resources.machine import TlsSettings

T = TypeVar("T")

Patch = pytest.MonkeyPatch
ALPINE = LAB.split("  - id: n1", maxsplit=1)[0]


def many(count: int, kind: str = "alpine") -> str:
    """A lab of this many nodes."""
    return ALPINE + "".join(
        f"  - {{id: m{n}, label: M{n}, node_definition: {kind}, x: 0, y: 0, interfaces: []}}\n"
        for n in range(count - 1)
    )


async def running(cml: World, text: str = LAB) -> str:
    lab_id = await cml.host.import_lab(text, title="t")
    await cml.host.start(lab_id)
    cml.now += 300
    return lab_id


# --- the claims ------------------------------------------------------------------------------


async def f2(patch: Patch) -> None:
    """No variable of the environment overrides the TLS policy or the route."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        patch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        patch.setenv(name, "")
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CA_BUNDLE", "CML_VERIFY_CERT"):
        patch.setenv(name, "/nowhere.pem")
    async with world(booted=False) as cml:
        cml.boot(tls=TlsSettings(mode="off"))
        await cml.host.authenticate()


async def f3(patch: Patch) -> None:
    """Capacity is included nodes plus expansion in_use, never a feature's max."""
    del patch
    assert licensing.parse(licence()).node_capacity == 200
    assert licensing.parse(licence(expansion=0)).node_capacity == 20


async def f4(patch: Patch) -> None:
    """ "Limit 1 per user" of diagnostics limits nothing."""
    del patch
    told = ok({"quota": 20, "started": 3, "user_quota": 1, "user_started": 1})
    personal = ok(licence("CML_Personal"))
    server = ScriptedCml({"GET licensing": personal, "GET diagnostics/licensing": told})
    seen = await host_on(server).licensing()
    assert (seen.node_capacity, seen.quota, seen.started) == (20, 20, 3)
    assert "quota" not in seen.gaps
    assert waiting.licence({"quota": 20, "started": 3, "user_quota": 1, "user_started": 1}) == []


async def f5(patch: Patch) -> None:
    """Ids that a race brings and we do not know are tolerated, and so are missing ones."""
    del patch
    async with world() as cml:
        lab_id = await running(cml)
        cml.server.server_conditions = replace(cml.server.server_conditions, ghosts=True)
        seen = await cml.host.observe(lab_id)
        assert {each.label for each in seen.nodes} == {"PC", "SW"}
        assert not [gap for gap in seen.gaps if gap.startswith(("nodes", "interfaces"))]


async def f7(patch: Patch) -> None:
    """2.10 answers licensing changes with a body, 2.9 with none: both are success."""
    del patch
    for answer in (ok(licence(None, "NOT_REGISTERED")), done(204)):
        server = ScriptedCml({"DELETE licensing/deregistration": answer})
        assert await host_on(server).deregister() == "done"


async def f8(patch: Patch) -> None:
    """A credential that is refused raises that alarm and is not tried for ever."""
    del patch
    server = ScriptedCml({"POST authenticate": refused(403, "Authentication failed!")})
    host = host_on(server)
    for _ in range(20):
        with pytest.raises(errors.Denied) as caught:
            await host.licensing()
        assert caught.value.reason == "BadCredentials"
    assert server.log.count("POST authenticate") == Limits().breaker_failures


async def f9(patch: Patch) -> None:
    """Deleting what is gone already is done."""
    del patch
    async with world() as cml:
        lab_id = await cml.host.import_lab(LAB, title="t")
        await cml.host.delete(lab_id)
        await cml.host.delete(lab_id)


async def f10(patch: Patch) -> None:
    """Trust comes from the policy: a CA in the environment makes no certificate good."""
    async with world(booted=False) as cml:
        cml.boot()
        at = ("127.0.0.1", cml.port)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cml.pem"
            pem = await asyncio.to_thread(ssl.get_server_certificate, at)
            path.write_text(pem, encoding="ascii")
            patch.setenv("SSL_CERT_FILE", str(path))
            tls.context.cache_clear()
            cml.boot(tls=TlsSettings(mode="verify"))
            with pytest.raises(errors.Denied) as caught:
                await cml.host.authenticate()
            assert caught.value.reason == "Certificate"


async def f11(patch: Patch) -> None:
    """A look at twelve nodes asks once for addresses, and a worker's look is bounded."""
    del patch
    async with world() as cml:
        lab_id = await running(cml, many(5))
        before = len(cml.server.journal)
        await cml.host.observe(lab_id)
        paths = [str(entry["path"]) for entry in cml.server.journal][before:]
        assert sum("layer3_addresses" in each for each in paths) == 1
        assert len(paths) <= 5 + 5
        before = len(cml.server.journal)
        await cml.host.readiness()
        await cml.host.authenticate()
        found = await measure.survey(cml.host, nodes=True)
        assert found.gaps == {}
        assert len(cml.server.journal) - before == measure.REQUESTS


async def f14(patch: Patch) -> None:
    """403 "failed to license" at a start is about capacity, not about who we are."""
    del patch
    server = ScriptedCml({
        f"PUT labs/{LAB_ID}/start": refused(403, "failed to license node R1"),
        "GET system/maintenance_mode": ok({"maintenance_mode": False}),
    })  # fmt: skip
    with pytest.raises(errors.OutOfCapacity) as caught:
        await host_on(server).start(LAB_ID)
    assert caught.value.reason == "Licence"


async def f15(patch: Patch) -> None:
    """The stock self-signed certificate works pinned, and another one is refused."""
    del patch
    async with world(booted=False) as cml:
        cml.boot()
        await cml.host.authenticate()
        seen = (await cml.host.readiness()).tls_fingerprint
        cml.boot(tls=TlsSettings(fingerprint=seen))
        await cml.host.authenticate()
        cml.boot(tls=TlsSettings(fingerprint="00" * 32))
        with pytest.raises(errors.Denied):
            await cml.host.authenticate()


async def f16(patch: Patch) -> None:
    """A failing layer3_addresses leaves a gap in the observation, not no observation."""
    del patch
    async with world() as cml:
        lab_id = await running(cml)
        cml.fault("500", "/layer3_addresses", times=None)
        seen = await cml.host.observe(lab_id)
        assert len(seen.nodes) == 2
        assert seen.interfaces
        assert [gap for gap in seen.gaps if gap.startswith("layer3_addresses")]


async def f18(patch: Patch) -> None:
    """An external connector's addresses, which CML refuses with 400, are never asked for."""
    del patch
    async with world() as cml:
        lab_id = await running(cml, LAB.replace("unmanaged_switch", "external_connector"))
        seen = await cml.host.observe(lab_id)
        assert not [gap for gap in seen.gaps if gap.startswith("layer3")]
        assert not [e for e in cml.server.journal if e["status"] == 400]


async def f20(patch: Patch) -> None:
    """Keys that a release does not send are absent, not an exception."""
    del patch
    server = ScriptedCml({f"GET labs/{LAB_ID}": ok({"id": LAB_ID})})
    seen = await host_on(server).lab(LAB_ID)
    assert (seen.title, seen.notes, seen.state) == ("", "", "UNKNOWN")


async def f21(patch: Patch) -> None:
    """Changes of one lab go one after the other; a 500 may be tried again."""
    del patch
    server = Crowded({
        f"PUT labs/{LAB_ID}/stop": [refused(500, "race"), done()],
        f"PUT labs/{LAB_ID}/wipe": done(),
    })  # fmt: skip
    host = host_on(server)
    async with asyncio.TaskGroup() as group:
        for verb in (host.stop, host.wipe, host.stop, host.wipe):
            group.create_task(_quietly(verb(LAB_ID)))
    assert server.most == 1


class Crowded(ScriptedCml):
    """Counts changes of a lab that are under way together."""

    now = most = 0

    async def request(
        self, method: str, path: str, body: bytes | None, deadlines: Deadlines, *,
        headers: Mapping[str, str],
    ) -> Reply:  # fmt: skip
        changes = method != "GET" and path.startswith("labs/")
        self.now += changes
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        try:
            return await super().request(method, path, body, deadlines, headers=headers)
        finally:
            self.now -= changes


async def _quietly(call: Awaitable[None]) -> None:
    with contextlib.suppress(errors.Temporary):
        await call


async def f24(patch: Patch) -> None:
    """401 for ever costs one more login for each call, not an endless loop."""
    del patch
    server = ScriptedCml({"GET labs": refused(401, "no")})
    host = host_on(server)
    with pytest.raises(errors.Denied):
        await host.labs()
    assert (server.logins, server.log.count("GET labs")) == (2, 2)


async def f29(patch: Patch) -> None:
    """Each licensing step is checked, and a second try goes on where the first one ended."""
    del patch
    async with world() as cml:
        cml.fault("500", "/licensing/registration", times=1)
        with pytest.raises(errors.Temporary):
            await cml.host.register("CML_Enterprise", "good-token", expansion_nodes=10)
        for _ in range(8):
            await cml.host.register("CML_Enterprise", "good-token", expansion_nodes=10)
            cml.now += 3
        assert (await cml.host.licensing()).node_capacity == 30
        assert cml.asked("/licensing/product_license") == 1
        assert cml.asked("/licensing/features") == 1


async def f37(patch: Patch) -> None:
    """A server that accepts and says nothing costs the deadline, not for ever."""
    del patch
    async with world() as cml:
        cml.hosts = hosts.CmlHosts(networks.connect, Limits(read=QUICK, probe=QUICK))
        cml.boot()
        await cml.host.authenticate()
        cml.fault("hang", ".*", times=None)
        with pytest.raises(errors.Temporary) as caught:
            await after_deadlines(cml, cml.host.system_stats())
        assert caught.value.reason == "Timeout"
        ready = await after_deadlines(cml, cml.host.readiness())
        assert ready.stage == "unreachable"


QUICK = Deadlines(connect=20, read=20, total=20)


async def after_deadlines(cml: World, call: Coroutine[Any, Any, T]) -> T:
    """Return what comes of a call once the server has it and QUICK is over, and no later."""
    asked, asking = len(cml.server.journal), asyncio.create_task(call)
    await seen(lambda: len(cml.server.journal) > asked)
    leap(21)
    await locks()
    try:
        assert asking.done(), "it still waits"
        return await asking
    finally:
        asking.cancel()
        await locks()


async def f38(patch: Patch) -> None:
    """Nothing is asked that only 2.10 has: no 405 in a whole look."""
    del patch
    async with world() as cml:
        lab_id = await running(cml)
        seen = await cml.host.observe(lab_id)
        assert seen.interfaces[0].mac_address
        assert not [e for e in cml.server.journal if e["status"] == 405]


async def f39(patch: Patch) -> None:
    """A page of nginx means booting, whatever its status, and is never taken for JSON."""
    del patch
    for status in (200, 404, 502):
        server = ScriptedCml({
            "GET system_information": page(status), "GET system_stats": page(status),
        })  # fmt: skip
        host = host_on(server)
        assert (await host.readiness()).stage == "bad_gateway"
        with pytest.raises(errors.Booting):
            await host.system_stats()


async def f41(patch: Patch) -> None:
    """A node that stays QUEUED says what it needs and what the server is short of."""
    del patch
    async with world(rules=Rules(over_licence="queue")) as cml:
        await running(cml, many(8))
        told = list((await cml.host.queue()).values())
        assert len(told) == 3
        assert all("needs 1 vCPU" in each for each in told)
        assert all("5 of 5 licensed nodes run" in each for each in told)


async def f44(patch: Patch) -> None:
    """409 of another operation means later, not failed."""
    del patch
    async with world() as cml:
        cml.fault("409", "/licensing/deregistration", times=None)
        with pytest.raises(errors.Conflict) as caught:
            await cml.host.deregister()
        assert caught.value.reason == "Later"


Claim = Callable[[Patch], Awaitable[None]]
ISSUES: dict[str, tuple[Claim, Callable[[Patch], None]]] = {
    "F2": (f2, off.off2), "F3": (f3, off.off3), "F4": (f4, off.off4), "F5": (f5, off.off5), "F7": (f7, off.off7),
    "F8": (f8, off.off8), "F9": (f9, off.off9), "F10": (f10, off.off10), "F11": (f11, off.off11),
    "F14": (f14, off.off14), "F15": (f15, off.off15), "F16": (f16, off.off16), "F18": (f18, off.off11),
    "F20": (f20, off.off20), "F21": (f21, off.off21), "F24": (f24, off.off24), "F29": (f29, off.off29),
    "F37": (f37, off.off37), "F38": (f38, off.off38), "F39": (f39, off.off39), "F41": (f41, off.off41),
    "F44": (f44, off.off44),
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh_contexts() -> Iterator[None]:
    """TLS contexts are kept between tests: an issue about them needs new ones."""
    made = tls.context
    made.cache_clear()
    yield
    made.cache_clear()


@pytest.mark.asyncio
@pytest.mark.parametrize("number", ISSUES)
async def test_the_issue_does_not_happen(number: str, monkeypatch: Patch) -> None:
    """The right behaviour of facts/cml-issues.md holds."""
    assert await ISSUES[number][0](monkeypatch) is None


@pytest.mark.asyncio
@pytest.mark.parametrize("number", ISSUES)
async def test_the_issue_is_back_without_its_right_behaviour(
    number: str, monkeypatch: Patch
) -> None:
    """Each claim fails once the behaviour is switched off: it proves what it says."""
    claim, switch_off = ISSUES[number]
    switch_off(monkeypatch)
    with pytest.raises(BaseException):
        await claim(monkeypatch)

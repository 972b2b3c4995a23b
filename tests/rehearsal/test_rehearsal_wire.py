"""The wire to CML: deadlines, bounds and losses in virtual time, and whole seeds over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from cml_simulator.core import fleet as servers
from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines, NotSent, ReplyLost
from labfleet.interfaces.lab_host import HostAddress
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.people import people
from labfleet.rehearsal.seeds.run import Options, rehearse
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import SECRET, SeededRng
from labfleet.rehearsal.worlds import cml, cml_wire
from labfleet.resources.machine import TlsSettings

LAB = people.topology("pair", ["alpine", "alpine"])
PROBE = Deadlines(connect=3, read=5, total=8)


@dataclass
class Far:
    """A server that has booted, the door to it, and the address to use."""

    loop: loops.Loop
    cml_servers: cml.CmlServers
    server: servers.Server
    door: cml_wire.CmlNetwork
    address: HostAddress
    injector: FaultInjector

    async def took(
        self, line: cml_wire.FakeConnections, deadlines: Deadlines = PROBE
    ) -> tuple[str, float]:
        """Return how a request failed, and after how many seconds."""
        begun = self.loop.time()
        with pytest.raises((NotSent, ReplyLost)) as caught:
            await line.request("GET", "system_information", None, deadlines, headers={})
        told = f"{type(caught.value).__name__} {caught.value.cause}"
        return told, round(self.loop.time() - begun, 1)

    def line(
        self, limits: Limits | None = None, seen: str | None = None
    ) -> cml_wire.FakeConnections:
        """Return a transport."""
        return self.door.connect(self.address, seen, limits or Limits())


def play(story: Callable[[Far], Awaitable[None]], plan: FaultPlan | None = None) -> None:
    """Run a story beside a server that has booted."""

    async def main(loop: loops.Loop) -> None:
        injector = FaultInjector(plan or FaultPlan(), SeededRng("luck"))
        cml_servers = cml.CmlServers(loop, SeededRng("racks"), injector)
        server = servers.create(cml_servers.fleet)
        ip = cml_servers.boot(server.id, hangs=False)
        address = HostAddress("w1", f"https://{ip}:443", "boot-1", "admin", SECRET)
        door = cml_wire.CmlNetwork(loop, SeededRng("door"), injector, cml_servers)
        await asyncio.sleep(1000)
        await story(Far(loop, cml_servers, server, door, address, injector))

    loops.run(1, main)


def test_a_server_that_is_off_costs_the_connect_deadline() -> None:
    """No byte was sent, and the wait is the connection's, not the whole call's."""

    async def story(far: Far) -> None:
        far.cml_servers.stop(far.server.id)
        assert await far.took(far.line()) == ("NotSent timeout", 3.0)

    play(story)


def test_a_server_out_of_reach_costs_the_connect_deadline() -> None:
    """A window of no route looks the same from outside."""

    async def story(far: Far) -> None:
        far.injector.begin("server_unreachable", far.address.base_url[8:].partition(":")[0])
        assert await far.took(far.line()) == ("NotSent timeout", 3.0)

    play(story)


def test_silence_ends_by_the_read_deadline_and_never_after_the_total() -> None:
    """The shorter of the two ends it, and the reply counts as lost."""

    async def story(far: Far) -> None:
        for deadlines, seconds in ((PROBE, 5.0), (Deadlines(3, 60, 8), 8.0)):
            told, took = await far.took(far.line(), deadlines)
            assert told.startswith("ReplyLost")
            assert took <= seconds

    play(story, FaultPlan(rates={"call_lost_before": 1.0}))


def test_a_late_request_still_has_its_effect() -> None:
    """The client has given up when the server carries it out."""

    async def story(far: Far) -> None:
        host = CmlHosts(far.door.connect, Limits(upload=PROBE)).at(far.address)
        await host.authenticate()
        far.injector.change("call_late", 1.0)
        with pytest.raises(errors.Ambiguous):
            await host.import_lab(LAB, title="pair")
        assert len(far.server.labs) == 0
        await asyncio.sleep(5)
        assert len(far.server.labs) == 1

    play(story)


def test_a_lost_reply_has_had_its_effect() -> None:
    """Closed, cut short or silent: the lab is there, and the client says that it cannot know."""

    async def story(far: Far) -> None:
        host = CmlHosts(far.door.connect).at(far.address)
        await host.authenticate()
        reasons = set()
        for number in range(1, 13):
            far.injector.change("call_lost_after", 1.0)
            with pytest.raises(errors.Ambiguous) as caught:
                await host.import_lab(LAB, title=f"pair {number}")
            reasons.add(caught.value.reason)
            assert len(far.server.labs) == number
            far.injector.change("call_lost_after", 0.0)
            await asyncio.sleep(60)
            assert len(await host.labs()) == number
        assert reasons == {"Closed", "Truncated", "Timeout"}

    play(story)


def test_bodies_are_bounded() -> None:
    """A reply over the limit is refused before it is whole."""

    async def story(far: Far) -> None:
        told, _ = await far.took(far.line(Limits(reply_bytes=10)))
        assert told == "ReplyLost too_large"

    play(story)


def test_another_certificate_is_refused() -> None:
    """What was seen in this boot, or configured, is pinned; without TLS checks nothing is."""

    async def story(far: Far) -> None:
        line = far.line()
        await line.request("GET", "system_information", None, PROBE, headers={})
        assert line.fingerprint == cml_wire.certificate(far.server)
        assert await far.took(far.line(seen="0" * 64)) == ("NotSent certificate", 0.1)
        far.address = replace(far.address, tls=TlsSettings(mode="off"))
        await far.line(seen="0" * 64).request("GET", "authok", None, PROBE, headers={})

    play(story)


def test_a_closed_line_sends_nothing() -> None:
    """The boot was forgotten."""

    async def story(far: Far) -> None:
        line = far.line()
        await line.close()
        assert await far.took(line) == ("NotSent closed", 0.0)
        assert far.door.calls == 0

    play(story)


def test_a_seed_over_the_wire_repeats() -> None:
    """The same wire seed is the same story, another one than the direct seed's."""
    options = Options(hours=1, wire=True, sessions=120)
    first, again = rehearse(7, options), rehearse(7, options)
    assert (first.log, first.schedule) == (again.log, again.schedule)
    assert first.violations == []
    assert first.calls["CML over HTTP"] > 100
    assert first.log != rehearse(7, replace(options, wire=False)).log

"""Ports of labs that are up are tried now and then: seldom, within a budget, at their own worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet_cases import HOME, ready
from msgspec.structs import replace
from virtual_time import play
from world import later, world

from labfleet.controllers.session.port_watch import PortWatch
from labfleet.decisions.lifecycle.session.decide import SessionObservation
from labfleet.resources import conditions
from labfleet.resources.fleet_settings import FleetSettings, Monitoring
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Metadata
from labfleet.resources.session import PortAllocation, Session, SessionPhase, SessionSpec
from labfleet.resources.worker import Worker, WorkerStatus

START = datetime(2026, 11, 27, 9, tzinfo=UTC)
SEEN = SessionObservation(looked=True)


@dataclass
class Around:
    """What a watch is given: a clock that is set, settings, and a probe that notes what it is asked."""

    monitoring: Monitoring = Monitoring()
    at: datetime = START
    closed: set[int] = field(default_factory=set)
    asked: list[tuple[str, int]] = field(default_factory=list)

    @property
    def clock(self) -> Around:
        return self

    @property
    def settings(self) -> Any:
        around = self

        class Reader:
            def now(self) -> FleetSettings:
                return FleetSettings(monitoring=around.monitoring)

        return Reader()

    @property
    def probe(self) -> Around:
        return self

    def now(self) -> datetime:
        return self.at

    async def answers(self, address: str, port: int) -> bool:
        self.asked.append((address, port))
        return port not in self.closed


def worker(name: str = "w1", address: str | None = "192.0.2.7") -> Worker:
    """A worker at an address."""
    shown = MachineStatus(id="i-1", state="running", public_address=address)
    return Worker(metadata=Metadata(name=name), status=WorkerStatus(machine=shown))


def lab(name: str, *numbers: int, transport: Any = "tcp") -> Session:
    """A session that runs with these ports."""
    session = Session(metadata=Metadata(name=name, uid=name), spec=SessionSpec(definition="d"))
    ports = tuple(
        PortAllocation(name=f"p{each}", node="r1", kind="pat", transport=transport, number=each)
        for each in numbers
    )
    status = replace(session.status, phase=SessionPhase.RUNNING, ports=ports)
    return replace(session, status=status)


def looked(watch: PortWatch, session: Session, at: Worker | None = None) -> bool | None:
    """Return what one look says of the ports; None is nothing."""
    return asyncio.run(watch.up(session, at or worker(), SEEN)).ports_open


def test_ports_are_tried_at_their_own_worker_once_in_a_while() -> None:
    """Only the session's own TCP numbers at the worker's address, and not again before it is due."""
    around = Around()
    watch = PortWatch(around)  # type: ignore[arg-type]
    assert looked(watch, lab("a", 2000, 2001)) is True
    assert around.asked == [("192.0.2.7", 2000), ("192.0.2.7", 2001)]
    around.at += timedelta(seconds=299)
    assert looked(watch, lab("a", 2000, 2001)) is None
    around.at += timedelta(seconds=1)
    assert looked(watch, lab("a", 2000, 2001)) is True
    assert len(around.asked) == 4
    assert looked(watch, lab("b", 2005, transport="udp")) is None
    assert looked(watch, lab("c", 2006), worker(address=None)) is None
    assert len(around.asked) == 4


def test_one_lost_packet_is_no_silence() -> None:
    """The first failure says nothing and is tried again at once; the second in a row counts."""
    around = Around(closed={2001})
    watch = PortWatch(around)  # type: ignore[arg-type]
    session = lab("a", 2000, 2001)
    assert looked(watch, session) is None
    around.at += timedelta(seconds=20)
    assert looked(watch, session) is False
    around.at += timedelta(seconds=20)
    assert looked(watch, session) is None
    around.closed.clear()
    around.at += timedelta(seconds=300)
    assert looked(watch, session) is True


def test_a_worker_has_a_budget_of_connections_a_minute() -> None:
    """What does not fit waits for another minute; more ports than the budget get one of their own."""
    around = Around(Monitoring(port_probes_per_minute=3))
    watch = PortWatch(around)  # type: ignore[arg-type]
    first, second, large = lab("a", 2000, 2001), lab("b", 2002, 2003), lab("c", *range(2010, 2015))
    assert looked(watch, first) is True
    assert looked(watch, second) is None
    assert looked(watch, second, worker("w2")) is True
    assert looked(watch, large) is None
    around.at += timedelta(seconds=60)
    assert looked(watch, large) is True
    assert len(around.asked) == 9


def test_what_is_remembered_is_of_live_labs_alone() -> None:
    """A thousand labs that came and went leave nothing behind."""
    around = Around(Monitoring(port_probes_per_minute=6000))
    watch = PortWatch(around)  # type: ignore[arg-type]
    for number in range(1000):
        looked(watch, lab(f"s{number}", 2000))
    around.at += timedelta(seconds=1000)
    assert looked(watch, lab("last", 2000)) is True
    # private _tried: nothing else shows what is remembered
    assert len(watch._tried) == 1


def test_settings_say_whether_ports_are_tried() -> None:
    """`start` leaves labs alone that are up; `off` tries none, and says that nobody did."""
    around = Around(Monitoring(port_probe="start"))
    watch = PortWatch(around)  # type: ignore[arg-type]
    assert looked(watch, lab("a", 2000)) is None
    assert asyncio.run(watch.coming(lab("a", 2000), worker(), SEEN)).ports_open is True
    around.monitoring = Monitoring(port_probe="off")
    found = asyncio.run(watch.coming(lab("a", 2000), worker(), SEEN))
    assert (found.ports_open, found.ports_untried, len(around.asked)) == (None, True, 1)


def test_ports_that_fall_silent_are_told_and_end_nothing() -> None:
    """A running session says which port does not answer, goes on, and says when it answers again."""

    def fact(w: Any) -> tuple[str, str]:
        found = conditions.find(w.get_session().status.conditions, "PortsOpen")
        return ("", "") if found is None else (found.status, found.message)

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.session(slot={"end": later(w, 180)})
            await w.until(w.in_phase("s1", "RUNNING"))
            assert fact(w) == ("True", "")
            w.hosts.set(patty_first=HOME + 1)
            await w.until(lambda: fact(w)[0] == "False", hours=0.5)
            assert fact(w)[1] == f"r1_serial (tcp {HOME})"
            assert w.phase("s1") == "RUNNING"
            w.hosts.set(patty_first=2000)
            await w.until(lambda: fact(w)[0] == "True", hours=0.5)
            w.check()

    play(story)


def test_without_probes_a_lab_is_ready_when_its_nodes_are() -> None:
    """Where ports cannot be reached from Labfleet nobody waits for them, and nobody says they are open."""

    async def story() -> None:
        async with world() as w:
            await w.make("Settings", "fleet", {"monitoring": {"portProbe": "off"}})
            await ready(w)
            w.hosts.set(patty_first=HOME + 2)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"), hours=1)
            found = conditions.find(w.get_session().status.conditions, "PortsOpen")
            assert found is not None
            assert (found.status, found.reason) == ("Unknown", "NotTried")
            w.check()

    play(story)

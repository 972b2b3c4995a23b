"""People: who asks for sessions, cancels and extends; drawn from the seed.

Every request goes through a client (`replicas.fleet_client`) to some living replica, as through a
load balancer. A request without an answer is sent again with the same idempotency key. The people
who run the fleet are in `operators`, those who book long ahead in `bookers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from labfleet.rehearsal.people.bookers import Bookers
from labfleet.rehearsal.people.operators import Operators
from labfleet.rehearsal.people.sending import Sender
from labfleet.rehearsal.replicas.fleet_client import DirectClient, FleetClient, ReplicaCall
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.session import RETRIABLE, Session
from labfleet.resources.strategy import Strategy

POOL, TEMPLATE, TRACK = "main", "metal", "main"

CLASS, CLASSES = 12, 0.35
"""How many people a class has at most, and which share of all people come in classes."""
FOLLOWS = 1440.0
"""Seconds between the slots of a campus lab and of the next in its room: ten minutes for the
teardown, a boot, and five minutes of head start. A request for less is refused as full."""

_SIZES = {
    "pair": (["alpine", "alpine"], 45),
    "pod": (["iosv", "iosv", "iosvl2", "alpine"], 90),
    "campus": (["nxosv9000", "csr1000v", "iosv", "iosvl2", "ubuntu", "alpine"], 120),
}


KEPT = "pair"
"""The definition that asks for its labs to be kept: one of three, since each costs some calls."""


def topology(title: str, nodes: list[str]) -> str:
    """Return a topology with a serial port for each node and a VNC port for the first."""
    lines = [f"lab: {{title: {title}, version: 0.3.0, description: '', notes: ''}}", "nodes:"]
    for number, kind in enumerate(nodes):
        tags = ['"serial:5001"', '"vnc:5901"'] if number == 0 else ['"serial:5001"']
        lines.append(
            f"- {{id: n{number}, label: N{number}, node_definition: {kind}, x: 0, y: 0, "
            f"tags: [{', '.join(tags)}], interfaces: "
            "[{id: i0, label: e0, slot: 0, type: physical}]}"
        )
    lines.append("links: []")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Demand:
    """How much the people of a run ask for: sizes of the fleet and of the day."""

    workers: int = 8
    sessions: int = 40
    exam: int = 0
    hours: float = 24.0


@dataclass(frozen=True, slots=True, order=True)
class Visit:
    """Somebody who comes at a time (seconds) and wants a lab; `begin`: for a booked hour."""

    at: float
    definition: str
    begin: float | None = None
    minutes: float = 0.0


@dataclass(slots=True)
class People:
    """The population; `run` plays it and returns when nobody asks for anything more."""

    demand: Demand
    rng: SeededRng
    replicas: Callable[[], list[Replica]]
    client: FleetClient = field(default_factory=DirectClient)
    least: int = 1
    adopted: set[str] = field(default_factory=set)
    retried: int = 0
    sender: Sender = field(init=False)
    operators: Operators = field(init=False)
    bookers: Bookers = field(init=False)
    _keys: int = 0

    def __post_init__(self) -> None:
        self.sender = Sender(self.rng, self.replicas)
        self.operators = Operators(
            self.demand.hours, self.rng, self.client, self._request, self.replicas, self.adopted
        )
        desk = Sender(self.rng.stream("bookers' desk"), self.replicas)
        self.bookers = Bookers(self.demand.hours, self.rng.stream("bookers"), self.client, desk)

    async def run(self) -> None:
        """Set the fleet up, then let everybody come at their times."""
        await self._set_up()
        async with asyncio.TaskGroup() as group:
            for number, visit in enumerate(self._visits()):
                group.create_task(self._visit(number, visit))
            group.create_task(self.operators.run())
            if self.demand.sessions:
                group.create_task(self.bookers.run())

    def _visits(self) -> list[Visit]:
        """Return all visits: single people, classes and exams."""
        demand, rng = self.demand, self.rng
        span = demand.hours * 3600
        names = sorted(_SIZES)
        made: list[Visit] = []
        left = round(demand.sessions * demand.hours / 24)
        while left > 0:
            count = min(left, CLASS)
            left -= count
            if count >= CLASS // 2 and rng.chance(CLASSES):
                made += self._class(count, span)
                continue
            made += [
                Visit(rng.between(300, max(span - 3600, 600)), names[rng.below(len(names))])
                for _ in range(count)
            ]
        day = 9 * 3600.0
        while demand.exam and day < span - 3600:
            minutes = _SIZES["pod"][1]
            made += [
                Visit(day - rng.between(600, 7200), "pod", day, minutes) for _ in range(demand.exam)
            ]
            day += 86400
        return sorted(made)

    def _class(self, count: int, span: float) -> list[Visit]:
        """Return two halves of a class: the second's labs start where the first's have ended."""
        rng = self.rng
        minutes = float(20 + 5 * rng.below(6))
        begin = rng.between(3600, max(span - 2 * minutes * 60 - 2700, 3700))
        begin -= begin % 300
        later = minutes * 60 + FOLLOWS + 60 * rng.below(2)
        return [
            Visit(
                begin - rng.between(300, 3000),
                "campus",
                begin + (number % 2) * later,
                minutes,
            )
            for number in range(count)
        ]

    async def _set_up(self) -> None:
        """Create template, pool and definitions; the seed draws what kind of fleet it is."""
        rng = self.rng.stream("fleet")
        self.least = rng.below(3)
        licence = {
            "product": "CML_Enterprise",
            "onStop": "return" if rng.chance(0.3) else "keep",
            "token": {"env": "CML_TOKEN"},
        }
        if rng.chance(0.1):
            del licence["token"]
        machine = {
            "provider": {
                "kind": "aws",
                "amiId": "ami-1",
                "subnetIds": ["subnet-a", "subnet-b", "subnet-c"],
                "volumeSizeGib": 500,
            },
            "cml": {
                "adminPassword": {"env": "CML_PASSWORD"},
                "tls": {"mode": "off"},
                "enableTelemetry": True,
            },
            "licence": licence,
            "hourlyPriceUsd": 4.3605,
        }
        await self._need("Template", TEMPLATE, {"machine": machine})
        discovery = {
            "discovery.enabled": True,
            "discovery.template": TEMPLATE,
            "discovery.amiNamePattern": "cisco-cml*",
        }
        if self.client.namespace != DEFAULT_NAMESPACE:
            discovery["discovery.namespace"] = self.client.namespace
        await self._set(_idle(self.rng.stream("idle")) | discovery)
        self.operators.pool = {
            "template": TEMPLATE,
            "track": TRACK,
            "namePrefix": "w",
            "scaling": {
                "minWorkers": min(self.least, self.demand.workers),
                "maxWorkers": self.demand.workers,
                "emptySeconds": int(rng.between(300, 3600)),
            },
        }
        self.operators.pool |= _strategy(self.rng.stream("strategy"))
        await self._need("Pool", POOL, self.operators.pool)
        for name, (nodes, minutes) in _SIZES.items():
            await self._need(
                "Definition",
                name,
                {
                    "topology": topology(name, nodes),
                    "track": TRACK,
                    "defaultDurationMinutes": minutes,
                    **({"keep": "owner"} if name == KEPT else {}),
                },
            )

    async def _set(self, values: dict[str, Any]) -> None:
        await self._request(self.client.settings(values))

    async def _need(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Create an object that the run needs; a refusal is a bug of the rehearsal."""
        if await self._make(kind, name, spec) is None:
            raise AssertionError(f"{kind} {name} was refused: {dict(self.sender.refused)}")

    async def _make(self, kind: str, name: str | None, spec: dict[str, Any]) -> Any:
        return await self._request(self.client.create(kind, name, spec, self._key()))

    def _key(self) -> str:
        self._keys += 1
        return f"person-{self._keys}"

    async def _request(self, ask: ReplicaCall) -> Any:
        """Send a request until it is answered; None when it was refused for good."""
        return await self.sender.send(ask)

    async def _visit(self, number: int, visit: Visit) -> None:
        """Play one person: asks for a session, and may change their mind."""
        rng = self.rng.stream(f"visit/{number}")
        await asyncio.sleep(max(visit.at - asyncio.get_running_loop().time(), 0))
        slot: dict[str, Any] = {"zone": "UTC"}
        now = asyncio.get_running_loop().time()
        definition, minutes = visit.definition, _SIZES[visit.definition][1]
        if visit.begin is not None:
            slot |= _slot(visit.begin, visit.minutes)
        elif rng.chance(0.5):
            begin = now + rng.between(600, 2 * 3600)
            slot |= _slot(begin, minutes * rng.between(0.4, 1.2))
        session = await self._make(
            "Session",
            f"s{number:05d}",
            {"definition": definition, "owner": f"p{number}", "slot": slot},
        )
        if session is None:
            return
        await asyncio.sleep(rng.between(0, minutes * 60))
        intensity = rng.random()
        name, client = f"s{number:05d}", self.client
        if intensity < 0.15:
            await self._request(client.cancel(name, "bored"))
        elif intensity < 0.35:
            longer = timedelta(minutes=int(rng.between(5, 40)))
            await self._request(client.extend(name, longer, self._key()))
        elif intensity < 0.45:
            await self._request(client.observe(name))
        elif intensity < 0.48:
            await self._request(client.delete("Session", name))
        else:
            left = self.demand.hours * 3600 - asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, min(minutes * 60, left)))
            await self._again(name)

    async def _again(self, name: str) -> None:
        """Try a session again that has failed, as its owner sees it; twice now and then."""
        living = self.replicas()
        seen = living[0].cache.get(Session, name, self.client.namespace) if living else None
        if seen is None or seen.status.phase not in RETRIABLE:
            return
        self.retried += 1
        for _ in range(1 + self.retried % 2):
            await self._request(self.client.retry(name, self._key()))


def _strategy(rng: SeededRng) -> dict[str, Any]:
    """Draw by what the pool's workers are chosen; half of the seeds leave it to the fleet."""
    found = list(Strategy)
    return {"strategy": found[rng.below(len(found))]} if rng.chance(0.5) else {}


def _idle(rng: SeededRng) -> dict[str, Any]:
    """Return the idle time-out: shorter than in production, so that idle stops occur in a run."""
    values: dict[str, Any] = {
        "enabled": rng.chance(0.85),
        "timeoutMinutes": 5 + rng.below(20),
        "snoozeMinutes": rng.below(15),
        "warnMinutes": rng.below(3),
        "soonMinutes": 35,
        "checkIntervalSeconds": 60,
    }
    if rng.chance(0.2):
        values["maxAgeHours"] = 3
    return {f"idle.{key}": value for key, value in values.items()}


def _slot(begin: float, minutes: float) -> dict[str, str]:
    start = EPOCH + timedelta(seconds=int(begin))
    return {
        "start": start.isoformat(),
        "end": (start + timedelta(minutes=int(minutes))).isoformat(),
    }


def alive(session: Session) -> bool:
    """Tell whether a session has not ended yet."""
    return session.status.ended_at is None

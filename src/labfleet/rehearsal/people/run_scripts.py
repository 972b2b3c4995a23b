"""Run scripts: they ask whether a simulation may run, wait, run it on a cluster, and report.

Each script does what its own random numbers say, by whatever it was told; what truly runs is in
`worlds.clusters`. Some crash, some report late or not at all, and some ask again under the same
key because an answer was lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from labfleet.interfaces import store as stores
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.people.sending import Sender
from labfleet.rehearsal.replicas.fleet_client import FleetClient
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.replicas.run_wish import RunWish, Told
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng
from labfleet.rehearsal.worlds import clusters
from labfleet.rehearsal.worlds.clusters import FAMILIES, Clusters, Family, Script, Shape
from labfleet.rehearsal.worlds.kube_api import CONFIG
from labfleet.resources import history
from labfleet.resources.history import Run, RunKind, Source, Use
from labfleet.service.core.service_context import ServiceContext

PLACES = (("joint", "chance", 0.5), ("strict", "bounds", 0.25), ("plain", "declared", 0.25))
"""Clusters: name, rule, and which share of the wishes is for them."""
CAPACITY = {"cpuMilli": 32_000, "memoryMib": 49_152, "networkKbps": 300_000}
"""What a cluster has that is asked for SERVED runs a day; more runs find as much more."""
SERVED = 300
SWEEP, SWEEPS = 6, 0.3
"""How many runs of one chart a script asks for at once, and which share of all come so."""
OWNERS = 3
PAST = 30
"""Past runs of each family that somebody has brought along, in half of the seeds."""
WAITS, PAUSE = 15, 60.0
"""Seconds that one look at a queued request waits, and seconds between two looks."""
ASKED_AGAIN = 5
QUEUE_SECONDS = 5400.0
"""How long a script waits in a queue before it takes its request back."""
PATIENCE, LEAST_PATIENCE = 2.0, 900.0
"""After how many times what it should last, and seconds more, a script ends what is not over."""
SECONDS_LEFT = 2400.0
"""Nobody asks so shortly before the end: what nobody reports has to expire."""


@dataclass(slots=True)
class RunScripts:
    """All run scripts of a seed: `count` of them, within `hours`."""

    count: int
    hours: float
    rng: SeededRng
    replicas: Callable[[], list[Replica]]
    client: FleetClient
    world: Clusters
    injector: FaultInjector
    fates: Counter[str] = field(default_factory=Counter)
    sender: Sender = field(init=False)

    def __post_init__(self) -> None:
        self.sender = Sender(self.rng.stream("sender"), self.replicas)

    async def run(self) -> None:
        """Describe the clusters, then let every script come at its time."""
        await self._set_up()
        rng = self.rng.stream("times")
        left, number = self.count, 0
        async with asyncio.TaskGroup() as group:
            while left > 0:
                together = min(left, SWEEP) if rng.chance(SWEEPS / SWEEP * 2) else 1
                family = FAMILIES[rng.below(len(FAMILIES))]
                at = rng.between(300, max(self.hours * 3600 - SECONDS_LEFT, 600))
                for _ in range(together):
                    number += 1
                    group.create_task(self._script(number, family, at))
                left -= together

    async def _set_up(self) -> None:
        rng = self.rng.stream("clusters")
        more = max(1.0, self.count / max(self.hours, 1.0) * 24 / SERVED)
        for name, rule, share in PLACES:
            room = {key: int(each * max(1.0, more * share)) for key, each in CAPACITY.items()}
            cpu, memory, network = room.values()
            self.world.found(name, (cpu, memory, network))
            spec = {"capacity": room, "rule": rule, **looked_at(name)}
            await self._need("Cluster", name, spec)
        await self.sender.send(
            self.client.settings(
                {
                    "admission.defaultDurationSeconds": 1800 + 600 * rng.below(4),
                    "admission.graceSeconds": 120 + 60 * rng.below(6),
                    "admission.takeUpSeconds": 120 + 60 * rng.below(4),
                }
            )
        )
        if rng.chance(0.5):
            await self._bring_past(rng)

    async def _need(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """Create an object that the run needs; a refusal is a bug of the rehearsal."""
        if await self.sender.send(self.client.create(kind, name, spec, f"runs-{name}")) is None:
            raise AssertionError(f"{kind} {name} was refused: {dict(self.sender.refused)}")

    async def _bring_past(self, rng: SeededRng) -> None:
        """Bring past runs along, as somebody does who has measured them elsewhere."""
        runs = []
        for family in FAMILIES:
            for number in range(PAST):
                size = family.sizes[rng.below(len(family.sizes))]
                shape = clusters.drawn(family, size, rng)
                runs.append(_past(family, size, rng, shape, f"{family.name}-{number}"))

        async def teach(services: ServiceContext) -> bool:
            for first in range(0, len(runs), 20):
                writes = tuple(stores.Teach(each) for each in runs[first : first + 20])
                cause = stores.Cause(actor="ada", at=services.clock.now(), reason="Imported")
                await services.objects.store.commit(stores.Commit(cause=cause, writes=writes))
            return True

        await self.sender.send(lambda at: at.ask(teach))

    # --- one script ---------------------------------------------------------------------------

    async def _script(self, number: int, family: Family, at: float) -> None:
        rng = self.rng.stream(f"script/{number}")
        await asyncio.sleep(max(at + rng.between(0, 20) - _now(), 0))
        size = family.sizes[rng.below(len(family.sizes))]
        wish = _wish(family, size, rng)
        keyed = rng.chance(0.85)
        script = Script(wish.params["rate"], wish.cluster, family.name, keyed=keyed)
        self.world.scripts[script.wish] = script
        told = await self._ask(script, wish, f"run-{number}" if keyed else None, rng)
        if told is None or told.decision == "denied":
            self.fates["denied" if told is not None else "unanswered"] += 1
            return
        if told.decision == "queued" and not await self._waited(script, told.name, rng):
            return
        if wish.queue or wish.ttl_seconds is not None:
            if rng.chance(0.05):
                self.fates["not taken up"] += 1
                return
            if not await self._report_life(script, told.name):
                self.fates["too late"] += 1
                return
        await self._play(script, wish, told.name, clusters.drawn(family, size, rng), rng)

    async def _ask(
        self, script: Script, wish: RunWish, key: str | None, rng: SeededRng
    ) -> Told | None:
        """Ask until an answer arrives; one that is lost is asked for again, now and then twice."""
        ask = self.client.request_run(wish, key)
        both = key is not None and rng.chance(0.1)
        told: Told | None = None
        for _ in range(ASKED_AGAIN):
            found = await asyncio.gather(*(self.sender.send(ask) for _ in range(1 + both)))
            for told in found:
                if told is not None:
                    script.told.setdefault(told.name, set()).add(told.decision)
            if told is None or not self.injector.strikes("reply_lost"):
                break
        return told

    async def _waited(self, script: Script, name: str, rng: SeededRng) -> bool:
        """Wait in the queue; tell whether the run may begin now."""
        until = _now() + rng.between(0.2, 1.0) * QUEUE_SECONDS
        while _now() < until:
            phase = await self.sender.send(self.client.run_phase(name, WAITS))
            if phase != "QUEUED":
                self.fates["let in"] += phase == "APPROVED"
                return bool(phase == "APPROVED")
            await asyncio.sleep(PAUSE)
        self.fates["left the queue"] += 1
        if rng.chance(0.7):
            await self._report_end(script, name, "cancelled", {})
        return False

    async def _play(
        self, script: Script, wish: RunWish, name: str, shape: Shape, rng: SeededRng
    ) -> None:
        """Let it run to its end, with reports of life, and report what became of it."""
        fate = rng.random()
        lasts = PATIENCE * shape.seconds + LEAST_PATIENCE
        if fate < 0.12:
            lasts = shape.lasts * rng.between(0.05, 0.9)
        self.world.begin(script, name, shape, rng.stream("pods"))
        silent = fate < 0.06 or fate > 0.95
        await self._live(script, wish, name, _now() + lasts, silent=silent)
        if fate < 0.06:
            self.fates["crashed"] += 1
            return  # Its pods go on to their own end.
        most = self.world.places[script.cluster].most(name)
        how = self.world.how(script)
        self.world.end(script)
        if fate > 0.95:
            await asyncio.sleep(rng.between(0, 4000))
        status = "completed" if how == "Completed" else "failed"
        if fate < 0.12:
            status = "cancelled" if rng.chance(0.5) else "failed"
        self.fates[status] += 1
        await self._report_end(script, name, status, _observed(most) if rng.chance(0.8) else {})

    async def _live(
        self, script: Script, wish: RunWish, name: str, until: float, *, silent: bool
    ) -> None:
        """Report life until all pods are over, or an instant; a silent script reports none."""
        while wish.ttl_seconds is not None and not silent:
            pause = min(wish.ttl_seconds * 0.9, until - _now())
            if pause <= 0 or await self.world.over(script, pause):
                return
            if _now() < until and not await self._report_life(script, name):
                return  # it holds nothing any more, so its script stops it
        await self.world.over(script, max(until - _now(), 0))

    async def _report_life(self, script: Script, name: str) -> bool:
        script.tried[name] = sent = _now()
        if await self.sender.send(self.client.run_lives(name)) is None:
            return False
        script.beat[name] = sent
        return True

    async def _report_end(
        self, script: Script, name: str, status: str, observed: Mapping[str, float]
    ) -> None:
        script.ends.add(name)
        await self.sender.send(self.client.run_ended(name, status, observed))
        if self.injector.strikes("reply_lost"):
            await self.sender.send(self.client.run_ended(name, status, observed))


def looked_at(name: str) -> dict[str, Any]:
    """Return by what a cluster is looked at: one of them by nothing, which nobody measures."""
    access = {"kubeconfig": {"env": f"{CONFIG}{name.upper()}"}}
    if name == "joint":
        source = {"name": "prometheus", "url": f"http://prometheus.{name}.test:9090"}
        return {"kubernetes": access, "metrics": [source]}
    if name == "strict":
        source = {"name": "kubelets", "kind": "kubernetes"}
        return {"kubernetes": access, "metrics": [source], "whenBlind": "declared"}
    return {}


def _wish(family: Family, size: int, rng: SeededRng) -> RunWish:
    draw, cluster = rng.random(), PLACES[-1][0]
    for name, _, share in PLACES:
        if draw < share:
            cluster = name
            break
        draw -= share
    cost = None
    if rng.chance(0.4 if cluster != "plain" else 0.7):
        factor = rng.between(1.0, 2.5)
        row = [(base + each * size) * factor for base, each in zip(
            family.base, family.each, strict=True)]  # fmt: skip
        cost = {"cpuMilli": int(row[0]), "memoryMib": int(row[1])}
        if rng.chance(0.5):
            cost["networkKbps"] = int(row[2])
    return RunWish(
        cluster=cluster,
        owner=f"team{rng.below(OWNERS)}",
        # No two scripts send at the same rate: a stored record tells by it whose it is.
        params={"chart": family.name, family.size: size, "rate": 1 + round(rng.random(), 9)},
        cost=cost,
        queue=rng.chance(0.5),
        priority=10 * rng.below(3),
        duration_seconds=int(family.seconds * rng.between(1.0, 2.5)) if rng.chance(0.4) else None,
        ttl_seconds=(180, 600, 900)[rng.below(3)] if rng.chance(0.5) else None,
    )


def _observed(most: clusters.Row) -> dict[str, float]:
    """Return peaks by upstream 004's names: cores, GiB and Mbit/s."""
    return {
        "peak_cpu_delta": round(most[0] / 1000, 4),
        "peak_memory_delta": round(most[1] / 1024, 4),
        "peak_network_delta": round(most[2] / 1000, 4),
    }


def _past(family: Family, size: int, rng: SeededRng, shape: Shape, name: str) -> Run:
    ended = EPOCH - timedelta(seconds=rng.between(0, 30 * 86400))
    cpu, memory, network = shape.peaks
    return Run(
        kind=RunKind.SIMULATION,
        uid=f"past-{name}",
        name=name,
        family=family.name,
        owner=f"team{rng.below(OWNERS)}",
        parameters=history.typed(
            {"chart": family.name, family.size: size, "rate": 1 + rng.random()}
        ),
        use={
            "cpu_milli": Use(peak=cpu),
            "memory_mib": Use(peak=memory),
            "network_out_kbps": Use(peak=network),
        },
        duration_seconds=shape.lasts,
        censored="OOMKilled" if shape.killed else "",
        source=Source.IMPORTED,
        started_at=ended - timedelta(seconds=shape.lasts),
        ended_at=ended,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()

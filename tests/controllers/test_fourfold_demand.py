"""A definition that asks for four times what its nodes reserve is flagged, mended, and holds more."""

from __future__ import annotations

from virtual_time import play
from world import ADMIN, World, world

from cml_simulator.core import use_curves
from cml_simulator.core.use_curves import UseCurve, UsePoint
from labfleet.interfaces import store as stores
from labfleet.resources import conditions, fleet_alerts
from labfleet.resources.conditions import Condition
from labfleet.resources.definition import Definition, DefinitionCondition
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.session import Session
from labfleet.service.verbs import recommending

LARGE = """
lab: {title: large, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: alpine, ram: 8192, x: 0, y: 0, interfaces: []}
- {id: n1, label: r2, node_definition: alpine, ram: 8192, x: 9, y: 0, interfaces: []}
links: []
"""
BUSY = LARGE.replace("ram: 8192", "ram: 1024, cpus: 12")
"""Two of its labs reserve all CPUs of a worker, and use next to none."""
RESERVED_MIB = 2 * 8192
FOURFOLD = {"memory": f"{4 * RESERVED_MIB}Mi", "cpu": 8}


async def begin(w: World) -> None:
    """A pool of one worker, and a definition that asks for four times what its nodes reserve."""
    await w.start()
    await w.definition("large", topology=LARGE, resources=FOURFOLD, defaultDurationMinutes=15)
    await w.pool(scaling={"maxWorkers": 1, "policy": "NEED_BASED"})


async def ask(w: World, count: int, first: int = 0, **spec: str) -> list[str]:
    """Ask for sessions of the definition, or of what is named."""
    names = [f"s{number}" for number in range(first, first + count)]
    for each in names:
        await w.make("Session", each, spec or {"definition": "large"})
    return names


def using(w: World) -> None:
    """Let each node of every server use 3000 MiB and a tenth of a CPU."""
    for server in w.hosts.cml_servers.fleet.servers.values():
        points = (UsePoint(at=0, cpu=10, ram=3000, disk=900),)
        server.use_curves = use_curves.checked([UseCurve(points=points)])


def fact(w: World, name: str) -> Condition | None:
    """What is recorded of a definition's need for a review."""
    found = w.cache.get(Definition, name, "default")
    assert found is not None
    return conditions.find(found.status.conditions, DefinitionCondition.NEEDS_REVIEW)


def running(w: World) -> int:
    """How many sessions run now."""
    return sum(each.status.phase == "RUNNING" for each in w.cache.all(Session))


async def most_at_once(w: World, names: list[str]) -> int:
    """Return how many of these sessions ran at once at most, until all have ended.

    At every look no server's nodes reserve more memory than it has.
    """
    most = 0
    while any(w.phase(each) not in {"COMPLETED", "FAILED", "EXPIRED"} for each in names):
        most = max(most, running(w))
        using(w)
        for server in w.hosts.cml_servers.fleet.servers.values():
            reserved = sum(server.nodes[each].want_ram for each in server.active)
            assert reserved * 2**20 <= server.config.machine.memory_bytes
        await w.let_pass(20)
    assert all(w.phase(each) == "COMPLETED" for each in names), w.story()
    return most


def test_a_fourfold_demand_is_flagged_mended_and_holds_more() -> None:
    """After five sessions it is flagged; its bound applied, the same worker holds 2.5 times as many."""

    async def story() -> None:
        async with world() as w:
            await begin(w)
            before = await most_at_once(w, await ask(w, 5))
            await w.until(lambda: fact(w, "large") is not None)
            told = fact(w, "large")
            assert told is not None
            assert (told.status, told.reason) == ("True", "AsksTooMuch")
            assert f"{RESERVED_MIB} would do by 5 sessions" in told.message
            found = w.cache.get(Definition, "large", "default")
            assert found is not None
            [alert] = fleet_alerts.raised(found)
            assert alert.condition == "NeedsReview"
            assert "labfleet recommend definition/large" in alert.command
            made = await recommending.apply(w.services, ADMIN, "large", "default", value="bound")
            assert made.status.demand.memory_mib == RESERVED_MIB
            await w.until(lambda: fact(w, "large") is None)
            after = await most_at_once(w, await ask(w, 10, 10, family="large"))
            assert after >= 2.5 * before, (before, after)

    play(story)


def test_labs_of_a_recommended_size_find_their_cpus() -> None:
    """However little CPU past labs used: what CML reserves for one is on its worker, so none fails."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.definition("large", topology=BUSY, resources={"cpu": 36})
            await w.pool(scaling={"maxWorkers": 1, "policy": "NEED_BASED"})
            use = {"memory_mib": Use(peak=900.0), "cpu_milli": Use(peak=200.0)}
            now, kind = w.clock.now(), RunKind.SESSION
            past = [
                Run(kind=kind, uid=f"u{n}", family="large", use=use, ended_at=now) for n in range(5)
            ]
            writes = tuple(stores.Teach(each) for each in past)
            await w.store.commit(stores.Commit(stores.Cause("test", now), writes))
            made = await recommending.apply(w.services, ADMIN, "large", "default", value="bound")
            assert made.status.demand.cpu_milli == 24_000
            await most_at_once(w, await ask(w, 3, family="large"))

    play(story)

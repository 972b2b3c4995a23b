"""Ports over whole lives: held as long as a lab may have them, released once, never at two labs.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest
from fleet_cases import HOME, ready
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from virtual_time import play
from world import ADMIN, MACHINE, World, world

from labfleet.decisions import port_numbers
from labfleet.kernel import errors
from labfleet.resources import topology
from labfleet.resources.session import TERMINAL, Session
from labfleet.service.verbs import lifecycle as verbs

WORKERS = ("w1", "w2")
STEP = 20.0
LIVES = 8
"""Sessions of one story at most."""


async def held_while_there(w: World) -> None:
    """Judge that each port of a lab on a server is on record as held by that lab's session alone."""
    for name in WORKERS:
        rows = await w.store.ports(f"default/{name}")
        owners = {(row.transport, row.number): row.owner for row in rows}
        for machine in w.compute.alive(name):
            server = w.hosts.cml_servers.fleet.servers[machine.server_id]
            for lab in server.labs.values():
                for port in port_numbers.claims(server.nodes[each] for each in lab.nodes):
                    assert owners.get(port) == topology.marker_of(lab.notes), (name, port)


def living(w: World) -> list[str]:
    """Return the names of sessions that have not ended."""
    return [each.name for each in w.cache.all(Session) if each.status.phase not in TERMINAL]


async def ask(w: World, pick: int) -> None:
    """Ask for one more lab."""
    if len(living(w)) < LIVES:
        await w.session(f"s{round(w.clock.monotonic())}")


async def cancel(w: World, pick: int) -> None:
    """Cancel one in whichever phase it is."""
    if names := living(w):
        await verbs.cancel(w.services, ADMIN, names[pick % len(names)], "default")


async def delete(w: World, pick: int) -> None:
    """Delete one in whichever phase it is."""
    if names := living(w):
        await w.delete("Session", names[pick % len(names)])


async def crash(w: World, pick: int) -> None:
    """Let the program die in the middle of one of its next changing calls."""
    mode = ("crash-before", "crash-after", "lost-after")[pick % 3]
    at = w.strikes + 1 + pick % 7
    w.strike = lambda name, count: mode if count == at else None


async def refuse(w: World, pick: int) -> None:
    """Let the servers answer some calls by trouble, from imports to deletions."""
    w.hosts.fail(
        *(("import_lab",), ("delete", "wipe"), ("nodes", "stop"), ("start", "lab"))[pick % 4]
    )


async def mend(w: World, pick: int) -> None:
    """Let the servers answer again."""
    w.hosts.fail()


async def lose(w: World, pick: int) -> None:
    """Let the machine of a worker end under its labs, if another one is left."""
    if len(alive := w.compute.alive()) > 1:
        w.compute.end(alive[pick % len(alive)])


DEEDS: list[Callable[[World, int], Awaitable[None]]] = [
    ask, ask, ask, cancel, delete, crash, refuse, mend, lose,
]  # fmt: skip
stories = st.lists(
    st.tuples(st.sampled_from(DEEDS), st.integers(0, 40), st.integers(1, 12)),
    min_size=6, max_size=12,
)  # fmt: skip


@settings(
    max_examples=6, deadline=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)  # fmt: skip
@given(stories)
def test_ports_are_held_as_long_as_a_lab_may_have_them(deeds) -> None:
    """Whatever happens, each lab that stands has its ports on record, and in the end nobody has any."""

    async def story() -> None:
        async with world() as w:
            w.hosts.boot(40.0)
            await w.start()
            for name in WORKERS:
                await w.worker(name)
            await w.definition(defaultDurationMinutes=5)
            await w.until(w.in_phase("w1", "READY"))
            await w.until(w.in_phase("w2", "READY"))
            await ask(w, 0)
            await w.let_pass(STEP)
            for deed, pick, steps in deeds:
                await deed(w, pick)
                for _ in range(steps):
                    await w.let_pass(STEP)
                    await held_while_there(w)
            w.strike = None
            w.hosts.fail()
            for name in living(w):
                try:
                    await verbs.cancel(w.services, ADMIN, name, "default")
                except errors.Conflict:
                    continue  # it is cancelled, or has ended meanwhile
            await w.until(lambda: not living(w))
            assert await w.store.ports() == ()
            w.check()

    play(story)


@pytest.mark.parametrize("mode", ["crash-before", "crash-after", "lost-before", "lost-after"])
def test_t41_a_crash_in_the_middle_of_an_allocation_loses_no_port(mode: str) -> None:
    """The commit that binds is struck: the session gets its ports once, and all are free afterwards."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            for number in itertools.count(1):
                struck: list[str] = []

                def strike(
                    name: str, count: int, at: int = number, met: list[str] = struck
                ) -> str | None:
                    if name != "commit" or count != at:
                        return None
                    met.append(name)
                    return mode

                w.strikes, w.strike = 0, strike
                name = f"s{number}"
                await w.session(name)
                await w.until(w.in_phase(name, "INSTANTIATING", "READY", "RUNNING"))
                w.strike = None
                rows = await w.store.ports()
                assert {row.owner for row in rows} == {w.get_session(name).metadata.uid}
                assert [row.number for row in rows] == [HOME, HOME + 1]
                await verbs.cancel(w.services, ADMIN, name, "default")
                await w.until(w.in_phase(name, "CANCELLED"))
                assert await w.store.ports() == ()
                if not struck or number == 4:
                    break
            assert number > 1
            w.check()

    play(story)


def test_t27_labs_of_one_topology_and_alike_names_share_a_worker() -> None:
    """Same node names, same first 60 characters of the name: titles, markers and ports differ."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            names = [f"{'exam-room-' * 6}{end}" for end in ("a", "b")]
            for name in names:
                await w.session(name)
            await w.until(lambda: all(w.phase(each) == "RUNNING" for each in names))
            labs = list(w.hosts.of("w1").labs.values())
            assert len({lab.title for lab in labs}) == 2
            assert len({topology.marker_of(lab.notes) for lab in labs}) == 2
            assert [sorted(node.label for node in lab.nodes.values()) for lab in labs] == [
                ["r1", "r2"], ["r1", "r2"],
            ]  # fmt: skip
            await held_while_there(w)
            ports = [port.number for name in names for port in w.get_session(name).status.ports]
            assert len(set(ports)) == 4
            with pytest.raises(errors.Conflict, match="exam-room"):
                await w.session(names[0])
            w.check()

    play(story)


def test_t47_a_lab_that_never_started_is_deleted_without_a_stop() -> None:
    """DEFINED_ON_CORE is an end of its own: nothing is stopped or wiped, and nobody waits for it."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker(machine={**MACHINE, "cml": {**MACHINE["cml"], "startsAtOnce": 1}})
            await w.definition()
            await w.until(w.in_phase("w1", "READY"))
            w.hosts.node_boot(300.0)
            for name in ("s1", "s2"):
                await w.session(name)
            await w.until(w.told("s2", "boots first"))
            before = len(w.hosts.calls)
            await verbs.cancel(w.services, ADMIN, "s2", "default")
            await w.until(w.in_phase("s2", "CANCELLED"), hours=0.1)
            asked = [call.split()[0] for call in w.hosts.calls[before:]]
            assert [each for each in asked if each in {"stop", "wipe", "delete"}] == ["delete"]
            rows = await w.store.ports()
            assert {row.owner for row in rows} == {w.get_session("s1").metadata.uid}
            w.check()

    play(story)

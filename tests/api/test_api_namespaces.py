"""Command line, streams and pages over an installation whose names all stand in two namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from api_caller import Api, exchange, scope_of
from api_caller import api as opened
from fleet_world import MACHINE, TOPOLOGY

from labfleet.cli import main
from labfleet.cli.kit import client, environment
from labfleet.resources import conditions
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.telemetry import Sample
from labfleet.resources.worker import Worker, WorkerPhase

SPACES = ("default", "exam")
Run = Callable[..., Any]


async def fill(api: Api) -> None:
    """Make the same objects in both namespaces; exam's worker has an alert and a session."""
    w = api.world
    for space in SPACES:
        await w.make("Template", "metal", {"machine": MACHINE}, namespace=space)
        await w.make("Pool", "main", {"template": "metal", "track": "t"}, namespace=space)
        await w.make("Definition", "two", {"topology": TOPOLOGY}, namespace=space)
        worker = await w.make("Worker", "w1", {"pool": "main"}, namespace=space)
        session = await w.make("Session", "s1", {"definition": "two"}, namespace=space)
        facts = conditions.put((), "Failed", "True", "Test", f"in {space}", now=w.clock.now())
        busy = space == "exam"
        await w.status(
            worker,
            phase=WorkerPhase.FAILED if busy else WorkerPhase.READY,
            conditions=facts if busy else (),
        )
        if busy:
            end = w.clock.now() + timedelta(hours=1)
            await w.status(session, phase=SessionPhase.RUNNING, worker="w1", end=end)
        w.services.samples.put(
            Sample(worker="w1", namespace=space, at=w.clock.now(), boot="b", labs_count=int(busy))
        )
    await w.services.fresh()


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[[Api], Any]:
    """Give a function that runs command lines against an application, without a socket."""

    async def bound(api: Api) -> Run:
        loop, token = asyncio.get_running_loop(), await api.token("admin")

        def once(
            self: Any, method: str, target: str, headers: dict[str, str], content: bytes | None
        ) -> tuple[int, dict[str, str], bytes]:
            asked = exchange(api.app, scope_of(method, target, headers), content or b"")
            found = asyncio.run_coroutine_threadsafe(asked, loop).result(20)
            return found.status, found.headers, found.raw

        # Private: the one place where a request becomes bytes on a socket.
        monkeypatch.setattr(client.Client, "_once", once)
        base = environment.CommandEnvironment(
            env={"LABFLEET_URL": "http://127.0.0.1:1", "LABFLEET_TOKEN": token},
            home=tmp_path,
            now=api.world.clock.now,
            sleep=lambda _: None,
            terminal_in=lambda: False,
            terminal_out=lambda: False,
        )

        async def run(*argv: str, code: int = 0) -> str:
            capsys.readouterr()
            ended = await asyncio.to_thread(main.run, argv, base=base)
            said = capsys.readouterr()
            assert ended == code, said.err
            return said.out

        return run

    return bound


@pytest.mark.asyncio
async def test_the_command_line_acts_in_one_namespace(cli: Any) -> None:
    """`-n exam` reaches exam's objects alone, from apply to delete; without it default's."""
    async with opened() as api:
        await fill(api)
        run, cache = await cli(api), api.world.services.cache
        beside = [each.revision for each in cache.all(Worker) if each.namespace == "default"]
        assert "FAILED" in await run("get", "workers", "-n", "exam")
        assert "READY" in await run("get", "workers")
        table = (await run("get", "workers", "-A")).splitlines()
        assert [row.split()[:2] for row in table[1:]] == [["default", "w1"], ["exam", "w1"]]
        assert "exam" in await run("describe", "worker/w1", "-n", "exam")
        assert "-n exam" in await run("explain", "worker/w1", "-n", "exam")
        assert "ADDED" in await run("events", "worker/w1", "-n", "exam")
        await run("cordon", "w1", "-n", "exam")
        await run("uncordon", "w1", "-n", "exam")
        await run("drain", "w1", "-n", "exam", "--yes")
        await run("drain", "w1", "-n", "exam", "--cancel")
        await run("extend", "s1", "--by", "10m", "-n", "exam")
        await run("cancel", "s1", "-n", "exam", "--yes")
        await run("pause", "--pool", "main", "--reason", "t", "-n", "exam")
        assert [each.namespace for each in api.world.services.settings.pauses()] == ["exam"]
        await run("resume", "--pool", "main", "-n", "exam")
        await run("delete", "session/s1", "-n", "exam", "--yes")
        await api.world.services.fresh()
        assert [each.namespace for each in cache.all(Session)] in (["default"], ["default", "exam"])
        assert cache.get(Session, "s1", "default").metadata.deletion_timestamp is None
        assert beside == [
            each.revision for each in cache.all(Worker) if each.namespace == "default"
        ]


@pytest.mark.asyncio
async def test_lists_of_the_whole_fleet_tell_names_apart(cli: Any) -> None:
    """Top, alerts and idle write `exam/w1` for what is not default's, and so do their commands."""
    async with opened() as api:
        await fill(api)
        run = await cli(api)
        top = await run("top")
        assert [row.split()[0] for row in top.splitlines()[1:]] == ["w1", "exam/w1"]
        assert "worker/exam/w1" in await run("alerts")
        idle = await run("idle")
        assert sorted(row.split()[0] for row in idle.splitlines()[1:]) == ["exam/w1", "w1"]
        (raised,) = (await api.call("GET", "/api/v1/fleet/alerts")).json["items"]
        assert (raised["namespace"], raised["object"]) == ("exam", "worker/w1")
        assert (
            raised["command"]
            == "labfleet explain worker w1 -n exam; labfleet logs worker/w1 -n exam"
        )
        vitals = (await api.call("GET", "/api/v1/fleet/vitals")).json["items"]
        assert {each["namespace"]: each["sessions"] for each in vitals} == {"default": 0, "exam": 1}


@pytest.mark.asyncio
async def test_the_streams_keep_namespaces_apart() -> None:
    """Our stream shows one namespace when asked; the compatible counts sessions on their own worker."""
    async with opened() as api:
        await fill(api)
        async with api.stream("/api/v1/events?kinds=workers&namespace=exam") as events:
            name, _, data = await events.next()
            assert name == "snapshot"
            assert [each["metadata"]["namespace"] for each in data["items"]] == ["exam"]
        async with api.stream("/api/events/stream?event_types=worker.") as events:
            await events.next()
            found = [(await events.next())[2] for _ in SPACES]
        uids = {
            space: api.world.services.cache.get(Worker, "w1", space).metadata.uid
            for space in SPACES
        }
        counted = {str(each["worker_id"]): each for each in found}
        assert set(counted) == set(uids.values())
        assert counted[uids["exam"]] != counted[uids["default"]]

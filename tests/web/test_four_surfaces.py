"""What is said of the fleet is the same in API, command line, pages and metrics."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from api_caller import exchange, scope_of
from browser import Browser, plain
from browser import browser as opened
from fleet_world import MACHINE, START

from labfleet.app.alert_gauges import add_alert_gauges
from labfleet.app.metrics import Metrics
from labfleet.app.pool_gauges import add_pool_gauges
from labfleet.app.region_gauges import add_region_gauges
from labfleet.app.server_gauges import add_leaders
from labfleet.app.worker_gauges import add_worker_gauges
from labfleet.cli import main
from labfleet.cli.kit import client, environment
from labfleet.engine.election import AlwaysLeader
from labfleet.engine.leader_watch import LeaderWatch
from labfleet.interfaces.store import Cause
from labfleet.resources import conditions
from labfleet.resources.conditions import Measured
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import PoolPhase
from labfleet.resources.pool_conditions import PoolCondition, PoolReason
from labfleet.resources.region import Region, RegionStatus, Suspect
from labfleet.resources.worker import Health, LicenceStatus, MachineStatus, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

SINCE = START + timedelta(minutes=7)
LONG_AGO = START - timedelta(hours=2)
HOLDER = "host-a/17/0badcafe/worker-controller"


@dataclasses.dataclass
class Surfaces:
    """One installation, asked four ways."""

    browser: Browser
    services: Any
    metrics: Metrics
    run: Callable[..., Awaitable[str]]

    async def api(self, path: str) -> Any:
        sent = {"Authorization": f"Bearer {await self.browser.token()}"}
        reply = await exchange(self.browser.app, scope_of("GET", path, sent), b"")
        assert reply.status == 200, reply.raw
        return reply.json

    async def page(self, path: str) -> str:
        """Return the words of a page, without its marks."""
        text = re.sub(r"(?s)<script.*?</script>", "", plain(await self.browser.get(path)))
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", text)))

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of the one sample with these labels, None when there is none."""
        for line in self.metrics.text()[0].decode().splitlines():
            found = re.fullmatch(rf"{name}\{{(.*)\}} (\S+)", line)
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', found[1])) if found else {}
            if found and labels.items() <= pairs.items():
                return float(found[2])
        return None


async def fill(browser: Browser) -> None:
    """Make a busy worker, an ended one, two that EC2 does not show, a short pool, a region."""
    w = browser.world
    await w.make("Template", "metal", {"machine": MACHINE})
    pool = await w.make("Pool", "exam", {"template": "metal", "track": "exam"})
    busy, ended, lost, away = [
        await w.make("Worker", name, {"pool": "exam"}) for name in ("busy", "ended", "lost", "away")
    ]
    high = conditions.put(
        (), WorkerCondition.CPU_HIGH, "True", WorkerReason.OVER_THRESHOLD, "CPU at 90 % or over",
        now=SINCE, measured=Measured(value=93.4, unit="percent", limit=90),
    )  # fmt: skip
    well = {"health": Health.HEALTHY, "licence": LicenceStatus(registered=True, licensed=True)}
    seen = MachineStatus(id="i-busy", tags_seen={"course": "net", "owner": "a b"})
    await w.status(
        busy, phase=WorkerPhase.READY, phase_since=SINCE, conditions=high, machine=seen, **well
    )
    await w.status(
        ended, phase=WorkerPhase.TERMINATED, phase_since=SINCE, health=Health.UNKNOWN,
        licence=LicenceStatus(registered=False, licensed=False),
    )  # fmt: skip
    gone = conditions.put(
        (), WorkerCondition.EXTERNAL_CHANGE, "True", WorkerReason.TERMINATED, "ended", now=SINCE
    )
    unseen = MachineStatus(id="i-lost", state="running", absent_since=LONG_AGO)
    await w.status(lost, phase=WorkerPhase.FAILED, machine=unseen, conditions=gone)
    unseen = MachineStatus(id="i-away", state="running", absent_since=LONG_AGO)
    await w.status(away, phase=WorkerPhase.READY, machine=unseen)
    short = conditions.put(
        (), PoolCondition.DEMAND_MET, "False", PoolReason.AT_MAXIMUM,
        "3 sessions wait for capacity; at the maximum of 1 worker", now=SINCE,
    )  # fmt: skip
    await w.status(
        pool, phase=PoolPhase.SCALING_UP, phase_since=SINCE, conditions=short, ready=1, stopped=2,
        waiting_sessions=3, message="3 sessions wait for capacity",
    )  # fmt: skip
    suspect = Suspect(kind="volume", id="vol-1", since=SINCE, why="attached to nothing")
    region = Region(
        metadata=Metadata(name="us-east-1", uid="r", generation=1, creation_timestamp=START),
        status=RegionStatus(suspects=(suspect,), ended=4, ended_outside=1, outside=("i-lost",)),
    )
    await w.services.objects.save(region, cause=Cause("garbage", START))
    await w.store.acquire("worker-controller", HOLDER, seen=None)
    await w.services.fresh()


@pytest.fixture
def ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[[Browser], Awaitable[Surfaces]]:
    """Give a function that opens the four surfaces over one installation."""

    async def bound(browser: Browser) -> Surfaces:
        await fill(browser)
        loop, token = asyncio.get_running_loop(), await browser.token()
        services, world, metrics = browser.world.services, browser.world, Metrics()
        watch = LeaderWatch(world.store, ("scheduler", "worker-controller"), seconds=15)
        watch.own = {"worker-controller": AlwaysLeader()}
        # The application was built with these services: what it lacks is put in, not replaced.
        object.__setattr__(services, "leaders", watch)
        add_alert_gauges(metrics, services)
        add_pool_gauges(metrics, services.cache)
        add_region_gauges(metrics, services.cache, world.clock)
        add_worker_gauges(
            metrics, services.samples, world.clock, services.cache, services.sample_life
        )
        add_leaders(metrics, services)

        def once(
            self: Any, method: str, target: str, headers: dict[str, str], content: bytes | None
        ) -> tuple[int, dict[str, str], bytes]:
            asked = exchange(browser.app, scope_of(method, target, headers), content or b"")
            found = asyncio.run_coroutine_threadsafe(asked, loop).result(20)
            return found.status, found.headers, found.raw

        # Private: the one place where a request becomes bytes on a socket.
        monkeypatch.setattr(client.Client, "_once", once)
        base = environment.CommandEnvironment(
            env={"LABFLEET_URL": "http://127.0.0.1:1", "LABFLEET_TOKEN": token},
            home=tmp_path, now=world.clock.now, sleep=lambda _: None,
            terminal_in=lambda: False, terminal_out=lambda: False,
        )  # fmt: skip

        async def run(*argv: str) -> str:
            capsys.readouterr()
            code = await asyncio.to_thread(main.run, argv, base=base)
            said = capsys.readouterr()
            assert code == 0, said.err
            return said.out + said.err

        return Surfaces(browser, services, metrics, run)

    return bound


@pytest.mark.asyncio
async def test_four_surfaces_say_the_same(ask: Callable[[Browser], Awaitable[Surfaces]]) -> None:
    """Values of alerts, pools, ended workers, what is left behind, who leads: one source each."""
    async with opened() as browser:
        told = await ask(browser)
        await alerts(told)
        await pool(told)
        await ended_worker(told)
        await left_behind(told)
        await leaders(told)
        await tags(told)
        assert browser.defects == []


async def alerts(told: Surfaces) -> None:
    """A value with unit and limit; a pool at its maximum is an alert, and not Steady."""
    rows = {each["object"]: each for each in (await told.api("/api/v1/fleet/alerts"))["items"]}
    assert rows["worker/busy"]["measured"] == {
        "value": 93.4, "unit": "percent", "limit": 90, "at": "2026-11-27T09:07:00Z",
    }  # fmt: skip
    assert rows["pool/exam"]["measured"]["value"] == 3
    words = {"worker/busy": "93.4 % (limit 90 %)", "pool/exam": "3 waiting sessions"}
    listed = await told.run("alerts")
    for what, said in words.items():
        kind, name = what.split("/")
        assert said in listed, what
        assert said in await told.run("explain", what)
        assert said in await told.page(f"/{kind}s/{name}")
        lines = (await told.api(f"/api/v1/{kind}s/{name}/explain"))["lines"]
        assert any(said in line for line in lines)
        row = rows[what]["measured"]
        found = told.metric("labfleet_alert_value", object=what, unit=row["unit"])
        assert found == row["value"]
        condition = rows[what]["condition"]
        assert told.metric("labfleet_alert", object=what, condition=condition) == 1.0


async def pool(told: Surfaces) -> None:
    """Stopped workers are counted, the phase has its own date, demand is unmet."""
    found = await told.api("/api/v1/pools/exam")
    assert found["status"]["stopped"] == 2
    head, row = [
        re.split(r"\s{2,}", each) for each in (await told.run("get", "pools")).split("\n")[:2]
    ]
    assert dict(zip(head, row, strict=False))["STOPPED"] == "2"
    page = await told.page("/pools/exam")
    assert "Stopped 2 " in page
    assert "2 workers are stopped; their disks cost money" in page
    assert told.metric("labfleet_pool_workers", pool="exam", stage="stopped") == 2.0
    explained = await told.api("/api/v1/pools/exam/explain")
    at = datetime(2026, 11, 27, 9, 7, tzinfo=UTC)
    assert explained["since"] == "2026-11-27T09:07:00Z" != found["metadata"]["creationTimestamp"]
    assert "SCALING_UP since 2026-11-27 09:07:00Z" in " ".join(explained["lines"])
    assert "09:07" in await told.run("explain", "pool/exam", "-o", "json")
    assert plain(await told.browser.get("/pools/exam")).count("2026-11-27T09:07:00") >= 2
    assert told.metric("labfleet_pool_phase_since_seconds", pool="exam") == at.timestamp()
    assert told.metric("labfleet_pool_demand_unmet", pool="exam") == 1.0
    assert told.metric("labfleet_pool_waiting_sessions", pool="exam") == 3.0


async def ended_worker(told: Surfaces) -> None:
    """Neither healthy nor licensed; a living one is both."""
    for name, health, licensed in (("busy", "Healthy", True), ("ended", "Unknown", False)):
        status = (await told.api(f"/api/v1/workers/{name}"))["status"]
        assert (status["health"], status["licence"]["licensed"]) == (health, licensed)
        row = (await told.run("get", f"worker/{name}")).split("\n")[1].split()
        assert (health in row, "yes" in row) == (True, licensed), row
        page = await told.page(f"/workers/{name}")
        assert (health.lower() in page.lower(), "not licensed" in page) == (True, not licensed)
        shown = [
            told.metric(f"labfleet_worker_{each}", worker=name) for each in ("healthy", "licensed")
        ]
        assert shown == ([1.0, 1.0] if licensed else [None, None])


async def left_behind(told: Surfaces) -> None:
    """A record whose machine others ended is no suspect, and counts; one just not shown is."""
    found = await told.api("/api/v1/fleet/garbage")
    kinds = [(each["suspect"]["kind"], each["suspect"]["name"]) for each in found["suspects"]]
    assert kinds == [("volume", ""), ("worker", "i-away")]
    assert (found["ended"], found["endedOutside"]) == (4, 1)
    total = (await told.api("/api/v1/fleet/discovery"))["total_orphans_terminated"]
    assert total == 5
    listed = await told.run("garbage")
    assert ("i-away" in listed, "i-lost" in listed) == (True, False)
    assert "4 things ended so far, 1 machine by others" in listed
    page = await told.page("/regions/us-east-1")
    assert "2 seem left behind; 4 ended by garbage collection, 1 by others" in page
    for kind in ("volume", "worker"):
        counted = told.metric("labfleet_garbage_suspects", region="us-east-1", kind=kind)
        assert counted == 1.0
    assert told.metric("labfleet_garbage_ended", region="us-east-1") == 4.0
    assert told.metric("labfleet_garbage_ended_outside", region="us-east-1") == 1.0


async def leaders(told: Surfaces) -> None:
    """Who leads, and that nobody does, where nobody does."""
    idle, led = (await told.api("/api/v1/fleet/leaders"))["items"]
    assert (idle["role"], idle["state"], idle["holder"]) == ("scheduler", "nobody", "")
    assert (led["state"], led["holder"], led["term"], led["here"]) == ("led", HOLDER, 1, True)
    listed = (await told.run("leaders")).splitlines()
    assert listed[1].split()[:3] == ["scheduler", "nobody", "-"]
    assert listed[2].split()[:4] == ["worker-controller", "led", HOLDER, "1"]
    page = await told.page("/replicas")
    assert f"{HOLDER} (this server) 1" in page
    assert "scheduler ○ nobody nobody 0" in page
    assert told.metric("labfleet_leader", role="worker-controller", holder=HOLDER) == 1.0
    assert told.metric("labfleet_leader", role="scheduler") is None
    assert told.metric("labfleet_leads", role="worker-controller") == 1.0
    assert told.metric("labfleet_leads", role="scheduler") == 0.0


async def tags(told: Surfaces) -> None:
    """A list by tag is the same from the API and the command line, and says what it lacks."""
    rows = (await told.api("/api/v1/workers?tag=course%3Dnet&tag=owner"))["items"]
    assert [each["metadata"]["name"] for each in rows] == ["busy"]
    assert rows[0]["status"]["machine"]["tagsSeen"] == {"course": "net", "owner": "a b"}
    listed = await told.run("get", "workers", "--tag", "course=net", "--tag", "owner=a b")
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["busy"]
    assert "No workers" in await told.run("get", "workers", "--tag", "course=none")
    assert "course: net" in await told.run("describe", "worker/busy")

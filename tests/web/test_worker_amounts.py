"""What of a worker is promised and left is one number in API, command line, page and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from browser import Browser
from browser import browser as opened
from fleet_world import START
from test_four_surfaces import Surfaces, ask

from labfleet.decisions.vitals import REPORTED
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.session import SessionPhase
from labfleet.resources.telemetry import Sample
from labfleet.resources.worker import Worker

__all__ = ["ask"]
HAS = Amounts(
    cpu_milli=48_000, memory_mib=192 * 1024, storage_mib=400 * 1024, nodes=200, labs=20, ports=6000
)
ONE = Amounts(cpu_milli=6_000, memory_mib=24 * 1024, storage_mib=1024, nodes=2, labs=1, ports=2)
PATH = "/api/v1/workers/busy"
FAILED = START - timedelta(minutes=4)
MEASURED = START - timedelta(minutes=3)


async def hold(told: Surfaces, name: str, begins: int, ends: int) -> None:
    """Bind a session to the worker `busy`, from and to so many minutes from now."""
    w = told.browser.world
    made = await w.session(name)
    held = Reservation(
        holder="busy", amounts=ONE, start=START + timedelta(minutes=begins),
        end=START + timedelta(minutes=ends),
    )  # fmt: skip
    await w.status(made, phase=SessionPhase.SCHEDULED, worker="busy", reservation=held)


async def busy(told: Surfaces) -> None:
    """Three sessions: one overdue, one now, and one after it, so that two at most are at once."""
    w = told.browser.world
    await w.definition()
    worker = await w.services.objects.get(Worker, "busy", "default")
    await w.status(
        worker, capacity=HAS, provisioning_started_at=START - timedelta(minutes=30),
        provisioning_ended_at=START - timedelta(minutes=20), failed_check_at=FAILED,
    )  # fmt: skip
    await hold(told, "overdue", -60, -1)
    await hold(told, "now", -10, 60)
    await hold(told, "next", 60, 90)
    await w.services.fresh()


@pytest.mark.asyncio
async def test_four_surfaces_say_the_same_of_a_workers_amounts(
    ask: Callable[[Browser], Awaitable[Surfaces]],
) -> None:
    """Neighbours in time are not summed, an overdue session still counts; nothing is stored."""
    async with opened() as browser:
        told = await ask(browser)
        await busy(told)
        shown = (await told.api(PATH))["status"]["allocation"]
        assert (shown["reserved"]["cpuMilli"], shown["reserved"]["labs"]) == (12_000, 2)
        assert (shown["available"]["cpuMilli"], shown["available"]["labs"]) == (36_000, 18)
        assert shown["percent"] == {
            "cpu": 25.0, "memory": 25.0, "storage": 0.5, "nodes": 2.0, "labs": 10.0,
            "ports": 0.1, "network": None,
        }  # fmt: skip
        rows = {
            each["metadata"]["name"]: each for each in (await told.api("/api/v1/workers"))["items"]
        }
        assert rows["busy"]["status"]["allocation"] == shown
        vitals = (await told.api("/api/v1/fleet/vitals"))["items"]
        assert next(each for each in vitals if each["worker"] == "busy")["allocation"] == shown
        assert (await told.api(f"{PATH}/telemetry"))["allocation"] == shown
        old = await told.api("/api/workers/region/us-east-1/workers/busy/resources")
        assert old["allocated_capacity"]["cpuMilli"] == shown["reserved"]["cpuMilli"]
        for resource, name, scale in (("cpu", "cpuMilli", 0.001), ("memory", "memoryMib", 2**20)):
            for what in ("reserved", "available"):
                found = told.metric(f"labfleet_worker_{what}", worker="busy", resource=resource)
                assert found == shown[what][name] * scale
            found = told.metric(
                "labfleet_worker_reserved_percent", worker="busy", resource=resource
            )
            assert found == shown["percent"][resource]
        assert told.metric("labfleet_worker_reserved_percent", resource="network") is None
        wide = (await told.run("get", "workers", "-o", "wide")).splitlines()
        line = next(each for each in wide if each.startswith("busy")).split()
        places = {title: line[wide[0].split().index(title)] for title in wide[0].split()[:11]}
        assert (places["CPU-RESERVED%"], places["LABS-FREE"]) == ("25.0", "18")
        top = (await told.run("top")).splitlines()
        line = next(each for each in top if each.startswith("busy"))
        assert line.split()[top[0].split().index("CPU-RESERVED%")] == "25.0"
        described = await told.run("describe", "worker/busy")
        assert "Allocation" in described
        assert "36" in described.split("Available:")[1][:80]
        page = await told.page("/workers/busy")
        assert "12 of 48" in page
        assert "48 of 192" in page
        assert "12 of 48" in await told.page("/live")
        stored = await browser.world.services.objects.get(Worker, "busy", "default")
        assert stored is not None
        assert stored.status.allocation is None
        assert browser.defects == []


@pytest.mark.asyncio
async def test_provisioning_and_the_last_check_are_instants_everywhere(
    ask: Callable[[Browser], Awaitable[Surfaces]],
) -> None:
    """Failed or measured, the newer check counts; what others reported is no check of ours."""
    async with opened() as browser:
        told = await ask(browser)
        await busy(told)
        shown = (await told.api(PATH))["status"]
        assert shown["provisioningStartedAt"] == "2026-11-27T08:30:00Z"
        assert shown["provisioningEndedAt"] == "2026-11-27T08:40:00Z"
        assert shown["lastHealthCheckAt"] == "2026-11-27T08:56:00Z"
        samples = browser.world.services.samples
        samples.put(Sample(worker="busy", at=START, boot=REPORTED))
        assert (await told.api(PATH))["status"]["lastHealthCheckAt"] == "2026-11-27T08:56:00Z"
        samples.put(Sample(worker="busy", at=MEASURED, boot="i-1"))
        assert (await told.api(PATH))["status"]["lastHealthCheckAt"] == "2026-11-27T08:57:00Z"
        listed = (await told.api("/api/v1/workers?sort=-status.lastHealthCheckAt"))["items"]
        assert listed[0]["metadata"]["name"] == "busy"
        assert listed[0]["status"]["lastHealthCheckAt"] == "2026-11-27T08:57:00Z"
        described = await told.run("describe", "worker/busy")
        wide = await told.run("get", "workers", "-o", "wide")
        page = await told.page("/workers/busy")
        for title in ("Provisioning started at", "Provisioning ended at", "Last health check at"):
            assert title in described
        for title in ("PROVISIONING", "PROVISIONED", "CHECKED"):
            assert title in wide
            assert title.capitalize() in page
        assert "3 min ago" in page

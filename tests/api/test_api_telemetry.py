"""Telemetry by REST: our form and upstream 003's names, with freshness and reasons."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from api_caller import Api
from fleet_world import MACHINE

from labfleet.interfaces.store import Cause, SeriesRow
from labfleet.resources import conditions, series
from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.region import Region, RegionSpec, RegionStatus
from labfleet.resources.telemetry import (
    ComputeHealth,
    ComputeStats,
    ControllerHealth,
    Feature,
    Licensing,
    ProviderPoint,
    Room,
    Sample,
    SystemHealth,
    SystemStats,
)
from labfleet.service.reads import idle, telemetry

SEED_KEYS = {
    "all_cpu_count", "all_cpu_percent", "all_memory_total", "all_memory_free", "all_memory_used",
    "all_disk_total", "all_disk_free", "all_disk_used", "controller_disk_total",
    "controller_disk_free", "controller_disk_used", "allocated_cpus", "allocated_memory",
    "total_nodes", "running_nodes", "computes",
}  # fmt: skip


def measured(api: Api, **services: Any) -> Sample:
    room = Room(total=100, free=40, used=55)
    compute = ComputeStats(hostname="c", is_controller=True, cpu_count=48, allocated_memory_mib=6)
    given: dict[str, Any] = {
        "worker": "w",
        "at": api.world.services.clock.now(),
        "boot": "i-1",
        "version": "2.9.1",
        "stats": SystemStats(
            cpu_count=48, cpu_percent=0.5, memory=room, disk=room, controller_disk=room,
            allocated_cpus=1, allocated_memory_mib=6, total_nodes=2, running_nodes=1,
            computes={"c1": compute},
        ),
        "health": SystemHealth(
            valid=True,
            computes={"c1": ComputeHealth(admission_state="READY", valid=True)},
            controller=ControllerHealth(core_connected=True),
            gaps={"is_licensed": "the server does not tell"},
        ),
        "licence": Licensing(
            licensed=True, registration="COMPLETED", node_capacity=200, product="CML_Enterprise",
            features={"CML_ENT_BASE": Feature(name="base", in_use=1, max=1)},
        ),
    }  # fmt: skip
    return Sample(**{**given, **services})


@pytest.mark.asyncio
async def test_the_newest_sample_is_shown_with_age_units_and_reasons(measuring_api: Api) -> None:
    """Fresh, in stated units, each null with its reason."""
    api = measuring_api
    await api.world.make("Worker", "w", {"machine": MACHINE})
    await api.world.services.fresh()
    path = "/api/v1/workers/w/telemetry"
    none = (await api.call("GET", path)).json
    assert (none["fresh"], none["sample"]) == (False, None)
    assert "no sample: w is" in none["reason"]
    await api.measured(measured(api))
    told = (await api.call("GET", path)).json
    assert (told["fresh"], told["sample"]["stats"]["cpuCount"]) == (True, 48)
    assert told["unknown"]["health.is_licensed"] == "the server does not tell"
    for path_of_null in (
        "health.computes.c1.cpu_overload", "stats.computes.c1.disk.free",
        "licence.quota", "maintenance",
    ):  # fmt: skip
        assert told["unknown"][path_of_null] == "the server does not tell"
    assert not {"stats.cpu_count", "version", "stats"} & told["unknown"].keys()
    assert told["units"]["cpuPercent"].startswith("percent")
    api.world.clock.forward(600)
    told = (await api.call("GET", path)).json
    assert (told["fresh"], told["ageSeconds"], told["sample"]) == (False, 600.0, None)
    assert told["reason"] == told["numbers"]["cpu"]["reason"] == "last measured 600 s ago"
    assert told["numbers"]["cpu"]["value"] is None
    theirs = (await api.call("GET", "/api/internal/workers/w/cml-data", role="controller")).json
    assert (theirs["system_info"], theirs["reason"]) == (None, "last measured 600 s ago")
    assert theirs["collected_at"] is not None
    assert (await api.call("GET", "/api/v1/workers/nobody/telemetry")).status == 404


@pytest.mark.asyncio
async def test_seed_003_gets_all_its_keys(measuring_api: Api) -> None:
    """All 16 keys of system_info, the health as CML names it, the licence by the right rule."""
    api = measuring_api
    await api.world.make("Worker", "w", {"machine": MACHINE})
    await api.world.services.fresh()
    path = "/api/internal/workers/w/cml-data"
    assert (await api.call("GET", path, role="controller")).json["system_info"] is None
    await api.measured(measured(api))
    told = (await api.call("GET", path, role="controller")).json
    info = told["system_info"]
    assert set(info) == SEED_KEYS
    assert (info["all_memory_free"], info["allocated_memory"]) == (40, 6 * 1024)
    compute = info["computes"]["c1"]
    assert (compute["hostname"], compute["stats"]["cpu"]["count"]) == ("c", 48)
    assert told["system_health"]["computes"]["c1"]["admission_state"] == "READY"
    assert told["system_health"]["controller"]["core_connected"] is True
    assert told["license_info"]["node_limit"] == 200
    assert told["license_info"]["nodes_in_use"] == 1
    assert told["license_info"]["features"][0]["max"] == 1


@pytest.mark.asyncio
async def test_a_part_that_failed_is_null_with_its_reason(measuring_api: Api) -> None:
    """One failing call leaves the others' data."""
    api = measuring_api
    await api.world.make("Worker", "w", {"machine": MACHINE})
    await api.world.services.fresh()
    await api.measured(measured(api, stats=None, gaps={"stats": "Temporary: 500"}))
    told = (await api.call("GET", "/api/internal/workers/w/cml-data", role="controller")).json
    assert told["system_info"] is None
    assert told["unknown"]["stats"] == "Temporary: 500"
    assert told["system_health"]["valid"] is True


@pytest.mark.asyncio
async def test_numbers_carry_source_age_and_freshness(measuring_api: Api) -> None:
    """CloudWatch stands in when CML has nothing, and is named; unknown says why."""
    api = measuring_api
    await api.world.make("Worker", "w", {"machine": MACHINE})
    await api.world.services.fresh()
    now = api.world.services.clock.now()
    path = "/api/v1/workers/w/telemetry"
    point = ProviderPoint(at=now - timedelta(minutes=6), seconds=300, cpu_percent=33.0)
    await api.metered(Key("Worker", "default", "w"), point)
    told = (await api.call("GET", path)).json["numbers"]
    assert (told["cpu"]["value"], told["cpu"]["source"], told["cpu"]["fresh"]) == (
        33.0, "cloudwatch", True,
    )  # fmt: skip
    assert "no sample: w is" in told["memory"]["reason"]
    await api.measured(measured(api))
    told = (await api.call("GET", path)).json["numbers"]
    assert (told["cpu"]["source"], told["cpu"]["value"]) == ("cml", 0.5)
    assert (told["memory"]["value"], told["disk"]["value"]) == (55.0, 60.0)
    assert told["ec2Cpu"]["ageSeconds"] == 60.0
    listed = (await api.call("GET", "/api/v1/fleet/vitals")).json["items"]
    assert [each["worker"] for each in listed] == ["w"]
    assert listed[0]["numbers"]["nodes"]["value"] == 1


@pytest.mark.asyncio
async def test_series_are_bounded_and_odd_questions_refused(api: Api) -> None:
    """At most a thousand points whatever is asked; names, instants and workers are checked."""
    made = await api.world.make("Worker", "w", {"machine": MACHINE})
    owner, now = series.Owner("Worker", made.metadata.uid), api.world.services.clock.now()

    def packed(value: float) -> str:
        return series.pack("Worker", series.single("Worker", {"cpu": value}))

    rows = [
        SeriesRow(owner, tier.step, at, packed(float(n % 100)))
        for tier in series.TIERS
        for n in range(tier.slots)
        for at in [series.bucket_start(now - timedelta(seconds=n * tier.step), tier.step)]
    ]
    await api.world.services.series.merge_series(rows)
    path = "/api/v1/workers/w/series"
    for since, step in (("6h", 60), ("3d", 600), ("35d", 3600), ("1w", 3600)):
        told = (await api.call("GET", f"{path}?metric=cpu&since={since}")).json
        points = told["metrics"]["cpu"]["points"]
        assert (told["step"], told["metrics"]["cpu"]["unit"]) == (step, "percent")
        assert 100 < len(points) <= 1000
        assert [each["at"] for each in points] == sorted(each["at"] for each in points)
    day = (await api.call("GET", f"{path}?since=35d&step=86400")).json
    assert len(day["metrics"]["cpu"]["points"]) in {35, 36}
    assert day["metrics"]["labs"]["points"] == []
    for query in ("metric=heat", "since=soon", "since=2026-11-27T09:00:00", "step=1"):
        assert (await api.call("GET", f"{path}?{query}")).status == 400
    assert (await api.call("GET", "/api/v1/workers/nobody/series")).status == 404


@pytest.mark.asyncio
async def test_raised_alerts_are_listed_and_explained_with_their_fix(api: Api) -> None:
    """The gravest first, with cause, command and fix, in the list and in explain."""
    made = await api.world.make("Worker", "w", {"machine": MACHINE})
    now, facts = api.world.services.clock.now(), ()
    for name in ("CpuHigh", "Silent", "MemoryHigh"):
        status = "False" if name == "MemoryHigh" else "True"
        facts = conditions.put(facts, name, status, "Because", f"{name} it is", now=now)
    status_ = msgspec.structs.replace(made.status, conditions=facts)
    cause = Cause("tester", now)
    await api.world.services.objects.save(
        msgspec.structs.replace(made, status=status_), cause=cause
    )
    rows = (await api.call("GET", "/api/v1/fleet/alerts")).json["items"]
    assert [each["condition"] for each in rows] == ["Silent", "CpuHigh"]
    assert rows[1]["command"] == "labfleet top worker w --since 6h"
    told = (await api.call("GET", "/api/v1/workers/w/explain")).json
    assert [each["condition"] for each in told["alerts"]] == ["Silent", "CpuHigh"]
    assert any(line.startswith("  Fix: ") for line in told["lines"])


@pytest.mark.asyncio
async def test_alerts_of_pools_regions_and_licences_stand_beside_the_workers(api: Api) -> None:
    """One list says what asks for somebody, and a leak is said once, by its record."""
    now, cause = api.world.services.clock.now(), Cause("tester", api.world.services.clock.now())

    def fact(name: str, status: str) -> tuple[conditions.Condition, ...]:
        return conditions.put((), name, status, "Because", f"{name} it is", now=now)

    worker = await api.world.make("Worker", "w", {"machine": MACHINE})
    lost = msgspec.structs.replace(worker.status, conditions=fact("LicenceLeaked", "True"))
    leak = Leak(
        metadata=Metadata(name="l-1"), spec=LeakSpec(worker="w", since=now, why="no answer")
    )
    region = Region(
        metadata=Metadata(name="eu-west-1"),
        spec=RegionSpec(),
        status=RegionStatus(conditions=fact("Scanned", "False")),
    )
    save = api.world.services.objects.save
    await save(msgspec.structs.replace(worker, status=lost), cause=cause)
    await save(leak, cause=cause)
    await save(region, cause=cause)
    rows = (await api.call("GET", "/api/v1/fleet/alerts")).json["items"]
    told = {each["object"]: each for each in rows}
    assert set(told) == {"leak/l-1", "region/eu-west-1"}
    assert told["leak/l-1"]["fix"].endswith("labfleet resolve leak/l-1")
    assert told["leak/l-1"]["worker"] is None
    older = msgspec.structs.replace(leak.spec, worker_uid="of one before")
    stored = (await api.world.services.objects.get(Leak, "l-1", "default")) or leak
    await save(msgspec.structs.replace(stored, spec=older), cause=cause)
    rows = (await api.call("GET", "/api/v1/fleet/alerts")).json["items"]
    assert "worker/w" in {each["object"] for each in rows}
    assert told["region/eu-west-1"]["command"] == "labfleet explain region/eu-west-1"


@pytest.mark.asyncio
async def test_a_list_of_the_fleet_says_what_it_left_out(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes the first thousand for all: each of the three lists counts the rest."""
    for name in ("w1", "w2", "w3"):
        made = await api.world.make("Worker", name, {"machine": MACHINE})
        now = api.world.services.clock.now()
        facts = conditions.put((), "Silent", "True", "Because", "it is", now=now)
        status = msgspec.structs.replace(made.status, conditions=facts)
        save = api.world.services.objects.save
        await save(msgspec.structs.replace(made, status=status), cause=Cause("tester", now))
    monkeypatch.setattr(telemetry, "LISTED", 2)
    monkeypatch.setattr(idle, "LISTED", 2)
    for path in ("vitals", "alerts", "idle"):
        answer = (await api.call("GET", f"/api/v1/fleet/{path}")).json
        assert (len(answer["items"]), answer["leftOut"]) == (2, 1), path

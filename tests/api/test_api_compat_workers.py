"""Worker routes under the compatible names, adopting, leftovers and leaks, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from api_caller import Api
from fleet_world import ADMIN

from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.region import Deed, Region, RegionStatus, Scan, Suspect
from labfleet.resources.telemetry import Sample
from labfleet.resources.worker import Worker, WorkerPhase

INTERNAL = "/api/internal/workers"
REGION = "/api/workers/region/us-east-1/workers"


async def ready(api: Api) -> None:
    await api.world.template()
    spec = {"discovery": {"enabled": True, "template": "metal"}}
    await api.world.make("Settings", "fleet", spec)


async def worker(api: Api, name: str = "w1", **status: Any) -> Any:
    made = await api.world.make("Worker", name, {"template": "metal"})
    return await api.world.status(made, **status) if status else made


def scan(*ids: str, **tags: str) -> dict[str, Any]:
    found = [
        {"instance_id": each, "state": "running", "name": "lab", "public_ip": "10.0.0.1",
         "private_ip": None, "instance_type": "m5zn.metal", "image_id": "ami-1",
         "launch_time": "2026-11-27T08:00:00Z", "tags": tags, "other": 1}
        for each in ids
    ]  # fmt: skip
    return {"discovered_instances": found, "aws_region": "us-east-1", "source": "scan"}


@pytest.mark.asyncio
async def test_bulk_import_makes_each_worker_once(api: Api):
    """Upstream's body and reply; a second time nothing is imported; owners are skipped."""
    await ready(api)
    path = f"{INTERNAL}/bulk-import"
    made = await api.call("POST", path, scan("i-0000000a", "i-0000000b"), role="controller")
    assert made.json["total_imported"] == 2
    assert made.json["imported"] == ["lab", "lab-0000000b"]
    again = await api.call("POST", path, scan("i-0000000a"), role="controller")
    assert (again.json["total_found"], again.json["total_imported"]) == (1, 0)
    theirs = await api.call("POST", path, scan("i-0000000c", **{"labfleet:owner": "x"}))
    assert "owner tag" in theirs.json["skipped"]["i-0000000c"]
    assert (await api.call("POST", path, scan("x; rm"), role="controller")).status == 400
    assert (await api.call("POST", path, scan(), role="user", owner="eve")).status == 403
    assert (await api.call("POST", path, {"aws_region": "a"})).status == 400


@pytest.mark.asyncio
async def test_bulk_import_without_a_template_says_what_to_set(api: Api):
    """Nothing is imported until settings.discovery.template names one."""
    found = await api.call("POST", f"{INTERNAL}/bulk-import", scan("i-0000000a"))
    assert (found.status, found.json["reason"]) == (400, "NoTemplate")


@pytest.mark.asyncio
async def test_reported_numbers_are_samples_in_both_shapes(api: Api):
    """Newer bodies carry bytes, older ones percent: both are kept, a gap says what is missing."""
    await ready(api)
    await worker(api)
    new = {
        "collected_at": "2026-11-27T08:59:00Z", "poll_interval": 60,
        "ec2": {"cpu_utilization": 12.5, "network_in_bytes": 3000, "network_out_bytes": 0},
        "cml": {"cpu_percent": 40.0, "memory_total": 1000, "memory_used": 400, "memory_free": 600},
    }  # fmt: skip
    told = await api.call("POST", f"{INTERNAL}/w1/metrics", new, role="controller")
    assert (told.status, told.json["status"]) == (200, "pending")
    sample = api.world.services.samples.newest(Key("Worker", "default", "w1"))
    assert sample is not None
    assert sample.stats is not None
    assert (sample.stats.cpu_percent, sample.stats.memory.used) == (40.0, 400)
    [point] = api.world.services.samples.points(Key("Worker", "default", "w1"))
    assert point.network_in_bytes_per_second == 10.0
    old = {
        "cml": {"cpu_percent": 1.0, "memory_percent": 70.5, "disk_percent": 3, "uptime_seconds": 9}
    }
    await api.call("POST", f"{INTERNAL}/w1/metrics", old, role="controller")
    sample = api.world.services.samples.newest(Key("Worker", "default", "w1"))
    assert sample is not None
    assert sample.gaps["stats.memory"] == "reported as 70.5 percent only"
    assert sample.uptime_seconds == 9
    data = {
        "cml_version": "2.9.0", "ready": True, "labs_count": 3,
        "system_info": {"all_cpu_count": 48, "all_memory_total": 5, "computes": {"x": {}}},
        "license_info": {"is_valid": True},
    }  # fmt: skip
    await api.call("POST", f"{INTERNAL}/w1/cml-data", data, role="controller")
    sample = api.world.services.samples.newest(Key("Worker", "default", "w1"))
    assert sample is not None
    assert sample.stats is not None
    assert (sample.labs_count, sample.stats.cpu_count) == (3, 48)
    for wrong in ({"cml": {"cpu_percent": 400}}, {"cml": 3}, {"collected_at": "soon"}, [1]):
        sent = await api.call("POST", f"{INTERNAL}/w1/metrics", wrong, role="controller")
        assert sent.status == 400
    for route, odd in (
        ("metrics", {"cml": {"uptime_seconds": 1e300}}),
        ("metrics", {"cml": {"memory_total": 2**53}}),
        ("metrics", {"ec2": {"network_in_bytes": 1e17}}),
        ("metrics", {"collected_at": "9999-12-31T00:00:00Z"}),
        ("cml-data", {"uptime_seconds": 1e300}),
        ("cml-data", {"collected_at": "2026-11-27T09:06:00Z"}),
    ):
        sent = await api.call("POST", f"{INTERNAL}/w1/{route}", odd, role="controller")
        assert (sent.status, sent.json["reason"]) == (400, "Invalid"), odd
    old_time = {"collected_at": "0001-01-01T00:00:00", "ec2": {"cpu_utilization": 1}}
    assert (await api.call("POST", f"{INTERNAL}/w1/metrics", old_time)).status == 200
    assert (await api.call("POST", f"{INTERNAL}/nope/metrics", {})).status == 404


@pytest.mark.asyncio
async def test_a_reported_status_does_not_move_a_worker(api: Api):
    """The answer says what it is and what was reported; unknown words are refused."""
    await ready(api)
    await worker(api, phase=WorkerPhase.READY, summary="running")
    told = await api.call("POST", f"{INTERNAL}/w1/status", {"status": "TERMINATED"})
    assert (told.json["status"], told.json["reported"]) == ("running", "terminated")
    assert (await api.call("POST", f"{INTERNAL}/w1/status", {"status": "gone"})).status == 400
    sent = {"public_ip": "1.2.3.4", "ami_name": "x"}
    assert (await api.call("POST", f"{INTERNAL}/w1/ec2-details", sent)).status == 200
    now = await api.world.services.objects.get(Worker, "w1", "default")
    assert now is not None
    assert now.status.machine.public_address is None


@pytest.mark.asyncio
async def test_the_internal_drain_is_for_running_workers(api: Api):
    """409 unless running; then drained and desired stopped, with who asked."""
    await ready(api)
    made = await worker(api)
    why = {"reason": "patching", "requested_by": "ann"}
    early = await api.call("POST", f"{INTERNAL}/w1/drain", why, role="controller")
    assert (early.status, early.json["reason"]) == (409, "NotRunning")
    await api.world.status(made, phase=WorkerPhase.READY, summary="running")
    done = await api.call("POST", f"{INTERNAL}/w1/drain", why, role="controller")
    assert done.json["desired_status"] == "stopped"
    now = await api.world.services.objects.get(Worker, "w1", "default")
    assert now is not None
    assert now.spec.drain is not None
    assert now.spec.drain.reason == "patching (ann)"


@pytest.mark.asyncio
async def test_only_ec2_marks_a_worker_terminated(api: Api):
    """409 with a sentence until the worker is TERMINATED; terminate asks for its end."""
    await ready(api)
    made = await worker(api, phase=WorkerPhase.READY, summary="running")
    early = await api.call("POST", f"{INTERNAL}/w1/mark-terminated", {"reason": "gone"})
    assert (early.status, early.json["reason"]) == (409, "NotTerminated")
    ended = await api.call("POST", f"{INTERNAL}/w1/terminate", {"terminated_by": "x"})
    assert ended.json["desired_status"] == "terminated"
    await api.world.status(made, phase=WorkerPhase.TERMINATED, summary="terminated")
    assert (await api.call("POST", f"{INTERNAL}/w1/mark-terminated")).status == 200


@pytest.mark.asyncio
async def test_cleanup_removes_old_ended_records_and_dry_run_none(api: Api):
    """Retention counts from the end; 0 and 366 days are refused."""
    await ready(api)
    past = api.world.clock.instant - timedelta(days=31)
    for name, phase in (("old", WorkerPhase.TERMINATED), ("live", WorkerPhase.READY)):
        await worker(api, name, phase=phase, phase_since=past)
    await worker(api, "new", phase=WorkerPhase.TERMINATED, phase_since=api.world.clock.instant)
    path = f"{INTERNAL}/cleanup"
    dry = await api.call("POST", path, {"retention_days": 30, "dry_run": True})
    assert dry.json == {"removed": ["old"], "dry_run": True}
    assert await api.world.services.objects.get(Worker, "old", "default") is not None
    assert (await api.call("POST", path)).json["removed"] == ["old"]
    assert await api.world.services.objects.get(Worker, "old", "default") is None
    for days in (0, 366):
        assert (await api.call("POST", path, {"retention_days": days})).status == 400


@pytest.mark.asyncio
async def test_scale_up_makes_one_worker_of_a_template(api: Api):
    """201 with the worker; an unknown template is refused."""
    await ready(api)
    made = await api.call("POST", f"{INTERNAL}/scale-up", {"template": "metal", "reason": "exam"})
    assert (made.status, made.json["spec"]["template"]) == (201, "metal")
    assert (await api.call("POST", f"{INTERNAL}/scale-up", {"template": "nope"})).status == 400
    name = made.json["metadata"]["name"]
    shown = await api.call("POST", f"{INTERNAL}/{name}/recalculate-capacity")
    assert shown.json["declared_capacity"] is None
    assert shown.json["allocated_capacity"]["labs"] == 0


@pytest.mark.asyncio
async def test_the_regions_routes_are_the_verbs(api: Api):
    """Create, import, list, read, start, stop, status, resources, by instance, delete."""
    await ready(api)
    made = await api.call("POST", REGION, {"name": "w1", "template": "metal"})
    assert made.status == 201
    sent = {"instance_id": "i-0000000a", "template": "metal", "name": "w2"}
    taken = await api.call("POST", f"{REGION}/import", sent)
    assert taken.json["spec"]["origin"]["managed"]
    names = [each["metadata"]["name"] for each in (await api.call("GET", REGION)).json]
    assert names == ["w1", "w2"]
    assert (await api.call("POST", f"{REGION}/w1/stop")).json["desired_status"] == "stopped"
    assert (await api.call("POST", f"{REGION}/w1/start")).json["desired_status"] == "running"
    assert (await api.call("GET", f"{REGION}/w1/status")).json["phase"] == "PENDING"
    assert (await api.call("GET", f"{REGION}/w1/resources")).status == 200
    tagged = await api.call("POST", f"{REGION}/w1/tags", {"tags": {"team": "a", "old": None}})
    assert tagged.json["spec"]["tags"] == {"team": "a"}
    ours = await api.call("POST", f"{REGION}/w1/tags", {"tags": {"labfleet:owner": "x"}})
    assert ours.status == 400
    assert (await api.call("POST", f"{REGION}/w1/drain", {"reason": "x"})).status == 200
    assert (await api.call("POST", f"{REGION}/w1/cancel-drain")).status == 200
    assert (await api.call("POST", f"{REGION}/w1/refresh")).status == 200
    where = "/api/workers/region/us-east-1/instance/i-0000000a"
    assert (await api.call("GET", where)).json["metadata"]["name"] == "w2"
    assert (await api.call("GET", where.replace("us-east", "eu-west"))).status == 404
    assert (await api.call("GET", f"{REGION}/w1")).status == 200
    other = REGION.replace("us-east-1", "eu-west-1")
    assert (await api.call("GET", f"{other}/w1")).status == 404
    wrong = await api.call("POST", other, {"name": "w3", "template": "metal"})
    assert (wrong.status, "us-east-1" in wrong.raw.decode()) == (400, True)
    assert (await api.call("DELETE", f"{REGION}/w1")).status == 200


@pytest.mark.asyncio
async def test_an_import_takes_upstreams_body(api: Api):
    """Upstream 002's `aws_instance_id` and a name; the template is then that of the settings."""
    await ready(api)
    sent = {"aws_instance_id": "i-0000000a", "name": "w2"}
    taken = await api.call("POST", f"{REGION}/import", sent)
    assert (taken.status, taken.json["metadata"]["name"]) == (201, "w2")
    assert taken.json["spec"]["origin"]["instanceId"] == "i-0000000a"
    assert taken.json["spec"]["template"] == "metal"
    both = {**sent, "instance_id": "i-0000000a"}
    again = await api.call("POST", f"{REGION}/import", both)
    assert (again.status, again.json["metadata"]["name"]) == (201, "w2")
    for wrong in ({"name": "x"}, {**sent, "instance_id": "i-0000000b"}, {**sent, "other": 1},
                  {"aws_instance_id": "x; rm"}):  # fmt: skip
        assert (await api.call("POST", f"{REGION}/import", wrong)).status == 400


@pytest.mark.asyncio
async def test_an_import_without_any_template_is_refused(api: Api):
    """The refusal names the setting that would be the default."""
    await api.world.template()
    sent = {"aws_instance_id": "i-0000000a"}
    found = await api.call("POST", f"{REGION}/import", sent)
    assert (found.status, found.json["reason"]) == (400, "NoTemplate")
    assert "discovery.template" in found.raw.decode()


@pytest.mark.asyncio
async def test_adopting_over_http(api: Api):
    """By name, by instance and by URL; a secret is only ever a reference."""
    await ready(api)
    await api.call("POST", f"{INTERNAL}/bulk-import", scan("i-0000000a"))
    assert (await api.call("POST", "/api/v1/workers/lab/adopt")).json["spec"]["origin"]["managed"]
    sent = {"url": "https://cml.example", "username": "ann", "password": {"env": "CML_PASSWORD"}}
    made = await api.call("POST", "/api/v1/fleet/adopt", sent)
    assert made.json["spec"]["machine"]["cml"]["adminPassword"] == {
        "env": "CML_PASSWORD",
        "file": None,
    }
    stop = await api.call("POST", f"/api/v1/workers/{made.json['metadata']['name']}/desired",
                          {"desired": "Stopped"})  # fmt: skip
    assert (stop.status, stop.json["reason"]) == (409, "ExternalServer")
    for wrong in ({}, {"url": "https://x", "instanceId": "i-0000000b"}, {"instanceId": "i-0000000b"},
                  {"url": "https://x"}, {"url": "https://x", "password": "secret"}):  # fmt: skip
        assert (await api.call("POST", "/api/v1/fleet/adopt", wrong)).status == 400
    assert (
        await api.call("POST", "/api/v1/fleet/adopt", sent, role="user", owner="b")
    ).status == 403


@pytest.mark.asyncio
async def test_what_is_left_behind_and_discovered_is_shown(api: Api):
    """Suspects with age and next step, deeds, leaks; discovery's sums under upstream 002's names."""
    now = api.world.clock.instant
    status = RegionStatus(
        scan=Scan(runs=3, discovered=2, imported=2, last_run_at=now, last_error="AuthFailure"),
        suspects=(
            Suspect(kind="instance", id="i-1", since=now - timedelta(minutes=2), next="ended"),
        ),
        deeds=(Deed(at=now, kind="instance", id="i-0", why="nobody's"),),
        ended=4,
    )
    region = Region(metadata=Metadata(name="us-east-1", uid="r"), status=status)
    leak = Leak(metadata=Metadata(name="w1-x", uid="l"), spec=LeakSpec(worker="w1", since=now))
    cause = api.world.services.cause
    await api.world.services.objects.save(region, leak, cause=cause(ADMIN, "x"))
    shown = (await api.call("GET", "/api/v1/fleet/garbage")).json
    assert shown["suspects"][0]["ageSeconds"] == 120
    assert (shown["ended"], shown["leaks"], shown["deeds"][0]["id"]) == (4, 1, "i-0")
    for path in ("/api/internal/discovery", "/api/v1/fleet/discovery"):
        found = (await api.call("GET", path)).json
        assert (found["runs"], found["total_orphans_terminated"]) == (3, 4)
        assert found["last_error"] == "us-east-1: AuthFailure"
    assert (await api.call("GET", "/api/v1/leaks")).json["total"] == 1
    done = await api.call("POST", "/api/v1/leaks/w1-x/resolve", {"note": "freed"})
    assert done.status == 200
    assert (await api.call("GET", "/api/v1/leaks")).json["total"] == 0
    assert (await api.call("POST", "/api/v1/leaks/w1-x/resolve")).status == 404


@pytest.mark.asyncio
async def test_a_report_never_stands_before_what_we_saw_ourselves(api: Api):
    """A flood of reports hides no look of ours, nor does an old one a newer; silence is filled."""
    await ready(api)
    await worker(api)
    samples, clock = api.world.services.samples, api.world.clock
    ours = Sample(worker="w1", at=clock.now(), boot="i-1@1", labs_count=3)
    samples.put(ours)
    told = {"cml": {"cpu_percent": 1.0}, "ec2": {"network_in_bytes": 1}}
    for _ in range(30):
        assert (
            await api.call("POST", f"{INTERNAL}/w1/metrics", told, role="controller")
        ).status == 200
        assert (
            await api.call("POST", f"{INTERNAL}/w1/cml-data", {}, role="controller")
        ).status == 200
    assert samples.recent(Key("Worker", "default", "w1"), 20) == (ours,)
    await clock.sleep(3600)
    assert (await api.call("POST", f"{INTERNAL}/w1/metrics", told, role="controller")).status == 200
    newest = samples.newest(Key("Worker", "default", "w1"))
    assert newest is not None
    assert newest.boot == "reported"
    late = {**told, "collected_at": "2026-11-27T09:30:00Z"}
    assert (await api.call("POST", f"{INTERNAL}/w1/metrics", late, role="controller")).status == 200
    assert samples.newest(Key("Worker", "default", "w1")) == newest


@pytest.mark.asyncio
async def test_reported_traffic_does_not_stand_in_for_cloudwatch(api: Api):
    """Where CloudWatch is asked, its points are the only ones: traffic keeps a worker."""
    await api.world.template()
    await api.world.make("Settings", "fleet", {"monitoring": {"cloudwatch": True}})
    await worker(api)
    await api.world.services.fresh()
    told = {"ec2": {"network_in_bytes": 0, "network_out_bytes": 0}}
    assert (await api.call("POST", f"{INTERNAL}/w1/metrics", told, role="controller")).status == 200
    assert api.world.services.samples.points(Key("Worker", "default", "w1")) == ()

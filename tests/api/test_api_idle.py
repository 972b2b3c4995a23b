"""Idle detection by REST: the explained verdict, the switch, and the compatible check."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from api_caller import Api
from fleet_world import ADMIN, MACHINE

from labfleet.resources.idle import IdleSignal
from labfleet.resources.telemetry import Sample, SystemStats
from labfleet.resources.worker import CmlStatus, Health, IdleStatus, Worker, WorkerPhase
from labfleet.service.verbs import settings_verbs

PERSON = "5c1f9d6a-3b52-4e0c-9a77-0d2f6be1c3a4"
SYSTEM = "00000000-0000-4000-a000-000000000000"


async def serving(api: Api, **idle: Any) -> Worker:
    """A worker that has been up and empty for five hours, the rule on."""
    world = api.world
    made = await world.make("Worker", "w", {"machine": MACHINE})
    await settings_verbs.change(world.services, ADMIN, {"idle.enabled": True})
    long = world.clock.now() - timedelta(hours=5)
    stored: Worker = await world.status(
        made, phase=WorkerPhase.READY, health=Health.HEALTHY, ready_since=long, empty_since=long,
        cml=CmlStatus(boot="i-1"), idle=IdleStatus(since=long, **idle),
    )  # fmt: skip
    await world.services.fresh()
    return stored


def measure(api: Api, nodes: int = 0) -> None:
    """Put a fresh sample into this process."""
    stats = SystemStats(running_nodes=nodes, cpu_percent=1.0)
    at = api.world.clock.now()
    api.world.services.samples.put(
        Sample(worker="w", at=at, boot="i-1", maintenance=False, stats=stats)
    )


@pytest.mark.asyncio
async def test_a_process_that_only_answers_shows_the_leader_s_evidence(api: Api) -> None:
    """What it cannot ask itself comes from the record, with its age; the rest is of now."""
    checked = api.world.clock.now() - timedelta(minutes=2)
    kept = tuple(
        IdleSignal(name=name, verdict="quiet", value="0", told="from the leader", at=checked)
        for name in ("nodes", "console", "telemetry", "cpu", "health")
    )
    await serving(api, evidence=kept, checked_at=checked)
    told = (await api.call("GET", "/api/v1/workers/w/idle")).json
    assert (told["verdict"], told["idle"], told["eligible"]) == ("idle", True, True)
    assert told["idleMinutes"] == 300
    table = {each["name"]: each for each in told["signals"]}
    assert table["nodes"]["told"] == "from the leader"
    assert table["sessions"]["told"] == "no session is placed here"
    assert "is stopped at" in told["told"]
    overview = (await api.call("GET", "/api/v1/fleet/idle")).json
    [listed] = overview["items"]
    assert overview["leftOut"] == 0
    assert (listed["worker"], listed["verdict"], listed["keptBy"]) == ("w", "idle", told["keptBy"])
    assert listed["told"] == told["told"]


@pytest.mark.asyncio
async def test_without_any_evidence_the_worker_is_kept_and_it_is_said(api: Api) -> None:
    """Nothing known is unknown, never idle."""
    await serving(api)
    told = (await api.call("GET", "/api/v1/workers/w/idle")).json
    assert (told["verdict"], told["eligible"]) == ("unknown", False)
    assert "unknown" in told["told"]
    assert {"nodes", "telemetry", "cpu"} <= set(told["keptBy"])
    assert (await api.call("GET", "/api/v1/workers/nobody/idle")).status == 404


@pytest.mark.asyncio
async def test_the_switch_of_a_worker_by_our_name_and_the_seeds(api: Api) -> None:
    """Both change the same field; users may not; a repeat changes nothing."""
    await serving(api)
    path = "/api/workers/w/idle-detection"
    off = await api.call("POST", f"{path}/disable")
    assert off.json == {"worker_id": "w", "is_idle_detection_enabled": False}
    told = (await api.call("GET", "/api/workers/w/idle-status")).json
    assert told["is_idle_detection_enabled"] is False
    assert "worker_switch" in told["kept_by"]
    assert (await api.call("POST", f"{path}/enable")).json["is_idle_detection_enabled"] is True
    ours = await api.call("POST", "/api/v1/workers/w/idle-detection", {"enabled": False})
    assert ours.json["spec"]["idleDetection"] is False
    assert (await api.call("POST", f"{path}/enable", role="user")).status == 403
    assert (await api.call("POST", "/api/v1/workers/w/idle-detection", {})).status == 400


@pytest.mark.asyncio
async def test_the_check_takes_events_over_and_stops_nothing(api: Api) -> None:
    """All fields of facts/upstream.md#idle; a person's event moves the activity, no other."""
    await serving(api)
    measure(api)
    at = api.world.clock.now() - timedelta(minutes=10)
    path = "/api/internal/workers/w/detect-idle"

    def event(user: str, category: str = "start_lab") -> dict[str, Any]:
        return {"category": category, "timestamp": at.isoformat(), "data": {"user_id": user}}

    sent = {"raw_telemetry_events": [event(SYSTEM), event(PERSON, "weather")]}
    told = (await api.call("POST", path, sent, role="controller")).json
    assert (told["is_idle"], told["activity_updated"]) == (True, False)
    assert told["eligible_for_pause"] is True
    told = (
        await api.call("POST", path, {"raw_telemetry_events": [event(PERSON)]}, role="controller")
    ).json
    assert told == {
        "worker_id": "w",
        "checked_at": told["checked_at"],
        "telemetry_fetched": True,
        "activity_updated": True,
        "idle_check_performed": True,
        "auto_pause_triggered": False,
        "is_idle": False,
        "idle_minutes": 10.0,
        "eligible_for_pause": False,
        "in_snooze_period": False,
        "error": None,
    }
    seen = (await api.call("GET", "/api/workers/w/activity")).json
    assert seen["recent_activity_events"][0]["category"] == "start_lab"
    assert seen["auto_pause_count"] == 0
    stored = (await api.call("GET", "/api/v1/workers/w")).json
    assert stored["spec"]["desired"] == "Ready"


@pytest.mark.asyncio
async def test_a_check_without_telemetry_is_no_proof_and_a_forced_one_wakes_the_controller(
    api: Api,
) -> None:
    """Upstream paused busy workers whose API was flaky; here the error is told instead."""
    await serving(api)
    measure(api)
    path = "/api/internal/workers/w/detect-idle"
    before = (await api.call("GET", "/api/v1/workers/w")).json["metadata"]
    told = (await api.call("POST", path, {"force_check": True}, role="controller")).json
    assert (told["telemetry_fetched"], told["is_idle"]) == (False, False)
    assert "unknown" in told["error"]
    after = (await api.call("GET", "/api/v1/workers/w")).json["metadata"]
    assert after["generation"] == before["generation"] + 1
    assert "labfleet.dev/idle-check-asked" in after["annotations"]
    assert (await api.call("POST", path, {"what": 1}, role="controller")).status == 400


@pytest.mark.asyncio
async def test_people_s_stops_and_starts_are_counted(api: Api) -> None:
    """Each wish once, with who and why."""
    await serving(api)
    for desired in ("Stopped", "Stopped", "Ready"):
        await api.call("POST", "/api/v1/workers/w/desired", {"desired": desired})
    seen = (await api.call("GET", "/api/workers/w/activity")).json
    assert (seen["manual_pause_count"], seen["manual_resume_count"]) == (1, 1)
    assert (seen["pause_reason"], seen["last_paused_by"]) == ("manual", "admin")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("phase", "told"),
    [
        ("PROVISIONING_EC2", "it is not up yet (PROVISIONING_EC2); it is judged once it serves"),
        (
            "TERMINATING_EC2",
            "it does not serve any more (TERMINATING_EC2); only a worker that serves is judged",
        ),
    ],
)
async def test_a_worker_that_does_not_serve_is_neither_busy_nor_idle(
    api: Api, phase: str, told: str
) -> None:
    """Only its phase keeps it; that detection is switched off there is still told."""
    made = await serving(api)
    await api.world.status(made, phase=WorkerPhase(phase))
    for enabled in (True, False):
        await api.call("POST", "/api/v1/workers/w/idle-detection", {"enabled": enabled})
        found = (await api.call("GET", "/api/v1/workers/w/idle")).json
        assert (found["verdict"], found["told"], found["keptBy"]) == ("unknown", told, ["phase"])
        ours = (await api.call("GET", "/api/workers/w/idle-status")).json
        assert ours["is_idle_detection_enabled"] is enabled

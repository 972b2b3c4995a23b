"""A run script against real server processes: asked, run, learned, queued, crashed, and no leader."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from server_process import ServerProcess, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
CLUSTER = {
    "metadata": {"name": "default"},
    "spec": {"capacity": {"cpu": 40, "memory": "64Gi"}},
}
WAKU = {"chart": "waku", "nodecount": 40}


def simulation(server: ServerProcess, name: str) -> dict[str, Any]:
    return server.call("GET", f"/api/v1/simulations/{name}")["status"]


def test_a_run_script_is_gated_taught_queued_and_cleaned_up_after(tmp_path: Path) -> None:
    """Approved, run, complete, learned; denied; queued, approved; crashed, expired."""
    fast = {"LABFLEET_CLOCK_RATE": "60", "LABFLEET_CLOCK_EPOCH": str(int(time.time()))}
    with ServerProcess(tmp_path, "", **fast) as server:
        server.call("POST", "/api/v1/clusters", CLUSTER)
        first = server.call("POST", "/request_run", WAKU)
        assert (first["decision"], first["predicted"]["cpu_milli"]) == ("approved", 20_000)
        denied = server.call("POST", "/request_run", WAKU)
        assert (denied["decision"], denied["simulation_id"]) == ("denied", None)
        waits = server.call("POST", "/request_run", {**WAKU, "queue": True})
        assert (waits["decision"], waits["position"]) == ("queued", 1)
        server.call(
            "POST",
            "/simulation_complete",
            {
                "simulation_id": first["simulation_id"],
                "observed": {"cpuMilli": 3000, "memoryMib": 900},
            },
        )
        name = waits["simulation_id"]
        found = server.call("GET", f"/api/v1/simulations/{name}?wait=30")["status"]
        assert found["phase"] == "APPROVED"
        assert found["takeUpBy"] is not None
        taken = server.call("POST", "/simulation_heartbeat", {"simulation_id": name})
        assert taken["status"] == "running"
        ended = {"simulation_id": name, "status": "failed"}
        assert server.call("POST", "/simulation_complete", ended)["status"] == "failed"
        learned = server.call("POST", "/request_run", {**WAKU, "ttl_seconds": 30})
        assert learned["predicted"]["cpu_milli"] < 20_000
        assert "waku" in learned["evidence"][0]
        past = server.call("GET", "/api/history")
        assert past[0]["chart"] == "waku"
        # Its caller has crashed: nobody reports, so the lease of 90 fleet seconds runs out.
        lost = learned["simulation_id"]
        until(lambda: simulation(server, lost)["phase"] == "EXPIRED", "the lease's end")
        assert "no longer reported" in simulation(server, lost)["note"]


def test_a_request_without_a_leader_is_answered_later_under_its_key(tmp_path: Path) -> None:
    """503 with Retry-After while no process decides; then the same key gives the one decision."""
    api_only, decides = ("--roles", "api"), ("--roles", "scheduler")
    with ServerProcess(tmp_path, "", *api_only) as api:
        api.call("POST", "/api/v1/clusters", CLUSTER)
        body = {**WAKU, "key": "run-7"}
        status, content = api.ask("POST", "/request_run", body)
        told = json.loads(content)
        assert (status, told["reason"]) == (503, "Undecided")
        with ServerProcess(tmp_path, "", *decides) as leader:
            made = until(lambda: _decided(api, body), "a decision by the new leader")
            other = api.call("POST", "/request_run", {**WAKU, "cost": {"cpu": 1, "memory": "1Gi"}})
            assert other["decision"] == "approved"
            leader.kill()
        assert _decided(api, body) == made
        found = api.call("GET", "/api/v1/simulations?phase=APPROVED")
        assert found["total"] == 2


def _decided(api: ServerProcess, body: dict[str, Any]) -> dict[str, Any] | None:
    status, content = api.ask("POST", "/request_run", body)
    return json.loads(content) if status == 200 else None

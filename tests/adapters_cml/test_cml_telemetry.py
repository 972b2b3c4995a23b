"""Telemetry of upstream 003: the nested bodies of 2.9 become typed records, unknown stays unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from loopback_cml import LAB, world
from scripted_cml import COMPUTE, ScriptedCml, host_on, licence, ok, page, refused

from labfleet.adapters.cml import licensing, telemetry

STATS = {
    "cpu": {
        "load": [0.004, 0.016, 0.0], "count": 48, "percent": 0.49, "predicted": 6,
        "model": "Intel(R) Xeon(R) Platinum 8252C CPU @ 3.80GHz",
    },
    "memory": {"total": 202422902784, "free": 199086161920.0, "used": 2033487872},
    "disk": {"total": 266206101504, "free": 128413523968, "used": 137792577536},
    "dominfo": {
        "allocated_cpus": 7, "allocated_memory": 6291456, "total_nodes": 2, "total_orphans": 0,
        "running_nodes": 0, "running_orphans": 0,
    },
}  # fmt: skip
LIVE = {
    "computes": {COMPUTE: {"hostname": "ip-172-31-38-11", "is_controller": True, "stats": STATS}},
    "all": {key: STATS[key] for key in ("cpu", "memory", "disk")},
    "controller": {"disk": {"total": 266206101504, "free": 128413519872, "used": 137775804416}},
}
FLAGS = (
    "kvm_vmx_enabled", "enough_cpus", "lld_connected", "lld_synced", "libvirt", "fabric",
    "device_mux", "refplat_images_available", "docker_shim", "valid",
)  # fmt: skip
HEALTH = {
    "valid": True,
    "computes": {
        COMPUTE: {
            **dict.fromkeys(FLAGS, True),
            "admission_state": "READY",
            "is_controller": True,
            "hostname": "ip-172-31-38-11",
        }
    },
    "is_licensed": True,
    "is_enterprise": True,
    "controller": dict.fromkeys(("core_connected", "nodes_loaded", "images_loaded", "valid"), True),
}


def test_every_key_of_seed_003_is_read_from_its_live_body():
    """The fifteen keys that were null there have the live sample's values, in stated units."""
    seen = telemetry.system_stats(LIVE)
    assert seen.gaps == {}
    assert (seen.cpu_count, seen.cpu_percent) == (48, 0.49)
    memory = seen.memory
    assert (memory.total, memory.free, memory.used) == (202422902784, 199086161920, 2033487872)
    disk = seen.disk
    assert (disk.total, disk.free, disk.used) == (266206101504, 128413523968, 137792577536)
    own = seen.controller_disk
    assert (own.total, own.free, own.used) == (266206101504, 128413519872, 137775804416)
    assert (seen.allocated_cpus, seen.allocated_memory_mib) == (7, 6144)
    assert (seen.total_nodes, seen.running_nodes, seen.running_orphans) == (2, 0, 0)
    compute = seen.computes[COMPUTE]
    assert (compute.hostname, compute.is_controller) == ("ip-172-31-38-11", True)
    assert (compute.cpu_predicted, compute.load) == (6, (0.004, 0.016, 0.0))


def test_every_health_flag_is_read():
    """All flags of the live sample, the computes' and the controller's."""
    seen = telemetry.system_health(HEALTH)
    assert (seen.valid, seen.is_licensed, seen.is_enterprise) == (True, True, True)
    compute = seen.computes[COMPUTE]
    assert all(getattr(compute, name) for name in FLAGS)
    assert (compute.admission_state, compute.cpu_overload) == ("READY", None)
    assert seen.controller.core_connected
    assert seen.gaps == {}


def test_null_flags_are_unknown_and_named():
    """Null is neither true nor false: the path says where, the reason why."""
    nulls = {**HEALTH["computes"][COMPUTE], "libvirt": None, "valid": None}
    seen = telemetry.system_health({**HEALTH, "valid": None, "computes": {COMPUTE: nulls}})
    assert seen.valid is None
    assert set(seen.gaps) == {
        "valid",
        f"computes.{COMPUTE}.libvirt",
        f"computes.{COMPUTE}.valid",
    }


def test_a_null_counter_is_a_gap_and_totals_fall_back_to_the_computes():
    """One compute that does not tell makes the sum unknown; a missing `all` is summed up."""
    quiet = {**STATS, "dominfo": {"total_nodes": 14, "running_nodes": None}}
    seen = telemetry.system_stats({"computes": {COMPUTE: {"stats": quiet}}})
    assert (seen.cpu_count, seen.memory.total, seen.total_nodes) == (48, 202422902784, 14)
    assert seen.running_nodes is None
    assert seen.gaps["running_nodes"] == "the server does not tell"
    two = {"computes": {"a": {"stats": STATS}, "b": {"stats": quiet}}}
    assert telemetry.system_stats(two).running_nodes is None
    assert telemetry.system_stats(two).total_nodes == 16


@pytest.mark.parametrize("value", [{}, [], None, {"computes": {}}, {"all": {"cpu": []}}])
def test_system_stats_of_an_empty_answer_are_unknown(value):
    """Early in the boot everything is None with a reason, never 0."""
    seen = telemetry.system_stats(value)
    assert (seen.cpu_count, seen.memory.total, seen.running_nodes) == (None, None, None)
    assert {"cpu_count", "memory.total", "running_nodes", "computes"} <= set(seen.gaps)
    assert "no compute" in seen.gaps["running_nodes"]


@pytest.mark.parametrize("value", [{}, [], None, "x", {"computes": [], "controller": 3}])
def test_an_empty_health_is_unknown(value):
    """Nothing told is nothing known: no flag becomes false by itself."""
    seen = telemetry.system_health(value)
    assert (seen.valid, seen.controller.core_connected, seen.computes) == (None, None, {})
    assert "controller.core_connected" in seen.gaps


def test_the_licence_of_the_live_sample():
    """Registration, authorization, features, product and UDI, with both expiry dates."""
    seen = licensing.parse(licence())
    assert (seen.registration, seen.authorization) == ("COMPLETED", "IN_COMPLIANCE")
    assert (seen.product, seen.is_enterprise) == ("CML_Enterprise", True)
    assert seen.registration_expires == "2027-01-14 00:56:19"
    assert seen.authorization_expires == "2026-04-14 00:55:21"
    assert seen.features["CML_ENT_BASE"].max == 1
    assert seen.features["CML_NODE_COUNT"].in_use == 180
    assert seen.node_capacity == 200


@pytest.mark.asyncio
async def test_a_quota_that_differs_is_shown_beside_ours():
    """Diagnostics' quota is compared, not believed; an older server without it is a gap."""
    told = ok({"quota": 120, "started": 9, "user_quota": 1, "user_started": 9})
    server = ScriptedCml({"GET licensing": ok(licence()), "GET diagnostics/licensing": told})
    seen = await host_on(server).licensing()
    assert (seen.node_capacity, seen.quota, seen.started) == (200, 120, 9)
    assert "120" in seen.gaps["quota"]
    older = ScriptedCml({"GET licensing": ok(licence())})
    seen = await host_on(older).licensing()
    assert (seen.node_capacity, seen.quota) == (200, None)
    assert "404" in seen.gaps["quota"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "on"),
    [
        (ok({"maintenance_mode": True, "notice": None}), True),
        (ok({"maintenance_mode": False}), False),
        (refused(404, "unknown"), False),
    ],
)
async def test_maintenance_mode_needs_no_login(answer, on):
    """It is asked without a token, so that it can be told when logins are refused."""
    server = ScriptedCml({"GET system/maintenance_mode": answer})
    assert await host_on(server).maintenance() is on
    assert server.logins == 0


@pytest.mark.asyncio
async def test_maintenance_mode_that_cannot_be_asked_is_an_error():
    """A page of nginx is no "off"."""
    server = ScriptedCml({"GET system/maintenance_mode": page(502)})
    with pytest.raises(Exception, match="502"):
        await host_on(server).maintenance()


@pytest.mark.asyncio
async def test_telemetry_of_the_simulator_has_no_gap():
    """A 2.9 server tells everything; the numbers fit the running lab."""
    async with world() as cml:
        lab_id = await cml.host.import_lab(LAB, title="t")
        await cml.host.start(lab_id)
        await cml.settle(lab_id, "BOOTED")
        stats, health = await cml.host.system_stats(), await cml.host.system_health()
        assert (stats.gaps, health.gaps) == ({}, {})
        assert stats.allocated_cpus == 1
        assert stats.allocated_memory_mib == 512
        assert list(stats.computes) == list(health.computes)
        licence_ = await cml.host.licensing()
        assert (licence_.quota, licence_.started, licence_.node_capacity) == (5, 1, 5)
        assert not await cml.host.maintenance()
        cml.server.server_conditions = replace(cml.server.server_conditions, null_health=True)
        health = await cml.host.system_health()
        assert next(iter(health.computes.values())).libvirt is None
        assert any(path.endswith(".libvirt") for path in health.gaps)
        assert json.dumps(health.gaps)

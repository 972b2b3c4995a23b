"""Settings over HTTP: the compatible routes in snake_case, the effective list, and the pauses."""

from __future__ import annotations

import pytest
from api_caller import Api


@pytest.mark.asyncio
async def test_the_seeds_discovery_routes_read_and_patch(api: Api) -> None:
    """GET and PATCH /api/settings/discovery and the internal GET speak snake_case."""
    patched = await api.call(
        "PATCH", "/api/settings/discovery",
        {"enabled": True, "regions": ["us-west-2"], "scan_interval_seconds": 600},
    )  # fmt: skip
    assert patched.status == 200
    internal = await api.call("GET", "/api/internal/settings/discovery", role="controller")
    assert internal.json == patched.json
    shown = {
        key: internal.json[key]
        for key in ("enabled", "regions", "ami_name_pattern", "scan_interval_seconds")
    }
    assert shown == {
        "enabled": True,
        "regions": ["us-west-2"],
        "ami_name_pattern": "CML-*",
        "scan_interval_seconds": 600,
    }


@pytest.mark.asyncio
async def test_no_regions_means_the_environments(api: Api) -> None:
    """An empty list of regions falls back (facts/upstream.md#discovery-settings)."""
    await api.call("PATCH", "/api/settings/discovery", {"regions": ["us-west-2"]})
    reply = await api.call("PATCH", "/api/settings/discovery", {"regions": []})
    assert reply.json["regions"] == ["us-east-1"]


@pytest.mark.asyncio
async def test_all_settings_can_be_read_and_put_back(api: Api) -> None:
    """PUT /api/settings takes what GET gave, with one value changed, and keeps only that."""
    whole = (await api.call("GET", "/api/settings")).json
    assert whole["idle_detection"]["timeout_minutes"] == 60
    whole["idle_detection"]["timeout_minutes"] = 30
    reply = await api.call("PUT", "/api/settings", whole)
    assert (reply.status, reply.json) == (200, whole)
    kept = (await api.call("GET", "/api/v1/settings/fleet")).json["spec"]
    assert {name: each for name, each in kept.items() if each} == {"idle": {"timeoutMinutes": 30}}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"idle_detektion": {}}, "did you mean idle_detection"),
        ({"worker_provisioning": {}}, "Template"),
        ({"discovery": {"scan_intervall_seconds": 1}}, "did you mean scan_interval_seconds"),
        ({"discovery": {"scan_interval_seconds": 1}}, "scanIntervalSeconds"),
        ({"discovery": 3}, "object"),
        ([], "object"),
    ],
)
async def test_a_wrong_body_is_named(api: Api, body: object, what: str) -> None:
    """Unknown sections and keys get a hint, and nothing is written."""
    reply = await api.call("PUT", "/api/settings", body)
    assert reply.status == 400
    assert what in reply.raw.decode()
    assert (await api.call("GET", "/api/v1/settings/fleet")).status == 404


@pytest.mark.asyncio
async def test_the_effective_list_says_each_source(api: Api) -> None:
    """Every setting has value, unit, source and default."""
    change = {"set": {"garbage.graceSeconds": 900}, "reason": "slow region"}
    assert (await api.call("POST", "/api/v1/settings/change", change)).status == 200
    reply = await api.call("GET", "/api/v1/settings/effective", role="operator")
    rows = {each["setting"]: each for each in reply.json["settings"]}
    assert rows["garbage.graceSeconds"] == {
        "setting": "garbage.graceSeconds", "value": 900, "unit": "seconds",
        "source": "settings", "variable": None, "default": 300,
    }  # fmt: skip
    assert rows["idle.enabled"]["source"] == "default"
    assert reply.json["pauses"] == []


@pytest.mark.asyncio
async def test_pause_and_resume_over_http(api: Api) -> None:
    """An operator pauses and resumes the fleet and a pool; both are listed meanwhile."""
    await api.world.template()
    await api.world.make("Pool", "exam", {"template": "metal"})
    why = {"reason": "network work"}
    for path in ("/api/v1/settings/pause", "/api/v1/pools/exam/pause"):
        assert (await api.call("POST", path, why, role="operator")).status == 200
    pauses = (await api.call("GET", "/api/v1/settings/effective")).json["pauses"]
    assert [(each["pool"], "network work" in each["text"]) for each in pauses] == [
        (None, True),
        ("exam", True),
    ]
    for path in ("/api/v1/settings/resume", "/api/v1/pools/exam/resume"):
        assert (await api.call("POST", path, role="operator")).status == 200
    assert (await api.call("GET", "/api/v1/settings/effective")).json["pauses"] == []


@pytest.mark.asyncio
async def test_every_reply_tells_operators_of_a_pause(api: Api) -> None:
    """The header stands on every reply to those who may know of it, and on no other."""
    before = await api.call("GET", "/api/v1/workers")
    await api.call("POST", "/api/v1/settings/pause", {"reason": "Wartung über Nacht"})
    operator = await api.call("GET", "/api/v1/workers", role="operator")
    user = await api.call("GET", "/api/v1/sessions", role="user")
    public = await api.call("GET", "/api/v1/version", role=None)
    assert "labfleet-paused" not in before.headers
    assert "Wartung%20%C3%BCber%20Nacht" in operator.headers["labfleet-paused"]
    assert operator.headers["labfleet-paused"].endswith("It%20ends%20with%3A%20labfleet%20resume")
    assert "labfleet-paused" not in user.headers
    assert "labfleet-paused" not in public.headers


@pytest.mark.asyncio
async def test_the_pause_of_a_pool_names_the_command_that_ends_it(api: Api) -> None:
    """The fleet's resume leaves a pool paused, so its name is part of the words."""
    await api.world.template()
    await api.world.make("Pool", "exam", {"template": "metal"})
    await api.call("POST", "/api/v1/pools/exam/pause", {"reason": "new firmware"})
    told = (await api.call("GET", "/api/v1/workers", role="operator")).headers["labfleet-paused"]
    assert told.endswith("labfleet%20resume%20--pool%20exam")


@pytest.mark.asyncio
async def test_users_read_no_settings(api: Api) -> None:
    """Settings are not for users, neither to read nor to pause."""
    for method, path in (
        ("GET", "/api/settings"), ("GET", "/api/v1/settings/effective"),
        ("GET", "/api/internal/settings/discovery"), ("POST", "/api/v1/settings/pause"),
        ("POST", "/api/v1/pools/x/pause"), ("GET", "/api/v1/settings"),
    ):  # fmt: skip
        assert (await api.call(method, path, role="user")).status == 403, path

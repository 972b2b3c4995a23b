"""What a route states is what it does: roles, limits of bodies, names of the query."""

from __future__ import annotations

import json
import re

import pytest
from api_caller import Api, exchange, scope_of

from labfleet.api import front
from labfleet.api.compatible import compat_routes, compat_worker_routes, idle
from labfleet.api.core import json_bounds
from labfleet.api.core.route import OWN_API, Route
from labfleet.api.kinds import kind_routes
from labfleet.kernel import errors
from labfleet.resources.definition import TOPOLOGY_LIMIT
from labfleet.resources.kinds import KINDS
from labfleet.resources.topology import LABEL_LIMIT, NODE_LIMIT
from labfleet.service.core.roles import FOR_TOKENS
from labfleet.service.verbs import adoption, idle_checks, observations


def address(route: Route) -> str:
    """An address of the route, of an object that does not exist."""
    return re.sub(r"\{\w+:str\}", "none", route.path)


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit of writes: these tests ask each route in a row."""
    monkeypatch.setattr(front.Writes, "take", lambda *_: None)


def answers_whole(route: Route) -> bool:
    """Whether it answers and ends; a stream does not."""
    return route.reply_type != "text/event-stream"


@pytest.mark.asyncio
async def test_a_route_lets_in_the_roles_that_it_states(api: Api):
    """For each route and role: 403 Forbidden exactly when its statement leaves the role out."""
    wrong = []
    for route in filter(answers_whole, api.app.routes.values()):
        for role in FOR_TOKENS:
            # Somebody else for each route: one token writes 40 times at once and no more.
            found = await api.call(route.method, address(route), role=str(role), owner=route.name)
            refused = found.status == 403 and found.json["reason"] == "Forbidden"
            if refused == (role in route.roles or route.public):
                wrong.append((route.name, str(role), found.status))
    assert wrong == []


@pytest.mark.asyncio
async def test_only_public_routes_answer_without_a_token(api: Api):
    """401 from every other route, before anything else is looked at."""
    for route in filter(answers_whole, api.app.routes.values()):
        found = await api.call(route.method, address(route) + "?nonsense=1", role=None)
        assert (found.status == 401) != route.public, route.name


@pytest.mark.asyncio
async def test_a_role_is_judged_before_its_body(api: Api):
    """A body that a role may not send is neither read nor decoded: 403, whatever it holds."""
    closed = [
        (route, role)
        for route in api.app.routes.values()
        if route.body is not None
        for role in FOR_TOKENS
        if role not in route.roles
    ]
    assert len(closed) > 50
    for route, role in closed:
        headers = {"Authorization": f"Bearer {await api.token(str(role), route.name)}"}
        reads = 0

        async def receive() -> dict[str, object]:
            nonlocal reads
            reads += 1
            return {"type": "http.request", "body": b"{", "more_body": True}

        status = 0

        async def send(message: dict[str, object]) -> None:
            nonlocal status
            status = message.get("status", status)

        await api.app(scope_of(route.method, address(route), headers), receive, send)
        assert (status, reads) == (403, 0), (route.name, role)


@pytest.mark.asyncio
async def test_a_body_is_bounded_by_its_route(api: Api):
    """One byte more than a route takes is 413, whether the length is declared or not."""
    token = await api.token("admin")
    for route in api.app.routes.values():
        if route.body is None:
            continue
        headers = {"Authorization": f"Bearer {token}", "Content-Type": route.media[0]}
        content = b" " * (route.limit + 1)
        for declared in ({}, {"Content-Length": str(len(content))}):
            scope = scope_of(route.method, address(route), headers | declared)
            found = await exchange(api.app, scope, content)
            assert found.status == 413, route.name


@pytest.mark.asyncio
async def test_an_unknown_name_in_the_query_is_refused(api: Api):
    """Under the API of our own a typo is 400 with the nearest name; elsewhere it is ignored."""
    found = await api.call("GET", "/api/v1/sessions?phse=FAILED")
    assert found.status == 400
    assert found.json["reason"] == "UnknownParameter"
    assert found.json["problems"] == [
        {"where": "phse", "what": "unknown parameter; did you mean phase?"}
    ]
    for route in filter(answers_whole, api.app.routes.values()):
        found = await api.call(route.method, address(route) + "?nonsense=1")
        refused = found.status == 400 and found.json.get("reason") == "UnknownParameter"
        assert refused == route.path.startswith(OWN_API), (route.name, found.raw)


@pytest.mark.asyncio
async def test_a_parameter_given_twice_is_refused(api: Api):
    """Which of two limits counts nobody could tell; a filter that may repeat, may."""
    for path in ("workers?limit=1&limit=2", "sessions?namespace=a&namespace=b&limit=1"):
        found = await api.call("GET", f"/api/v1/{path}")
        assert (found.status, found.json["reason"]) == (400, "RepeatedParameter")
        assert "more than once" in found.json["problems"][0]["what"]
    assert (await api.call("GET", "/api/v1/workers?tag=a=b&tag=c")).status == 200


def fits(body: object, values: int) -> None:
    """Require that a body passes its route's bound of values, and that the bound is no other size."""
    raw = json.dumps(body).encode()
    json_bounds.check(raw, values)
    with pytest.raises(errors.Invalid):
        json_bounds.check(raw, values // 4)


def test_the_largest_legal_bodies_fit():
    """A topology of full length, an observation of the largest lab, a scan of the most instances."""
    topology = '"' * TOPOLOGY_LIMIT  # each becomes two bytes of JSON
    definition = {"metadata": {"name": "n" * 63}, "spec": {"topology": topology}}
    port = {"name": "p" * 64, "node": "n" * 64, "kind": "pat", "transport": "tcp", "inner": 65535}
    definition["spec"]["portTemplate"] = [port] * 300
    assert len(json.dumps(definition)) < kind_routes.body_limit(KINDS["Definition"])
    # Of a usual topology there is room for all ports that a worker has.
    definition["spec"]["portTemplate"] = [port] * observations.PORTS_LIMIT
    fits(definition, kind_routes.body_values(KINDS["Definition"]))
    wire = {
        "label": "GigabitEthernet0/0/0/0", "state": "DEFINED_ON_CORE", "slot": 100,
        "is_connected": True, "ipv4_address": "255.255.255.255", "mac": "52:54:00:00:00:00",
    }  # fmt: skip
    node = {
        "node_id": "i" * 36, "label": "l" * LABEL_LIMIT, "node_definition": "d" * 64,
        "state": "DEFINED_ON_CORE", "cpus": 128, "cpu_limit": 100, "ram_mb": 1048576,
        "tags": ["serial:65535"] * 4, "interfaces": [wire] * 8,
    }  # fmt: skip
    ports = {f"{'p' * LABEL_LIMIT}-{number}": 65535 for number in range(observations.PORTS_LIMIT)}
    lab = {
        "observed_resources": {"nodes": [node] * NODE_LIMIT, "observed_ports": ports},
        "observed_ports": ports,
    }
    assert len(json.dumps(lab)) < compat_routes.OBSERVATION_BYTES
    fits(lab, compat_routes.OBSERVATION_VALUES)
    tags = {f"{'k' * 40}-{number}": "v" * 60 for number in range(10)}
    found = {
        "instance_id": "i-0123456789abcdef0", "state": "running", "public_ip": "255.255.255.255",
        "private_ip": "255.255.255.255", "instance_type": "m5zn.metal", "image_id": "ami-0123456789",
        "launch_time": "2026-01-01T00:00:00Z", "name": "n" * 100, "tags": tags,
    }  # fmt: skip
    scan = {"discovered_instances": [found] * adoption.FOUND_LIMIT, "aws_region": "eu-west-1"}
    assert len(json.dumps(scan)) < compat_worker_routes.IMPORT_BYTES
    fits(scan, compat_worker_routes.IMPORT_VALUES)
    data = {"lab_id": "i" * 36, "node_id": "i" * 36, "user_id": "i" * 36, "note": "x" * 40}
    event = {"category": "start_node", "timestamp": "2026-01-01T00:00:00Z", "data": data}
    report = {"force_check": True, "raw_telemetry_events": [event] * idle_checks.EVENTS_LIMIT}
    assert len(json.dumps(report)) < idle.DETECT_BYTES
    fits(report, idle.DETECT_VALUES)

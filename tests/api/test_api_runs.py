"""Runs over their routes: of which namespace they are, and what a waiting one is told."""

from __future__ import annotations

import pytest
from api_caller import Api

from labfleet.api.compatible.run_routes import run_reply
from labfleet.kernel import errors
from labfleet.resources.meta import Metadata
from labfleet.resources.simulation import (
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.service.core.service_context import ServiceContext

RUN = {"cost": {"cpu": 1}, "namespace": "a parameter"}
CLUSTER = {"capacity": {"cpu": 2, "memory": "10Gi"}}


@pytest.mark.asyncio
async def test_a_run_is_of_the_namespace_that_its_query_names(api: Api) -> None:
    """Its cluster, record, life and end are of that one; in the body the word is a parameter."""
    await api.world.make("Cluster", "default", CLUSTER, namespace="exam")
    told = await api.call("POST", "/request_run", RUN, role="runner")
    assert (told.status, told.json["reason"]) == (400, "UnknownName")
    other = await api.call("POST", "/request_run?namespace=none", RUN, role="runner")
    assert other.json["detail"] == "cluster: cluster 'default' does not exist in namespace none"
    there = "?namespace=exam"
    made = await api.call("POST", f"/request_run{there}", RUN, role="runner")
    assert made.json["decision"] == "approved"
    which = {"simulation_id": made.json["simulation_id"]}
    kept = await api.call("GET", f"/api/v1/simulations/{which['simulation_id']}{there}")
    assert kept.json["metadata"]["namespace"] == "exam"
    assert kept.json["spec"]["params"] == {"namespace": "a parameter"}
    for path, status in (
        ("/simulation_heartbeat", "running"),
        ("/simulation_complete", "completed"),
    ):
        assert (await api.call("POST", path, which, role="runner")).status == 404
        found = await api.call("POST", f"{path}{there}", which, role="runner")
        assert found.json["status"] == status


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"ttl_seconds": 5}, "ttl_seconds"),
        ({"duration_seconds": 0}, "duration_seconds"),
        ({"priority": 5000}, "priority"),
        ({"cost": {"gpu": 1}}, "cost.gpu"),
        ({"cost": {"cpu": "abc"}}, "cost"),
        ({"cluster": "nope"}, "cluster"),
        ({"queue": "nope"}, "queue"),
    ],
)
async def test_what_is_wrong_is_named_as_it_was_sent(api: Api, body: object, where: str) -> None:
    """A run script knows its own keys, and not where they stand in an object."""
    await api.world.make("Cluster", "default", CLUSTER)
    found = await api.call("POST", "/request_run", body, role="runner")
    assert (found.status, [each["where"] for each in found.json["problems"]]) == (400, [where])
    assert found.json["detail"].startswith(f"{where}: ")


@pytest.mark.asyncio
async def test_one_key_is_one_run_of_one_namespace(api: Api) -> None:
    """The same key in another namespace is another request: it is refused, not answered by the first."""
    for namespace in ("default", "exam"):
        await api.world.make("Cluster", "default", CLUSTER, namespace=namespace)
    body = {**RUN, "key": "once"}
    here = await api.call("POST", "/request_run", body, role="runner")
    there = await api.call("POST", "/request_run?namespace=exam", body, role="runner")
    assert (there.status, there.json["reason"]) == (409, "IdempotencyKeyReused")
    again = await api.call("POST", "/request_run", body, role="runner")
    assert again.json["record"] == here.json["record"]


@pytest.mark.asyncio
async def test_a_request_that_waits_is_answered_while_the_cache_is_behind(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored and waits, so a refusal would be wrong; only its place is not known yet."""
    await api.world.make("Cluster", "default", CLUSTER)

    async def behind(self: ServiceContext, revision: int) -> None:
        del self, revision
        raise errors.Temporary("the cache is behind the store", reason="CacheBehind")

    waits = {**RUN, "queue": True}
    assert (await api.call("POST", "/request_run", waits)).json["decision"] == "approved"
    monkeypatch.setattr(ServiceContext, "reached", behind)
    found = await api.call("POST", "/request_run", waits)
    monkeypatch.undo()
    assert found.status == 200
    assert (found.json["decision"], found.json["position"]) == ("queued", None)
    await api.world.services.fresh()
    kept = await api.call("GET", f"/api/v1/simulations/{found.json['record']}")
    assert kept.json["status"]["phase"] == SimulationPhase.QUEUED


@pytest.mark.parametrize("note", ["", "it waited as long as a request may"])
def test_a_request_that_ended_undecided_is_denied_with_what_happened(note: str) -> None:
    """A run script knows that it may not start, and people read why."""
    status = SimulationStatus(phase=SimulationPhase.EXPIRED, note=note)
    made = Simulation(metadata=Metadata(name="sim-1"), spec=SimulationSpec(), status=status)
    reply = run_reply(made)
    assert (reply.decision, reply.simulation_id, reply.reasons) == ("denied", None, ("Expired",))
    assert reply.message == (note or "it is expired: nobody had decided")

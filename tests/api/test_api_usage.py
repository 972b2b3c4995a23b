"""Series and newest use of clusters and runs by REST: one form, bounded, and only one's own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from api_caller import Api

from labfleet.interfaces.store import SeriesRow
from labfleet.resources import series
from labfleet.service.reads import usage

pytestmark = pytest.mark.asyncio
BODY = {"cluster": "c1", "cost": {"cpu": 1, "memory": "1Gi"}, "durationSeconds": 3600}


async def begun(api: Api) -> Any:
    """A cluster of 10 CPUs."""
    return await api.world.make("Cluster", "c1", {"capacity": {"cpu": 10, "memory": "100Gi"}})


async def asked(api: Api, owner: str = "ci") -> Any:
    """A run of somebody, which was approved."""
    reply = await api.call("POST", "/request_run", BODY, role="runner", owner=owner)
    assert reply.status == 200, reply.raw
    name = reply.json["simulation_id"]
    return (await api.call("GET", f"/api/v1/simulations/{name}")).json


async def measured(api: Api, obj: Any, at: datetime, **values: float) -> None:
    """Store one minute of an object."""
    kind, uid = (
        (obj["kind"], obj["metadata"]["uid"])
        if isinstance(obj, dict)
        else (obj.kind, obj.metadata.uid)
    )
    packed = series.pack(kind, series.single(kind, values))
    row = SeriesRow(series.Owner(kind, uid), 60, series.bucket_start(at, 60), packed)
    await api.world.services.series.merge_series([row])


async def test_a_run_that_is_over_is_shown_whole_for_days(api: Api) -> None:
    """From its beginning to its end, whenever it is asked for; durations count back from the end."""
    await begun(api)
    run = await asked(api)
    name, start = run["metadata"]["name"], api.world.clock.now()
    for minute in range(0, 30, 5):
        await measured(api, run, start + timedelta(minutes=minute), cpu=100.0 * minute, pods=2)
    api.world.clock.forward(1800)
    sent = {"simulation_id": name}
    await api.call("POST", "/simulation_complete", sent, role="runner", owner="ci")
    api.world.clock.forward(3 * 86400)
    path = f"/api/v1/simulations/{name}/series"
    told = (await api.call("GET", path)).json
    assert (told["kind"], told["name"], told["worker"], told["step"]) == (
        "Simulation", name, "", 60,
    )  # fmt: skip
    cpu = told["metrics"]["cpu"]
    assert (cpu["unit"], cpu["source"]) == ("millicores", "cluster")
    assert [each["mean"] for each in cpu["points"]] == [0, 500, 1000, 1500, 2000, 2500]
    assert told["metrics"]["storage"]["points"] == []
    last = (await api.call("GET", f"{path}?since=12m&metric=pods")).json
    assert list(last["metrics"]) == ["pods"]
    assert len(last["metrics"]["pods"]["points"]) == 2
    day = (await api.call("GET", f"{path}?since=1d&step=600")).json
    assert [each["count"] for each in day["metrics"]["cpu"]["points"]] == [2, 2, 2]
    assert (await api.call("GET", f"{path}?metric=disk")).status == 400


async def test_a_runner_reads_its_own_runs_alone(api: Api) -> None:
    """Another's run is not there for it, neither over time nor in the list of live ones."""
    await begun(api)
    mine, theirs = await asked(api), await asked(api, "others")
    for run in (mine, theirs):
        await measured(api, run, api.world.clock.now(), cpu=5.0)
    names = [each["metadata"]["name"] for each in (mine, theirs)]
    found = [
        (await api.call("GET", f"/api/v1/simulations/{name}/series", role="runner", owner="ci"))
        for name in names
    ]
    assert [each.status for each in found] == [200, 404]
    listed = await api.call("GET", "/api/v1/fleet/simulations/usage", role="runner", owner="ci")
    assert [each["name"] for each in listed.json["items"]] == names[:1]
    every = await api.call("GET", "/api/v1/fleet/simulations/usage")
    assert {each["name"] for each in every.json["items"]} == set(names)


async def test_clusters_are_told_with_their_newest_minute_targets_and_runs(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster measured of late has numbers, one of an hour ago has none, and none of them is 0."""
    cluster, old = await begun(api), await api.world.make("Cluster", "c2", {"capacity": {"cpu": 1}})
    await asked(api)
    now = api.world.clock.now()
    await measured(api, cluster, now - timedelta(minutes=1), cpu=1000.0)
    await measured(api, cluster, now, cpu=2000.0, othersCpu=50.0)
    await measured(api, old, now - timedelta(hours=1), cpu=7.0)
    told = (await api.call("GET", "/api/v1/fleet/clusters/usage")).json
    first, second = told["items"]
    assert (first["name"], first["runs"], first["phase"]) == ("c1", 1, None)
    assert first["numbers"] == {"cpu": 2000.0, "othersCpu": 50.0}
    assert (first["shareOf"]["cpuMilli"], first["units"]["memory"]) == (8000, "MiB")
    assert (second["name"], second["numbers"], second["minute"]) == ("c2", {}, None)
    monkeypatch.setattr(usage, "LISTED", 1)
    bounded = (await api.call("GET", "/api/v1/fleet/clusters/usage")).json
    assert ([each["name"] for each in bounded["items"]], bounded["leftOut"]) == (["c1"], 1)
    path = "/api/v1/clusters/c1/series?metric=cpu&since=1h"
    points = (await api.call("GET", path)).json["metrics"]["cpu"]["points"]
    assert [each["mean"] for each in points] == [1000.0, 2000.0]

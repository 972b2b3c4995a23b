"""Past runs by REST: our form in pages, upstream 004's form, and runs brought in from elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from api_caller import Api
from fleet_world import START

from labfleet.interfaces.store import Cause, Commit, Teach
from labfleet.resources.history import Run, RunKind, Use
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import Role
from labfleet.service.reads import past_runs
from labfleet.service.verbs import past_runs as verbs

OLD = START - timedelta(days=2)


def run(uid: str, kind: RunKind = RunKind.SIMULATION, **more: Any) -> Run:
    """Return a run of the chart `waku` unless it says otherwise."""
    return Run(**{"kind": kind, "uid": uid, "family": "waku", "ended_at": OLD, **more})


async def keep(api: Api, *runs: Run) -> None:
    """Keep runs as their ends do."""
    for each in runs:
        await api.world.store.commit(Commit(Cause("controller", START), (Teach(each),)))


def uids(reply: Any) -> list[str]:
    """Return the uids of a page of runs."""
    return [each["run"]["uid"] for each in reply.json["items"]]


@pytest.mark.asyncio
async def test_pages_of_runs_join_in_both_directions(api: Api) -> None:
    """The newest first, or in the order of places; filters hold over all pages."""
    await keep(api, *(run(f"r{n}", namespace="exam" if n % 2 else "default") for n in range(7)))
    await keep(api, run("boot", RunKind.BOOT, family="metal"))
    first = await api.call("GET", "/api/v1/history?limit=3")
    assert uids(first) == ["boot", "r6", "r5"]
    assert first.json["items"][0]["place"] == 8
    second = await api.call("GET", f"/api/v1/history?limit=3&cursor={first.json['next']}")
    assert uids(second) == ["r4", "r3", "r2"]
    rest = await api.call("GET", f"/api/v1/history?limit=3&cursor={second.json['next']}")
    assert (uids(rest), rest.json["next"]) == (["r1", "r0"], None)
    target = "/api/v1/history?family=waku&namespace=exam&oldestFirst=true&limit=2"
    old = await api.call("GET", target)
    assert uids(old) == ["r1", "r3"]
    assert uids(await api.call("GET", f"{target}&cursor={old.json['next']}")) == ["r5"]
    assert uids(await api.call("GET", "/api/v1/history?kind=WorkerBoot")) == ["boot"]
    assert uids(await api.call("GET", "/api/v1/history?family=none")) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("query", ["cursor=x", "cursor=-1", "limit=0", "kind=Lab", "cursor=9" * 20])
async def test_a_query_that_means_nothing_is_refused(api: Api, query: str) -> None:
    """400, and never another page than the one that was asked for."""
    assert (await api.call("GET", f"/api/v1/history?{query}")).status == 400


@pytest.mark.asyncio
async def test_who_may_read_an_object_may_read_its_runs(api: Api) -> None:
    """People see their own sessions' runs, runners their own simulations', the rest everything."""
    await keep(
        api,
        run("s-ann", RunKind.SESSION, owner="ann"),
        run("s-bob", RunKind.SESSION, owner="bob"),
        run("sim-ann", owner="ann"),
        run("sim-bob", owner="bob"),
        run("boot", RunKind.BOOT),
    )
    mine = await api.call("GET", "/api/v1/history", role="user", owner="ann")
    assert uids(mine) == ["s-ann"]
    runner = await api.call("GET", "/api/v1/history", role="runner", owner="bob")
    assert uids(runner) == ["sim-bob"]
    for role in ("operator", "controller"):
        assert len(uids(await api.call("GET", "/api/v1/history", role=role))) == 5
    other = await api.call("GET", "/api/v1/history?kind=WorkerBoot", role="user", owner="ann")
    assert (other.status, other.json["reason"]) == (403, "Forbidden")


def test_no_role_sees_a_part_of_two_kinds() -> None:
    """Then a list without a kind could not be one query: the rule would have to change."""
    for role in Role:
        seen = past_runs.visible(Principal("t", role))
        assert len(seen) in {0, 1, len(past_runs.OBJECTS)}, role


@pytest.mark.asyncio
async def test_upstream_s_dashboard_gets_its_own_words(api: Api) -> None:
    """The last hundred runs of simulations in cores and GiB; what nobody measured is null."""
    use = {
        "cpu_milli": Use(peak=9250.0, mean=1.0),
        "memory_mib": Use(peak=2560.0),
        "network_in_kbps": Use(peak=10.0),
        "network_out_kbps": Use(peak=30.0),
    }
    await keep(api, run("session", RunKind.SESSION), run("bare"))
    await keep(api, run("r", parameters={"nodecount": 50.0}, duration_seconds=300.0, use=use))
    first, second = (await api.call("GET", "/api/history")).json
    assert first == {
        "id": "r",
        "chart": "waku",
        "node_count": 50,
        "duration_secs": 300.0,
        "cpu_cores": 9.25,
        "memory_gb": 2.5,
        "peak_cpu_delta": 9.25,
        "peak_mem_delta": 2.5,
        "peak_network_delta": 30.0,
        "observed_at": "2026-11-25T09:00:00Z",
    }
    assert second["id"] == "bare"
    assert {second[name] for name in ("node_count", "duration_secs", "cpu_cores")} == {None}
    await keep(api, *(run(f"more{n}") for n in range(100)))
    assert [each["id"] for each in (await api.call("GET", "/api/history")).json][99] == "more0"
    assert (await api.call("GET", "/api/history", role="user")).status == 403


def body(*uids_: str, **more: Any) -> dict[str, Any]:
    """Return the body of an import."""
    ended = "2026-11-20T10:00:00Z"
    each = {"kind": "Simulation", "family": "waku", "endedAt": ended, "source": "measured", **more}
    return {"runs": [{**each, "uid": uid} for uid in uids_]}


@pytest.mark.asyncio
async def test_an_import_adds_what_is_new_and_says_so(api: Api) -> None:
    """Its source is imported, its parameters are typed, and what was known stays as it was."""
    await keep(api, run("known", name="first"))
    sent = body("known", "new", parameters={"nodecount": "50", "image": "v1"})
    done = await api.call("POST", "/api/v1/history/import", sent, role="operator")
    assert (done.status, done.json) == (200, {"added": 1, "known": 1})
    again = await api.call("POST", "/api/v1/history/import", sent)
    assert again.json == {"added": 0, "known": 2}
    new, known = (await api.call("GET", "/api/v1/history")).json["items"]
    assert new["run"]["source"] == "imported"
    assert new["run"]["parameters"] == {"nodecount": 50.0, "image": "v1"}
    assert known["run"]["name"] == "first"
    assert (await api.call("POST", "/api/v1/history/import", {"runs": []})).json["added"] == 0


@pytest.mark.asyncio
async def test_one_wrong_run_keeps_the_whole_request_out(api: Api) -> None:
    """Every wrong field is named with its place, and nothing of the request is kept."""
    sent = body("a", "b", "c")
    sent["runs"][1]["durationSeconds"] = -5
    sent["runs"][2]["endedAt"] = "2027-01-01T00:00:00Z"
    reply = await api.call("POST", "/api/v1/history/import", sent)
    assert reply.status == 400
    named = [each["where"] for each in reply.json["problems"]]
    assert named == ["runs[1].durationSeconds", "runs[2].endedAt"]
    many = body(*(f"u{n}" for n in range(verbs.AT_ONCE + 1)))
    assert (await api.call("POST", "/api/v1/history/import", many)).status == 400
    assert (await api.call("GET", "/api/v1/history")).json["items"] == []
    whole = body(
        *(f"u{n}" for n in range(verbs.AT_ONCE)), parameters={f"p{n}": n for n in range(60)}
    )
    assert (await api.call("POST", "/api/v1/history/import", whole)).json["added"] == verbs.AT_ONCE


@pytest.mark.asyncio
@pytest.mark.parametrize("role", ["user", "runner", "controller"])
async def test_only_those_who_run_the_fleet_import(api: Api, role: str) -> None:
    """Whoever could write history could make a request look cheap."""
    reply = await api.call("POST", "/api/v1/history/import", body("a"), role=role)
    assert (reply.status, reply.json["reason"]) == (403, "Forbidden")

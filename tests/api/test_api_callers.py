"""One caller against the others: writes per minute, and sessions that one owner may have open."""

from __future__ import annotations

import asyncio

import pytest
from api_caller import Api

from labfleet.api.core import writes
from labfleet.api.core.writes import Writes
from labfleet.kernel import errors
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import Role

USER = Principal("t1", Role.USER, "eve")


async def limit(api: Api, **limits: int) -> None:
    """Set limits of the fleet."""
    body = {"set": {f"limits.{name}": value for name, value in limits.items()}}
    assert (await api.call("POST", "/api/v1/settings/change", body)).status == 200
    await api.world.services.fresh()


@pytest.mark.asyncio
async def test_an_owner_has_a_bounded_number_of_open_sessions(api: Api) -> None:
    """One more is 429 with the limit's name; another owner and an operator are not held up."""
    await api.world.definition("x")
    await limit(api, openSessions=2)
    session = {"spec": {"definition": "x"}}

    async def ask(role: str, owner: str):
        await api.world.services.fresh()
        return await api.call("POST", "/api/v1/sessions", session, role=role, owner=owner)

    made = [await ask("user", "eve") for _ in range(2)]
    assert [each.status for each in made] == [201, 201]
    found = await ask("user", "eve")
    assert (found.status, found.json["reason"]) == (429, "TooManySessions")
    assert "limits.openSessions" in found.json["detail"]
    assert int(found.headers["retry-after"]) > 0
    assert (await ask("user", "bob")).status == 201
    assert [(await ask("operator", "olga")).status for _ in range(4)] == [201] * 4
    gone = made[0].json["metadata"]["name"]
    ended = await api.call("DELETE", f"/api/v1/sessions/{gone}", role="user", owner="eve")
    assert ended.status == 200
    assert (await ask("user", "eve")).status == 201


@pytest.mark.asyncio
async def test_controllers_make_a_bounded_number_of_workers(api: Api) -> None:
    """Side by side too; another namespace, the servers of others and an operator are not counted."""
    await api.world.template()
    await limit(api, controllerWorkers=3)
    there = {"kind": "external", "url": "https://cml.example.org"}
    placed = {"metadata": {"name": "own"}, "spec": {"template": "metal", "origin": there}}
    assert (await api.call("POST", "/api/v1/workers", placed)).status == 201
    path, body = "/api/internal/workers/scale-up", {"template": "metal"}
    asked = (api.call("POST", path, body, role="controller") for _ in range(9))
    made = await asyncio.gather(*asked)
    assert sorted(each.status for each in made) == [201] * 3 + [429] * 6
    found = await api.call("POST", path, body, role="controller")
    assert (found.status, found.json["reason"]) == (429, "TooManyWorkers")
    assert "limits.controllerWorkers" in found.json["detail"]
    assert (await api.call("POST", path, body, role="operator")).status == 201


@pytest.mark.asyncio
async def test_requests_at_once_pass_no_quota(api: Api) -> None:
    """Twenty requests side by side of one owner make as many sessions as one may have."""
    await api.world.definition("x")
    await limit(api, openSessions=3)
    session = {"spec": {"definition": "x"}}
    asked = (
        api.call("POST", "/api/v1/sessions", session, role="user", owner="eve") for _ in range(20)
    )
    found = sorted(each.status for each in await asyncio.gather(*asked))
    assert found == [201] * 3 + [429] * 17


@pytest.mark.asyncio
async def test_a_token_s_writes_are_bounded_and_its_readings_are_not(api: Api) -> None:
    """Refused before the body is read, with Retry-After; other tokens go on."""
    await limit(api, writesPerMinute=12)
    run = {"cost": {"cpu": 1}}
    found = [await api.call("POST", "/request_run", run, role="runner") for _ in range(4)]
    assert [each.status for each in found] == [400, 400, 429, 429]
    assert found[-1].json["reason"] == "TooManyWrites"
    assert int(found[-1].headers["retry-after"]) > 0
    assert (await api.call("POST", "/request_run", run, role="runner", owner="two")).status == 400
    for _ in range(20):
        assert (await api.call("GET", "/api/v1/simulations", role="runner")).status == 200
    names = [f"c{number}" for number in range(20)]
    for name in names:
        body = {"metadata": {"name": name}, "spec": {"capacity": {"cpu": 1}}}
        assert (await api.call("POST", "/api/v1/clusters", body, role="operator")).status == 201


def test_an_operator_s_thousand_writes_pass() -> None:
    """Those who run the fleet have no limit: apply of a thousand sessions is one morning's work."""
    counted = Writes()
    for role in set(Role) - writes.LIMITED:
        for _ in range(1000):
            counted.take(Principal("t", role), 6, 0.0)
    counted.take(USER, 6, 0.0)
    with pytest.raises(errors.Throttled):
        counted.take(USER, 6, 0.0)


def test_writes_come_back_with_time_and_a_changed_limit_holds_at_once() -> None:
    """As many a minute as the setting says, whenever the minute begins."""
    counted = Writes()

    def waits(per_minute: int, now: float) -> float:
        try:
            counted.take(USER, per_minute, now)
        except errors.Throttled as told:
            return told.retry_after or 0.0
        return 0.0

    told = [waits(60, tenth / 10) for tenth in range(600)]
    assert max(told) <= 1.0
    assert 60 <= told.count(0.0) <= 71
    assert waits(600, 60.0) == 0.0


def test_the_memory_of_writers_is_bounded() -> None:
    """However many tokens write, only the newest are remembered."""
    counted = Writes()
    for number in range(writes.KEPT + 5):
        counted.take(Principal(str(number), Role.USER), 60, 0.0)
    # private _buckets: forgetting shows in no answer
    assert len(counted._buckets) == writes.KEPT

"""Routes that are answered without the framework answer as the framework would."""

from __future__ import annotations

from typing import Any

import pytest
from api_caller import Api

from labfleet.api.core import direct
from labfleet.api.core.route import Routes
from labfleet.app import whole_requests
from labfleet.service.core.service_context import Caller
from labfleet.service.verbs import admission

OWN = {"x-request-id", "labfleet-time"}
"""Headers that differ from reply to reply."""
RUN = {"chart": "waku", "nodecount": 5}
CALLS: list[tuple[str, Any, dict[str, Any]]] = [
    ("/request_run", RUN, {"role": None}),
    ("/request_run", RUN, {"role": "user"}),
    ("/request_run", RUN, {"role": "runner"}),
    ("/request_run", None, {"role": "runner"}),
    ("/request_run", [1], {"role": "runner"}),
    ("/request_run", {**RUN, "params": {}}, {"role": "runner"}),
    ("/request_run", RUN, {"role": "runner", "Content-Type": "text/plain"}),
    ("/request_run", {"pad": "x" * 300_000}, {"role": "runner"}),
    ("/request_run", {"key": "a"}, {"role": "runner", "Idempotency-Key": "b"}),
    ("/simulation_complete", {"simulation_id": "sim-none"}, {"role": "runner"}),
    ("/simulation_complete", {"simulation": "sim-none"}, {"role": "runner"}),
    ("/simulation_heartbeat", {"simulation_id": "sim-none"}, {"role": "runner"}),
    ("/request_run?namespace=exam", RUN, {"role": "runner"}),
    ("/request_run?namespace=a&namespace=b", RUN, {"role": "runner"}),
    ("/request_run?namespaec=exam", RUN, {"role": "runner"}),
]


@pytest.mark.asyncio
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(("path", "body", "how"), CALLS)
async def test_both_ways_answer_alike(
    api: Api, path: str, body: Any, how: dict[str, Any], past: bool
) -> None:
    """With a slash at the end the framework answers, as with a query: same status and words."""
    # What is empty or large, or has a query, the server sends through ASGI all the same.
    past = past and body is not None and len(str(body)) <= whole_requests.MOST and "?" not in path
    ours = await api.call("POST", path, body, past=past, **how)
    its = await api.call(
        "POST", path.replace("?", "/?") if "?" in path else f"{path}/", body, **how
    )
    assert ours.status == its.status
    told = [{k: v for k, v in each.headers.items() if k not in OWN} for each in (ours, its)]
    assert told[0].pop("content-length", None) is not None
    told[1].pop("content-length")
    assert told[0] == told[1]
    one, two = ours.json, its.json
    assert isinstance(one, dict)
    for each in (one, two):
        for name in ("requestId", "instance"):
            each.pop(name, None)
    assert one == two


@pytest.mark.asyncio
@pytest.mark.parametrize("past", [False, True])
async def test_both_ways_decide_alike(api: Api, past: bool) -> None:
    """An approval has the same status, headers and fields."""
    await api.world.make("Cluster", "default", {"capacity": {"cpu": 100, "memory": "100Gi"}})
    ours = await api.call("POST", "/request_run", RUN, role="runner", past=past)
    its = await api.call("POST", "/request_run/", RUN, role="runner")
    assert (ours.status, ours.json["decision"]) == (its.status, its.json["decision"])
    assert ours.json["decision"] == "approved"
    assert set(ours.json) == set(its.json)
    assert set(ours.headers) == set(its.headers)
    assert ours.headers["content-type"] == its.headers["content-type"]


@pytest.mark.asyncio
async def test_every_direct_route_is_answered_past_asgi(api: Api) -> None:
    """One statement for both: what is stated as direct is what the server takes past ASGI."""
    stated = {each.path.encode() for each in api.app.routes.values() if each.direct}
    assert stated == set(api.app.direct) != set()


@pytest.mark.asyncio
async def test_what_is_answered_past_asgi_is_counted_and_bounded(api: Api) -> None:
    """Each write counts for its caller's limit, and is told to whom requests are told."""
    api.done.clear()
    found = [await api.call("POST", "/request_run", RUN, role="runner", past=True)]
    most = api.world.services.settings.now().limits.writes_per_minute
    for _ in range(most):
        found.append(await api.call("POST", "/request_run", RUN, role="runner", past=True))
        if found[-1].status == 429:
            break
    assert found[-1].json["reason"] == "TooManyWrites"
    assert {(each.path, each.principal != "") for each in api.done} == {("/request_run", True)}
    assert [each.status for each in api.done][-1] == 429


@pytest.mark.asyncio
@pytest.mark.parametrize("past", [False, True])
async def test_a_defect_of_a_direct_route_is_told(
    api: Api, monkeypatch: pytest.MonkeyPatch, past: bool
) -> None:
    """The caller gets a problem without details, the application the exception."""

    async def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("a slip")

    monkeypatch.setattr(admission, "request_run", broken)
    found = await api.call("POST", "/request_run", RUN, role="runner", past=past)
    assert (found.status, found.json["reason"]) == (500, "Internal")
    assert "slip" not in found.raw.decode()
    assert [type(each) for each in api.defects] == [KeyError]
    api.defects.clear()


def test_only_routes_without_parameters_are_direct() -> None:
    """One with a parameter of the query needs the framework, and says so when it is stated."""
    made = Routes("system")

    @made.post("/api/v1/things", "A thing", direct=True)
    async def thing(who: Caller, sent: dict[str, Any], number: int = 0) -> dict[str, Any]:
        """Do a thing."""
        del who, number
        return sent

    with pytest.raises(ValueError, match="number"):
        direct.table(made)

"""REST: every kind, problem documents, bounds, headers, what must never happen.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio

import pytest
from api_caller import Api, exchange, scope_of
from fleet_world import MACHINE, TOPOLOGY

from labfleet.api.core import problems
from labfleet.api.core.route import SMALL
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS

SPECS = {
    "Template": {"machine": MACHINE},
    "Pool": {"template": "x"},
    "Worker": {"template": "x"},
    "Definition": {"topology": TOPOLOGY},
    "Session": {"definition": "x"},
    "Group": {"definition": "x", "size": 1, "slot": {"start": "2026-12-14T08:00:00Z"}},
    "Course": {
        "definition": "x",
        "size": 1,
        "slot": {"start": "2026-12-14T08:00", "zone": "Europe/Zurich"},
        "repeat": "FREQ=WEEKLY;COUNT=2",
    },
    "Cluster": {"capacity": {"cpu": "2500m", "memory": "4Gi"}},
    "Settings": {"idle": {"enabled": True}},
    "Queue": {"cluster": "x", "quota": {"cpu": 2}},
    "Webhook": {"url": "https://hooks.example.com/labfleet"},
}
NAMES = {"Settings": "fleet"}


async def fill(api: Api) -> None:
    """Create one object of every kind, named `x` where people choose the name."""
    for kind, spec in SPECS.items():
        path, name = f"/api/v1/{KINDS[kind].plural}", NAMES.get(kind, "x")
        made = await api.call("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert made.status == 201, made.raw
        assert made.headers["location"] == f"{path}/{name}"
    run = await api.call("POST", "/request_run", {"cluster": "x", "cost": {"cpu": 1}})
    assert run.json["decision"] == "approved"


@pytest.mark.asyncio
async def test_every_kind_is_created_read_listed_changed_and_deleted(api: Api):
    """The routes come from the table of kinds, so each kind has all of them."""
    await fill(api)
    for row in KINDS.values():
        path = f"/api/v1/{row.plural}"
        page = (await api.call("GET", path)).json
        assert page["kind"] == f"{row.name}List"
        if not page["items"] and not row.creatable:
            continue  # made by controllers only
        item, *seats = page["items"]
        # The group's only seat, and the two dates of the course, of one seat each.
        assert len(seats) == {"Session": 3, "Group": 2}.get(row.name, 0)
        one = f"{path}/{item['metadata']['name']}"
        assert (await api.call("GET", one)).json == item
        labels = {"metadata": {"labels": {"a": "b"}}}
        changed = await api.call("PATCH", one, labels)
        assert changed.json["metadata"]["labels"] == {"a": "b"}
        assert (await api.call("PUT", one, changed.json)).json == changed.json
        assert (await api.call("GET", f"{path}?labelSelector=a%3Db")).json["total"] == 1
        history = (await api.call("GET", f"{one}/events?limit=1")).json
        assert history["items"][0]["type"] == "MODIFIED"
        assert history["next"] is not None
        assert (await api.call("GET", f"{one}/explain")).json["lines"]
    simulation = (await api.call("GET", "/api/v1/simulations")).json["items"][0]["metadata"]["name"]
    await api.call("POST", "/simulation_complete", {"simulation_id": simulation})
    dates = [f"sessions/x-2026-12-{day}-001" for day in (14, 21)]
    for one in ("courses/x", "groups/x", "sessions/x-001", *dates, "sessions/x", "workers/x",
                "pools/x", "definitions/x", "templates/x"):  # fmt: skip
        assert (await api.call("DELETE", f"/api/v1/{one}")).status == 200
    assert (await api.call("DELETE", f"/api/v1/simulations/{simulation}")).status == 200
    assert (await api.call("DELETE", "/api/v1/clusters/x")).status == 200
    gone = await api.call("GET", "/api/v1/clusters/x")
    assert (gone.status, gone.json["reason"]) == (404, "NotFound")


@pytest.mark.asyncio
async def test_problems_are_documents_with_places_and_a_request_id(api: Api):
    """application/problem+json with type, title, status, detail, instance, reason, problems."""
    sent = {"metadata": {"name": "Ü x"}, "spec": {"capacity": {}, "cpuPercnt": 3}}
    found = await api.call("POST", "/api/v1/clusters", sent, X_Request_Id="trace-7")
    assert found.status == 400
    assert found.headers["content-type"] == "application/problem+json"
    assert found.json == {
        "type": "urn:labfleet:problem:unknown-field",
        "title": "Bad Request",
        "status": 400,
        "detail": "spec.cpuPercnt: unknown key; did you mean cpuPercent?",
        "instance": "/api/v1/clusters",
        "reason": "UnknownField",
        "problems": [{"where": "spec.cpuPercnt", "what": "unknown key; did you mean cpuPercent?"}],
        "requestId": "trace-7",
    }
    assert found.headers["x-request-id"] == "trace-7"


def test_every_error_of_ours_has_a_status():
    """No kernel error falls through to 500."""
    for kind in vars(errors).values():
        ours = isinstance(kind, type) and issubclass(kind, errors.LabfleetError)
        if ours and kind is not errors.LabfleetError:
            assert problems.status_of(kind("x")) != 500


@pytest.mark.asyncio
async def test_without_a_token_nothing_but_health_is_answered(api: Api):
    """401 with WWW-Authenticate; a token in the address does not count."""
    token = await api.token("admin")
    for path in ("/api/v1/workers", "/api/v1/kinds", "/api/v1/tokens", "/api/v1/events",
                 "/request_run", "/status-stream", "/api/events/stream", "/api/nowhere",
                 f"/api/v1/workers?access_token={token}"):  # fmt: skip
        found = await api.call("GET", path, role=None)
        assert found.status == 401
        assert found.headers["www-authenticate"].startswith("Bearer")
    for value in ("Bearer", "Basic abc", "Bearer lf_x_y", "Bearer \xff", "Bearer " + "x" * 5000):
        found = await api.call("GET", "/api/v1/workers", role=None, Authorization=value)
        assert (found.status, found.json["reason"]) == (401, "Unauthenticated")
    for path in ("/healthz", "/readyz", "/metrics", "/api/v1/version", "/api/v1/openapi.json"):
        assert (await api.call("GET", path, role=None)).status == 200
        # A stale token, or one that cannot be looked up, changes nothing for a probe.
        for value in ("Bearer lf_0123456789abcdef_revoked", "Basic abc"):
            assert (await api.call("GET", path, role=None, Authorization=value)).status == 200


@pytest.mark.asyncio
async def test_known_but_not_allowed_is_403(api: Api):
    """401 is who are you, 403 is you may not."""
    for method, path in (("GET", "/api/v1/workers"), ("GET", "/api/v1/tokens"),
                         ("POST", "/api/v1/workers/w/drain"), ("GET", "/api/internal/workers"),
                         ("GET", "/status-stream")):  # fmt: skip
        body = {} if method == "POST" else None
        found = await api.call(method, path, body, role="user", owner="eve")
        assert (found.status, found.json["reason"]) == (403, "Forbidden")


@pytest.mark.asyncio
async def test_a_users_list_and_get_show_only_its_own_sessions(api: Api):
    """Other people's sessions are 404 for it."""
    await api.world.definition("x")
    for owner in ("eve", "bob"):
        sent = {"metadata": {"name": owner}, "spec": {"definition": "x"}}
        made = await api.call("POST", "/api/v1/sessions", sent, role="user", owner=owner)
        assert made.json["spec"]["owner"] == owner
    page = await api.call("GET", "/api/v1/sessions", role="user", owner="eve")
    assert [each["metadata"]["name"] for each in page.json["items"]] == ["eve"]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/explain")):
        target = f"/api/v1/sessions/bob{path}"
        found = await api.call(method, target, {} if method == "POST" else None,
                               role="user", owner="eve")  # fmt: skip
        assert found.status == 404
    ended = await api.call("POST", "/api/v1/sessions/eve/cancel", {}, role="user", owner="eve")
    assert ended.status == 200


@pytest.mark.asyncio
async def test_tokens_are_shown_once_and_never_again(api: Api):
    """No reply but the first holds a secret or a hash."""
    sent = {"role": "operator", "owner": "olga"}
    made = await api.call("POST", "/api/v1/tokens", sent)
    assert made.status == 201
    text = made.json["token"]
    used = await api.call("GET", "/api/v1/workers", role=None, Authorization=f"bearer {text}")
    assert used.status == 200
    row = next(each for each in await api.world.store.tokens() if each.owner == "olga")
    listed = await api.call("GET", "/api/v1/tokens")
    ended = await api.call("DELETE", f"/api/v1/tokens/{made.json['id']}")
    for reply in (listed, ended):
        assert text.split("_", 2)[2].encode() not in reply.raw
        assert row.hash.encode() not in reply.raw
    again = await api.call("GET", "/api/v1/workers", role=None, Authorization=f"Bearer {text}")
    assert again.status == 401
    assert not any(text in repr(each) for each in api.done)


@pytest.mark.asyncio
async def test_a_stale_version_is_409_with_the_present_one(api: Api):
    """The problem document carries currentVersion."""
    await api.call(
        "POST", "/api/v1/clusters", {"metadata": {"name": "x"}, "spec": SPECS["Cluster"]}
    )
    old = (await api.call("GET", "/api/v1/clusters/x")).json
    now = (await api.call("PATCH", "/api/v1/clusters/x", {"spec": {"cpuPercent": 50}})).json
    found = await api.call("PUT", "/api/v1/clusters/x", old)
    assert found.status == 409
    assert found.json["reason"] == "StaleVersion"
    assert found.json["currentVersion"] == now["metadata"]["resourceVersion"]
    version = old["metadata"]["resourceVersion"]
    gone = await api.call("DELETE", f"/api/v1/clusters/x?resourceVersion={version}")
    assert gone.status == 409


@pytest.mark.asyncio
async def test_names_that_exist_or_cannot_be_are_refused(api: Api):
    """409 for a duplicate; 400 with a suggestion for Unicode and 64 characters; 404 to read one."""
    sent = {"metadata": {"name": "x"}, "spec": SPECS["Cluster"]}
    assert (await api.call("POST", "/api/v1/clusters", sent)).status == 201
    again = await api.call("POST", "/api/v1/clusters", sent)
    assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
    for name in ("李雷", "x" * 64, "x" * 5000, "a\u0000b", "<script>"):
        bad = {"metadata": {"name": name}, "spec": SPECS["Cluster"]}
        found = await api.call("POST", "/api/v1/clusters", bad)
        assert (found.status, found.json["problems"][0]["where"]) == (400, "metadata.name")
    for path in ("%E6%9D%8E", "x" * 64, "%00", "..%2f..", "%FF", "a%20b"):
        assert (await api.call("GET", f"/api/v1/clusters/{path}")).status == 404


@pytest.mark.asyncio
async def test_parallel_posts_with_one_key_make_one_object(api: Api):
    """T31 over HTTP: twenty equal replies; another body under the key is 409."""
    await api.world.definition("x")
    sent = {"spec": {"definition": "x"}}

    async def post(body=sent):
        return await api.call("POST", "/api/v1/sessions", body, Idempotency_Key="one")

    await api.token("admin")
    replies = await asyncio.gather(*(post() for _ in range(20)))
    assert {each.status for each in replies} == {201}
    assert len({each.raw for each in replies}) == 1
    other = await post({"spec": {"definition": "x", "priority": 1}})
    assert (other.status, other.json["reason"]) == (409, "IdempotencyKeyReused")
    for key in ("ä", "x" * 256, "a b"):
        found = await api.call("POST", "/api/v1/sessions", sent, Idempotency_Key=key)
        assert found.status == 400


@pytest.mark.asyncio
async def test_huge_bodies_are_413_declared_or_not(api: Api):
    """More than a route takes is refused before it is all in memory."""
    huge = b"[" + b" " * SMALL + b"]"
    found = await api.call("POST", "/api/v1/clusters", raw=huge)
    assert (found.status, found.json["reason"]) == (413, "TooLarge")
    for length in (str(SMALL + 1), "9" * 40, "-1", "x"):
        declared = await api.call("POST", "/api/v1/clusters", raw=b"{}", Content_Length=length)
        assert declared.status == 413


@pytest.mark.asyncio
async def test_what_is_no_json_is_refused_by_name(api: Api):
    """Wrong media type, broken JSON, bombs, missing bodies: 415 or 400, never 500."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/yaml"):
        found = await api.call("POST", "/api/v1/clusters", raw=b"a=b", Content_Type=kind)
        assert (found.status, found.json["reason"]) == (415, "UnsupportedMediaType")
    for raw in (b"{", b"nul", b"\xff\xfe", b"[" * 60_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
                b'{"metadata":{"name":"\\ud800"}}', b"NaN", b""):  # fmt: skip
        found = await api.call("POST", "/api/v1/clusters", raw=raw)
        assert found.status in {400, 415}
    for raw in (b"[]", b"null", b"1e999", b'"x"', b'{"end": 3}', b'{"endd": 3}'):
        found = await api.call("POST", "/api/v1/sessions/x/extend", raw=raw)
        assert found.status == 400


@pytest.mark.asyncio
async def test_wrong_parameters_routes_and_methods_are_problems(api: Api):
    """400, 404, 405 as problem documents that name the parameter."""
    for query in ("limit=0", "limit=x", "limit=1001", "cursor=x", "sort=nope", "labelSelector=%3D",
                  "limit=%FF", "cluster=x"):  # fmt: skip
        found = await api.call("GET", f"/api/v1/workers?{query}")
        assert found.status == 400
        assert found.json["problems"][0]["where"]
    missing = await api.call("GET", "/api/v1/nothing")
    assert (missing.status, missing.json["reason"]) == (404, "RouteNotFound")
    wrong = await api.call("PATCH", "/api/v1/workers", {})
    assert (wrong.status, wrong.json["reason"]) == (405, "MethodNotAllowed")
    simulation = await api.call("POST", "/api/v1/simulations", {})
    assert simulation.status == 405


@pytest.mark.asyncio
async def test_every_reply_carries_the_security_headers(api: Api):
    """T45: strict CSP, nosniff, no framing, no caching, and JSON that no browser renders."""
    title = "<img src=x onerror=alert(1)>"
    await api.world.definition("x", title=title)
    for path in ("/api/v1/definitions/x", "/api/v1/nowhere", f"/api/v1/clusters/{title}",
                 f"/api/v1/workers?sort={title}", "/healthz"):  # fmt: skip
        found = await api.call("GET", path)
        assert found.headers["content-security-policy"].startswith("default-src 'self'")
        assert "unsafe" not in found.headers["content-security-policy"]
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["x-frame-options"] == "DENY"
        assert found.headers["cache-control"] == "no-store"
        assert "json" in found.headers["content-type"]
        assert found.headers["labfleet-time"].startswith("2026-11-27T09:00:00")


@pytest.mark.asyncio
async def test_a_strange_request_id_is_not_taken_over(api: Api):
    """Only plain short ids get into events and logs."""
    for given in ("a\tb", "x" * 65, "<b>", "ä"):
        found = await api.call("GET", "/healthz", X_Request_Id=given)
        assert found.headers["x-request-id"] != given


@pytest.mark.asyncio
async def test_readiness_names_what_each_role_waits_for(api: Api):
    """503 until every role is ready; one role can be asked for."""
    found = (await api.call("GET", "/readyz")).json
    assert (found["status"], found["roles"], found["store"]) == ("ok", {"api": None}, "ok")
    api.waiting["scheduler"] = "waiting for the lease"
    found = await api.call("GET", "/readyz")
    assert found.status == 503
    assert found.json["roles"]["scheduler"] == "waiting for the lease"
    assert (await api.call("GET", "/readyz?role=api")).status == 200
    unknown = await api.call("GET", "/readyz?role=nope")
    assert unknown.status == 400
    assert "api, scheduler" in unknown.json["detail"]
    metrics = await api.call("GET", "/metrics")
    assert metrics.raw == b"up 1\n"
    # As Prometheus's own library writes it: one charset, not a second one behind it.
    assert metrics.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"


@pytest.mark.asyncio
async def test_the_roof_hears_of_each_request(api: Api):
    """Method, path without query, status, principal: for the log and the metrics."""
    await api.call("GET", "/api/v1/workers?sort=metadata.name")
    last = api.done[-1]
    assert (last.method, last.path, last.status) == ("GET", "/api/v1/workers", 200)
    assert last.principal
    assert last.seconds >= 0


@pytest.mark.asyncio
async def test_a_client_that_leaves_in_its_body_costs_nothing(api: Api):
    """The disconnect is an ordinary end."""
    token = await api.token("admin")
    scope = scope_of("POST", "/api/v1/clusters", {"Authorization": f"Bearer {token}"})
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await api.app(scope, receive, send)
    assert sent[0]["status"] == 408


@pytest.mark.asyncio
async def test_a_web_application_gets_what_is_not_the_apis(api: Api):
    """The mount sees its own addresses only, and keeps its own CSP."""
    from labfleet.api import application

    async def web(scope, receive, send):
        headers = [(b"content-security-policy", b"default-src 'none'")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    token = await api.token("admin")
    app = application.build(
        api.world.services,
        api.tokens,
        api.ring,
        readiness=dict,
        metrics=lambda: (b"", "text/plain"),
        web=web,
        credentials=lambda scope: token if dict(scope["headers"]).get(b"cookie") else None,
    )
    page = await exchange(app, scope_of("GET", "/pools", {}), b"")
    assert page.raw == b"/pools"
    assert page.headers["content-security-policy"] == "default-src 'none'"
    assert (await exchange(app, scope_of("GET", "/api/v1/kinds", {}), b"")).status == 401
    cookie = {"Cookie": "labfleet=x"}
    assert (await exchange(app, scope_of("GET", "/api/v1/kinds", cookie), b"")).status == 200
    forged = scope_of("POST", "/api/v1/clusters", {**cookie, "Content-Type": "application/json"})
    assert (await exchange(app, forged, b"{}")).status == 401

"""Faults are acted out by the ASGI application; side effects happen or not as the rule says.

The numbered cases are rows of facts/cml-issues.md.
"""

import json

import pytest

from cml_simulator.app import ABORT, CmlApp, ControlApp


class Wire:
    """One in-process connection to the application."""

    def __init__(self, box):
        self.box = box
        self.slept = []
        self.cut = []
        self.app = CmlApp(box.fleet, lambda: box.now, self.sleep)

    async def sleep(self, seconds):
        self.slept.append(seconds)

    async def send(self, method, path, body=b"", address="127.1.0.1"):
        messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
        sent = []

        async def receive():
            return messages.pop(0)

        async def reply(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": f"/api/v0{path}",
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {self.box.token}".encode())],
            "server": (address, 8443),
            "extensions": {ABORT: {"cut": lambda *, flush: self.cut.append(flush)}},
        }
        await self.app(scope, receive, reply)
        return sent


@pytest.fixture
def wire(box):
    """Return a connection to the box's server."""
    return Wire(box)


def rule(wire, **body):
    wire.box.control("POST", f"/servers/{wire.box.server.id}/faults", body, want=201)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("kind", "status", "kind_of_body"),
    [
        ("502", 502, b"text/html"),
        ("html", 200, b"text/html"),
        ("500", 500, b"application/json"),
        ("401", 401, b"application/json"),
        ("403", 403, b"application/json"),
        ("409", 409, b"application/json"),
    ],
)
async def test_wrong_replies(wire, kind, status, kind_of_body):
    """Status faults answer once and do nothing; then the server is itself again."""
    rule(wire, kind=kind, method="POST", path="/labs$")
    sent = await wire.send("POST", "/labs", b"{}")
    assert sent[0]["status"] == status
    assert (b"content-type", kind_of_body) in sent[0]["headers"]
    assert wire.box.get("/labs") == []
    assert (await wire.send("POST", "/labs", b"{}"))[0]["status"] == 200


@pytest.mark.asyncio
async def test_lost_reply_has_its_side_effect(wire):
    """close_after makes the lab and loses the reply; close_before does nothing."""
    rule(wire, kind="close_before", method="POST")
    rule(wire, kind="close_after", method="POST")
    assert await wire.send("POST", "/labs", b"{}") == []
    assert wire.box.get("/labs") == []
    assert await wire.send("POST", "/labs", b"{}") == []
    assert len(wire.box.get("/labs")) == 1
    assert wire.cut == [False, False]


@pytest.mark.asyncio
async def test_truncated_reply_promises_more_than_it_gives(wire):
    """The length in the head is the whole body's, then the connection closes."""
    rule(wire, kind="truncated", path="system_stats")
    head, body = await wire.send("GET", "/system_stats")
    assert int(dict(head["headers"])[b"content-length"]) > len(body["body"])
    assert wire.cut == [True]


@pytest.mark.asyncio
async def test_hang_and_slow(wire):
    """hang says nothing until the client goes; slow answers after its delay."""
    rule(wire, kind="hang")
    rule(wire, kind="slow", delay=3.5, skip=1, times=None)
    assert await wire.send("GET", "/authok") == []
    assert (await wire.send("GET", "/authok"))[0]["status"] == 200
    assert wire.slept == []
    await wire.send("GET", "/authok")
    assert wire.slept == [3.5]


@pytest.mark.asyncio
async def test_journal_knows_every_request(wire):
    """The journal has method, path, status and fault, and no secret."""
    rule(wire, kind="500", path="/labs$")
    await wire.send("GET", "/labs")
    await wire.send("GET", "/authok")
    await wire.send("POST", "/authenticate", b'{"username": "admin", "password": "pw"}')
    found = wire.box.control("GET", f"/servers/{wire.box.server.id}/journal")
    assert [(r["path"], r["status"], r["fault"]) for r in found] == [
        ("/api/v0/labs", 500, "500"),
        ("/api/v0/authok", 200, None),
        ("/api/v0/authenticate", 200, None),
    ]
    assert "pw" not in json.dumps(found)


@pytest.mark.asyncio
async def test_fleet_wide_rules_hit_every_server(wire):
    """A rule without a server is the server conditions of all; it can be cleared."""
    wire.box.control("POST", "/faults", {"kind": "502", "times": None}, want=201)
    assert (await wire.send("GET", "/authok"))[0]["status"] == 502
    assert wire.box.control("GET", "/faults")[0]["hits"] == 1
    wire.box.control("DELETE", "/faults")
    assert (await wire.send("GET", "/authok"))[0]["status"] == 200


@pytest.mark.asyncio
async def test_booting_server_sends_nginx_pages(wire):
    """While the backend is not up, nginx answers 502 with HTML; before that nothing answers."""
    server = wire.box.control("POST", "/servers", {"id": "b", "boot_seconds": 100}, want=201)
    address = wire.box.control("POST", f"/servers/{server['id']}/boot")["address"]
    assert await wire.send("GET", "/system_information", address=address) == []
    wire.box.clock.forward(60)
    head, body = await wire.send("GET", "/system_information", address=address)
    assert head["status"] == 502
    assert b"nginx" in body["body"]


def test_bad_rules_are_refused(wire):
    """A rule needs a known kind and real regular expressions."""
    path = f"/servers/{wire.box.server.id}/faults"
    wire.box.control("POST", path, {"kind": "fire"}, want=400)
    wire.box.control("POST", path, {"kind": "500", "path": "("}, want=400)


@pytest.mark.asyncio
async def test_huge_bodies_are_413(wire):
    """nginx refuses what is over its limit."""
    sent = await wire.send("POST", "/import", b" " * (33 * 1024 * 1024))
    assert sent[0]["status"] == 413


@pytest.mark.asyncio
async def test_control_face_answers_over_asgi(box):
    """The control application speaks JSON."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def reply(message):
        sent.append(message)

    scope = {"method": "GET", "path": "/_control/clock", "query_string": b"", "headers": []}
    await ControlApp(box.fleet, lambda: box.now)(scope, receive, reply)
    assert json.loads(sent[1]["body"]) == {"now": box.now}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("kind", "status", "mime"),
    [
        ("503", 503, b"text/html"),
        ("504", 504, b"text/html"),
        ("400", 400, b"application/json"),
        ("404", 404, b"application/json"),
        ("text", 200, b"text/plain"),
        ("empty", 200, b"application/json"),
    ],
)
async def test_more_wrong_replies(wire, kind, status, mime):
    """Gateway pages, refusals, a right body of a wrong type, and no body at all."""
    rule(wire, kind=kind, path="/labs$")
    sent = await wire.send("GET", "/labs")
    assert sent[0]["status"] == status
    assert (b"content-type", mime) in sent[0]["headers"]


@pytest.mark.asyncio
async def test_f16_layer3_fails(wire):
    """F16: layer3_addresses can be a 500 while everything else works."""
    lab = wire.box.ask("POST", "/labs", {})["id"]
    rule(wire, kind="500", path="/layer3_addresses$", times=None)
    assert (await wire.send("GET", f"/labs/{lab}/layer3_addresses"))[0]["status"] == 500
    assert (await wire.send("GET", f"/labs/{lab}/simulation_stats"))[0]["status"] == 200


@pytest.mark.asyncio
async def test_f21_a_race_makes_a_500(wire):
    """F21: a stop can be a 500 once and work when it is sent again."""
    lab = wire.box.ask("POST", "/labs", {})["id"]
    rule(wire, kind="500", method="PUT", path="/stop$", description="deadlock")
    first = await wire.send("PUT", f"/labs/{lab}/stop")
    assert json.loads(first[1]["body"])["description"] == "deadlock"
    assert (await wire.send("PUT", f"/labs/{lab}/stop"))[0]["status"] == 204


@pytest.mark.asyncio
async def test_replies_carry_the_servers_date(wire):
    """The Date header is the server's own clock."""
    sent = await wire.send("GET", "/labs")
    assert dict(sent[0]["headers"])[b"date"] == b"Fri, 27 Nov 2026 09:00:00 GMT"


@pytest.mark.asyncio
@pytest.mark.parametrize("broken", [False, True])
async def test_f24_401_for_ever(wire, broken):
    """F24: a login that works while another call is a 401 each time (a rule without an end)."""
    if broken:
        rule(wire, kind="401", path="/labs$", times=None)
    for _ in range(3):
        wire.box.login()
        assert (await wire.send("GET", "/authok"))[0]["status"] == 200
        assert (await wire.send("GET", "/labs"))[0]["status"] == (401 if broken else 200)

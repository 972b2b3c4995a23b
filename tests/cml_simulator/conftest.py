"""One simulated CML server with a clock that only tests move, called without sockets."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hand_clock import HandClock
from held_port import held_port

from cml_simulator.core import fleet as fleets
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.profile import Machine, Profile, Rules
from cml_simulator.core.world import Server
from cml_simulator.routes import control, dispatch
from cml_simulator.routes.web import Reply, Request


@dataclass
class Box:
    """A server, its fleet and clock, and a logged-in caller."""

    fleet: Fleet
    server: Server
    clock: HandClock
    token: str | None = None
    sent: list[Reply] = field(default_factory=list)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Reply:
        head = dict(headers or {})
        if self.token is not None:
            head.setdefault("authorization", f"Bearer {self.token}")
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        if body is not None:
            head.setdefault("content-type", "application/json")
        request = Request(method, f"/api/v0{path}", query or {}, head, data)
        return dispatch.answer(self.server, request, self.now)

    def ask(self, method: str, path: str, body: Any = None, *, want: int = 200, **more: Any) -> Any:
        reply = self.send(method, path, body, **more)
        assert reply.status == want, (reply.status, reply.body[:500])
        return json.loads(reply.body) if reply.body else None

    def get(self, path: str, **more: Any) -> Any:
        return self.ask("GET", path, **more)

    def refusal(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        reply = self.send(method, path, body, **more)
        found = json.loads(reply.body)
        assert found.keys() == {"code", "description"}
        assert found["code"] == reply.status
        return reply.status, found["description"]

    def login(self, user: str = "admin", password: str = "pw") -> None:
        self.token = None
        self.token = self.ask("POST", "/authenticate", {"username": user, "password": password})

    def import_text(self, text: str, want: int = 200, **query: str) -> Any:
        return self.ask("POST", "/import", raw=text.encode(), query=query, want=want)

    def control(self, method: str, path: str, body: Any = None, *, want: int = 200) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        reply = control.answer(self.fleet, Request(method, f"/_control{path}", body=data), self.now)
        assert reply.status == want, (reply.status, reply.body[:500])
        return json.loads(reply.body)

    @property
    def now(self) -> float:
        """Return the simulator's seconds since 1970."""
        return self.clock.now().timestamp()

    def license(self, expansion: int = 0) -> None:
        self.ask("PUT", "/licensing/product_license", "CML_Enterprise", want=204)
        self.ask("POST", "/licensing/registration", {"token": "good-1"}, want=204)
        self.clock.forward(20)
        status = self.get("/licensing")
        assert status["authorization"]["status"] == "IN_COMPLIANCE"
        if expansion:
            count = next(f["id"] for f in status["features"] if "NODE_COUNT" in f["id"])
            self.ask("PATCH", "/licensing/features", [{"id": count, "count": expansion}], want=204)


def topology(*nodes: dict[str, Any], links: list[tuple[str, str]] | None = None, **lab: str) -> str:
    """Return a topology file; nodes need `id` and `kind`, links name nodes by id."""
    used: dict[str, int] = {}

    def end(name: str) -> str:
        used[name] = used.get(name, -1) + 1
        return f"i{used[name]}"

    return json.dumps(
        {
            "lab": {"title": "t", "version": "0.3.0", **lab},
            "nodes": [
                {
                    "label": node["id"],
                    "node_definition": node.get("kind", "alpine"),
                    "x": 0,
                    "y": 0,
                    "interfaces": [
                        {"id": f"i{n}", "slot": n, "type": "physical"} for n in range(4)
                    ],
                    **{key: value for key, value in node.items() if key != "kind"},
                }
                for node in nodes
            ],
            "links": [
                {"id": f"l{n}", "n1": a, "i1": end(a), "n2": b, "i2": end(b)}
                for n, (a, b) in enumerate(links or [])
            ],
        }
    )


@pytest.fixture
def make_box():
    """Return a maker of running servers of chosen size and rules."""

    def make(
        *,
        rules: Rules | None = None,
        machine: Machine | None = None,
        profile: Profile | None = None,
    ) -> Box:
        fleet = Fleet(random.Random(7), "pw")
        clock = HandClock()
        server = fleets.create(fleet, machine=machine, rules=rules, profile=profile)
        box = Box(fleet, server, clock)
        fleets.boot(fleet, server, box.now)
        if machine is None or machine.boot_seconds == 0:
            box.login()
        return box

    return make


@pytest.fixture
def box(make_box) -> Box:
    """Return one running server with admin logged in."""
    return make_box()


@pytest.fixture
def topo():
    """Return the maker of topology files."""
    return topology


@pytest.fixture
def kept_port():
    """A port that is kept for a simulated server to listen on, at whatever address."""
    with held_port() as port:
        yield port

"""A CML server in memory that answers from a script, and real shapes to answer with.

Shapes are those of facts/cml.md#system-bodies; texts and numbers are made here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines, Reply
from labfleet.interfaces.lab_host import HostAddress

PASSWORD = 's3cret/pa ss"word'
LICENCE = "TOKEN+abc/123%3D="
LAB = "3b0f7f9e-8e2c-4f51-9a0e-2f8f9d6c1a77"
NODE = "6c2f1f5a-0df0-4a83-8f52-2c1a5d0f9e11"
SWITCH = "7d30aaaa-0df0-4a83-8f52-2c1a5d0f9e22"
IFACE = "9a1b2c3d-4e5f-4a6b-8c7d-8e9f0a1b2c3d"
COMPUTE = "7d3c2f0e-54b1-4c7d-9a16-0c6a5b8e2f41"

Answer = Reply | Exception | Callable[[], Reply]


def ok(value: Any) -> Reply:
    """200 with JSON."""
    return Reply(200, {"content-type": "application/json"}, json.dumps(value).encode())


def done(status: int = 204) -> Reply:
    """2xx without a body."""
    return Reply(status, {}, b"")


def refused(status: int, text: str = "no", **headers: str) -> Reply:
    """An ErrorResponse of CML."""
    body = json.dumps({"code": status, "description": text}).encode()
    return Reply(status, {"content-type": "application/json", **headers}, body)


def page(status: int = 502) -> Reply:
    """What nginx says for a backend that is not up."""
    body = b"<html>\r\n<head><title>502 Bad Gateway</title></head></html>"
    return Reply(status, {"content-type": "text/html"}, body)


class ScriptedCml:
    """A Transport; `answers` maps "METHOD path" (query cut off) to one answer or a list.

    A list is used up to its last answer, which stays. Unknown paths answer 404.
    """

    def __init__(self, answers: dict[str, Answer | list[Answer]] | None = None) -> None:
        self.logins = 0
        self.answers: dict[str, Answer | list[Answer]] = {
            "POST authenticate": self._log_in,
            "GET authok": ok("OK"),
            **(answers or {}),
        }
        self.log: list[str] = []
        self.paths: list[str] = []
        self.bodies: dict[str, bytes | None] = {}
        self.headers: list[Mapping[str, str]] = []
        self.deadlines: list[Deadlines] = []
        self.closed = False
        self.fingerprint: str | None = "ab" * 32

    def _log_in(self) -> Reply:
        self.logins += 1
        return ok(f"token-{self.logins}")

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
    ) -> Reply:
        name = f"{method} {path.partition('?')[0]}"
        self.log.append(name)
        self.paths.append(path)
        self.bodies[name] = body
        self.headers.append(headers)
        self.deadlines.append(deadlines)
        answer = self.answers.get(name, refused(404, f"unknown: {name}"))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def count(self) -> Counter[str]:
        """Requests by name, without logins."""
        return Counter(n for n in self.log if n != "POST authenticate")

    async def close(self) -> None:
        self.closed = True


def address(**changes: Any) -> HostAddress:
    """An address of worker w1's first boot."""
    fields: dict[str, Any] = {
        "worker": "w1",
        "base_url": "https://127.0.0.1:1",
        "boot": "i-1/1",
        "username": "admin",
        "password": PASSWORD,
    }
    return HostAddress(**{**fields, **changes})


def host_on(server: ScriptedCml, limits: Limits | None = None):
    """The adapter on this server."""
    return CmlHosts(lambda *_: server, limits).at(address())


def licence(
    product: str | None = "CML_Enterprise",
    status: str | None = "COMPLETED",
    authorization: str | None = "IN_COMPLIANCE",
    expansion: int | None = 180,
) -> dict[str, Any]:
    """GET /licensing of a server."""
    return {
        "udi": {"hostname": "cml-controller", "product_uuid": "0c1e7a7e"},
        "registration": {"status": status, "expires": "2027-01-14 00:56:19"},
        "authorization": {"status": authorization, "expires": "2026-04-14 00:55:21"},
        "features": [
            {
                "id": "regid.2019-10.com.cisco.CML_ENT_BASE,1.0_15d3393c",
                "name": "CML - Enterprise License",
                "in_use": 1,
                "status": "WAITING",
                "min": 0,
                "max": 1,
            },
            {
                "id": "regid.2019-10.com.cisco.CML_NODE_COUNT,1.0_2607650b",
                "name": "CML - Expansion Node License",
                "in_use": expansion,
                "status": "IN_COMPLIANCE",
                "min": 0,
                "max": 500,
            },
        ],
        "reservation_mode": False,
        "product_license": {"active": product, "is_enterprise": True},
    }


def node(**changes: Any) -> dict[str, Any]:
    """A deployed node of 2.9 with data and operational."""
    return {
        "id": NODE,
        "lab_id": LAB,
        "label": "PC",
        "node_definition": "alpine",
        "ram": None,
        "cpus": None,
        "cpu_limit": None,
        "tags": ["serial:5041", "vnc:5044"],
        "state": "BOOTED",
        "boot_progress": "Booted",
        "a_key_of_2_11": {"x": 1},
        "operational": {"cpu_limit": 100, "cpus": 1, "ram": 512, "data_volume": None},
        **changes,
    }


def switch() -> dict[str, Any]:
    """A node without a machine, never deployed."""
    return node(
        id=SWITCH,
        label="SW",
        node_definition="unmanaged_switch",
        tags=[],
        state="DEFINED_ON_CORE",
        operational=None,
    )


def lab_answers() -> dict[str, Answer | list[Answer]]:
    """Everything that a look at one lab asks for."""
    interface = {"id": IFACE, "label": "eth0", "slot": 0, "mac_address": None}
    return {
        f"GET labs/{LAB}/nodes": ok([node(), switch()]),
        f"GET labs/{LAB}/simulation_stats": ok(
            {"nodes": {NODE: {"cpu_usage": 3.2, "ram_usage": 187}}, "links": {}}
        ),
        f"GET labs/{LAB}/topology": ok(
            {"nodes": [{"id": NODE, "interfaces": [interface]}, {"id": SWITCH}]}
        ),
        f"GET labs/{LAB}/lab_element_state": ok({"interfaces": {IFACE: "STARTED"}}),
        f"GET labs/{LAB}/layer3_addresses": ok(
            {
                NODE: {
                    "name": "PC",
                    "interfaces": {
                        "52:54:00:1a:2b:3c": {
                            "id": IFACE,
                            "label": "eth0",
                            "ip4": ["192.168.255.57"],
                            "ip6": [],
                        }
                    },
                }
            }
        ),
        f"GET labs/{LAB}/nodes/{NODE}/interfaces": ok(
            [
                {
                    **interface,
                    "node": NODE,
                    "state": "STARTED",
                    "operational": {"mac_address": "52:54:00:1a:2b:3c"},
                }
            ]
        ),
    }

"""Many simulated CML servers in one cheap process: fixed bytes after a network's delay, over TLS.

One listener takes every 127.x.y.z address; each is a server of its own identity. Shapes are
facts/cml.md#system-bodies; the figures of system_stats differ from reply to reply. Diagnostics are
not there, as in CML 2.7 and 2.8, so that a look at a worker's licence is one request. It speaks no
more HTTP than the pollers need.

Arguments: CPU to run on (-1: any), delay in milliseconds. Prints its port; `drop` on stdin
closes every connection, `count` prints how many requests came, an end of stdin ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import uuid
from functools import lru_cache
from typing import Any

import uvloop

from cml_simulator.shell.tls import self_signed

COMPUTE = "7d3c2f0e-54b1-4c7d-9a16-0c6a5b8e2f41"
TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + "a" * 180 + "." + "b" * 43
VARIANTS = 64
LATER = {"succeeded": None, "attempted": "2026-01-14 00:55:33", "scheduled": "2026-02-13 00:55:32",
         "status": "SUCCEEDED", "failure": None, "success": "SUCCESS"}  # fmt: skip


def stats(number: int) -> dict[str, Any]:
    """system_stats of a busy server of one compute."""
    disk = {"used": 137792577536.0, "free": 128413523968.0, "total": 266206101504.0}
    used = 40265318400.0 + number * 4096.0
    memory = {"used": used, "free": 158000000000.0 - used, "total": 202422902784.0}
    percent = 12.5 + number / 7
    cpu = {"count": 48, "percent": percent, "predicted": 21, "load": [percent / 2, 5.2, 3.9],
           "model": "Intel(R) Xeon(R) Platinum 8252C CPU @ 3.80GHz"}  # fmt: skip
    nodes = {"total_nodes": 14, "total_orphans": 0, "running_nodes": 9, "running_orphans": 0,
             "allocated_cpus": 12, "allocated_memory": 25165824}  # fmt: skip
    whole = {"cpu": cpu, "memory": memory, "disk": disk, "dominfo": nodes}
    one = {"hostname": "cml-controller", "is_controller": True, "stats": whole}
    short = {"count": 48, "percent": percent}
    return {"computes": {COMPUTE: one}, "all": {"cpu": short, "memory": memory, "disk": disk},
            "controller": {"disk": disk}}  # fmt: skip


def health() -> dict[str, Any]:
    """system_health of a healthy server of one compute."""
    names = (
        "kvm_vmx_enabled", "enough_cpus", "lld_connected", "lld_synced", "libvirt", "fabric",
        "device_mux", "refplat_images_available", "docker_shim", "valid", "is_controller",
    )  # fmt: skip
    one = {**dict.fromkeys(names, True), "admission_state": "READY", "hostname": "cml-controller"}
    control = dict.fromkeys(("core_connected", "nodes_loaded", "images_loaded", "valid"), True)
    return {"valid": True, "computes": {COMPUTE: one}, "is_licensed": True, "is_enterprise": True,
            "controller": control}  # fmt: skip


def licence(address: str) -> dict[str, Any]:
    """Return the licensing status of a registered Enterprise server."""
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, address)
    common = {"status": "IN_COMPLIANCE", "version": "1.0", "min": 0, "minEndDate": None}
    base = {**common, "maxEndDate": None, "in_use": 1, "max": 1, "name": "CML - Enterprise License",
            "description": "Enterprise base, 20 nodes included",
            "id": "regid.2019-10.com.cisco.CML_ENT_BASE,1.0_15d3393c-846c-4e00-a54e"}  # fmt: skip
    more = {**base, "in_use": 180, "max": 500, "name": "CML - Expansion Node License",
            "description": "Expansion nodes",
            "id": "regid.2019-10.com.cisco.CML_NODE_COUNT,1.0_2607650b-6ca8-46d5"}  # fmt: skip
    url = "https://smartreceiver.cisco.com/licservice/license"
    return {
        "udi": {"hostname": "cml-controller", "product_uuid": str(identity)},
        "registration": {
            "status": "COMPLETED", "smart_account": "Example SA", "virtual_account": "Default",
            "expires": "2099-01-14 00:56:19", "register_time": LATER, "renew_time": LATER,
        },
        "authorization": {
            "status": "IN_COMPLIANCE", "expires": "2099-04-14 00:55:21", "renew_time": LATER,
        },
        "features": [base, more],
        "reservation_mode": False,
        "transport": {"default_ssms": url, "ssms": url, "proxy": {"server": None, "port": None}},
        "product_license": {"active": "CML_Enterprise", "is_enterprise": True},
    }  # fmt: skip


def reply(value: Any, status: str = "200 OK") -> bytes:
    """A reply with the headers that nginx before CML gives; the length stands last."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return (
        f"HTTP/1.1 {status}\r\nServer: nginx\r\nDate: Sat, 28 Nov 2026 03:00:00 GMT\r\n"
        "Content-Type: application/json\r\nConnection: keep-alive\r\n"
        "Strict-Transport-Security: max-age=31536000\r\nX-Frame-Options: SAMEORIGIN\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


STATS = [reply(stats(number)) for number in range(VARIANTS)]
HEALTH, LOGIN = reply(health()), reply(TOKEN)
INFORMATION = reply({"version": "2.8.1+build.8", "ready": True, "allow_ssh_pubkey_auth": False,
                     "oui": "52:54:00:00:00:00"})  # fmt: skip
MAINTENANCE = reply({"maintenance_mode": False, "notice": None})
NONE_OF_THEM = reply([])
NOT_THERE = reply({"code": 404, "description": "Not found"}, "404 Not Found")


ANSWERS = {
    b"system_health": HEALTH, b"authenticate": LOGIN, b"authok": reply("OK"),
    b"system_information": INFORMATION, b"system/maintenance_mode": MAINTENANCE,
    b"nodes": NONE_OF_THEM, b"labs": NONE_OF_THEM, b"telemetry/events": NONE_OF_THEM,
}  # fmt: skip


@lru_cache(maxsize=8192)
def licensed(address: str) -> bytes:
    """The licensing reply of the server at an address."""
    return reply(licence(address))


class Server(asyncio.Protocol):
    """One connection."""

    requests = 0
    every: set[Any] = set()
    delay = 0.02

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        Server.every.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        Server.every.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith((b"GET ", b"POST ", b"PUT ")):
            Server.requests += 1
            self.loop.call_later(self.delay, self.answer, self.choose(data[:120]))

    def choose(self, line: bytes) -> bytes:
        path = line.split(b" ", 2)[1].partition(b"?")[0].removeprefix(b"/api/v0/")
        if path == b"system_stats":
            return STATS[Server.requests % VARIANTS]
        if path == b"licensing":
            return licensed(self.transport.get_extra_info("sockname")[0])
        return ANSWERS.get(path, NOT_THERE)

    def answer(self, found: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(found)


async def serve(delay: float) -> None:
    loop = asyncio.get_running_loop()
    Server.delay = delay
    made = await loop.create_server(
        lambda: Server(loop), "0.0.0.0", 0, ssl=self_signed(), backlog=8192
    )
    print(made.sockets[0].getsockname()[1], flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "drop":
            for transport in list(Server.every):
                transport.close()
            while Server.every:
                await asyncio.sleep(0.01)
        print(Server.requests, flush=True)


if __name__ == "__main__":
    cpu, milliseconds = int(sys.argv[1]), float(sys.argv[2])
    if cpu >= 0:
        os.sched_setaffinity(0, {cpu})
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(serve(milliseconds / 1e3))

"""One simulator process with 200 CML servers and 2,000 labs: requests a second, and memory.

`python -m benchmarks.cml_fleet [--servers N] [--labs N] [--seconds S] [--http]` prints one JSON
object. The process is the real command with TLS on an address for each server; the callers are in
this process, so that on a small machine the rates are those of both together.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from benchmarks.measure import Sample, driven, machine, row

SUMMARY = "one simulator process with 200 CML servers and 2,000 labs"
PASSWORD = "bench"
CALLERS = 16
NODES = 4
REST = 0.5


def topology(number: int) -> dict[str, Any]:
    """Return a lab of four nodes with port tags of its own."""
    return {
        "lab": {"title": f"lab {number}", "version": "0.3.0"},
        "nodes": [
            {
                "id": f"n{n}",
                "label": f"n{n}",
                "node_definition": kind,
                "x": 0,
                "y": 0,
                "tags": [f"serial:{3000 + number % 100 * NODES + n}"],
                "interfaces": [{"id": f"i{i}", "slot": i, "type": "physical"} for i in range(4)],
            }
            for n, kind in enumerate(("iosv", "alpine", "unmanaged_switch", "external_connector"))
        ],
        "links": [
            {"id": "l0", "n1": "n0", "i1": "i0", "n2": "n2", "i2": "i0"},
            {"id": "l1", "n1": "n1", "i1": "i0", "n2": "n2", "i2": "i1"},
            {"id": "l2", "n1": "n2", "i1": "i2", "n2": "n3", "i2": "i0"},
        ],
    }


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1024 / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


class World:
    """The simulator from outside."""

    def __init__(self, http: aiohttp.ClientSession, control: str, scheme: str) -> None:
        self.http, self.control, self.scheme = http, control, scheme
        self.bases: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.labs: list[list[str]] = []

    async def call(self, method: str, url: str, body: Any = None, head: Any = None) -> Any:
        async with self.http.request(method, url, json=body, headers=head) as reply:
            text = await reply.read()
            assert reply.status < 300, (url, reply.status, text[:200])
            return json.loads(text) if text else None

    async def build(self, servers: int, labs: int) -> None:
        """Create and boot the servers, import and start the labs (each server licensed)."""
        for number in range(servers):
            rules = {"over_licence": "queue"}
            body = {"id": f"s{number}", "rules": rules}
            await self.call("POST", f"{self.control}/servers", body)
            place = await self.call("POST", f"{self.control}/servers/s{number}/boot")
            self.bases.append(f"{self.scheme}://{place['address']}:{place['port']}/api/v0")
        await asyncio.sleep(REST)
        share = -(-labs // servers)
        for base in self.bases:
            login = {"username": "admin", "password": PASSWORD}
            token = await self.call("POST", f"{base}/authenticate", login)
            head = {"Authorization": f"Bearer {token}"}
            self.heads.append(head)
            await self.call("PUT", f"{base}/licensing/product_license", "CML_Personal40", head)
            await self.call("POST", f"{base}/licensing/registration", {"token": "t"}, head)
            made = []
            for number in range(share):
                made.append(
                    (await self.call("POST", f"{base}/import", topology(number), head))["id"]
                )
            self.labs.append(made)

    async def start(self) -> None:
        """Start every lab."""
        for base, head, labs in zip(self.bases, self.heads, self.labs, strict=True):
            for lab in labs:
                await self.call("PUT", f"{base}/labs/{lab}/start", None, head)

    def reads(self, path: str) -> Callable[[int], Any]:
        """Return an operation that asks the servers in turn for a page."""
        turn = itertools.count()

        async def one(_caller: int) -> None:
            number = next(turn)
            server = number % len(self.bases)
            labs = self.labs[server]
            lab = labs[number // len(self.bases) % len(labs)]
            url = f"{self.bases[server]}{path.format(lab=lab)}"
            await self.call("GET", url, None, self.heads[server])

        return one


PAGES = (
    "/system_information",
    "/system_stats",
    "/labs/{lab}/lab_element_state",
    "/labs/{lab}/topology",
    "/nodes?operational=true",
)


async def _all(options: argparse.Namespace, line: dict[str, Any], pid: int) -> dict[str, Any]:
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    empty = memory_mib(pid)
    connector = aiohttp.TCPConnector(ssl=trust, limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        world = World(http, line["control"], "http" if options.http else "https")
        begun = time.perf_counter()
        await world.build(options.servers, options.labs)
        built = time.perf_counter() - begun
        idle = memory_mib(pid)
        begun = time.perf_counter()
        await world.start()
        started = time.perf_counter() - begun
        rows = []
        for page in PAGES:
            cpu = cpu_seconds(pid)
            found = await driven(world.reads(page), CALLERS, options.seconds, REST)
            spent = cpu_seconds(pid) - cpu
            sample = Sample(found.operations, found.wall, spent, found.latencies)
            rows.append(row(page, [sample]))
        summary = await world.call("GET", f"{line['control']}/summary")
    return {
        "benchmark": "cml_fleet",
        "servers": options.servers,
        "labs": sum(map(len, world.labs)),
        "nodes_running": summary["nodes_running"],
        "ports_open": summary["ports_open"],
        "ports_unbound": summary["ports_unbound"],
        "tls": not options.http,
        "build_s": round(built, 2),
        "imports_per_second": round(sum(map(len, world.labs)) / built, 1),
        "starts_per_second": round(sum(map(len, world.labs)) / started, 1),
        "memory_mib": {
            "empty": round(empty, 1),
            "with_labs": round(idle, 1),
            "at_work": round(memory_mib(pid), 1),
        },
        "rows": rows,
        "machine": machine(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Start the simulator, measure, end it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--labs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--http", action="store_true")
    options = parser.parse_args(arguments)
    argv = [sys.executable, "-m", "cml_simulator", "--fleet", "--port", "0", "--speed", "20"]
    argv += ["--password", PASSWORD, "--seed", "7", *(["--http"] if options.http else [])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = json.loads(process.stdout.readline())
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                found = runner.run(_all(options, line, process.pid))
        finally:
            process.terminate()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

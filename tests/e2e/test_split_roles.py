"""The documented split as real processes: what one measures all show; an outage of the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "stores"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from postgres_server import PostgresServer, find_binaries
from server_process import ServerProcess, until

from cml_simulator.shell.fixture import running

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
WORKERS = ("--roles", "worker-controller")
TOPOLOGY = """
lab: {title: one, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: iosv, x: 0, y: 0, interfaces: []}
links: []
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL on a free loopback port, gone after the tests."""
    if find_binaries() is None:
        pytest.skip("no PostgreSQL server binaries in /usr/lib/postgresql")
    with PostgresServer() as server:
        yield server


def worker_at(url: str, sites: Path) -> dict[str, Any]:
    """Return the body of a worker on a server that is there already, and write down where it is."""
    place = urlsplit(url)
    sites.write_text(f'[lab.servers.cml-1]\naddress = "{place.hostname}"\n', "utf-8")
    sites.chmod(0o600)
    return {
        "metadata": {"name": "w"},
        "spec": {"machine": {
            "provider": {"kind": "static", "site": "lab", "servers": ["cml-1"]},
            "cml": {"adminPassword": {"env": "LABFLEET_SECRET_CML_PASSWORD"}, "port": place.port},
            "capacity": {"cpu": "8", "memory": "16Gi", "labs": 2, "ports": 100},
        }},
    }  # fmt: skip


def snapshot(server: ServerProcess) -> dict[str, Any]:
    """Return the worker as the compatible stream begins with it."""
    request = urllib.request.Request(f"{server.url}/api/events/stream?event_types=worker.snapshot")
    request.add_header("Authorization", f"Bearer {server.token.read_text('utf-8').strip()}")
    named = False
    with urllib.request.urlopen(request, timeout=30) as lines:
        for line in lines:
            named = named or line.strip() == b"event: worker.snapshot"
            if named and line.startswith(b"data: "):
                return json.loads(line[6:])
    raise AssertionError("the stream ended without a snapshot")


def top(server: ServerProcess) -> str:
    """Return what people see of the workers' load."""
    done = subprocess.run(
        [sys.executable, "-m", "labfleet", "top"],
        env={**os.environ, "LABFLEET_URL": server.url, "LABFLEET_TOKEN_FILE": str(server.token)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return next(line for line in done.stdout.splitlines() if line.startswith("w "))


@pytest.mark.parametrize("flavour", ["sqlite", "postgres"])
def test_the_process_of_the_api_shows_what_the_controllers_measure(
    flavour: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """REST, upstream's names, stream, `top` and metrics, also after a change of leader."""
    store = ""
    if flavour == "postgres":
        store = request.getfixturevalue("postgres").new_database()
    sites = tmp_path / "sites.toml"
    secret = {"LABFLEET_SECRET_CML_PASSWORD": "cml", "LABFLEET_STATIC_SITES": str(sites)}
    with running(speed=60.0) as cml:
        body = worker_at(cml.url, sites)
        with (
            ServerProcess(tmp_path, store, "--roles", "api", **secret) as api,
            ServerProcess(tmp_path, store, "--roles", "scheduler,lab-controller", **secret),
            ServerProcess(tmp_path, store, *WORKERS, **secret) as first,
        ):
            api.call("POST", "/api/v1/workers", body)

            def measured() -> Any:
                told = api.call("GET", "/api/v1/workers/w/telemetry")
                return (
                    told if told["fresh"] and told["numbers"]["cpu"]["value"] is not None else None
                )

            before = until(measured, "a sample in the process of the API")
            assert before["numbers"]["cpu"]["ageSeconds"] < 90
            theirs = api.call("GET", "/api/internal/workers/w/cml-data")
            for part in ("system_info", "system_health", "license_info"):
                assert theirs[part], part
            assert snapshot(api)["cml_system_info"]["all_cpu_count"] > 0
            assert top(api).split()[3] != "-"
            metrics = api.ask("GET", "/metrics")[1].decode()
            assert 'labfleet_worker_cpu_percent{namespace="default",worker="w"}' in metrics
            assert 'labfleet_worker_sample_age_seconds{namespace="default",worker="w"}' in metrics
            first.kill()
            assert measured() is not None, "the leader's death takes no value away"
            with ServerProcess(tmp_path, store, *WORKERS, **secret):
                until(lambda: (now := measured()) and now["at"] > before["at"], "a newer sample")


def test_an_outage_of_the_store_is_said_and_loses_nothing(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """PostgreSQL stops and starts: 503 until it is back, then everything goes on by itself."""
    with ServerProcess(tmp_path, postgres.new_database()) as server:
        one = {"metadata": {"name": "one"}, "spec": {"topology": TOPOLOGY}}
        server.call("POST", "/api/v1/definitions", one)
        for number in range(5):
            server.call("POST", "/api/v1/sessions", session(number))
        postgres.stop("immediate")
        try:
            _, told = until(lambda: ready(server, 503), "/readyz says 503")
            assert told["store"] == "unreadable"
            assert told["storeReason"]
            assert str(postgres.port) not in json.dumps(told), "where the store is, is nobody's"
            assert server.ask("GET", "/healthz")[0] == 200
            assert server.ask("POST", "/api/v1/sessions", session(9))[0] == 503
        finally:
            postgres.start()
        # At first `read-only`: no write was tried since.
        until(lambda: ready(server, 200), "/readyz says 200 again")
        until(lambda: (now := ready(server, 200)) and now[1]["store"] == "ok", "the store is ok")
        names = {
            each["metadata"]["name"] for each in server.call("GET", "/api/v1/sessions")["items"]
        }
        assert names == {f"s{number}" for number in range(5)}
        made = server.call("POST", "/api/v1/sessions", session(10))["metadata"]["resourceVersion"]
        path = "/api/v1/sessions/s10"
        until(
            lambda: server.call("GET", path)["metadata"]["resourceVersion"] != made,
            "a decision of the leader about what came after the outage",
        )
        assert server.process.poll() is None
        errors = [line for line in server.said() if line.get("level") == "error"]
        assert {line["event"] for line in errors} == {"store.trouble"}, "no role fails of it"


def session(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"s{number}"}, "spec": {"definition": "one"}}


def ready(server: ServerProcess, wanted: int) -> tuple[int, dict[str, Any]] | None:
    status, content = server.ask("GET", "/readyz")
    return (status, json.loads(content)) if status == wanted else None

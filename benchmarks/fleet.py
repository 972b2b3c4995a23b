"""1,000 READY workers through the real controllers: are the periods kept, and what does it cost?

Real: the wiring of `labfleet server` with its three leading roles, SQLite in a file, the clock,
boto3 over HTTP, eight GETs over TLS for each look at a worker. Simulated, each in a process of
its own: EC2 (`aws_simulator`) and the CML servers (`polls_server`, on 1,000 addresses). Left out:
the API, sessions, and the launches (workers begin READY on instances that exist).

A few periods go by before figures are taken. CPU is the server's alone. Requests are compared
with a tenth of the request buckets of EC2 (facts: 20 Describe calls a second per action).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from aws_simulator import fixture
from benchmarks.measure import Plan
from benchmarks.polls import DELAY_MS, ROOT, Child

SUMMARY = "1,000 READY workers: periods kept, CPU, requests to EC2, lag of the event loop"
WORKERS = 1000
POLL = 30
DESCRIBES_A_MINUTE = 20 * 60
TYPE = "m5.large"
REGION = "us-east-1"


def measure(plan: Plan) -> dict[str, Any]:
    """Return one row for the fleet."""
    count = plan.size(WORKERS, 10)
    poll, seconds = (10, 3.0) if plan.smoke else (POLL, 4.0 * POLL)
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    mine, its = (cpus[0], cpus[-1]) if len(cpus) > 1 else (-1, -1)
    os.environ.update(
        LABFLEET_SECRET_BENCH_PASSWORD="a long password", LABFLEET_SECRET_BENCH_LICENCE="a licence",
        BENCH_AWS_KEY="key", BENCH_AWS_SECRET="secret",
    )  # fmt: skip
    load = os.getloadavg()
    servers = Child("polls_server", its, 1.0 if plan.smoke else DELAY_MS)
    try:
        with plan.place() as folder, fixture.running() as ec2:
            file = folder / "instances.json"
            file.write_text("{}")
            server = Child("fleet_server", folder, ec2.url, file, servers.hello, poll, mine)
            try:
                made = _instances(ec2, count, server.hello["installation"])
                file.write_text(json.dumps(made))
                server.ask("go")
                if not plan.smoke:  # a smoke run is too short for a second look
                    time.sleep(2.5 * poll)
                    server.ask("look")
                before = _calls(ec2)
                time.sleep(seconds)
                found = server.ask("look")
                minutes = found["wall"] / 60
                calls = {
                    action: round((number - before.get(action, 0)) / minutes, 1)
                    for action, number in _calls(ec2).items()
                    if number > before.get(action, 0)
                }
                file_size = sum(each.stat().st_size for each in folder.glob("labfleet.db*"))
            finally:
                server.end()
    finally:
        servers.end()
    row = _row(count, poll, found, calls)
    return {
        "rows": [row], "peers": [], "ratios": {"describes_to_a_tenth_of_the_bucket":
        round(max(calls.values(), default=0.0) / (DESCRIBES_A_MINUTE / 10), 4)},
        "load_before": load, "load_after": os.getloadavg(), "requests_a_minute": calls,
        "phases": found["phases"], "messages": found["messages"], "outcomes": found["outcomes"], "errors": found["errors"], "seconds": found["seconds"],
        "queues": found["queues"], "store_bytes": file_size,
    }  # fmt: skip


def _row(count: int, poll: int, found: dict[str, Any], calls: dict[str, float]) -> dict[str, Any]:
    wall, period, lag = found["wall"], found["period"], found["lag"]
    looks = sum(n for name, n in found["outcomes"].items() if name.startswith("worker/"))
    every = sum(found["outcomes"].values())
    return {
        "name": f"{count} READY workers, looked at every {poll} s",
        "per_second": round(every / wall, 1),
        "looks_per_second": round(looks / wall, 1),
        "cpu_share": round(found["cpu"] / wall, 3),
        "cpu_ms_per_look": round(found["cpu"] / max(1, looks) * 1e3, 2),
        "period_p1_s": round(period[0], 1),
        "period_p50_s": round(period[1], 1),
        "period_p99_s": round(period[2], 1),
        "period_max_s": round(period[3], 1),
        "lag_p50_ms": round(lag[0] * 1e3, 2),
        "lag_p99_ms": round(lag[1] * 1e3, 2),
        "lag_max_ms": round(lag[2] * 1e3, 1),
        "ec2_requests_a_minute": round(sum(calls.values()), 1),
        "kib_per_worker": round(found["grown"] / count / 1024, 1),
        "wall_s": round(wall, 1),
    }


def _calls(ec2: fixture.Running) -> dict[str, int]:
    return dict(ec2.ask("GET", "journal?limit=0")["counts"])


def _instances(ec2: fixture.Running, count: int, owner: str) -> dict[str, Any]:
    """Make running instances of this installation, a thousand in one call."""
    client = boto3.client(
        "ec2", endpoint_url=ec2.url, region_name=REGION, aws_access_key_id="key",
        aws_secret_access_key="secret", config=Config(read_timeout=120, retries={"total_max_attempts": 1}),
    )  # fmt: skip
    named = [{"name": f"w-{n:04d}", "uid": str(uuid.uuid4())} for n in range(count)]
    made = client.run_instances(
        ImageId=ec2.image, InstanceType=TYPE, MinCount=count, MaxCount=count,
        TagSpecifications=[{"ResourceType": "instance", "Tags": [
            {"Key": "labfleet:owner", "Value": owner},
        ]}],
    )  # fmt: skip
    ec2.advance(3600)
    found = [
        {"id": each["InstanceId"], "worker": name["name"], "uid": name["uid"], "type": TYPE}
        for each, name in zip(made["Instances"], named, strict=True)
    ]
    for each in found:
        tags = [{"Key": "labfleet:worker", "Value": each["worker"]},
                {"Key": "labfleet:worker-uid", "Value": each["uid"]}]  # fmt: skip
        client.create_tags(Resources=[each["id"]], Tags=tags)
    client.close()
    return {"image": ec2.image, "instances": found}

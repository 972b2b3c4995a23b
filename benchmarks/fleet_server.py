"""The server's controllers over 1,000 READY workers, in a process of its own.

Wired as `labfleet server` wires them (all three leading roles, no API): SQLite in a file, the
real clock, boto3 to an EC2 by HTTP, HTTP over TLS to each CML server. Only the workers are put
into the store instead of being launched: their instances exist already.

Arguments: data folder, URL of EC2, file with the instances as JSON, port of the CML servers,
poll interval in seconds, CPU (-1: any). `look` on stdin prints the figures since the last look;
an end of stdin ends it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.measure import quantile
from benchmarks.polls_client import ip, memory
from labfleet.app import collector, logs, wiring
from labfleet.app.settings import Settings
from labfleet.engine.supervisor import Supervisor
from labfleet.interfaces import store as stores
from labfleet.resources.fleet_settings import Settings as FleetSettings, SettingsSpec
from labfleet.resources.machine import CmlSettings, LicenceSettings, Machine
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.meta import Metadata, SecretRef
from labfleet.resources.machine import MachineStatus
from labfleet.resources.worker import (
    FINALIZER_MACHINE,
    FINALIZER_LICENCE,
    Health,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerSpec,
    WorkerStatus,
)

TICK = 0.01


class Figures:
    """What happened since the last look."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)
        self.last: dict[str, float] = {}
        self.gaps: list[float] = []
        self.lags: list[float] = []
        self.begun, self.cpu = time.perf_counter(), time.process_time()

    def reconciled(
        self, controller: str, key: Any, outcome: Any, seconds: float, error: Any
    ) -> None:
        self.outcomes[f"{controller}/{outcome.value}"] += 1
        self.seconds[controller] += seconds
        if error is not None:
            self.errors[f"{controller}: {type(error).__name__}: {str(error)[-160:]}"] += 1
        if controller == "worker":
            now = time.perf_counter()
            if key.name in self.last:
                self.gaps.append(now - self.last[key.name])
            self.last[key.name] = now

    async def lag(self) -> None:
        """Note how late the loop is, every 10 ms."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK
            await asyncio.sleep(TICK)
            self.lags.append(max(0.0, time.monotonic() - due))

    def told(self) -> dict[str, Any]:
        """Return the figures and begin anew; the workers' last looks are remembered."""
        wall = time.perf_counter() - self.begun
        cpu = time.process_time() - self.cpu
        gaps, lags = sorted(self.gaps) or [0.0], sorted(self.lags) or [0.0]
        found = {
            "wall": wall, "cpu": cpu, "outcomes": dict(self.outcomes),
            "errors": dict(self.errors.most_common(3)),
            "seconds": dict(self.seconds),
            "period": [quantile(gaps, share) for share in (0.01, 0.5, 0.99, 1.0)],
            "periods": len(self.gaps),
            "lag": [quantile(lags, share) for share in (0.5, 0.99, 1.0)],
        }  # fmt: skip
        self.outcomes, self.errors, self.gaps, self.lags = Counter(), Counter(), [], []
        self.seconds = defaultdict(float)
        self.begun, self.cpu = time.perf_counter(), time.process_time()
        return found


def worker(number: int, instance: dict[str, Any], port: int, image: str) -> Worker:
    """A licensed worker that is READY on its instance."""
    now = datetime.now(UTC)
    machine = Machine(
        provider=AwsSettings(ami_id=image, instance_types=(instance["type"],)),
        cml=CmlSettings(
            admin_password=SecretRef(env="LABFLEET_SECRET_BENCH_PASSWORD"),
            api_base_url=f"https://{ip(number)}:{port}",
        ),
        licence=LicenceSettings(token=SecretRef(env="LABFLEET_SECRET_BENCH_LICENCE")),
    )
    return Worker(
        metadata=Metadata(
            name=instance["worker"],
            uid=instance["uid"],
            generation=1,
            finalizers=(FINALIZER_MACHINE, FINALIZER_LICENCE),
            creation_timestamp=now,
        ),
        spec=WorkerSpec(machine=machine, template="bench", idle_detection=False),
        status=WorkerStatus(
            phase=WorkerPhase.READY, phase_since=now, summary="ready", health=Health.HEALTHY,
            machine=MachineStatus(id=instance["id"], state="running"), attempt=1,
            licence=LicenceStatus(registration="COMPLETED", authorization="IN_COMPLIANCE",
                                  registered=True, licensed=True, node_capacity=200),
            ready_since=now, capacity=machine.capacity, observed_generation=1,
        ),
    )  # fmt: skip


async def serve(folder: str, ec2: str, file: str, port: int, poll: int) -> None:
    settings = Settings(
        data=folder, roles=("scheduler", "worker-controller", "lab-controller"),
        aws_endpoint_url=ec2, aws_access_key_env="BENCH_AWS_KEY", aws_secret_key_env="BENCH_AWS_SECRET",
    )  # fmt: skip
    given = json.loads(Path(file).read_text(encoding="utf-8"))
    outside, installation = await wiring.open_outside(settings)
    print(json.dumps({"installation": installation}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)  # the instances are there now
    given = json.loads(Path(file).read_text(encoding="utf-8"))
    system = wiring.build(outside, settings, installation, holder="bench")
    figures = Figures()
    for each in system.controllers:
        each._observer = figures
    cause = stores.Cause("bench", outside.clock.now())
    wanted = FleetSettings(
        metadata=Metadata(name="fleet", uid="fleet", generation=1),
        spec=SettingsSpec(monitoring={"pollIntervalSeconds": poll}),
    )
    await system.services.objects.save(wanted, cause=cause)
    made = [
        worker(number, each, port, given["image"]) for number, each in enumerate(given["instances"])
    ]
    for first in range(0, len(made), 200):
        await system.services.objects.save(*made[first : first + 200], cause=cause)
    environment = Supervisor(
        [*system.feeds, *system.elections], rng=outside.rng, observer=system.watcher
    )
    gc.collect()
    before = memory()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(each.run()) for each in (environment, *system.supervisors.values())
        ]
        tasks.append(group.create_task(figures.lag()))
        await system.cache.ready()
        print(json.dumps({"ready": len(made)}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            told = figures.told()
            phases = Counter(f"{each.status.phase} {each.status.health}"
                             for each in system.cache.all(Worker))  # fmt: skip
            sent = {action: count for (_, action), count in outside.aws_requests().items()}
            depth = {each.name: len(each.queue) for each in system.controllers}
            said = Counter(each.status.message for each in system.cache.all(Worker))
            print(json.dumps({**told, "phases": phases, "sent": sent, "queues": depth,
                              "messages": dict(said.most_common(3)),
                              "grown": memory() - before}), flush=True)  # fmt: skip
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    folder, ec2, file, port, poll, cpu = sys.argv[1:7]
    if int(cpu) >= 0:
        os.sched_setaffinity(0, {int(cpu)})
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    logs.configure(fmt="json", level="warning")
    collector.collect_rarely()
    uvloop.run(serve(folder, ec2, file, int(port), int(poll)))

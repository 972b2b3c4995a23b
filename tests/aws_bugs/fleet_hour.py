"""One simulated hour of 300 workers in which every kind of facts/aws.md#fault-kinds comes.

`python tests/aws_bugs/fleet_hour.py [WORKERS]` plays it and prints what happened as JSON; the
test `test_fleet_hour.py` judges it. Launches meet EC2's own buckets, zones without stock, a
quota, lost replies and lags; people at the console stop, start, terminate and untag; a region's
list fails; images disappear. At the end everything is asked to go, and nothing may be left.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "controllers")]

from bug_world import BugWorld, bugs
from virtual_time import play

from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources.leak import Leak
from labfleet.resources.worker import Worker, WorkerPhase

HOSTING = {WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.READY_UNLICENSED}
MINUTE = 60.0


@dataclass
class Told:
    """What the hour showed."""

    workers: int
    calls: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    hands: dict[str, int] = field(default_factory=dict)
    violations: list[dict[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    images: dict[str, int] = field(default_factory=dict)
    virtual_minutes: float = 0.0
    cpu_seconds: float = 0.0


async def hour(workers: int = 300, seed: int = 1) -> Told:
    """Play the hour and what follows it; return what was seen."""
    told = Told(workers)
    began = time.process_time()
    async with bugs(seed=seed) as w:
        w.cloud.config(buckets="aws", jitter=0.3, shuffled=True)
        server_conditions(w)
        await w.start()
        await w.make("Settings", "fleet", {"monitoring": {"cloudwatch": True}})
        machine = {"amiId": None, "amiNamePattern": "cisco-cml2.9*"}
        await w.make("Template", "metal", {"machine": w.machine(**machine)})
        await w.services.fresh()
        for number in range(workers):
            await w.make("Worker", f"w{number}", {"template": "metal"})
        loop = asyncio.get_running_loop()
        crowd = [loop.create_task(each(w, told)) for each in (console, images)]
        await operators(w, workers)
        await w.let_pass(max(0.0, 60 * MINUTE - w.clock.monotonic()))
        await asyncio.gather(*crowd)
        told.virtual_minutes = w.clock.monotonic() / MINUTE
        await end(w)
        told.calls = {
            name: w.cloud.calls(name)
            for name in ("RunInstances", "StopInstances", "StartInstances", "TerminateInstances")
        }
        told.faults = struck(w)
        told.kinds = by_kind(w, told)
        for each in w.cloud.ask("GET", "state")["instances"]:
            told.images[each["image"]] = told.images.get(each["image"], 0) + 1
        told.violations = w.cloud.violations(**w.facts())
        told.wrong = w.wrong + w.hosts.wrong
        summary = w.cloud.ask("GET", "summary")
        told.left = {
            "instances": summary["instances_left"],
            "volumes": summary["volumes_left"],
            "double_launches": summary["double_launches"],
            "licences": len(w.hosts.licences_left()),
        }
        for each in w.cache.all(Worker):
            word = str(each.status.phase)
            told.phases[word] = told.phases.get(word, 0) + 1
        told.leaks = [f"{each.spec.worker}: {each.spec.why}" for each in w.cache.all(Leak)]
    told.cpu_seconds = round(time.process_time() - began, 1)
    return told


IMAGE = "cisco-cml2.9.1-lab"


def server_conditions(w: BugWorld) -> None:
    """Let every kind of trouble that AWS itself makes come for a while."""
    begin = EPOCH.timestamp()

    def between(start: float, stop: float) -> dict[str, float]:
        return {"since": begin + start * MINUTE, "until": begin + stop * MINUTE}

    rule = w.cloud.rule
    rule("throttle", action="Describe*", p=0.2, **between(2, 6))
    rule("capacity", action="RunInstances", p=0.3, **between(0, 3))
    rule("capacity", action="StartInstances", p=0.3, **between(30, 50))
    rule("quota", action="RunInstances", p=0.3, **between(1, 5))
    rule("expired_token", **between(8, 9))
    rule("auth", action="Describe*", **between(12, 12.5))
    rule("unavailable", p=0.05, **between(14, 20))
    rule("drop_before", action="RunInstances", p=0.05)
    rule("drop_after", action="RunInstances", p=0.05)
    rule("drop_after", action="TerminateInstances", p=0.05)
    rule("drop_after", action="StopInstances", p=0.05)
    rule("fate", action="RunInstances", p=0.02, fate="no_boot")
    rule("empty_page", action="DescribeInstances", p=0.1, **between(20, 24))
    rule("internal", action="DescribeInstances", **between(25, 26))
    rule("truncated", action="DescribeInstances", p=0.1, **between(27, 29))
    rule("html", action="DescribeInstanceStatus", **between(29, 31))
    rule("throttling", service="monitoring", p=0.3, **between(20, 40))
    w.cloud.config(cloudwatch={"late": 300.0, "gaps": 0.2, "partial": True, "unaligned": 17.0})
    w.cloud.config(lags={"instance": 5.0, "tags": 8.0, "addresses": 20.0, "state": 2.0})


async def console(w: BugWorld, told: Told) -> None:
    """Play people at the console, another tool, and AWS itself."""
    rng = w.rng.stream("console")
    verbs: list[tuple[str, dict[str, Any]]] = [
        ("stop", {}), ("terminate", {}), ("impair", {}), ("recover", {}),
        ("schedule", {"code": "instance-retirement"}), ("untag", {"keys": ["Name"]}),
        ("tag", {"tags": {"team": "x"}}), ("start", {}),
    ]  # fmt: skip
    at = 15 * MINUTE
    while at < 55 * MINUTE:
        await w.clock.sleep(max(0.0, at - w.clock.monotonic()))
        running = [each for each in w.cloud.instances() if each["state"] == "running"]
        verb, fields = verbs[int(rng.random() * len(verbs))]
        if running:
            chosen = running[int(rng.random() * len(running))]
            try:
                w.cloud.hand(verb, chosen["id"], **fields)
            except AssertionError:
                verb = f"{verb} refused"
            told.hands[verb] = told.hands.get(verb, 0) + 1
        at += 20 + rng.random() * 40
    w.cloud.config(zones_down=["us-east-1a"])
    await w.clock.sleep(2 * MINUTE)
    w.cloud.config(zones_down=[])


async def images(w: BugWorld, told: Told) -> None:
    """Play the image's owner: a namesake of a stranger's, a newer one, the old one taken away."""
    await w.let_pass(6 * MINUTE)
    foreign = {"name": IMAGE, "owner": "999999999999", "created": "2027-01-01T00:00:00"}
    told.strangers.append(str(w.cloud.ask("POST", "images", foreign)["ami_id"]))
    w.cloud.ask("POST", "images", {"name": IMAGE, "region": "us-west-2"})
    await w.let_pass(10 * MINUTE)
    w.cloud.ask("POST", "images", {"name": IMAGE})
    await w.let_pass(1 * MINUTE)
    w.cloud.ask("DELETE", "images", {"ami_id": w.cloud.ready["ami_id"]})
    told.hands["image"] = 4


async def operators(w: BugWorld, workers: int) -> None:
    """Stop a third, end a third, and make as many anew, as each becomes ready."""
    third = workers // 3
    more = third + third // 5
    stop = [f"w{n}" for n in range(more)]
    end_ = [f"w{n}" for n in range(more, more + third)]

    def up(names: list[str]) -> int:
        phases = {each.name: each.status.phase for each in w.cache.all(Worker)}
        return sum(phases.get(name) in HOSTING for name in names)

    await until(w, lambda: up(stop) >= 0.8 * third, minutes=28)
    for name in stop:
        await w.desire(name, "Stopped")
    for name in end_:
        await w.desire(name, "Terminated")
    for number in range(third):
        await w.make("Worker", f"x{number}", {"template": "metal"})
    await w.let_pass(8 * MINUTE)
    for name in stop[: third // 2]:
        await w.desire(name, "Ready")


async def until(w: BugWorld, holds: Any, *, minutes: float) -> None:
    """Let time run until the claim holds or so many minutes have passed."""
    stop = w.clock.monotonic() + minutes * MINUTE
    while not holds() and w.clock.monotonic() < stop:
        await w.let_pass(20.0)


async def end(w: BugWorld) -> None:
    """Let the server conditions clear, ask everything to go, and give it the time that metal takes."""
    w.cloud.sky.rules.clear()
    w.cloud.config(zones_down=[], lags={"instance": 0.0, "tags": 0.0})
    for each in w.cache.all(Worker):
        if each.status.phase is not WorkerPhase.TERMINATED:
            await w.desire(each.name, "Terminated")

    def gone() -> bool:
        return all(each.status.phase is WorkerPhase.TERMINATED for each in w.cache.all(Worker))

    await until(w, gone, minutes=240)
    await w.let_pass(20 * MINUTE)  # what garbage collection finds, it ends


def struck(w: BugWorld) -> dict[str, int]:
    """Return how often each kind of fault was met, from the journal."""
    found: dict[str, int] = {}
    for entry in w.cloud.sky.journal.entries:
        if entry.fault:
            found[entry.fault] = found.get(entry.fault, 0) + 1
        if entry.error == "RequestLimitExceeded" and not entry.fault:
            found["bucket"] = found.get("bucket", 0) + 1
    return found


KINDS = {
    "throttling": ("throttle", "bucket"), "no capacity": ("capacity",), "quota": ("quota",),
    "access": ("expired_token", "auth"),
    "server trouble": ("unavailable", "internal", "html", "truncated"),
    "lost": ("drop_before", "drop_after"), "slow states": ("fate",),
    "part of the view": ("empty_page", "zone_down"), "CloudWatch": ("throttling",),
}  # fmt: skip


def by_kind(w: BugWorld, told: Told) -> dict[str, int]:
    """Return how often each kind of facts/aws.md#fault-kinds was met.

    Late sight and slow states touch every launch.
    """
    found = {kind: sum(told.faults.get(word, 0) for word in words) for kind, words in KINDS.items()}
    found["late sight"] = found["slow states"] = w.cloud.calls("RunInstances")
    found["others' hands"] = sum(told.hands.values())
    found["CloudWatch"] += w.cloud.calls("GetMetricData")
    found["images"] = told.hands.get("image", 0)
    return found


def main(argv: list[str]) -> int:
    """Play it and print it; 1 when something was violated or left."""
    told: list[Told] = []

    async def story() -> None:
        told.append(await hour(int(argv[0]) if argv else 300))

    play(story)
    sys.stdout.write(json.dumps(told[0].__dict__, indent=1) + "\n")
    return 1 if told[0].violations or any(told[0].left.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""What EC2 shows and does not show, as it misled others: facts/aws-bugs.md, numbers 10 to 14."""

from __future__ import annotations

from typing import Any

import pytest
from bug_world import BugWorld, bugs
from scripted_servers import EVENTS
from virtual_time import play
from world import ADMIN

from labfleet.resources import conditions
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker
from labfleet.service.verbs import settings_verbs

MINUTE = 60.0
ROOM = {"cpuMilli": 48_000, "memoryMib": 190_000, "storageMib": 400_000, "labs": 1, "ports": 600}


def believed_only_what_is_true(w: BugWorld) -> None:
    """From now on hold that a worker says STOPPED or TERMINATED only of a machine that is so."""
    wanted = {"STOPPED": {"stopped"}, "TERMINATED": {"terminated"}}

    def moved(old: Any, new: Any) -> None:
        if new is None or (old is not None and old.status.phase == new.status.phase):
            return
        w.cloud.sky.settle()
        machine = w.cloud.sky.machines.get(new.status.machine.id)
        states = wanted.get(str(new.status.phase))
        if machine is not None and states is not None and machine.state not in states:
            w.wrong.append(f"{new.name} is {new.status.phase}, its machine {machine.state}")

    w.cache.on_change(Worker, moved)


def bad(w: BugWorld, fault: str, minutes: float, **fields: Any) -> None:
    """Let every list and look fail in one way for so long."""
    now = w.witness.now
    w.cloud.rule(
        fault, action="DescribeInstances", since=now, until=now + minutes * MINUTE, **fields
    )


def up(w: BugWorld) -> list[Worker]:
    """Return the workers that host or could."""
    return [each for each in w.cache.all(Worker) if each.status.phase in {"READY", "ACTIVE"}]


def hazards(w: BugWorld) -> int:
    """Return how many stops and ends were asked for."""
    return w.cloud.calls("StopInstances") + w.cloud.calls("TerminateInstances")


def test_10_machines_without_addresses_are_waited_for_and_not_replaced() -> None:
    """Number 10: twenty launches that show no address for minutes, and other fields never."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(
                times={"metal": {"pending": 20.0}},
                lags={"addresses": 240.0, "fields": {
                    "PrivateIpAddress": 400.0, "PublicIpAddress": 300.0, "InstanceType": 1e6,
                    "Placement": 1e6, "BlockDeviceMappings": 1e6, "LaunchTime": 100.0,
                }},
            )  # fmt: skip
            await w.start()
            await w.pool(scaling={"minWorkers": 20, "maxWorkers": 20, "policy": "NONE"})
            await w.until(lambda: len(up(w)) == 20)
            assert w.cloud.calls("RunInstances") == 20
            assert hazards(w) == 0
            assert not any("FAILED" in phases for phases in w.phases.values())
            pool = w.cache.get(Pool, "p1", "default")
            assert pool is not None
            assert not conditions.is_true(pool.status.conditions, "LaunchesFailing")
            w.check()

    play(story)


FAULTS = ["throttle", "empty", "truncated", "html", "internal", "empty_page", "unauthorized"]


@pytest.mark.parametrize("fault", FAULTS)
def test_11_a_look_that_fails_is_no_news_of_a_stop_or_an_end(fault: str) -> None:
    """Number 11: error is not empty, empty is not stopped: nothing is believed before EC2 says."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            believed_only_what_is_true(w)
            bad(w, fault, 3)
            await w.desire("w1", "Stopped")
            await w.let_pass(2 * MINUTE)
            assert w.cloud.instances("w1")[0]["state"] == "running"
            await w.until(lambda: w.cloud.instances("w1")[0]["state"] == "stopping")
            bad(w, fault, 15)
            await w.let_pass(14 * MINUTE)
            assert w.cloud.instances("w1")[0]["state"] == "stopped"
            assert w.phase("w1") == "STOPPING"
            await w.until(w.in_phase("w1", "STOPPED"), hours=0.1)
            await w.desire("w1", "Terminated")
            await w.until(lambda: w.cloud.calls("TerminateInstances") == 1)
            bad(w, fault, 15)
            await w.let_pass(14 * MINUTE)
            assert w.cloud.instances() == []
            assert w.phase("w1") == "TERMINATING_EC2"
            await w.until(w.in_phase("w1", "TERMINATED"), hours=0.1)
            assert w.cloud.calls("StopInstances") == w.cloud.calls("TerminateInstances") == 1
            w.check(forced=list(w.cloud.sky.machines))  # a person asked, whatever runs there

    play(story)


def test_12_a_restart_that_sees_nothing_stops_and_ends_nothing() -> None:
    """Number 12: CML silent and EC2 without an answer, no busy and no empty worker is touched."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await settings_verbs.change(w.services, ADMIN, {
                "idle.enabled": True, "idle.timeoutMinutes": 5, "idle.snoozeMinutes": 0,
                "idle.warnMinutes": 0,
            })  # fmt: skip
            made = w.machine()
            made = {
                **made,
                "cml": {**made["cml"], "enableTelemetry": True},
                "capacity": ROOM,
            }
            await w.make("Template", "metal", {"machine": made})
            await w.services.fresh()
            await w.definition(defaultDurationMinutes=600, maxDurationMinutes=700)
            await w.pool(scaling={"minWorkers": 0, "maxWorkers": 5})
            for number in range(4):
                await w.session(f"s{number}")
            await w.until(lambda: all(w.phase(f"s{n}") == "RUNNING" for n in range(4)))
            await w.worker("alone", machine=made)
            await w.until(w.in_phase("alone", "READY"))
            w.hosts.run("alone")
            begun, names = hazards(w), {each.name for each in w.cache.all(Worker)}
            bad(w, "internal", 10)
            w.hosts.cut = set(names)
            await w.start()
            await w.let_pass(30 * MINUTE)
            assert hazards(w) == begun
            w.hosts.cut = set()
            w.hosts.fail("system_stats", EVENTS, "licensing")
            await w.start()
            await w.let_pass(30 * MINUTE)
            assert hazards(w) == begun
            w.hosts.fail()
            await w.let_pass(10 * MINUTE)
            assert {each.name for each in up(w)} == names
            assert not any("DRAINING" in w.phases[name] for name in names)
            assert all(w.phase(f"s{n}") == "RUNNING" for n in range(4))
            w.check()

    play(story)


def test_12_a_new_leader_collects_nothing_before_it_saw_all_and_then_little_at_once() -> None:
    """Number 12: with the list failing nothing is garbage; later a fifth of it in a round."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            for number in range(9):
                w.cloud.stray({"labfleet:owner": "inst", "labfleet:worker-uid": f"gone{number}"})
            bad(w, "throttle", 20)
            await w.start()
            await w.let_pass(20 * MINUTE)
            assert hazards(w) == 0
            await w.let_pass(4 * MINUTE)
            assert hazards(w) == 0
            ended: dict[int, int] = {}
            await w.until(lambda: w.cloud.calls("TerminateInstances") == 9)
            for each in w.cloud.sky.journal.entries:
                if each.action == "TerminateInstances":
                    ended[int(each.time // 30)] = ended.get(int(each.time // 30), 0) + 1
            assert max(ended.values()) <= 2
            assert w.phase("w1") == "READY"
            assert [
                each["tags"]["Name"] for each in w.cloud.instances() if each["state"] == "running"
            ] == ["w1"]
            w.check()

    play(story)


def test_13_a_broken_worker_is_ended_once_by_its_id_and_its_neighbours_stay() -> None:
    """Number 13: while EC2 shows it running still, nobody is ended in its place or again."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"state": 100.0})
            await w.start()
            await w.pool(scaling={"minWorkers": 3, "maxWorkers": 5, "policy": "NONE"})
            await w.until(lambda: len(w.cloud.instances()) == 3)
            broken = w.cloud.instances()[0]
            w.hosts.cut.add(broken["tags"]["labfleet:worker"])
            await w.until(lambda: len(up(w)) == 3)
            first = {each["id"] for each in w.cloud.instances()} - {broken["id"]}
            await w.let_pass(60 * MINUTE)
            left = {each["id"] for each in w.cloud.instances()}
            assert left == first
            assert len(up(w)) == 3
            entries = w.cloud.sky.journal.entries
            ended = [each.ids for each in entries if each.action == "TerminateInstances"]
            assert ended == [(broken["id"],)]
            assert w.cloud.calls("RunInstances") == 4
            w.check()

    play(story)


def test_13_a_worker_ended_outside_is_replaced_once() -> None:
    """Number 13: with states shown late, one loss is one new machine and nobody else's end."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"state": 60.0})
            await w.start()
            await w.pool(scaling={"minWorkers": 3, "maxWorkers": 5, "policy": "NONE"})
            await w.until(lambda: len(up(w)) == 3)
            [victim, *others] = sorted(each["id"] for each in w.cloud.instances())
            w.cloud.hand("terminate", victim)
            await w.until(lambda: len(up(w)) < 3)
            await w.until(lambda: len(up(w)) == 3)
            await w.let_pass(60 * MINUTE)
            left = {each["id"] for each in w.cloud.instances()}
            assert set(others) < left
            assert len(left) == 3
            assert w.cloud.calls("RunInstances") == 4
            w.check()

    play(story)


def test_14_sixty_workers_share_their_lists_and_wait_out_a_small_bucket() -> None:
    """Number 14: at a tenth of EC2's buckets all come up, and looks stay within a tenth of it."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(buckets="tenth", times={"metal": {"pending": 3000.0}})
            await w.start(run=["worker", "garbage"])
            limits = {"launch": 7200}
            for number in range(60):
                await w.worker(f"w{number}", machine={**w.machine(), "limits": limits})
            await w.until(lambda: len(w.cloud.instances()) == 60)
            await w.let_pass(5 * MINUTE)
            worst: dict[str, int] = {}
            for (_, _, action, _, _), count in w.cloud.sky.journal.minutes.items():
                worst[action] = max(worst.get(action, 0), count)
            assert worst["DescribeInstances"] <= 60 * 20 / 10
            throttled = w.cloud.sky.journal.throttled
            assert 0 < throttled["RunInstances"] < 30, throttled
            assert throttled["DescribeInstances"] == 0
            w.check()

    play(story)

"""Launching, as it went wrong elsewhere: facts/aws-bugs.md#case-1 to #case-6, #case-8, #case-9."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bug_world import BugWorld, bugs
from virtual_time import play
from world import Process

from labfleet.resources import conditions
from labfleet.resources.worker import Worker

SEEN = ("EC2_READY", "STARTING", "LICENSING", "READY")
TYPES = ["m5zn.metal", "m5.metal"]


def lives_end_at(w: BugWorld, nth: int, mode: str, *, lives: int) -> None:
    """End each of so many lives of the program at its nth change of the outside."""
    ended: list[Process] = []
    made = 0

    def strike(name: str, _: int) -> str | None:
        nonlocal made
        del name
        assert w.process is not None
        made += 1
        if len(ended) < lives and made >= nth and w.process not in ended:
            ended.append(w.process)
            made = 0
            return mode
        return None

    w.strike = strike


def asked(w: BugWorld, what: str) -> list[str]:
    """Return what each RunInstances asked for, in order."""
    return [form.get(what, "") for form in w.witness.launches]


def launched(w: BugWorld, name: str = "w1") -> Callable[[], bool]:
    """Tell whether the record names a machine."""

    def holds() -> bool:
        found = w.cache.get(Worker, name, "default")
        return found is not None and found.status.machine.id is not None

    return holds


def one_machine(w: BugWorld, name: str = "w1") -> None:
    """Hold that a worker has one machine, ever, and that the record knows it."""
    [found] = w.cloud.instances(name)
    assert w.get_worker(name).status.machine.id == found["id"]
    assert w.cloud.ask("GET", "summary")["instances_total"] == 1
    w.check()


@pytest.mark.parametrize("mode", ["crash-before", "crash-after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
def test_1_five_restarts_launch_one_instance(nth: int, mode: str) -> None:
    """Number 1: whichever step each of five lives ends at, there is one instance."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": 5.0})
            lives_end_at(w, nth, mode, lives=5)
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", *SEEN))
            one_machine(w)

    play(story)


def test_1_a_reply_that_is_lost_and_five_kills_launch_one_instance() -> None:
    """Number 1: the launch commits, its reply is lost, the program dies: one instance."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": 5.0})
            w.cloud.rule("drop_after", action="RunInstances", times=3)
            await w.start()
            await w.worker()
            for _ in range(5):
                await w.let_pass(9)
                await w.start()
            await w.until(w.in_phase("w1", *SEEN))
            assert len(set(asked(w, "ClientToken"))) == 1
            one_machine(w)

    play(story)


@pytest.mark.parametrize("fault", ["drop_after", "internal", "unavailable", "truncated", "empty"])
def test_2_a_lost_reply_is_asked_for_again_with_the_same_token(fault: str) -> None:
    """Number 2: after no answer or half of one there is one instance under one token."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": 30.0, "tags": 40.0})
            w.cloud.rule(fault, action="RunInstances", times=2)
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", *SEEN))
            assert len(set(asked(w, "ClientToken"))) == 1
            assert len({form["InstanceType"] for form in w.witness.launches}) == 1
            one_machine(w)

    play(story)


def test_3_a_token_whose_machine_was_ended_is_left_for_a_new_attempt() -> None:
    """Number 3: ended outside before its reply came, the worker gets a machine of a new token."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": 600.0}, times={"metal": {"terminating": 20.0}})
            w.cloud.rule("drop_after", action="RunInstances", times=1)
            await w.start()
            await w.worker()
            await w.until(lambda: bool(w.cloud.instances("w1")))
            [first] = w.cloud.instances("w1")
            w.cloud.hand("terminate", first["id"])
            await w.let_pass(60)
            w.cloud.config(lags={"instance": 0.0})
            await w.until(w.in_phase("w1", *SEEN))
            [second] = w.cloud.instances("w1")
            assert second["token"] != first["token"]
            assert second["tags"]["labfleet:attempt"] == "2"
            refused = [each.error for each in w.cloud.sky.journal.entries if each.error]
            assert "IdempotentInstanceTerminated" in refused
            w.check()

    play(story)


def test_3_a_worker_whose_machine_was_ended_is_provisioned_anew_with_a_new_token() -> None:
    """Number 3: the second machine comes when a person wants it, under its own token."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            [first] = w.cloud.instances("w1")
            w.cloud.hand("terminate", first["id"])
            await w.until(w.in_phase("w1", "FAILED"))
            await w.let_pass(1200)
            assert w.cloud.calls("RunInstances") == 1
            await w.desire("w1", "Stopped")
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            assert len(set(asked(w, "ClientToken"))) == 2
            w.check()

    play(story)


def test_4_a_no_in_one_zone_is_asked_in_the_next_under_another_token() -> None:
    """Number 4: no capacity for a type in a zone gives no IdempotentParameterMismatch."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(stock={"m5zn.metal": 0, "m5.metal/us-east-1a": 0})
            await w.start()
            await w.worker(machine=w.machine(instanceTypes=TYPES))
            await w.until(w.in_phase("w1", *SEEN))
            tokens = asked(w, "ClientToken")
            assert len(tokens) == len(set(tokens)) > 1
            refused = {each.error for each in w.cloud.sky.journal.entries if each.error}
            assert refused == {"InsufficientInstanceCapacity", "Unsupported"}
            [found] = w.cloud.instances("w1")
            assert (found["type"], found["zone"] != "us-east-1a") == ("m5.metal", True)
            one_machine(w)

    play(story)


@pytest.mark.parametrize("restart", [False, True])
def test_4_a_lost_launch_is_found_in_its_zone_before_another_zone_is_tried(
    restart: bool,
) -> None:
    """Number 4: full since, and full for others too, zone a is still where the machine is."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": 50.0, "tags": 55.0})
            w.cloud.rule("drop_after", action="RunInstances", times=1)
            await w.start()
            await w.worker()
            await w.until(lambda: bool(w.cloud.instances("w1")))
            w.cloud.config(stock={"m5zn.metal/us-east-1a": 1})
            await w.worker("w2")
            await w.until(lambda: bool(w.cloud.instances("w2")))
            if restart:
                await w.start()
            await w.until(w.in_phase("w1", *SEEN))
            [first], [second] = w.cloud.instances("w1"), w.cloud.instances("w2")
            assert first["zone"] == "us-east-1a" != second["zone"]
            assert w.cloud.ask("GET", "summary")["instances_total"] == 2
            await w.until(w.in_phase("w2", *SEEN))
            w.check()

    play(story)


@pytest.mark.parametrize("lag", [5.0, 50.0])
def test_5_a_machine_that_is_not_visible_yet_is_waited_for(lag: float) -> None:
    """Number 5: looked at every second in the gap, the worker keeps its machine."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": lag})
            process = await w.start()
            await w.worker()
            await w.until(launched(w))
            for _ in range(int(lag) + 60):
                await process.reconcile("worker", w.get_worker().key)
                await w.clock.sleep(1.0)
            await w.until(w.in_phase("w1", "READY"))
            assert "FAILED" not in w.phases["w1"]
            assert w.cloud.calls("TerminateInstances") == 0
            one_machine(w)

    play(story)


def test_6_of_a_hundred_launches_with_lost_replies_none_leaks() -> None:
    """Number 6: every tenth reply is lost; each worker ends with the one machine it has."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.rule("drop_after", action="RunInstances", p=0.1)
            w.cloud.config(lags={"instance": 5.0})
            await w.start(run=["worker"])
            for number in range(100):
                await w.worker(f"w{number}")
            await w.until(lambda: all(launched(w, f"w{number}")() for number in range(100)))
            lost = [each for each in w.cloud.sky.journal.entries if each.fault == "drop_after"]
            assert len(lost) >= 8
            assert len(w.cloud.instances()) == 100
            w.check()

    play(story)


def test_6_a_machine_whose_worker_is_forgotten_is_found_by_its_owner_tag() -> None:
    """Number 6: with nobody's record left, it is ended after the grace, and nothing else is."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            [kept] = w.cloud.instances("w1")
            tags = {**kept["tags"], "labfleet:worker": "lost", "labfleet:worker-uid": "lost"}
            leaked = w.cloud.stray(tags)
            await w.let_pass(200)
            assert len(w.cloud.instances()) == 2
            await w.until(lambda: not w.cloud.instances("lost"))
            assert [each["id"] for each in w.cloud.instances()] == [kept["id"]]
            ended = [each for each in w.cloud.sky.journal.entries if "Terminate" in each.action]
            assert [each.ids for each in ended] == [(leaked,)]
            w.check()

    play(story)


@pytest.mark.parametrize("visible", [True, False])
def test_8_a_machine_that_was_ended_outside_lets_its_worker_go(visible: bool) -> None:
    """Number 8: terminated, or long forgotten by EC2, it is nothing to wait for."""

    async def story() -> None:
        async with bugs() as w:
            process = await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            process.kill()
            w.cloud.hand("terminate", w.cloud.instances("w1")[0]["id"])
            await w.let_pass(900 if visible else 7200)
            await w.desire("w1", "Terminated")
            await w.delete("Worker", "w1")
            await w.start()
            await w.until(lambda: w.cache.get(Worker, "w1", "default") is None, hours=0.5)
            assert w.cloud.calls("TerminateInstances") == 0
            w.check()

    play(story)


def test_9_tags_come_with_the_launch_and_not_found_is_asked_again() -> None:
    """Number 9: CreateTags knows a machine later than Describe does; nothing is lost by it."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": 5.0, "tags": 20.0, "actions": {"CreateTags": 120.0}})
            await w.start()
            await w.worker(tags={"team": "blue"})
            await w.until(launched(w))
            [found] = w.cloud.instances("w1")
            assert found["tags"]["labfleet:owner"] == "inst"
            assert w.cloud.calls("CreateTags") == 0
            await w.until(w.in_phase("w1", "READY"))
            assert w.cloud.instances("w1")[0]["tags"]["team"] == "blue"
            refused = [each.error for each in w.cloud.sky.journal.entries if "Tags" in each.action]
            assert "InvalidInstanceID.NotFound" in refused
            assert conditions.is_true(w.get_worker().status.conditions, "TagsApplied")
            assert "FAILED" not in w.phases["w1"]
            one_machine(w)

    play(story)


def test_9_a_machine_without_visible_tags_is_ended_when_they_show() -> None:
    """Number 9: ended right after its launch, it is neither forgotten nor ended blindly."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(lags={"instance": 10.0, "tags": 60.0})
            await w.start()
            await w.worker()
            await w.until(launched(w))
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            assert w.cloud.instances() == []
            assert w.cloud.calls("TerminateInstances") == 1
            w.check()

    play(story)

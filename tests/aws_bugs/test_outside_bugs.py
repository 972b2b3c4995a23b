"""What others do to our machines and our access: numbers 28 and 31 to 35 of facts/aws-bugs.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bug_world import BugWorld, bugs
from virtual_time import play
from world import ADMIN

from labfleet.resources import conditions
from labfleet.resources.pool import Pool
from labfleet.resources.region import Region
from labfleet.resources.worker import Worker
from labfleet.service.verbs import settings_verbs


def suspected(w: BugWorld) -> str:
    """Return what is told of the first suspect of garbage collection."""
    region = w.cache.get(Region, "us-east-1", "default")
    assert region is not None
    return region.status.suspects[0].next if region.status.suspects else ""


CODES = ("AuthFailure", "RequestExpired", "ExpiredToken", "SignatureDoesNotMatch")


async def up(w: BugWorld, name: str = "w1", **spec: Any) -> str:
    """Bring a worker up and return its instance's id."""
    if w.process is None:
        await w.start()
    await w.worker(name, **spec)
    await w.until(w.in_phase(name, "READY", "ACTIVE"))
    return str(w.get_worker(name).status.machine.id)


def ours(w: BugWorld, instance: str, *, worker: str, uid: str) -> str:
    """Put a machine there that carries the tags of one of ours under other names."""
    [kept] = [each for each in w.cloud.instances() if each["id"] == instance]
    tags = {**kept["tags"], "labfleet:worker": worker, "labfleet:worker-uid": uid}
    return w.cloud.stray({**tags, "Name": worker})


def alive(w: BugWorld, instance: str) -> bool:
    """Tell whether an instance has not been ended."""
    going = {"pending", "running", "stopping", "stopped"}
    return any(each["id"] == instance and each["state"] in going for each in w.cloud.instances())


def ended(w: BugWorld) -> list[str]:
    """Return which instances we asked EC2 to end."""
    return [
        instance
        for each in w.cloud.sky.journal.entries
        if each.action == "TerminateInstances" and each.source == "api"
        for instance in each.ids
    ]


async def adopt(w: BugWorld, instance: str) -> None:
    """Make the record that stands for a machine, as somebody does who adopts it."""
    origin = {"kind": "imported", "instanceId": instance, "region": "us-east-1", "managed": True}
    await w.make("Worker", "late", {"machine": w.machine(), "origin": origin})


@pytest.mark.parametrize("when", ["in the grace", "at the last look"])
def test_28_a_machine_whose_record_comes_late_is_no_orphan(when: str) -> None:
    """Number 28: adopted while it is suspected, even in the last moment, it is left alone."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            found = ours(w, kept, worker="late", uid="late")
            await w.let_pass(200)
            if when == "in the grace":
                await adopt(w, found)
            else:
                described = w.compute.describe

                async def describe(region: str, instance: str) -> Any:
                    if instance == found and w.cache.get(Worker, "late", "default") is None:
                        await adopt(w, found)
                    return await described(region, instance)

                w.compute.describe = describe  # type: ignore[method-assign]
            await w.let_pass(1800)
            assert w.cache.get(Worker, "late", "default") is not None
            assert alive(w, found)
            assert ended(w) == []
            w.check()

    play(story)


@pytest.mark.parametrize("named", ["nobody", "w1"])
def test_28_a_true_orphan_goes_whatever_it_is_called(named: str) -> None:
    """Number 28: ids decide, not names: the orphan goes, the worker of its name stays."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            found = ours(w, kept, worker=named, uid="forgotten")
            await w.until(lambda: not alive(w, found), hours=1)
            await w.let_pass(1200)
            assert ended(w) == [found]
            assert alive(w, kept)
            w.check()

    play(story)


@pytest.mark.parametrize("fault", ["throttle", "internal", "unauthorized", "html"])
def test_28_a_list_that_fails_ends_nothing_and_one_that_works_does(fault: str) -> None:
    """Number 28: an error is no 404: nothing is judged by it, and nothing is forgotten for it."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            w.cloud.rule(fault, action="DescribeInstances")
            found = ours(w, kept, worker="nobody", uid="forgotten")
            await w.let_pass(3600)
            assert alive(w, found)
            assert alive(w, kept)
            assert w.phase("w1") == "READY"
            w.cloud.ask("DELETE", "rules")
            await w.until(lambda: not alive(w, found), hours=1)
            assert ended(w) == [found]
            w.check()

    play(story)


DENIED: dict[str, Callable[[BugWorld], Any]] = {
    "the key is refused": lambda w: w.cloud.rule("auth"),
    "the request is late": lambda w: w.cloud.rule("expired"),
    "our clock is ten minutes slow": lambda w: w.cloud.config(clock_offset=600.0),
    "our clock is ten minutes fast": lambda w: w.cloud.config(clock_offset=-600.0),
    "the credentials expired": lambda w: w.cloud.config(credentials={"labfleet": 0.0}),
}


@pytest.mark.parametrize("what", DENIED)
def test_31_a_refused_access_ends_nothing_and_is_told(what: str) -> None:
    """Number 31: nobody is stopped, ended or called gone by it, and the next key goes on."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            found = ours(w, kept, worker="nobody", uid="forgotten")
            await w.let_pass(60)
            DENIED[what](w)
            await w.worker("w2")
            await w.let_pass(300)
            await w.desire("w1", "Stopped")
            await w.let_pass(3000)
            assert alive(w, found)
            assert "FAILED" not in w.phases["w1"]
            assert "TERMINATED" not in w.phases["w1"]
            assert any(word in str(w.get_worker("w2").status.conditions) for word in CODES)
            region = w.cache.get(Region, "us-east-1", "default")
            assert region is not None
            assert any(word in region.status.waits for word in CODES)
            w.cloud.ask("DELETE", "rules")
            w.cloud.config(clock_offset=0.0, credentials={})
            await w.until(w.in_phase("w1", "STOPPED"))
            await w.until(lambda: not alive(w, found), hours=1)
            await w.desire("w2", "Ready")
            await w.until(w.in_phase("w2", "READY"))
            w.check(forced=[kept])  # a person asked for its stop, an hour before it was taken

    play(story)


def test_31_an_end_that_is_not_allowed_is_never_called_an_end() -> None:
    """Number 31: TerminateInstances alone is denied: both machines stay on record, with why."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            found = ours(w, kept, worker="nobody", uid="forgotten")
            w.cloud.rule("unauthorized", action="TerminateInstances")
            await w.desire("w1", "Terminated")
            await w.let_pass(2 * 3600)
            assert alive(w, kept)
            assert alive(w, found)
            assert w.phase("w1") == "TERMINATING_EC2"
            assert "UnauthorizedOperation" in w.get_worker().status.message
            await w.until(
                lambda: "try failed: terminate_instances: Unauth" in suspected(w), hours=1
            )
            region = w.cache.get(Region, "us-east-1", "default")
            assert region is not None
            assert (region.status.ended, region.status.deeds) == (0, ())
            assert w.cloud.calls("TerminateInstances") <= 60
            w.cloud.ask("DELETE", "rules")
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.until(lambda: not alive(w, found), hours=1)
            region = w.cache.get(Region, "us-east-1", "default")
            assert region is not None
            assert region.status.ended == 1
            w.check()

    play(story)


def test_32_a_worker_is_reached_at_the_address_of_this_boot() -> None:
    """Number 32: stopped and started, it has another address, and no login of before is used."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            before = w.get_worker().status
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            asked: list[str] = []
            at = w.hosts.at

            def noted(address: Any) -> Any:
                asked.append(f"{address.base_url} {address.boot}")
                return at(address)

            w.hosts.at = noted  # type: ignore[method-assign]
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            after = w.get_worker().status
            assert set(asked) == {f"{after.cml.url} {after.cml.boot}"}
            [found] = w.cloud.instances("w1")
            assert (
                found["public_ip"] == after.machine.public_address != before.machine.public_address
            )
            assert after.cml.url is not None
            assert found["public_ip"] in after.cml.url
            assert after.cml.boot != before.cml.boot
            await w.until(lambda: w.get_worker().status.health == "Healthy")
            w.check()

    play(story)


def test_32_an_address_that_changes_behind_our_back_is_followed() -> None:
    """Number 32: stopped and started by somebody else, the worker comes back by itself."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            before = w.get_worker().status.machine.public_address
            w.cloud.hand("stop", kept)
            await w.let_pass(600)
            w.cloud.hand("start", kept)
            await w.until(w.in_phase("w1", "READY"))
            await w.until(lambda: w.get_worker().status.health == "Healthy")
            [found] = w.cloud.instances("w1")
            assert w.get_worker().status.machine.public_address == found["public_ip"] != before
            w.check()

    play(story)


@pytest.mark.parametrize("slow", [True, False])
def test_33_a_machine_that_was_ended_is_gone_within_a_round(slow: bool) -> None:
    """Number 33: a minute after it was ended nothing believes in it, and nothing ever again."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            w.cloud.config(times={"metal": {"terminating": 600.0 if slow else 1.0}})
            w.cloud.hand("terminate", kept)
            await w.let_pass(60)
            assert w.phase("w1") == "FAILED"
            assert not conditions.is_true(w.get_worker().status.conditions, "AcceptingLabs")
            await w.let_pass(2 * 3600)
            assert w.phase("w1") == "FAILED"
            assert w.phases["w1"][-1] == "FAILED"
            assert w.cloud.calls("RunInstances") == 1
            w.check()

    play(story)


def test_34_what_ran_on_a_machine_that_was_ended_says_so() -> None:
    """Number 34: the worker tells who may have done it, the session's owner what became of it."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            w.cloud.hand("terminate", w.get_worker().status.machine.id or "")
            await w.until(w.in_phase("w1", "FAILED"), hours=0.1)
            await w.until(w.in_phase("s1", "FAILED"), hours=0.5)
            fact = conditions.find(w.get_worker().status.conditions, "ExternalChange")
            assert fact is not None
            assert (fact.status, fact.reason) == ("True", "Terminated")
            assert "CloudTrail names who" in fact.message
            assert "w1 is FAILED" in str(w.get_session().status)
            assert w.get_session().status.reservation is None
            w.check()

    play(story)


def test_34_a_session_that_has_not_begun_goes_to_another_worker() -> None:
    """Number 34: booting when its machine was ended, it runs on the one that is left."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            await up(w, "w2")
            w.hosts.node_boot(300.0)
            await w.definition()
            await w.session()
            await w.until(lambda: w.get_session().status.phase in {"INSTANTIATING", "INSTANTIATED"})
            lost = w.get_session().status.worker
            assert lost is not None
            w.cloud.hand("terminate", w.get_worker(lost).status.machine.id or "")
            await w.until(w.in_phase("s1", "RUNNING"))
            assert w.get_session().status.worker not in {None, lost}
            w.check()

    play(story)


def test_34_a_machine_that_was_stopped_outside_is_no_end() -> None:
    """Number 34: stopped is told apart from ended, with the licence kept on its disk."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            w.cloud.hand("stop", kept)
            await w.until(w.in_phase("w1", "FAILED"), hours=0.1)
            fact = conditions.find(w.get_worker().status.conditions, "ExternalChange")
            assert fact is not None
            assert (fact.status, fact.reason) == ("True", "Stopped")
            assert not conditions.is_true(w.get_worker().status.conditions, "LicenceLeaked")
            await w.until(w.in_phase("w1", "READY"))
            assert alive(w, kept)
            w.check()

    play(story)


def test_35_a_tool_that_ends_the_fleet_each_day_does_not_get_a_new_one_each_time() -> None:
    """Number 35: the pool stops with the reason in words, and goes on when a person says so."""

    async def story() -> None:
        async with bugs() as w:
            w.cloud.config(times={"metal": {"pending": 60.0, "terminating": 30.0}})
            await w.start(run=["worker", "pool", "garbage"])
            scaling = {"minWorkers": 10, "maxWorkers": 12, "cooldownUpSeconds": 0}
            await w.pool(scaling=scaling)
            for day in (1, 2):
                await w.until(lambda: serving(w) == 10, hours=6)
                launched = w.cloud.calls("RunInstances")
                w.cloud.hand("terminate", *(each["id"] for each in w.cloud.instances()))
                await w.let_pass(2 * 3600)
                pool = w.cache.get(Pool, "p1", "default")
                assert pool is not None
                assert pool.spec.paused
                told = conditions.find(pool.status.conditions, "LosingMachines")
                assert told is not None
                assert "labfleet resume" in told.message
                assert w.cloud.calls("RunInstances") - launched <= 3, day
                lost = [each for each in w.cache.all(Worker) if each.status.phase == "FAILED"]
                assert all("UserInitiated" in str(each.status.conditions) for each in lost)
                await settings_verbs.pause_pool(w.services, ADMIN, "p1", "default", paused=False)
            w.check()

    play(story)


def serving(w: BugWorld) -> int:
    """Return how many workers are up."""
    return sum(each.status.phase == "READY" for each in w.cache.all(Worker))

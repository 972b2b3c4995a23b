"""The worker controller on bad days: EC2's noes, CML's noes, secrets, outside hands.

The numbered cases are rows of facts/fleet-bugs.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from scripted_ec2 import MACHINE_CPUS
from virtual_time import play
from worker_cases import ended, up
from world import MACHINE, World, world

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.worker_conditions import WorkerCondition


def test_a_full_zone_is_left_for_the_next_zone_and_type_with_a_new_attempt() -> None:
    """Three noes for capacity give one machine of the fourth choice, under its own token."""

    async def story() -> None:
        async with world() as w:
            w.cloud.stock = {("m1", "sub-a"): 0, ("m1", "sub-b"): 0, ("m2", "sub-a"): 0}
            await up(w)
            assert w.get_worker().status.attempt == 4
            assert w.get_worker().status.machine.type == "m2"
            assert len(w.cloud.tokens) == 1
            w.check()

    play(story)


def test_a_round_of_noes_backs_off_and_fails_nobody() -> None:
    """Without stock anywhere the worker waits, with reason and alert, in few events."""

    async def story() -> None:
        async with world() as w:
            w.cloud.stock = {(t, s): 0 for t in ("m1", "m2") for s in ("sub-a", "sub-b")}
            await w.start()
            await w.worker()
            await w.let_pass(3 * 3600)
            assert w.phase("w1") == "PROVISIONING_EC2"
            assert "no capacity: m1 in sub-a" in w.get_worker().status.message
            told = conditions.find(
                w.get_worker().status.conditions, WorkerCondition.MACHINE_LAUNCHED
            )
            assert told is not None
            assert told.status == "False"
            assert await w.events("Worker", "w1") < 500
            await ended(w)
            await w.check_empty()

    play(story)


@pytest.mark.parametrize(
    "problem", [errors.Denied("no secret"), errors.Permanent("never", reason="Odd")]
)
def test_a_launch_that_never_starts_fails_at_its_limit(problem: errors.LabfleetError) -> None:
    """One that only fails, not by the provider's trouble, ends in FAILED with its words."""

    async def story() -> None:
        async with world() as w:
            w.cloud.refusals["any"] = problem
            await w.start()
            await w.worker()
            await w.until(w.told("w1", "MachineProvisioned"))
            await w.until(w.in_phase("w1", "FAILED"), hours=1.2)
            assert problem.message in w.get_worker().status.message
            assert await w.events("Worker", "w1") < 120
            assert w.compute.machines == {}

    play(story)


def test_a_lease_too_short_for_any_call_launches_nothing_and_writes_little() -> None:
    """A launch that may never be begun ends in FAILED without a call and without a flood."""

    async def story() -> None:
        async with world() as w:
            process = await w.start()
            leader = process.leaders["worker-controller"]
            leader.remaining = lambda: 5.0  # type: ignore[method-assign]
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"), hours=1.0)
            assert w.compute.calls == []
            assert await w.events("Worker", "w1") < 120

    play(story)


def test_a_quota_is_tried_until_somebody_raises_it() -> None:
    """A quota of none delays the launch and loses nothing."""

    async def story() -> None:
        async with world() as w:
            w.cloud.quota = 0
            await w.start()
            await w.worker()
            await w.let_pass(300)
            found = conditions.find(w.get_worker().status.conditions, "MachineProvisioned")
            assert found is not None
            assert found.reason == "VcpuLimitExceeded"
            w.cloud.quota = 5 * MACHINE_CPUS
            await w.until(w.in_phase("w1", "READY"))
            w.check()

    play(story)


@pytest.mark.parametrize("wrong", ["image", "request"])
def test_an_invalid_template_fails_at_once(wrong: str) -> None:
    """What EC2 will never accept is not tried again, and its words are kept."""

    async def story() -> None:
        async with world() as w:
            if wrong == "image":
                w.cloud.refusals["DescribeImages"] = errors.Invalid("no image ami-1")
            w.cloud.refusals["RunInstances"] = errors.Invalid("the subnet does not exist")
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"), hours=0.05)
            text = "no image ami-1" if wrong == "image" else "the subnet does not exist"
            assert text in w.get_worker().status.message
            assert w.get_worker().status.effect is None

    play(story)


def test_a_template_of_another_network_launches_nothing() -> None:
    """What does not lie in the template's VPC is named, with what to do, before any machine runs."""

    async def story() -> None:
        async with world() as w:
            w.cloud.places["sub-b"] = "vpc-9"
            await w.start()
            provider = {**MACHINE["provider"], "vpcId": "vpc-1"}
            await w.worker(machine={**MACHINE, "provider": provider})
            await w.until(w.in_phase("w1", "FAILED"), hours=0.05)
            status = w.get_worker().status
            for part in ("vpcId is vpc-1", "subnet sub-b lies in vpc-9", "correct vpcId"):
                assert part in status.message
            failed = conditions.find(status.conditions, "Failed")
            assert failed is not None
            assert failed.reason == "LaunchRefused"
            assert w.cloud.calls.get("RunInstances", 0) == 0
            assert w.cloud.vms == {}

    play(story)


def test_a_launched_machine_may_be_invisible_for_a_while() -> None:
    """NotFound right after the launch is lag, not an end (T13)."""

    async def story() -> None:
        async with world() as w:
            w.compute.show_after(50.0)
            await up(w)
            assert "FAILED" not in w.phases["w1"]
            assert len(w.compute.machines) == 1

    play(story)


async def missed_by_two(w: World, shown_after: float) -> float:
    """A process whose clock runs 40 s slow misses a machine and is killed; return when the next begins."""
    w.compute.show_after(shown_after)
    w.clock.skew = -40.0
    first = await w.start()
    await w.worker()
    await w.until(lambda: w.told("w1", "absent_since=datetime")() and bool(w.compute.machines))
    first.kill()
    w.clock.skew = 0.0
    await w.start()
    return w.clock.monotonic()


def test_a_next_leader_misses_a_machine_for_a_minute_itself() -> None:
    """A slow clock's note of since when is nobody's minute: a machine that shows itself late comes up."""

    async def story() -> None:
        async with world() as w:
            begun = await missed_by_two(w, shown_after=55.0)
            [machine] = w.compute.machines.values()
            assert begun - machine.launched < 20
            await w.until(lambda: w.clock.monotonic() > machine.visible)
            assert w.phase("w1") == "PROVISIONING_EC2"
            await w.until(w.in_phase("w1", "READY"))
            assert "FAILED" not in w.phases["w1"]
            assert len(w.compute.machines) == 1
            w.check()

    play(story)


def test_what_a_next_leader_has_missed_for_a_minute_is_gone() -> None:
    """It waits a minute of its own, and then no longer."""

    async def story() -> None:
        async with world() as w:
            begun = await missed_by_two(w, shown_after=1e9)
            await w.until(w.in_phase("w1", "FAILED"), hours=0.1)
            assert 60 <= w.clock.monotonic() - begun <= 120

    play(story)


def test_a_lost_reply_with_lag_still_gives_one_machine() -> None:
    """A launch whose reply was lost is found by its tags once it can be seen (T12)."""

    async def story() -> None:
        async with world() as w:
            w.compute.show_after(40.0)
            w.strike = lambda name, _: "lost-after" if name == "launch" else None
            await up(w)
            assert len(w.compute.machines) == 1
            w.check()

    play(story)


def test_an_end_while_the_launch_is_on_its_way_leaves_no_machine() -> None:
    """Delete right after RunInstances began: the machine is found and ended (T09)."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            w.strike = lambda name, _: "hang-after" if name == "launch" else None
            await w.worker()
            await w.until(lambda: bool(w.compute.machines))
            await w.delete("Worker", "w1")
            await w.until(lambda: w.phase("w1") is None)
            await w.check_empty()

    play(story)


def test_a_token_whose_machine_has_ended_is_not_used_again() -> None:
    """A machine that ended before it was adopted gives way to one of a new attempt."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            w.compute.show_after(50.0)
            w.strike = lambda name, _: "lost-after" if name == "launch" else None
            await w.worker()
            await w.until(lambda: bool(w.compute.machines))
            w.strike = None
            w.compute.show_after(0.0)
            w.compute.end(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "READY"))
            assert w.get_worker().status.attempt == 2
            assert len(w.compute.alive()) == 1

    play(story)


def test_readiness_goes_through_its_stages() -> None:
    """Each stage of a booting server is told as the reason of CMLReady."""

    async def story() -> None:
        async with world() as w:
            reasons = []

            def note(old: Any, new: Any) -> None:
                found = conditions.find(new.status.conditions, "CMLReady")
                if found is not None and [found.reason] != reasons[-1:]:
                    reasons.append(found.reason)

            from labfleet.resources.worker import Worker

            w.cache.on_change(Worker, note)
            await up(w)
            assert reasons == ["Unreachable", "Refused", "BadGateway", "NotReady", "Ready"]

    play(story)


@pytest.mark.parametrize("how", ["missing", "wrong"])
def test_a_login_that_cannot_be_made_is_told_and_ends_at_the_limit(how: str) -> None:
    """A missing or wrong password is named while it lasts, and the worker fails with it."""

    async def story() -> None:
        async with world() as w:
            if how == "missing":
                del w.secrets.values["PASSWORD"]
            else:
                w.secrets.values["PASSWORD"] = "old"
            await w.start()
            await w.worker()
            await w.until(w.told("w1", "LoginRefused"))
            await w.until(w.in_phase("w1", "FAILED"))
            text = "PASSWORD is not set" if how == "missing" else "wrong password"
            assert text in w.get_worker().status.message
            await ended(w)
            await w.check_empty()

    play(story)


@pytest.mark.parametrize("how", ["missing", "refused"])
def test_a_bad_licence_token_fails_with_the_reason(how: str) -> None:
    """A token that is missing or refused ends in FAILED with the words, and no licence leaks."""

    async def story() -> None:
        async with world() as w:
            if how == "missing":
                del w.secrets.values["TOKEN"]
            else:
                w.hosts.refusals["register"] = errors.Invalid("the token is invalid")
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"), hours=0.2)
            text = "TOKEN is not set" if how == "missing" else "the token is invalid"
            assert text in w.get_worker().status.message
            await ended(w)
            await w.check_empty()

    play(story)


def test_a_registration_that_fails_at_the_vendor_ends_at_the_limit() -> None:
    """CML takes a token that its cloud turns down later: LICENSING ends at its limit."""

    async def story() -> None:
        async with world() as w:
            w.secrets.values["TOKEN"] = "bad"
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"))
            assert "not licensed in time" in w.get_worker().status.message
            assert w.get_worker().status.licence.leak is None
            await ended(w)
            await w.check_empty()

    play(story)


def test_a_licence_that_never_complies_times_out() -> None:
    """LICENSING has a deadline, and what was taken is given back."""

    async def story() -> None:
        async with world() as w:
            w.hosts.set(compliant=False)
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"))
            assert "not licensed in time" in w.get_worker().status.message
            await ended(w)
            await w.check_empty()

    play(story)


def test_expansion_nodes_that_are_not_granted_do_not_block() -> None:
    """With fewer nodes than wanted the worker becomes READY at the limit, asking moderately."""

    async def story() -> None:
        async with world() as w:
            w.hosts.most_granted = 30
            await up(w)
            assert w.get_worker().status.capacity.nodes == 50
            assert sum(call.startswith("register") for call in w.hosts.calls) < 130
            await ended(w)
            await w.check_empty()

    play(story)


def test_nodes_that_run_are_stopped_before_the_licence_goes_back() -> None:
    """A 400 because of somebody's running nodes stops them, and the licence is returned."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.run("w1", "serial:5041")
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"), hours=0.3)
            assert "stop " in w.hosts.calls
            assert w.get_worker().status.licence.leak is None
            w.check()
            assert w.hosts.licences_left() == []

    play(story)


def test_a_cloud_that_was_not_told_is_a_recorded_leak() -> None:
    """CML's 202 ends the worker and leaves the leak on its record."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.of("w1").licence.reachable = False
            await ended(w)
            assert "202" in (w.get_worker().status.licence.leak or "")
            assert conditions.is_true(w.get_worker().status.conditions, "LicenceLeaked")

    play(story)


def test_a_server_out_of_reach_leaks_its_licence_after_the_limit() -> None:
    """A licence that cannot be returned delays the end by its limit and is recorded."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.cut.add("w1")
            begun = w.clock.now()
            await ended(w)
            assert w.clock.now() - begun >= timedelta(seconds=600)
            assert w.get_worker().status.licence.leak
            assert w.compute.alive() == []

    play(story)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_deregistration_is_a_doubt_that_a_later_answer_takes_back(when: str) -> None:
    """A lost answer leaves Unknown on record, but not when CML returns the licence later."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            first = w.process
            w.strike = lambda name, _: f"crash-{when}" if name == "deregister" else None
            await w.desire("w1", "Terminated")
            await w.until(lambda: w.process is not first)
            w.strike = None
            await w.until(w.in_phase("w1", "TERMINATED"))
            found = conditions.find(w.get_worker().status.conditions, "LicenceLeaked")
            assert (found and found.status) == ("Unknown" if when == "after" else None)
            await w.check_empty()

    play(story)

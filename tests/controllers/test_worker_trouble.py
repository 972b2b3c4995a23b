"""The worker controller on bad days: EC2's noes, CML's noes, secrets, outside hands.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scripted_ec2 import MACHINE_CPUS
from virtual_time import play
from world import ADMIN, MACHINE, World, world

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.meta import Key
from labfleet.service.verbs import lifecycle as verbs


def machine(**parts: Any) -> dict[str, Any]:
    """Return the machine block with parts changed, one level deep."""
    return {
        **MACHINE,
        **{name: {**MACHINE.get(name, {}), **given} for name, given in parts.items()},
    }


async def up(w: World, **spec: Any) -> None:
    await w.start()
    await w.worker(**spec)
    await w.until(w.in_phase("w1", "READY"))


async def ended(w: World) -> None:
    await w.desire("w1", "Terminated")
    await w.until(w.in_phase("w1", "TERMINATED"))


# --- launching ---------------------------------------------------------------------------


def test_a_full_zone_is_left_for_the_next_zone_and_type_with_a_new_attempt() -> None:
    """Three noes for capacity give one machine of the fourth choice, under its own token."""

    async def story() -> None:
        async with world() as w:
            w.cloud.stock = {("m1", "sub-a"): 0, ("m1", "sub-b"): 0, ("m2", "sub-a"): 0}
            await up(w)
            assert w.get_worker().status.attempt == 4
            assert w.get_worker().status.ec2.instance_type == "m2"
            assert len(w.cloud.tokens) == 1
            w.check()

    play(story)


def test_a_round_of_noes_backs_off_and_ends_at_the_limit() -> None:
    """Without stock anywhere the worker fails in its limit, with the reason, in few events."""

    async def story() -> None:
        async with world() as w:
            w.cloud.stock = {(t, s): 0 for t in ("m1", "m2") for s in ("sub-a", "sub-b")}
            await w.start()
            await w.worker()
            begun = w.clock.now()
            await w.until(w.in_phase("w1", "FAILED"))
            assert w.clock.now() - begun < timedelta(seconds=1800 + 130)
            assert "no capacity: m1 in sub-a" in w.get_worker().status.message
            assert await w.events("Worker", "w1") < 500
            await ended(w)
            await w.check_empty()

    play(story)


@pytest.mark.parametrize(
    "problem",
    [errors.Throttled("slow down"), errors.Denied("bad key"), errors.Temporary("trouble")],
)
def test_a_launch_that_never_starts_fails_at_its_limit(problem: errors.LabfleetError) -> None:
    """EC2 that only fails ends in FAILED with its words, in a bounded number of events."""

    async def story() -> None:
        async with world() as w:
            w.cloud.refusals["any"] = problem
            await w.start()
            await w.worker()
            await w.until(w.told("w1", "EC2Provisioned"))
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
            found = conditions.find(w.get_worker().status.conditions, "EC2Provisioned")
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


def test_a_launched_machine_may_be_invisible_for_a_while() -> None:
    """NotFound right after the launch is lag, not an end (T13)."""

    async def story() -> None:
        async with world() as w:
            w.compute.show_after(50.0)
            await up(w)
            assert "FAILED" not in w.phases["w1"]
            assert len(w.compute.machines) == 1

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


# --- the server comes up -----------------------------------------------------------------


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


@pytest.mark.parametrize("how", ["missing", "wrong"])
def test_a_bad_licence_token_fails_with_the_reason(how: str) -> None:
    """A token that is missing or refused ends in FAILED with the words, and no licence leaks."""

    async def story() -> None:
        async with world() as w:
            if how == "missing":
                del w.secrets.values["TOKEN"]
            else:
                w.secrets.values["TOKEN"] = "bad"
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"), hours=0.2)
            text = "TOKEN is not set" if how == "missing" else "the token is invalid"
            assert text in w.get_worker().status.message
            await ended(w)
            await w.check_empty()

    play(story)


def test_a_licence_that_never_complies_times_out() -> None:
    """LICENSING has a deadline, and what was taken is given back."""

    async def story() -> None:
        async with world() as w:
            w.hosts.never_compliant = True
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
            w.hosts.extra_limit = 30
            await up(w)
            assert w.get_worker().status.capacity.nodes == 50
            assert sum(call.startswith("register") for call in w.hosts.calls) < 130
            await ended(w)
            await w.check_empty()

    play(story)


# --- going down --------------------------------------------------------------------------


def test_nodes_that_run_are_stopped_before_the_licence_goes_back() -> None:
    """A 400 because of somebody's running nodes stops them, and the licence is returned."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            for node in w.hosts.edit("w1", "serial:5041").nodes:
                node.up_at = w.hosts.now
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
            w.hosts.cloud_told = False
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


@pytest.mark.parametrize("desired", ["Stopped", "Terminated"])
@pytest.mark.parametrize(
    "phase",
    ["PROVISIONING_EC2", "EC2_READY", "STARTING", "LICENSING", "READY", "ACTIVE", "DRAINING",
     "UNLICENSING", "STOPPING", "STOPPED", "FAILED", "READY_UNLICENSED"],
)  # fmt: skip
def test_each_desire_is_reached_from_each_live_phase(phase: str, desired: str) -> None:
    """Whatever a worker is doing, asking for its stop or end leads there and leaves nothing."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            if phase == "READY_UNLICENSED":
                await w.worker(machine={**MACHINE, "autoLicense": False})
            elif phase in {"UNLICENSING", "STOPPING"}:
                await w.worker(machine=machine(licence={"onStop": "return"}))
            else:
                await w.worker()
            await reach(w, phase)
            await w.desire("w1", desired)
            await w.until(w.in_phase("w1", desired.upper()))
            if desired == "Stopped":
                assert [each.state for each in w.compute.alive()] == ["stopped"]
                await ended(w)
            await w.check_empty()

    play(story)


async def reach(w: World, phase: str) -> None:
    """Bring w1 into a phase."""
    if phase == "FAILED":
        w.secrets.values["TOKEN"] = "bad"
    elif phase in {"ACTIVE", "DRAINING"}:
        await w.definition()
        await w.session()
        await w.until(w.in_phase("w1", "ACTIVE"))
        if phase == "DRAINING":
            await verbs.drain(w.parts, ADMIN, "w1", "default")
    elif phase in {"UNLICENSING", "STOPPING", "STOPPED"}:
        await w.until(w.in_phase("w1", "READY"))
        await w.desire("w1", "Stopped")
    await w.until(w.in_phase("w1", phase))
    w.secrets.values["TOKEN"] = "good"


# --- drain and outside hands -------------------------------------------------------------


def test_a_drain_waits_for_the_session_and_is_then_done() -> None:
    """Drained is False while a session runs and True after its end, never before (T18)."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "DRAINING"))
            await w.until(
                lambda: not conditions.is_true(w.get_worker().status.conditions, "Drained")
            )
            await w.until(w.in_phase("w1", "UNLICENSING", "STOPPING", "TERMINATING_EC2"))
            assert w.phase("s1") == "COMPLETED"
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.check_empty()

    play(story)


def test_a_drain_that_is_taken_back_opens_the_worker_again() -> None:
    """After a cancelled drain new sessions are placed here."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await verbs.drain(w.parts, ADMIN, "w1", "default")
            await w.until(w.in_phase("w1", "DRAINING"))
            await verbs.cancel_drain(w.parts, ADMIN, "w1", "default")
            await w.until(w.in_phase("w1", "READY"))
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            w.check()

    play(story)


@pytest.mark.parametrize("force", [True, False])
def test_only_a_forced_drain_ends_sessions_at_its_deadline(force: bool) -> None:
    """At the deadline a forced drain ends what runs; another one only says that it is late."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition(defaultDurationMinutes=120)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            deadline = w.clock.now() + timedelta(minutes=5)
            await verbs.drain(w.parts, ADMIN, "w1", "default", deadline=deadline, force=force)
            await w.let_pass(240)
            assert w.phase("s1") == "RUNNING"
            await w.let_pass(300)
            if force:
                assert w.phase("s1") == "FAILED"
                assert w.get_session().status.reason == "Drained"
                assert w.hosts.labs_left() == []
            else:
                assert w.phase("s1") == "RUNNING"
                found = conditions.find(w.get_worker().status.conditions, "Drained")
                assert found is not None
                assert found.reason == "Late"
            w.check()

    play(story)


def test_a_machine_stopped_from_outside_is_started_again() -> None:
    """An outside stop fails the worker, which then starts its machine and is READY again."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.compute.stop_outside(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "FAILED"))
            await w.until(w.in_phase("w1", "READY"))
            assert len(w.compute.machines) == 1
            await ended(w)
            await w.check_empty()

    play(story)


def test_a_machine_ended_from_outside_is_recorded_with_its_licence_leak() -> None:
    """An outside end fails the worker with EC2's reason; its end needs no machine."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.compute.end(w.compute.alive("w1")[0])
            await w.until(w.in_phase("w1", "FAILED"))
            assert "SpotInstanceTermination" in w.get_worker().status.message
            assert w.get_worker().status.licence.leak
            await ended(w)
            w.check()

    play(story)


def test_an_unreachable_region_ends_nothing() -> None:
    """An hour without EC2's answer changes no phase: an error is not an absence (T37)."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.cloud.refusals["any"] = errors.Temporary("503")
            await w.let_pass(3600)
            assert w.phase("w1") == "READY"
            w.cloud.refusals.clear()
            await w.let_pass(120)
            assert w.phases["w1"][-1] == "READY"

    play(story)


def test_a_gone_machine_in_an_action_is_looked_into_at_once() -> None:
    """NotFound for a stop is not a reason to wait for the next resync."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPING"))
            w.compute.machines.clear()
            begun = w.clock.now()
            await w.until(w.in_phase("w1", "FAILED"))
            assert w.clock.now() - begun < timedelta(seconds=120)
            assert msgspec.to_builtins(w.get_worker().status)["effect"] is None

    play(story)


def test_a_stop_that_people_asked_for_is_looked_at_once_more() -> None:
    """What runs there is no session's: the stop is made, and its event says so (I9)."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            lab = w.hosts.edit("w1")
            lab.nodes[0].up_at = w.clock.monotonic()
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            told = await w.store.events_of(Key("Worker", "default", "w1"))
            assert any("nodes ran that are no session's" in each.reason for each in told)

    play(story)


def test_a_silent_server_does_not_hold_up_a_stop_that_people_asked_for() -> None:
    """The last look has a deadline of its own within that of the call."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            w.hosts.cut.add("w1")
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))

    play(story)

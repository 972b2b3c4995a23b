"""What launches and starts do when EC2 says no: shared memory, limits, tokens, new addresses.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta

from scripted_ec2 import MACHINE_CPUS, NO_ROOM
from virtual_time import play
from world import World, world

from labfleet.interfaces.compute import Instance, LaunchRequest
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources import conditions
from labfleet.resources.pool import Pool


async def up(w: World) -> None:
    """Start the fleet and wait until its worker is ready."""
    await w.start()
    await w.worker()
    await w.until(w.in_phase("w1", "READY"))


def test_a_full_fleet_of_workers_asks_each_place_once_in_a_while() -> None:
    """Eight workers without stock anywhere share what they learned: few calls, all told why."""

    async def story() -> None:
        async with world() as w:
            w.cloud.stock = {(t, s): 0 for t in ("m1", "m2") for s in ("sub-a", "sub-b")}
            await w.start()
            for number in range(8):
                await w.worker(f"w{number}")
            await w.let_pass(170)
            launches = [each for each in w.compute.calls if each.startswith("launch")]
            assert len(launches) <= 4 * 2
            for number in range(8):
                found = conditions.find(
                    w.get_worker(f"w{number}").status.conditions, "MachineProvisioned"
                )
                assert found is not None
                assert found.reason == "OutOfCapacity"
                assert "asked again at" in found.message

    play(story)


def test_a_limit_stops_all_workers_of_a_template_with_one_question() -> None:
    """Of eight workers few ask in four minutes, and each says that it is the account's limit."""

    async def story() -> None:
        async with world() as w:
            w.cloud.quota = 0
            await w.start()
            for number in range(8):
                await w.worker(f"w{number}")
            await w.let_pass(240)
            launches = [each for each in w.compute.calls if each.startswith("launch")]
            assert len(launches) <= 4
            told = [
                conditions.find(w.get_worker(f"w{number}").status.conditions, "MachineProvisioned")
                for number in range(8)
            ]
            assert all(each is not None and each.reason == "VcpuLimitExceeded" for each in told)

    play(story)


def test_a_start_without_room_waits_for_its_own_machine() -> None:
    """Refused starts are told and backed off; nothing else is launched, nobody else is held."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            w.cloud.refusals["StartInstances"] = NO_ROOM
            before = list(w.compute.machines)
            await w.desire("w1", "Ready")
            await w.let_pass(1700)
            starts = [each for each in w.compute.calls if each.startswith("start")]
            assert 3 <= len(starts) <= 7
            found = conditions.find(w.get_worker().status.conditions, "MachineStarted")
            assert found is not None
            assert (found.status, found.reason) == ("False", "OutOfCapacity")
            assert "asked again at" in found.message
            assert w.get_worker().status.phase != "FAILED"
            await w.worker("w2")
            await w.until(w.in_phase("w2", "READY"))
            w.cloud.refusals.clear()
            await w.until(w.in_phase("w1", "READY"), hours=1.0)
            assert list(w.compute.machines)[: len(before)] == before
            assert w.get_worker().status.machine.id == before[0]
            assert conditions.find(w.get_worker().status.conditions, "MachineStarted") is None
            w.check()

    play(story)


def test_every_start_gives_a_new_address_and_a_new_trust() -> None:
    """After stop and start nothing of the old boot is used: address, certificate, login (case 32)."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            before = w.get_worker().status
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().status.machine.public_address is None
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            after = w.get_worker().status
            assert after.machine.id == before.machine.id
            assert after.machine.public_address not in {None, before.machine.public_address}
            assert after.cml.url == f"https://{after.machine.public_address}:443"
            assert after.cml.boot not in {None, before.cml.boot}
            assert str(after.machine.launched) in str(after.cml.boot)
            w.check()

    play(story)


def test_a_virtual_machine_without_nesting_takes_no_labs_and_says_why() -> None:
    """CML without KVM is closed for sessions, with the reason on the worker."""

    async def story() -> None:
        async with world() as w:
            w.hosts.set(kvm=False)
            await up(w)
            found = conditions.find(w.get_worker().status.conditions, "AcceptingLabs")
            assert found is not None
            assert found.status == "False"
            assert "no compute has KVM" in found.message
            await w.definition()
            await w.session()
            await w.let_pass(300)
            assert w.get_session().status.worker is None
            decision = w.get_session().status.decision
            assert decision is not None
            assert "KvmMissing" in decision.rejected_by_reason

    play(story)


def test_a_pool_says_what_its_workers_wait_for() -> None:
    """The account's limit stands in the pool's message, not only on its workers."""

    async def story() -> None:
        async with world() as w:
            w.cloud.quota = 0
            await w.start()
            await w.pool(scaling={"policy": "NEED_BASED", "minWorkers": 2, "maxWorkers": 2})
            await w.services.fresh()
            await w.until(lambda: "2 without a machine" in w.cache.all(Pool)[0].status.message)
            assert "an account limit in" in w.cache.all(Pool)[0].status.message
            w.cloud.quota = 100 * MACHINE_CPUS
            await w.until(lambda: w.cache.all(Pool)[0].status.ready == 2)
            await w.until(lambda: "machine" not in w.cache.all(Pool)[0].status.message)

    play(story)


def test_a_token_bound_to_another_request_is_looked_up_and_then_left() -> None:
    """A mismatch for ever ends in a new token after ten minutes without its machine (case 4)."""

    async def story() -> None:
        async with world() as w:
            real, bound = w.compute.launch, []

            async def launch(request: LaunchRequest) -> Instance:
                if request.attempt == 1:
                    bound.append(w.clock.now())
                    raise errors.Conflict("bound", reason="IdempotentParameterMismatch")
                return await real(request)

            w.compute.launch = launch  # type: ignore[method-assign]
            await up(w)
            assert w.get_worker().status.attempt == 2
            assert len(bound) == 1
            assert len(w.compute.machines) == 1
            machine = next(iter(w.compute.machines.values()))
            made = timedelta(seconds=machine.launched)
            assert EPOCH + made - bound[0] >= timedelta(minutes=10)
            w.check()

    play(story)


def test_a_place_that_others_found_full_is_not_insisted_on() -> None:
    """A throttled launch goes elsewhere with a token of its own when its place turned out full."""

    async def story() -> None:
        async with world() as w:
            real, calls = w.compute.launch, []

            async def launch(request: LaunchRequest) -> Instance:
                calls.append((request.worker, request.choice.get("subnet"), request.token))
                if request.worker == "w1" and len([c for c in calls if c[0] == "w1"]) == 1:
                    raise errors.Throttled("slow down", retry_after=20.0)
                return await real(request)

            w.compute.launch = launch  # type: ignore[method-assign]
            w.cloud.stock = {("m1", "sub-a"): 0}
            await w.start()
            await w.worker("w1")
            await w.until(lambda: bool(calls))
            await w.worker("w2")
            await w.until(lambda: w.in_phase("w1", "READY")() and w.in_phase("w2", "READY")())
            mine = [each for each in calls if each[0] == "w1"]
            assert [each[1] for each in mine] == ["sub-a", "sub-b"]
            assert mine[0][2] != mine[1][2]
            w.check()

    play(story)


def test_a_machine_launched_after_23_minutes_of_no_capacity_has_its_whole_boot() -> None:
    """Its time counts from its launch, over a kill too; meanwhile an alert says what is missing."""

    async def story() -> None:
        async with world() as w:
            w.cloud.stock = {(t, s): 0 for t in ("m1", "m2") for s in ("sub-a", "sub-b")}
            w.cloud.launch_range = (480.0, 480.0)
            process = await w.start()
            await w.worker()
            await w.let_pass(1380)
            told = conditions.find(w.get_worker().status.conditions, "MachineLaunched")
            assert told is not None
            assert (told.status, told.reason) == ("False", "OutOfCapacity")
            assert conditions.find(w.get_worker().status.conditions, "PhaseStuck") is None
            w.cloud.stock.clear()
            await w.until(lambda: w.get_worker().status.machine.id is not None)
            begun = w.get_worker().status.limit
            assert begun is not None
            process.kill()
            await w.start()
            await w.let_pass(120)
            assert w.get_worker().status.limit == begun
            await w.until(w.in_phase("w1", "READY"))
            assert len(w.compute.machines) == 1
            w.check()

    play(story)

"""What is left over, and what is refused: numbers 39, 40, 42 and 45 of facts/aws-bugs.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bug_world import INSTALLATION, BugWorld, bugs
from virtual_time import play

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.kinds import encode
from labfleet.resources.leak import Leak
from labfleet.resources.region import Region
from labfleet.resources.worker import Worker

CHARSET = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=,.@:_-")


async def up(w: BugWorld, name: str = "w1", **spec: Any) -> str:
    """Bring a worker up and return its instance's id."""
    if w.process is None:
        await w.start()
    await w.worker(name, **spec)
    await w.until(w.in_phase(name, "READY"))
    return str(w.get_worker(name).status.machine.id)


# --- 39: licences ------------------------------------------------------------------------


def _lab(w: BugWorld) -> None:
    w.hosts.run("w1")


def _fails(w: BugWorld) -> None:
    w.hosts.fail("deregister")


def _silent(w: BugWorld) -> None:
    w.hosts.cut.add("w1")


def _heal(w: BugWorld) -> None:
    w.hosts.fail()
    w.hosts.cut.clear()


REFUSED: dict[str, Callable[[BugWorld], None]] = {
    "nodes run (400)": _lab,
    "it answers 500": _fails,
    "nothing answers": _silent,
}


async def struck(w: BugWorld, strike: Callable[[], None]) -> None:
    """Wait for the moment in which its licence is to be returned, and strike in it."""
    done: list[str] = []

    def changed(_: Worker | None, new: Worker | None) -> None:
        if new is not None and new.status.phase == "UNLICENSING" and not done:
            done.append(new.name)
            strike()

    w.cache.on_change(Worker, changed)  # type: ignore[arg-type]
    await w.until(lambda: bool(done))


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("way", ["desired", "deleted", "stopped before"])
def test_39_a_licence_goes_back_before_its_machine_does(way: str, why: str) -> None:
    """Number 39: on every way to the end, whatever stands in it for some minutes."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            if way == "stopped before":
                await w.desire("w1", "Stopped")
                await w.until(w.in_phase("w1", "STOPPED"))
            if way == "deleted":
                await w.delete("Worker", "w1")
            else:
                await w.desire("w1", "Terminated")
            if way == "stopped before":
                await struck(w, lambda: REFUSED[why](w))
            else:
                REFUSED[why](w)
            await w.let_pass(300)
            assert [each["id"] for each in w.cloud.instances()] == [kept] or why.startswith("nodes")
            _heal(w)
            await w.until(lambda: w.phase("w1") in {None, "TERMINATED"})
            assert w.hosts.licences_left() == []
            assert not w.cache.all(Leak)
            w.check()

    play(story)


@pytest.mark.parametrize("why", ["it answers 500", "nothing answers"])
def test_39_a_licence_that_cannot_go_back_is_a_leak_on_record(why: str) -> None:
    """Number 39: after its limit the machine ends, and an object and an alert stay behind."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            REFUSED[why](w)
            await w.desire("w1", "Terminated")
            await w.let_pass(500)
            assert len(w.cloud.instances()) == 1
            await w.until(w.in_phase("w1", "TERMINATED"))
            assert conditions.is_true(w.get_worker().status.conditions, "LicenceLeaked")
            await w.delete("Worker", "w1")
            await w.until(lambda: w.phase("w1") is None)
            [leak] = w.cache.all(Leak)
            assert (leak.spec.worker, leak.spec.instance_id) == ("w1", kept)
            assert leak.spec.certain
            w.check()

    play(story)


# --- 40: tags ----------------------------------------------------------------------------


def launch_tags(w: BugWorld) -> dict[str, str]:
    """Return the tags that the last launch asked for on its instance."""
    form = w.witness.launches[-1]
    first = "TagSpecification.1.Tag."
    keys = {name: value for name, value in form.items() if name.startswith(first)}
    found = {}
    for name, key in keys.items():
        if name.endswith(".Key"):
            found[key] = form[name.removesuffix("Key") + "Value"]
    return found


def test_40_our_own_tags_are_few_and_of_the_charset_that_metadata_takes() -> None:
    """Number 40: at most ten keys of letters, digits and +=,.@:_- and the metadata tags off."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await w.pool(scaling={"minWorkers": 1, "maxWorkers": 1})
            await w.until(lambda: any(each.status.phase == "READY" for each in w.cache.all(Worker)))
            tags = launch_tags(w)
            assert 0 < len(tags) <= 10
            for key, value in tags.items():
                assert set(key) <= CHARSET
                assert set(value) <= CHARSET
            form = w.witness.launches[-1]
            assert form["MetadataOptions.InstanceMetadataTags"] == "disabled"
            w.check()

    play(story)


def test_40_a_key_with_a_slash_launches_though_metadata_tags_are_the_account_s_default() -> None:
    """Number 40: it is said with the launch that metadata shows no tags."""

    async def story() -> None:
        async with bugs() as w:
            await up(w, machine=w.machine(tags={"team/blue": "a/b"}))
            [found] = w.cloud.instances("w1")
            assert found["tags"]["team/blue"] == "a/b"
            form = w.witness.launches[-1]
            assert form["MetadataOptions.InstanceMetadataTags"] == "disabled"
            w.check()

    play(story)


def test_40_tags_that_no_instance_can_hold_are_refused_where_they_are_written() -> None:
    """Number 40: 45 tags are said to be too many at once, and nothing is launched."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            many = {f"key{each}": "x" for each in range(45)}
            for wrong in ({"machine": w.machine(tags=many)}, {"tags": many}):
                with pytest.raises(errors.Invalid) as told:
                    await w.worker("w1", **wrong)
                assert "tags" in str(told.value.problems)
            assert w.cloud.calls("RunInstances") == 0
            w.check()

    play(story)


def test_40_a_worker_with_more_tags_than_ec2_takes_serves_and_says_so() -> None:
    """Number 40: 30 of the template and 30 of the worker: TagLimitExceeded is told, no more."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            machine = w.machine(tags={f"template{each}": "x" for each in range(30)})
            await w.worker("w1", machine=machine, tags={f"own{each}": "x" for each in range(30)})
            await w.until(w.in_phase("w1", "READY"))
            await w.let_pass(3600)
            fact = conditions.find(w.get_worker().status.conditions, "TagsApplied")
            assert fact is not None
            assert (fact.status, fact.reason) == ("False", "Refused")
            assert "TagLimitExceeded" in fact.message
            assert w.phase("w1") == "READY"
            assert w.cloud.calls("CreateTags") <= 6
            [found] = w.cloud.instances("w1")
            assert found["tags"]["labfleet:owner"] == INSTALLATION
            w.check()

    play(story)


# --- 42: a record that cannot be read ----------------------------------------------------


async def write(w: BugWorld, worker: Worker, doc: bytes) -> None:
    """Put these bytes where a worker's record is."""
    put = stores.Put(worker.key, worker.metadata.uid, doc)
    await w.store.commit(stores.Commit(stores.Cause("somebody", w.clock.now()), (put,)))


@pytest.mark.parametrize("restart", [False, True])
def test_42_a_record_that_cannot_be_read_stops_nobody_else(restart: bool) -> None:
    """Number 42: others go on; nothing is swept meanwhile, since it may own what looks lost."""

    async def story() -> None:
        async with bugs() as w:
            kept = await up(w)
            good = w.get_worker()
            await write(w, good, b'{"kind": "Worker", "spec": {"desired": "Perhaps"}}')
            if restart:
                await w.start()
            await up(w, "w2")
            await w.definition()
            await w.session()
            await w.until(w.ended)
            assert w.get_session().status.phase == "COMPLETED"
            [first] = w.cloud.instances("w1")
            w.cloud.stray({**first["tags"], "labfleet:worker-uid": "lost", "labfleet:worker": "x"})
            await w.let_pass(3600)
            region = w.cache.get(Region, "us-east-1", "default")
            assert region is not None
            assert "w1 cannot be read" in region.status.suspects[0].next
            assert kept in {each["id"] for each in w.cloud.instances()}
            assert w.cloud.calls("TerminateInstances") == w.cloud.calls("StopInstances") == 0
            assert len(w.witness.launches) == 2
            await write(w, good, encode(good))
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            await w.until(lambda: not w.cloud.instances("x"))
            assert kept in {each["id"] for each in w.cloud.instances()}
            w.check()

    play(story)


# --- 45: volumes and addresses -----------------------------------------------------------


def volumes(w: BugWorld) -> set[str]:
    """Return the volumes that there are."""
    w.cloud.sky.settle()
    return {each["id"] for each in w.cloud.ask("GET", "state")["volumes"]}


def test_45_a_volume_ends_with_its_machine() -> None:
    """Number 45: it is said with the launch, also for a machine that somebody else ended."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            other = await up(w, "w2")
            for form in w.witness.launches:
                assert form["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] == "true"
                assert form["NetworkInterface.1.DeleteOnTermination"] == "true"
            assert len(volumes(w)) == 2
            await w.desire("w1", "Terminated")
            w.cloud.hand("terminate", other)
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.let_pass(600)
            assert volumes(w) == set()
            w.check()

    play(story)


def test_45_volumes_and_addresses_of_ours_that_are_left_are_swept() -> None:
    """Number 45: after the grace, by the owner tag, and nothing of others or that is kept."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            console = w.cloud.console()
            zone = w.cloud.ready["subnets"][0]["zone"]

            def tagged(kind: str, **tags: str) -> list[dict[str, Any]]:
                rows = [{"Key": key, "Value": value} for key, value in tags.items()]
                return [{"ResourceType": kind, "Tags": rows}]

            def volume(**tags: str) -> str:
                told = tagged("volume", **tags)
                made = console.create_volume(AvailabilityZone=zone, Size=8, TagSpecifications=told)
                return str(made["VolumeId"])

            owner = {"labfleet:owner": INSTALLATION}
            left, kept = volume(**owner), volume(**owner, keep="yes")
            theirs, nobodys = volume(**{"labfleet:owner": "others"}), volume(name="x")
            told = tagged("elastic-ip", **owner)
            address = console.allocate_address(TagSpecifications=told)["AllocationId"]
            await w.let_pass(200)
            assert {left, kept, theirs, nobodys} <= volumes(w)
            await w.until(lambda: left not in volumes(w), hours=1)
            await w.let_pass(3600)
            assert {kept, theirs, nobodys} <= volumes(w)
            addresses = w.cloud.ask("GET", "state")["addresses"]
            assert address not in {each["id"] for each in addresses}
            w.check(kept=[kept])

    play(story)

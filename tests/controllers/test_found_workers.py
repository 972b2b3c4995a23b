"""Workers that others launched: found, observed, adopted, external, and left alone.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

from typing import Any

import pytest
from scripted_ec2 import FakeInstance
from virtual_time import play
from world import ADMIN, MACHINE, World, world

from labfleet.interfaces.compute import Image
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.kinds import KINDS
from labfleet.resources.region import Region
from labfleet.resources.worker import FINALIZER_MACHINE, Worker
from labfleet.service.verbs import adoption, objects

REGION = "us-east-1"
ACTS = ("launch", "start", "stop", "terminate", "register", "deregister", "claim")


async def looking(w: World, *, regions: tuple[str, ...] = (REGION,)) -> None:
    """Start with discovery on: images CML-*, logins of the template `metal`."""
    await w.make("Template", "metal", {"machine": MACHINE})
    wanted = {"enabled": True, "template": "metal", "regions": list(regions)}
    await w.make("Settings", "fleet", {"discovery": wanted})
    w.cloud.images = [Image("ami-cml", "CML-2.9", None)]
    await w.start()


def get(w: World, name: str) -> Worker:
    found = w.cache.get(Worker, name, "default")
    assert found is not None
    return found


def fact(w: World, name: str, kind: str) -> tuple[str, str]:
    found = conditions.find(get(w, name).status.conditions, kind)
    assert found is not None
    return found.status, found.reason


def acts(w: World) -> list[str]:
    return [each for each in w.compute.calls if each.split()[0] in ACTS]


async def by_hand(w: World, **tags: str) -> FakeInstance:
    return w.cloud.foreign("ami-cml", tags=tags)


def test_a_found_instance_is_observed_and_nothing_is_done_to_it() -> None:
    """It becomes a worker that follows EC2 and CML, takes no session and is never acted on."""

    async def story() -> None:
        async with world() as w:
            await looking(w)
            made = await by_hand(w, Name="lab-1")
            await w.until(lambda: w.phase("lab-1") == "READY_UNLICENSED")
            worker = get(w, "lab-1")
            assert worker.status.capacity is not None
            assert worker.status.cml.ready
            assert fact(w, "lab-1", "Adopted") == ("False", "NotAdopted")
            await w.definition()
            await w.session()
            await w.let_pass(600)
            assert w.phase("s1") == "PENDING"
            w.compute.stop_outside(made)
            await w.until(lambda: w.phase("lab-1") == "STOPPED")
            await w.let_pass(600)
            assert w.phase("lab-1") == "STOPPED"
            await objects.delete(w.services, ADMIN, KINDS["Worker"], "lab-1", "default")
            await w.let_pass(900)
            assert w.phase("lab-1") is None
            assert acts(w) == []
            assert made.state == "stopped"

    play(story)


def test_a_deregistered_image_loses_nobody_and_its_later_machines_are_found() -> None:
    """Rule 3: ids once matched are remembered, so that DescribeImages may forget them."""

    async def story() -> None:
        async with world() as w:
            await looking(w)
            await by_hand(w, Name="lab-1")
            await w.until(lambda: w.phase("lab-1") == "READY_UNLICENSED")
            w.cloud.images = []
            await by_hand(w, Name="lab-2")
            await w.until(lambda: w.phase("lab-2") == "READY_UNLICENSED")
            assert w.phase("lab-1") == "READY_UNLICENSED"

    play(story)


def test_a_region_that_fails_stops_no_other_and_is_told() -> None:
    """Each region has its own last error and condition."""

    async def story() -> None:
        async with world() as w:
            await looking(w, regions=("eu-west-1", REGION))
            real = w.compute.images

            async def images(region: str, pattern: str, owners: tuple[str, ...]) -> Any:
                if region == "eu-west-1":
                    raise errors.Denied("AuthFailure", reason="AuthFailure")
                return await real(region, pattern, owners)

            w.compute.images = images  # type: ignore[method-assign]
            await by_hand(w, Name="lab-1")
            await w.until(lambda: w.phase("lab-1") is not None)
            await w.let_pass(300)
            failed = w.cache.get(Region, "eu-west-1", "default")
            assert failed is not None
            assert "AuthFailure" in failed.status.scan.last_error
            assert not conditions.is_true(failed.status.conditions, "Scanned")
            fine = w.cache.get(Region, REGION, "default")
            assert fine is not None
            assert (fine.status.scan.last_error, fine.status.scan.imported) == ("", 1)

    play(story)


def test_another_installations_machines_are_reported_and_left_alone() -> None:
    """Case 46: an owner tag keeps an instance out, whoever's it is."""

    async def story() -> None:
        async with world() as w:
            await looking(w)
            theirs = await by_hand(w, **{"labfleet:owner": "them"})
            await w.let_pass(1200)
            assert not w.cache.all(Worker)
            told = w.cache.get(Region, REGION, "default")
            assert told is not None
            assert told.status.scan.foreign_ids == (theirs.id,)
            assert theirs.state == "running"

    play(story)


@pytest.mark.parametrize("strike", [None, "crash-before", "crash-after", "lost-after"])
def test_adopting_claims_once_and_then_it_is_ours(strike: str | None) -> None:
    """The intent comes first; after a crash anywhere it is claimed, licensed and hosts."""

    async def story() -> None:
        async with world() as w:
            await looking(w)
            made = await by_hand(w, Name="lab-1")
            await w.until(lambda: w.phase("lab-1") == "READY_UNLICENSED")
            struck: list[str] = []

            def once(name: str, _: int) -> str | None:
                if name == "claim" and not struck:
                    struck.append(name)
                    return strike
                return None

            w.strike = once
            await adoption.adopt(w.services, ADMIN, "lab-1", "default")
            await w.until(lambda: w.phase("lab-1") == "READY")
            assert fact(w, "lab-1", "Adopted") == ("True", "Claimed")
            assert made.tags["labfleet:owner"] == "inst"
            assert FINALIZER_MACHINE in get(w, "lab-1").metadata.finalizers
            await w.definition()
            await w.session()
            await w.until(w.ended)
            await w.desire("lab-1", "Terminated")
            await w.until(lambda: w.phase("lab-1") == "TERMINATED")
            assert made.state == "gone"

    play(story)


def test_a_claim_that_another_owner_refuses_is_told_and_not_hammered() -> None:
    """The worker stays observed; nothing is stopped or ended; adopting again asks once more."""

    async def story() -> None:
        async with world() as w:
            await looking(w)
            made = await by_hand(w, Name="lab-1")
            await w.until(lambda: w.phase("lab-1") == "READY_UNLICENSED")
            made.tags["labfleet:owner"] = "them"
            asked: list[str] = []
            real = w.compute.claim

            async def claim(region: str, instance_id: str, worker: str, worker_uid: str) -> None:
                asked.append(instance_id)
                await real(region, instance_id, worker, worker_uid)

            w.compute.claim = claim  # type: ignore[method-assign]
            await adoption.adopt(w.services, ADMIN, "lab-1", "default")
            await w.let_pass(1800)
            assert fact(w, "lab-1", "Adopted") == ("False", "OwnedByAnother")
            assert len(asked) == 1
            assert get(w, "lab-1").metadata.finalizers == ()
            await adoption.adopt(w.services, ADMIN, "lab-1", "default")
            await w.let_pass(300)
            assert len(asked) == 2
            assert acts(w) == []

    play(story)


def test_an_observed_instance_that_vanishes_needs_two_looks() -> None:
    """Absence has its patience, and the record then ends without any act."""

    async def story() -> None:
        async with world() as w:
            await looking(w)
            made = await by_hand(w, Name="lab-1")
            await w.until(lambda: w.phase("lab-1") == "READY_UNLICENSED")
            del w.compute.machines[made.id]
            w.cloud.cml_servers.destroy(made.server_id)
            gone_at = w.compute.now
            await w.until(lambda: w.phase("lab-1") == "TERMINATED")
            assert w.compute.now - gone_at >= 60
            assert acts(w) == []

    play(story)


def test_an_external_server_hosts_drains_and_is_let_go() -> None:
    """No EC2 at all: sessions run there; its end returns the licence that we registered."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            other = await by_hand(w)
            await w.let_pass(1000)
            url = f"https://{other.public_ip}"
            await w.make("Template", "metal", {"machine": MACHINE})
            made = await adoption.adopt_server(
                w.services, ADMIN, url, template="metal", name="lab-9", namespace="default"
            )
            assert made.status.machine.id is None
            await w.until(lambda: w.phase("lab-9") == "READY")
            await w.definition()
            await w.session()
            await w.until(w.ended)
            # Its ports answered at its address: there is no instance that has one.
            assert w.phase("s1") == "COMPLETED"
            await w.desire("lab-9", "Terminated")
            await w.until(lambda: w.phase("lab-9") == "TERMINATED")
            worker = get(w, "lab-9")
            assert worker.status.licence.leak is None
            assert conditions.find(worker.status.conditions, "Licensed").reason == "Returned"  # type: ignore[union-attr]
            assert acts(w) == []
            assert other.state == "running"

    play(story)

"""Attacks on what makes workers: addresses, regions, origins, and patches around the verbs."""

from __future__ import annotations

import pytest
from fleet_world import ADMIN, MACHINE, world

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import SecretRef
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import adoption, objects

WORKER = KINDS["Worker"]


@pytest.mark.parametrize(
    "again",
    [
        "https://CML.example.org", "https://cml.example.org:443/", "https://cml.example.org/api/v0",
        "https://cml.example.org.", "https://cml.example.org/a/..",
    ],
)  # fmt: skip
@pytest.mark.asyncio
async def test_a_server_is_one_worker_however_its_address_is_spelled(again: str) -> None:
    """Two workers on one server would promise its capacity and its ports twice."""
    ref = SecretRef(env="CML_PASSWORD")
    async with world() as w:
        first = await adoption.adopt_server(
            w.services,
            ADMIN,
            "https://cml.example.org",
            password=ref,
            name="one",
            namespace="default",
        )
        await w.services.fresh()
        same = await adoption.adopt_server(
            w.services, ADMIN, again, password=ref, name="two", namespace="default"
        )
        assert same.metadata.uid == first.metadata.uid
        other = await adoption.adopt_server(
            w.services,
            ADMIN,
            "https://cml.example.org:8443",
            password=ref,
            name="three",
            namespace="default",
        )
        assert other.metadata.uid != first.metadata.uid


@pytest.mark.parametrize(
    "url",
    [
        "https://...", "https://-", "https://%00", "https://a\\b", "https://h:0", "https://h?x=1",
        "https://h#y", "https://" + "a." * 130 + "b", "https://h_/\u2028",
    ],
)  # fmt: skip
@pytest.mark.asyncio
async def test_an_address_that_is_none_is_refused_when_it_is_named(url: str) -> None:
    """Not hours later, by a worker that never answers."""
    async with world() as w:
        with pytest.raises(errors.Invalid) as caught:
            await adoption.adopt_server(
                w.services, ADMIN, url, password=SecretRef(env="P"), namespace="default"
            )
        assert caught.value.reason == "UnsafeUrl"


@pytest.mark.parametrize("text", ["zz", "", "ab" * 31, "ab" * 33, "ab:" * 32 + "g", "\n"])
@pytest.mark.asyncio
async def test_a_fingerprint_that_is_none_is_refused_when_it_is_written(text: str) -> None:
    """With it no certificate could ever be the right one: said before a server is paid for."""
    machine = {**MACHINE, "cml": {**MACHINE["cml"], "tls": {"fingerprint": text}}}
    async with world() as w:
        with pytest.raises(errors.Invalid) as caught:
            await w.make("Template", "t", {"machine": machine})
    assert "spec.machine.cml.tls.fingerprint" in str(caught.value.problems)


@pytest.mark.asyncio
async def test_a_region_that_is_none_cannot_hold_garbage_collection() -> None:
    """Nothing is swept before every region was listed: one that never is would end that."""
    async with world() as w:
        await w.template()
        with pytest.raises(errors.Invalid, match="region"):
            await adoption.adopt_instance(
                w.services,
                ADMIN,
                "i-0abc12345",
                region="moon",
                template="metal",
                namespace="default",
            )
        with pytest.raises(errors.Invalid, match="region"):
            await adoption.bulk_import(w.services, ADMIN, (), region="moon", source="x")
        machine = {
            "provider": {"kind": "aws", "amiId": "ami-1", "region": "moon"},
            "cml": MACHINE["cml"],
        }
        with pytest.raises(errors.Invalid, match="region"):
            await w.make("Template", "far", {"machine": machine})


@pytest.mark.asyncio
async def test_an_instance_of_another_region_is_not_taken_for_the_one_asked_for() -> None:
    """Adopting by id says where; a worker elsewhere is another answer than yes."""
    async with world() as w:
        await w.template()
        here = {"region": "us-east-1", "template": "metal"}
        await adoption.adopt_instance(w.services, ADMIN, "i-0abc12345", namespace="default", **here)
        await w.services.fresh()
        with pytest.raises(Refused, match="us-east-1"):
            await adoption.adopt_instance(
                w.services,
                ADMIN,
                "i-0abc12345",
                region="eu-west-1",
                template="metal",
                namespace="default",
            )


@pytest.mark.asyncio
async def test_an_external_server_cannot_shield_an_instance() -> None:
    """An origin says one thing: a server at a URL, or an instance."""
    async with world() as w:
        await w.template()
        origin = {"kind": "external", "url": "https://x.example", "instanceId": "i-0abc12345"}
        with pytest.raises(errors.Invalid, match="no instance"):
            await w.make("Worker", "w", {"template": "metal", "origin": origin})


@pytest.mark.asyncio
async def test_a_patch_says_no_more_than_the_verbs_do() -> None:
    """Nobody writes a drain in another's name, and what is being terminated stays so."""
    async with world() as w:
        await w.template()
        await w.make("Worker", "w", {"template": "metal"})
        forged = {"deadline": "2020-01-01T00:00:00Z", "requestedBy": "idle", "force": True}
        with pytest.raises(errors.Invalid, match="verb drain"):
            await objects.patch(
                w.services, ADMIN, WORKER, "w", {"spec": {"drain": forged}}, namespace="default"
            )
        await objects.patch(
            w.services, ADMIN, WORKER, "w", {"spec": {"desired": "Terminated"}}, namespace="default"
        )
        with pytest.raises(Refused, match="being terminated"):
            await objects.patch(
                w.services, ADMIN, WORKER, "w", {"spec": {"desired": "Ready"}}, namespace="default"
            )


@pytest.mark.parametrize("kind", ["Worker", "Pool"])
@pytest.mark.asyncio
async def test_two_namespaces_may_use_one_name(kind: str) -> None:
    """A name is its namespace's: what refers to it in another namespace never meets this one."""
    async with world() as w:
        for space in ("default", "lab"):
            await w.make("Template", "metal", {"machine": MACHINE}, namespace=space)
        one = await w.make(kind, "p1", {"template": "metal"})
        other = await w.make(kind, "p1", {"template": "metal"}, namespace="lab")
        assert one.metadata.uid != other.metadata.uid
        with pytest.raises(errors.Invalid, match="'metal' does not exist"):
            await w.make(kind, "p2", {"template": "metal"}, namespace="third")

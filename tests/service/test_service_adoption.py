"""Importing and adopting servers: once each, never another's, and gone without a trace of harm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fleet_world import ADMIN, World, who, world

from labfleet.interfaces.compute import Instance
from labfleet.kernel import errors
from labfleet.resources import providers
from labfleet.resources.kinds import KINDS
from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.meta import Metadata, SecretRef
from labfleet.resources.region import Region
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import adoption, leaks, objects
from labfleet.service.verbs import lifecycle as verbs

REGION = "us-east-1"
WORKER = KINDS["Worker"]


def found(count: int, **tags: str) -> list[Instance]:
    return [Instance(f"i-{n:017x}", "running", tags=tags) for n in range(1, count + 1)]


async def ready(w: World) -> None:
    await w.template()
    spec = {"discovery": {"enabled": True, "template": "metal"}}
    await w.make("Settings", "fleet", spec)


async def take(w: World, some: list[Instance], **how: Any) -> adoption.Imported:
    return await adoption.bulk_import(
        w.services, who("controller"), some, region=REGION, source="test", **how
    )


@pytest.mark.asyncio
async def test_what_was_found_becomes_observed_workers_once() -> None:
    """A second import of the same instances, in another order, makes nothing."""
    async with world() as w:
        await ready(w)
        made = await take(w, found(3, Name="lab"))
        assert made.names == ("lab", "lab-00000002", "lab-00000003")
        again = await take(w, found(3)[::-1])
        assert (again.names, again.known) == ((), 3)
        worker = await w.services.objects.get(Worker, "lab", "default")
        assert worker is not None
        assert worker.spec.origin is not None
        assert worker.spec.origin.managed is False
        assert worker.status.machine.id == "i-00000000000000001"
        assert worker.metadata.finalizers == ()


@pytest.mark.asyncio
async def test_imports_that_race_make_each_worker_once() -> None:
    """Eight scans at once of the same hundred and fifty instances make as many workers."""
    async with world() as w:
        await ready(w)
        await asyncio.gather(*(take(w, found(150)) for _ in range(8)))
        ids = [each.status.machine.id for each in w.services.cache.all(Worker)]
        assert len(ids) == len(set(ids)) == 150


@pytest.mark.asyncio
async def test_an_owned_instance_is_never_imported() -> None:
    """Whoever's owner tag it is: ours is garbage's affair, another's is reported."""
    async with world() as w:
        await ready(w)
        tagged = [
            Instance("i-0000000a", "running", tags={"labfleet:owner": "us"}),
            Instance("i-0000000b", "running", tags={"labfleet:owner": "them"}),
        ]
        made = await take(w, tagged, installation="us")
        assert (made.names, made.ours, made.foreign) == ((), ("i-0000000a",), ("i-0000000b",))
        assert (await take(w, tagged)).foreign == ("i-0000000a", "i-0000000b")


@pytest.mark.asyncio
async def test_importing_needs_a_template() -> None:
    """Without a template nobody knows how to log in, so nothing is imported and it says so."""
    async with world() as w:
        with pytest.raises(errors.Invalid, match="template"):
            await take(w, found(1))
        assert not w.services.cache.all(Worker)


@pytest.mark.asyncio
async def test_deleting_an_observed_worker_leaves_the_machine_and_is_remembered() -> None:
    """The record goes at once and says so; discovery does not bring it back, adopting does."""
    async with world() as w:
        await ready(w)
        await take(w, found(1, Name="lab"))
        gone = await objects.delete(w.services, ADMIN, WORKER, "lab", "default")
        assert "left alone" in gone.status.message
        assert gone.metadata.finalizers == ()
        made = await take(w, found(1, Name="lab"))
        assert (made.names, made.ignored) == ((), ("i-00000000000000001",))
        back = await adoption.adopt_instance(
            w.services,
            ADMIN,
            "i-00000000000000001",
            region=REGION,
            template="metal",
            namespace="default",
        )
        assert back.spec.origin is not None
        assert back.spec.origin.managed
        region = await w.services.objects.get(Region, REGION, "default")
        assert region is not None
        assert region.status.ignored == ()


@pytest.mark.asyncio
async def test_an_observed_worker_is_not_told_what_to_become() -> None:
    """Stop, end and the same by patch are refused until it is adopted."""
    async with world() as w:
        await ready(w)
        await take(w, found(1, Name="lab"))
        for desired in ("Stopped", "Terminated"):
            with pytest.raises(Refused, match="only observed"):
                await verbs.desire(w.services, ADMIN, "lab", "default", desired=desired)
            with pytest.raises(Refused, match="only observed"):
                await objects.patch(
                    w.services,
                    ADMIN,
                    WORKER,
                    "lab",
                    {"spec": {"desired": desired}},
                    namespace="default",
                )
        with pytest.raises(errors.Invalid, match="origin"):
            await objects.patch(
                w.services,
                ADMIN,
                WORKER,
                "lab",
                {"spec": {"origin": {"kind": "external"}}},
                namespace="default",
            )


@pytest.mark.asyncio
async def test_adopting_makes_it_managed_once() -> None:
    """By name or by instance id it is the same worker; a second time changes nothing."""
    async with world() as w:
        await ready(w)
        await take(w, found(1, Name="lab"))
        first = await adoption.adopt(w.services, ADMIN, "lab", "default")
        assert first.spec.origin is not None
        assert first.spec.origin.managed
        same = await adoption.adopt_instance(
            w.services,
            ADMIN,
            "i-00000000000000001",
            region=REGION,
            template="metal",
            namespace="default",
        )
        assert same.metadata.uid == first.metadata.uid
        with pytest.raises(errors.Denied):
            await adoption.adopt(w.services, who("user", "bob"), "lab", "default")


@pytest.mark.asyncio
async def test_a_worker_that_we_launched_is_not_adopted() -> None:
    """Adopting is for what others launched."""
    async with world() as w:
        await w.template()
        await w.make("Worker", "w1", {"template": "metal"})
        with pytest.raises(Refused, match="launched by us"):
            await adoption.adopt(w.services, ADMIN, "w1", "default")


@pytest.mark.asyncio
async def test_an_external_server_has_a_login_and_no_stop() -> None:
    """One worker for one address; it is reached there, and Stopped is refused in words."""
    async with world() as w:
        ref = SecretRef(env="CML_PASSWORD")
        made = await adoption.adopt_server(
            w.services,
            ADMIN,
            "https://cml.example/",
            username="ann",
            password=ref,
            namespace="default",
        )
        assert made.spec.machine is not None
        assert made.spec.machine.cml.api_base_url == "https://cml.example"
        assert made.spec.machine.cml.admin_username == "ann"
        assert made.spec.machine.provider == providers.ELSEWHERE
        same = await adoption.adopt_server(
            w.services, ADMIN, "https://cml.example", password=ref, namespace="default"
        )
        assert same.metadata.uid == made.metadata.uid
        with pytest.raises(Refused, match="nothing here can stop"):
            await verbs.desire(w.services, ADMIN, made.name, "default", desired="Stopped")
        assert (
            await verbs.desire(w.services, ADMIN, made.name, "default", desired="Terminated")
        ).name
        for url in ("http://169.254.169.254", "ftp://cml.example", "https://a:b@cml.example"):
            with pytest.raises(errors.Invalid, match=r"CML|http|password"):
                await adoption.adopt_server(
                    w.services, ADMIN, url, password=ref, name="x", namespace="default"
                )


@pytest.mark.asyncio
async def test_adopting_an_address_again_takes_the_new_login() -> None:
    """A wrong password is mended by saying the right one; the worker stays the same."""
    async with world() as w:
        url, wrong, right = "https://10.0.0.7:8443", SecretRef(env="WRONG"), SecretRef(file="/pw")
        made = await adoption.adopt_server(
            w.services, ADMIN, url, password=wrong, namespace="default"
        )
        same = await adoption.adopt_server(
            w.services,
            ADMIN,
            url,
            username="ann",
            password=right,
            fingerprint="ab" * 32,
            namespace="default",
        )
        assert same.metadata.uid == made.metadata.uid
        assert same.spec.machine is not None
        cml = same.spec.machine.cml
        assert (cml.admin_username, cml.admin_password) == ("ann", right)
        assert (cml.tls.fingerprint, cml.api_base_url) == ("ab" * 32, url)
        assert same.metadata.generation == made.metadata.generation + 1
        with pytest.raises(errors.Invalid, match="not both"):
            await adoption.adopt_server(
                w.services, ADMIN, url, template="metal", password=right, namespace="default"
            )


@pytest.mark.asyncio
async def test_two_servers_on_one_host_get_two_names() -> None:
    """Another port is another server."""
    async with world() as w:
        made = [
            await adoption.adopt_server(
                w.services,
                ADMIN,
                f"https://cml.example{port}",
                password=SecretRef(env="V"),
                namespace="default",
            )
            for port in ("", ":8443", ":9443")
        ]
        assert len({each.name for each in made}) == 3


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("origin", "spec", "where"),
    [
        ({"kind": "imported", "region": "eu-west-1"}, {}, "instanceId"),
        ({"kind": "imported", "instanceId": "i-0000000a"}, {}, "region"),
        ({"kind": "external"}, {}, "url"),
        ({"kind": "external", "url": "https://x"}, {"desired": "Stopped"}, "desired"),
        ({"kind": "imported", "instanceId": "../../etc", "region": "eu-west-1"}, {}, "instanceId"),
    ],
)
async def test_a_manifest_with_a_bad_origin_is_refused(
    origin: dict[str, Any], spec: dict[str, Any], where: str
) -> None:
    """What apply sends is judged like a verb."""
    async with world() as w:
        await w.template()
        with pytest.raises(errors.Invalid, match=where):
            await w.make("Worker", "x", {"template": "metal", "origin": origin, **spec})


@pytest.mark.asyncio
async def test_two_manifests_cannot_name_one_instance() -> None:
    """The second is refused and names the first."""
    async with world() as w:
        await w.template()
        origin = {"kind": "imported", "instanceId": "i-0000000a", "region": "eu-west-1"}
        made = await w.make("Worker", "a", {"template": "metal", "origin": origin})
        assert made.spec.machine.provider.region == "eu-west-1"
        with pytest.raises(Refused, match="'a' is i-0000000a already"):
            await w.make("Worker", "b", {"template": "metal", "origin": origin})


@pytest.mark.asyncio
async def test_a_leak_is_resolved_with_a_note() -> None:
    """Resolving removes it and keeps who and why in its last event."""
    async with world() as w:
        leak = Leak(
            metadata=Metadata(name="w1-abc", uid=w.ids.uid()),
            spec=LeakSpec(worker="w1", since=w.clock.now()),
        )
        await w.services.objects.save(leak, cause=w.services.cause(ADMIN, "x"))
        await leaks.resolve(w.services, ADMIN, "w1-abc", "default", note="freed in CSSM")
        assert await w.services.objects.get(Leak, "w1-abc", "default") is None
        [last, *_] = await objects.events(w.services, ADMIN, KINDS["Leak"], "w1-abc", "default")
        assert (last.type, last.reason, last.actor) == ("DELETED", "Resolved: freed in CSSM", "ada")
        with pytest.raises(errors.Gone):
            await leaks.resolve(w.services, ADMIN, "w1-abc", "default")


@pytest.mark.asyncio
@pytest.mark.parametrize("role", ["controller", "runner", "user"])
async def test_only_operators_and_admins_adopt(role: str) -> None:
    """Another service imports; it never makes us send a password to an address that it names."""
    async with world() as w:
        await ready(w)
        caller = who(role)
        with pytest.raises(errors.Denied):
            await adoption.adopt_server(
                w.services,
                caller,
                "https://elsewhere.example",
                password=SecretRef(env="CML"),
                namespace="default",
            )
        with pytest.raises(errors.Denied):
            await adoption.adopt_instance(
                w.services,
                caller,
                "i-00000000000000009",
                region=REGION,
                template="metal",
                namespace="default",
            )
        with pytest.raises(errors.Denied):
            await adoption.adopt(w.services, caller, "w", "default")

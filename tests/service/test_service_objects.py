"""Create, replace, patch, delete: names, unknown keys, versions, frozen fields, finalizers.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from fleet_world import ADMIN, MACHINE, TOPOLOGY, World, who

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import SessionPhase
from labfleet.service.core import warned
from labfleet.service.core.service_context import Refused, Stale
from labfleet.service.verbs import objects

BAD_NAMES = ["_x", "-x", "é", "李雷", "x" * 64, "a-b/c", "a/b-c", "ADMIN", "e\u0301", "a\0b", ""]


@pytest.mark.asyncio
@pytest.mark.parametrize("name", BAD_NAMES)
async def test_illegal_names_are_refused_with_one_that_would_do(world: World, name: str):
    """T26: every suggestion is legal, and creating under it works."""
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Cluster", name or " ", {"capacity": {"cpu": 4}})
    (where, what), *_ = caught.value.problems
    assert where == "metadata.name"
    suggestion = what.rsplit("'", 2)[1]
    assert (await world.make("Cluster", suggestion, {"capacity": {"cpu": 4}})).name == suggestion


def test_no_two_illegal_names_get_one_suggestion():
    """T26: `a-b/c` and `a/b-c`, `ADMIN` and `admin`, NFC and NFD stay apart."""
    from labfleet.kernel import ids

    names = ["_x", "-x", "é", "e\u0301", "李雷", "x" * 64, "x" * 65, "a-b/c", "a/b-c", "ADMIN",
             "admin", "Admin"]  # fmt: skip
    made = [ids.slug(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(ids.is_name(each) for each in made)


@pytest.mark.asyncio
async def test_unknown_keys_are_refused_with_a_hint(world: World):
    """A misspelt key is named with its place and the nearest key."""
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Definition", "d", {"topologie": "x", "topology": TOPOLOGY})
    assert caught.value.problems == (("spec.topologie", "unknown key; did you mean topology?"),)
    machine = {**MACHINE, "provider": {**MACHINE["provider"], "instanceType": "m5"}}
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Template", "t", {"machine": machine})
    assert caught.value.problems[0][0] == "spec.machine.provider.instanceType"
    assert "instanceTypes" in caught.value.problems[0][1]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", 3, {}, {"metadata": []}, {"metadata": {}, "spec": 3},
        {"metadata": {"name": 3}, "spec": {}}, {"kind": "Pool", "metadata": {"name": "a"}},
        {"apiVersion": "v9", "metadata": {"name": "a"}},
        {"metadata": {"name": "a", "labels": {"-": "x"}}, "spec": {}},
        {"metadata": {"name": "a", "labels": {"a": "ü"}}, "spec": {}},
        {"metadata": {"name": "a", "labels": {f"l{n}": "x" for n in range(65)}}, "spec": {}},
        {"metadata": {"name": "a", "annotations": {"a": "x" * 70_000}}, "spec": {}},
    ],
)  # fmt: skip
async def test_nonsense_bodies_are_invalid_and_never_a_crash(world: World, body):
    """Whatever is not a worker is refused with a place."""
    with pytest.raises(errors.Invalid) as caught:
        await objects.create(world.services, ADMIN, KINDS["Worker"], body)
    assert caught.value.problems


@pytest.mark.asyncio
async def test_a_body_nested_without_end_is_refused(world: World):
    """A hundred levels are refused before anything recurses."""
    deep: object = 1
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(errors.Invalid, match="nested deeper"):
        await world.make("Cluster", "c", {"capacity": deep})


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "field", ["uid", "finalizers", "creationTimestamp", "deletionTimestamp", "generation"]
)
async def test_server_set_metadata_is_refused_from_people(world: World, field: str):
    """Nobody makes an object with somebody else's uid, finalizers or times."""
    value = {"finalizers": ["x/y"], "generation": 7}.get(field, "2026-01-01T00:00:00Z")
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Cluster", "c", {"capacity": {}}, **{field: value})
    assert caught.value.problems[0][0] == f"metadata.{field}"
    made = await world.make("Cluster", "c", {"capacity": {}})
    body = {"metadata": {field: value}}
    with pytest.raises(errors.Invalid):
        await objects.patch(
            world.services, ADMIN, KINDS["Cluster"], made.name, body, namespace="default"
        )


@pytest.mark.asyncio
async def test_a_duplicate_name_is_refused(world: World):
    """The second of two equal names gets AlreadyExists."""
    await world.make("Cluster", "c", {"capacity": {"cpu": 4}})
    with pytest.raises(Refused) as caught:
        await world.make("Cluster", "c", {"capacity": {"cpu": 5}})
    assert caught.value.reason == "AlreadyExists"


@pytest.mark.asyncio
async def test_twenty_equal_requests_make_one_object(world: World):
    """T31: one key, one body, one object, the same answer twenty times; another body conflicts."""
    await world.definition()
    body = {"metadata": {}, "spec": {"definition": "two"}}
    row = KINDS["Session"]

    async def post(sent=body):
        return await objects.create(world.services, ADMIN, row, sent, key="k-1")

    made = await asyncio.gather(*(post() for _ in range(20)))
    assert {each.name for each in made} == {made[0].name}
    assert {each.metadata.resource_version for each in made} == {made[0].metadata.resource_version}
    await world.status(made[0], message="moved on")
    assert await post() == made[0]
    assert len((await world.store.list("Session")).items) == 1
    with pytest.raises(Refused) as caught:
        await post({"metadata": {}, "spec": {"definition": "two", "priority": 1}})
    assert caught.value.reason == "IdempotencyKeyReused"
    other = await objects.create(world.services, who("operator", "o"), row, body, key="k-1")
    assert other.name != made[0].name


@pytest.mark.asyncio
async def test_status_in_a_body_is_ignored(world: World):
    """People cannot write status; what was read can be sent back."""
    await world.definition()
    body = {"metadata": {"name": "s"}, "spec": {"definition": "two"}, "status": {"phase": "READY"}}
    made = await objects.create(world.services, ADMIN, KINDS["Session"], body)
    assert made.status.phase is SessionPhase.PENDING
    read = msgspec.to_builtins(made)
    read["status"]["phase"] = "COMPLETED"
    same = await objects.replace(
        world.services, ADMIN, KINDS["Session"], "s", read, namespace="default"
    )
    assert same == made
    patched = await objects.patch(
        world.services,
        ADMIN,
        KINDS["Session"],
        "s",
        {"status": {"phase": "COMPLETED"}},
        namespace="default",
    )
    assert patched == made


@pytest.mark.asyncio
async def test_generation_moves_on_spec_changes_only(world: World):
    """A label moves resourceVersion; a spec field moves generation too."""
    made = await world.make("Cluster", "c", {"capacity": {"cpu": 4}})
    row = KINDS["Cluster"]
    labelled = await objects.patch(
        world.services, ADMIN, row, "c", {"metadata": {"labels": {"a": "b"}}}, namespace="default"
    )
    assert labelled.metadata.generation == made.metadata.generation == 1
    assert labelled.revision > made.revision
    changed = await objects.patch(
        world.services,
        ADMIN,
        row,
        "c",
        {"spec": {"cpuPercent": 50, "capacity": {"cpu": "2500m"}}},
        namespace="default",
    )
    assert changed.metadata.generation == 2
    assert changed.spec.capacity.cpu_milli == 2500
    assert changed.metadata.labels == {"a": "b"}


@pytest.mark.asyncio
async def test_a_merge_patch_takes_away_with_null(world: World):
    """RFC 7396: null removes a label and puts a default back."""
    await world.make(
        "Cluster", "c", {"capacity": {}, "cpuPercent": 50}, labels={"a": "b", "c": "d"}
    )
    patch = {"metadata": {"labels": {"a": None}}, "spec": {"cpuPercent": None}}
    changed = await objects.patch(
        world.services, ADMIN, KINDS["Cluster"], "c", patch, namespace="default"
    )
    assert changed.metadata.labels == {"c": "d"}
    assert changed.spec.cpu_percent == 80


@pytest.mark.asyncio
async def test_a_stale_version_is_a_conflict_that_names_the_present_one(world: World):
    """PUT, PATCH and DELETE all compare resourceVersion when it is given."""
    made = await world.make("Cluster", "c", {"capacity": {"cpu": 4}})
    row = KINDS["Cluster"]
    now = await objects.patch(
        world.services, ADMIN, row, "c", {"spec": {"cpuPercent": 50}}, namespace="default"
    )
    old = {"metadata": {"resourceVersion": made.metadata.resource_version}}
    whole = {**msgspec.to_builtins(now), "metadata": {"name": "c", **old["metadata"]}}
    version = made.metadata.resource_version
    for call in (
        objects.patch(
            world.services,
            ADMIN,
            row,
            "c",
            {**old, "spec": {"cpuPercent": 60}},
            namespace="default",
        ),
        objects.replace(world.services, ADMIN, row, "c", whole, namespace="default"),
        objects.delete(world.services, ADMIN, row, "c", "default", version=version),
    ):
        with pytest.raises(Stale) as caught:
            await call
        assert caught.value.current == now.revision


@pytest.mark.asyncio
async def test_racing_patches_without_a_version_all_land(world: World):
    """Twenty writers without a version are tried again and lose nothing."""
    await world.make("Cluster", "c", {"capacity": {}})
    row = KINDS["Cluster"]
    await asyncio.gather(
        *(
            objects.patch(
                world.services,
                ADMIN,
                row,
                "c",
                {"metadata": {"labels": {f"l{n}": "x"}}},
                namespace="default",
            )
            for n in range(6)
        )
    )
    found = await objects.get(world.services, ADMIN, row, "c", "default")
    assert len(found.metadata.labels) == 6


@pytest.mark.asyncio
async def test_frozen_fields_are_refused_by_name_and_kept_when_left_out(world: World):
    """A changed topology is refused; a PUT without it keeps it."""
    await world.definition(title="old")
    row = KINDS["Definition"]
    with pytest.raises(errors.Invalid) as caught:
        await objects.patch(
            world.services,
            ADMIN,
            row,
            "two",
            {"spec": {"topology": TOPOLOGY + " "}},
            namespace="default",
        )
    assert caught.value.problems[0][0] == "spec.topology"
    assert caught.value.reason == "FrozenField"
    changed = await objects.replace(
        world.services,
        ADMIN,
        row,
        "two",
        {"metadata": {"name": "two"}, "spec": {"title": "new"}},
        namespace="default",
    )
    assert (changed.spec.title, changed.spec.topology) == ("new", TOPOLOGY)


@pytest.mark.asyncio
async def test_delete_removes_at_once_without_finalizers(world: World):
    """The answer carries the time of the end, and the object is gone."""
    await world.make("Cluster", "c", {"capacity": {}})
    row = KINDS["Cluster"]
    ended = await objects.delete(world.services, ADMIN, row, "c", "default")
    assert ended.metadata.deletion_timestamp == world.clock.now()
    with pytest.raises(errors.Gone):
        await objects.get(world.services, ADMIN, row, "c", "default")
    history = await objects.events(world.services, ADMIN, row, "c", "default")
    assert [each.type for each in history] == ["DELETED", "ADDED"]
    assert history[0].actor == "ada"
    assert history[0].request_id == "req-1"


@pytest.mark.asyncio
async def test_delete_waits_for_finalizers_and_can_be_asked_again(world: World):
    """A worker with an instance stays, marked, until its controller lets go."""
    await world.template()
    made = await world.make("Worker", "w", {"template": "metal"})
    metadata = msgspec.structs.replace(made.metadata, finalizers=("labfleet/machine",))
    held = msgspec.structs.replace(made, metadata=metadata)
    await world.services.objects.save(held, cause=world.services.cause(ADMIN, "Launched"))
    row = KINDS["Worker"]
    ended = await objects.delete(world.services, ADMIN, row, "w", "default")
    assert ended.deleting
    assert ended.metadata.finalizers == ("labfleet/machine",)
    assert await objects.delete(world.services, ADMIN, row, "w", "default") == ended


@pytest.mark.asyncio
async def test_a_topology_is_checked_when_it_is_made_a_definition(world: World):
    """A link to an interface that is not there is refused, with its line in the topology."""
    links = "links: [{id: l0, n1: n0, i1: i9, n2: n1, i2: i0}]"
    with pytest.raises(errors.Invalid) as caught:
        await world.definition(topology=TOPOLOGY.replace("links: []", links))
    assert caught.value.reason == "BadTopology"
    assert caught.value.problems == (
        ("spec.topology, line 6", "links[0].i1: node 'r1' has no interface 'i9'; it has none"),
        ("spec.topology, line 6", "links[0].i2: node 'r2' has no interface 'i0'; it has none"),
    )


@pytest.mark.asyncio
async def test_nodes_without_coordinates_are_accepted_with_a_note(world: World):
    """What is filled in at each import is said, by apply and by explain."""
    made = await world.definition(topology=TOPOLOGY.replace("x: 9, y: 0, ", ""))
    assert made.status.unplaced == 1
    (note,) = warned.warnings(world.services, made)
    assert note == "definition two: 1 node has no x or no y; CML gets places in a grid"
    assert warned.warnings(world.services, await world.definition("placed")) == ()

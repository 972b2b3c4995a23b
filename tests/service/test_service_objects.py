"""Create, replace, patch, delete: names, unknown keys, versions, frozen fields, finalizers."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest
from fleet_world import ADMIN, MACHINE, TOPOLOGY, World, who

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker
from labfleet.service.core.parts import Refused, Stale
from labfleet.service.verbs import lifecycle as verbs
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
    machine = {**MACHINE, "aws": {**MACHINE["aws"], "instanceType": "m5"}}
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Template", "t", {"machine": machine})
    assert caught.value.problems[0][0] == "spec.machine.aws.instanceType"
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
        await objects.create(world.parts, ADMIN, KINDS["Worker"], body)
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
        await objects.patch(world.parts, ADMIN, KINDS["Cluster"], made.name, body)


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
        return await objects.create(world.parts, ADMIN, row, sent, key="k-1")

    made = await asyncio.gather(*(post() for _ in range(20)))
    assert {each.name for each in made} == {made[0].name}
    assert {each.metadata.resource_version for each in made} == {made[0].metadata.resource_version}
    await world.status(made[0], message="moved on")
    assert await post() == made[0]
    assert len((await world.store.list("Session")).items) == 1
    with pytest.raises(Refused) as caught:
        await post({"metadata": {}, "spec": {"definition": "two", "priority": 1}})
    assert caught.value.reason == "IdempotencyKeyReused"
    other = await objects.create(world.parts, who("operator", "o"), row, body, key="k-1")
    assert other.name != made[0].name


@pytest.mark.asyncio
async def test_status_in_a_body_is_ignored(world: World):
    """People cannot write status; what was read can be sent back."""
    await world.definition()
    body = {"metadata": {"name": "s"}, "spec": {"definition": "two"}, "status": {"phase": "READY"}}
    made = await objects.create(world.parts, ADMIN, KINDS["Session"], body)
    assert made.status.phase is SessionPhase.PENDING
    read = msgspec.to_builtins(made)
    read["status"]["phase"] = "COMPLETED"
    same = await objects.replace(world.parts, ADMIN, KINDS["Session"], "s", read)
    assert same == made
    patched = await objects.patch(
        world.parts, ADMIN, KINDS["Session"], "s", {"status": {"phase": "COMPLETED"}}
    )
    assert patched == made


@pytest.mark.asyncio
async def test_generation_moves_on_spec_changes_only(world: World):
    """A label moves resourceVersion; a spec field moves generation too."""
    made = await world.make("Cluster", "c", {"capacity": {"cpu": 4}})
    row = KINDS["Cluster"]
    labelled = await objects.patch(
        world.parts, ADMIN, row, "c", {"metadata": {"labels": {"a": "b"}}}
    )
    assert labelled.metadata.generation == made.metadata.generation == 1
    assert labelled.revision > made.revision
    changed = await objects.patch(
        world.parts, ADMIN, row, "c", {"spec": {"cpuPercent": 50, "capacity": {"cpu": "2500m"}}}
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
    changed = await objects.patch(world.parts, ADMIN, KINDS["Cluster"], "c", patch)
    assert changed.metadata.labels == {"c": "d"}
    assert changed.spec.cpu_percent == 80


@pytest.mark.asyncio
async def test_a_stale_version_is_a_conflict_that_names_the_present_one(world: World):
    """PUT, PATCH and DELETE all compare resourceVersion when it is given."""
    made = await world.make("Cluster", "c", {"capacity": {"cpu": 4}})
    row = KINDS["Cluster"]
    now = await objects.patch(world.parts, ADMIN, row, "c", {"spec": {"cpuPercent": 50}})
    old = {"metadata": {"resourceVersion": made.metadata.resource_version}}
    whole = {**msgspec.to_builtins(now), "metadata": {"name": "c", **old["metadata"]}}
    version = made.metadata.resource_version
    for call in (
        objects.patch(world.parts, ADMIN, row, "c", {**old, "spec": {"cpuPercent": 60}}),
        objects.replace(world.parts, ADMIN, row, "c", whole),
        objects.delete(world.parts, ADMIN, row, "c", version=version),
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
            objects.patch(world.parts, ADMIN, row, "c", {"metadata": {"labels": {f"l{n}": "x"}}})
            for n in range(6)
        )
    )
    found = await objects.get(world.parts, ADMIN, row, "c")
    assert len(found.metadata.labels) == 6


@pytest.mark.asyncio
async def test_frozen_fields_are_refused_by_name_and_kept_when_left_out(world: World):
    """A changed topology is refused; a PUT without it keeps it."""
    await world.definition(title="old")
    row = KINDS["Definition"]
    with pytest.raises(errors.Invalid) as caught:
        await objects.patch(world.parts, ADMIN, row, "two", {"spec": {"topology": TOPOLOGY + " "}})
    assert caught.value.problems[0][0] == "spec.topology"
    assert caught.value.reason == "FrozenField"
    changed = await objects.replace(
        world.parts, ADMIN, row, "two", {"metadata": {"name": "two"}, "spec": {"title": "new"}}
    )
    assert (changed.spec.title, changed.spec.topology) == ("new", TOPOLOGY)


@pytest.mark.asyncio
async def test_delete_removes_at_once_without_finalizers(world: World):
    """The answer carries the time of the end, and the object is gone."""
    await world.make("Cluster", "c", {"capacity": {}})
    row = KINDS["Cluster"]
    ended = await objects.delete(world.parts, ADMIN, row, "c")
    assert ended.metadata.deletion_timestamp == world.clock.now()
    with pytest.raises(errors.Gone):
        await objects.get(world.parts, ADMIN, row, "c")
    history = await objects.events(world.parts, ADMIN, row, "c")
    assert [each.type for each in history] == ["DELETED", "ADDED"]
    assert history[0].actor == "ada"
    assert history[0].request_id == "req-1"


@pytest.mark.asyncio
async def test_delete_waits_for_finalizers_and_can_be_asked_again(world: World):
    """A worker with an instance stays, marked, until its controller lets go."""
    await world.template()
    made = await world.make("Worker", "w", {"template": "metal"})
    metadata = msgspec.structs.replace(made.metadata, finalizers=("labfleet/ec2-instance",))
    held = msgspec.structs.replace(made, metadata=metadata)
    await world.parts.objects.save(held, cause=world.parts.cause(ADMIN, "Launched"))
    row = KINDS["Worker"]
    ended = await objects.delete(world.parts, ADMIN, row, "w")
    assert ended.deleting
    assert ended.metadata.finalizers == ("labfleet/ec2-instance",)
    assert await objects.delete(world.parts, ADMIN, row, "w") == ended


@pytest.mark.asyncio
async def test_a_session_pins_its_definition_and_resolves_its_slot(world: World):
    """Name, uid, version and digest are fixed; the end follows the default duration."""
    definition = await world.definition()
    start = world.clock.now() + timedelta(hours=3)
    made = await world.session(None, slot={"start": start.isoformat(), "zone": "Europe/Warsaw"})
    assert made.name.startswith("two-")
    pin = made.status.definition
    assert (pin.name, pin.uid) == ("two", definition.metadata.uid)
    assert pin.topology_digest == definition.status.topology_digest
    assert (made.status.start, made.status.end) == (start, start + timedelta(minutes=60))
    assert made.status.phase_since == world.clock.now()
    asap = await world.session(None)
    assert (asap.status.start, asap.status.end) == (None, None)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("slot", "place"),
    [
        ({"start": "2026-11-27T08:00:00Z"}, "spec.slot.start"),
        ({"start": "2029-11-27T08:00:00Z"}, "spec.slot.start"),
        ({"start": "2026-11-27T10:00:00"}, "spec.slot"),
        ({"start": "2026-11-27T10:00:00Z", "end": "2026-11-27T09:30:00Z"}, "spec.slot"),
        ({"end": "2026-11-27T08:59:00Z"}, "spec.slot.end"),
        ({"end": "2026-11-28T08:59:00Z"}, "spec.slot.end"),
        ({"zone": "Mars/Olympus"}, "spec.slot.zone"),
        ({"zone": "../../etc/passwd"}, "spec.slot.zone"),
        ({"zone": ""}, "spec.slot.zone"),
        ({"start": "yesterday"}, "spec.slot.start"),
    ],
)
async def test_nonsense_slots_are_refused(world: World, slot, place):
    """Past, far away, naive, reversed, too long, and zones that do not exist."""
    await world.definition()
    with pytest.raises(errors.Invalid) as caught:
        await world.session("s", slot=slot)
    assert caught.value.problems[0][0] == place


@pytest.mark.asyncio
async def test_a_local_time_beside_a_zone_is_told_that_zones_are_for_showing(world: World):
    """Who names a zone and writes a local time learns which of the two counts."""
    await world.definition()
    slot = {"start": "2026-11-27T10:00:00", "zone": "Europe/Berlin"}
    with pytest.raises(errors.Invalid) as caught:
        await world.session("s", slot=slot)
    assert "slot.zone is only for showing" in str(caught.value.problems[0])


@pytest.mark.asyncio
async def test_an_unknown_or_deprecated_definition_is_refused(world: World):
    """The nearest name and the replacement are named."""
    await world.definition()
    await world.parts.fresh()
    with pytest.raises(errors.Invalid, match="did you mean two"):
        await world.make("Session", "s", {"definition": "twoo"})
    row = KINDS["Definition"]
    patch = {"spec": {"deprecated": True, "replacement": "three"}}
    assert (await objects.patch(world.parts, ADMIN, row, "two", patch)).status.phase == "DEPRECATED"
    with pytest.raises(errors.Invalid, match="use 'three'"):
        await world.session("s")


@pytest.mark.asyncio
async def test_what_is_in_use_cannot_be_deleted(world: World):
    """Definitions of live sessions and templates of pools stay."""
    await world.definition()
    await world.session("s")
    await world.template()
    await world.make("Pool", "p", {"template": "metal"})
    for kind, name in (("Definition", "two"), ("Template", "metal")):
        with pytest.raises(Refused) as caught:
            await objects.delete(world.parts, ADMIN, KINDS[kind], name)
        assert caught.value.reason == "InUse"
    await objects.delete(world.parts, ADMIN, KINDS["Session"], "s")
    await objects.delete(world.parts, ADMIN, KINDS["Pool"], "p")
    for kind, name in (("Definition", "two"), ("Template", "metal")):
        await objects.delete(world.parts, ADMIN, KINDS[kind], name)


@pytest.mark.asyncio
async def test_a_session_made_while_its_definition_is_deleted_never_hangs_in_the_air(world: World):
    """Of a racing create and delete at most one wins, in every order."""
    for n in range(10):
        await world.definition()
        results = await asyncio.gather(
            objects.delete(world.parts, ADMIN, KINDS["Definition"], "two"),
            world.session(f"s{n}"),
            return_exceptions=True,
        )
        deleted = not isinstance(results[0], BaseException)
        made = not isinstance(results[1], BaseException)
        assert not (deleted and made)
        if made:
            await objects.delete(world.parts, ADMIN, KINDS["Session"], f"s{n}")
        if not deleted:
            await objects.delete(world.parts, ADMIN, KINDS["Definition"], "two")


@pytest.mark.asyncio
async def test_a_worker_takes_its_machine_from_the_template(world: World):
    """The copy is the worker's own; an edit of the template does not reach it."""
    template = await world.template()
    made = await world.make("Worker", "w", {"template": "metal"})
    assert made.spec.machine == template.spec.machine
    for spec in ({}, {"template": "nope"}, {"template": "metal", "drain": {"deadline":
                                            "2026-11-28T00:00:00Z"}}):  # fmt: skip
        with pytest.raises(errors.Invalid):
            await world.make("Worker", "w2", spec)
    changed = await objects.replace(
        world.parts, ADMIN, KINDS["Worker"], "w", {"metadata": {}, "spec": {"desired": "Stopped"}}
    )
    assert changed.spec.machine == made.spec.machine


@pytest.mark.asyncio
async def test_a_pool_on_its_way_out_takes_no_worker(world: World):
    """T10: fifty threads add workers while the pool is deleted; none joins a dying pool."""
    await world.template()
    await world.make("Pool", "p", {"template": "metal", "track": "exam"})
    first = await world.make("Worker", "w", {"pool": "p"})
    assert first.spec.track == "exam"
    await world.parts.fresh()

    async def join(n: int):
        return await world.make("Worker", f"w{n}", {"pool": "p"})

    results = await asyncio.gather(
        objects.delete(world.parts, ADMIN, KINDS["Pool"], "p"),
        *(join(n) for n in range(50)),
        return_exceptions=True,
    )
    ended = results[0]
    assert ended.metadata.finalizers == ("labfleet/pool-workers",)
    for made in results[1:]:
        if isinstance(made, Worker):
            assert made.revision < ended.revision
        else:
            assert made.reason in {"PoolTerminating", "Conflict"}
    with pytest.raises(errors.Invalid) as caught:
        await join(99)
    assert caught.value.reason == "PoolTerminating"


@pytest.mark.asyncio
async def test_policies_that_are_not_built_are_refused(world: World):
    """The built ones are named."""
    await world.template()
    with pytest.raises(errors.Invalid, match="NEED_BASED"):
        await world.make("Pool", "p", {"template": "metal", "scaling": {"policy": "HYBRID"}})
    scaling = {"minWorkers": 3, "maxWorkers": 2}
    with pytest.raises(errors.Invalid, match="minWorkers"):
        await world.make("Pool", "p", {"template": "metal", "scaling": scaling})


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "ftp://x", "x",
     "https://u:p@host/", "http://0.0.0.0", "http://[", "https://h:99999"],
)  # fmt: skip
async def test_addresses_of_metadata_services_are_no_cml_servers(world: World, url: str):
    """T45: link-local and nonsense addresses are refused in a template."""
    machine = {**MACHINE, "cml": {**MACHINE["cml"], "apiBaseUrl": url}}
    with pytest.raises(errors.Invalid):
        await world.make("Template", "t", {"machine": machine})


@pytest.mark.asyncio
async def test_a_definition_says_what_its_topology_needs(world: World):
    """Nodes, ports and demand are computed; given resources replace the computed ones."""
    made = await world.definition()
    assert made.status.node_count == 2
    assert made.status.node_definitions == {"iosv": 2}
    assert made.status.demand.nodes == 2
    assert made.status.demand.ports == len(made.status.ports) == 2
    sized = await world.definition("sized", resources={"cpu": "1500m", "memory": "3Gi"})
    assert (sized.status.demand.cpu_milli, sized.status.demand.memory_mib) == (1500, 3072)
    assert sized.status.demand.nodes == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("text", ["nodes: [", "{}", "a: 1\na: 2", "x", "lab: {}\nnodes: 3"])
async def test_a_broken_topology_is_refused_with_its_lines(world: World, text: str):
    """Broken YAML and what is no topology name the line."""
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Definition", "d", {"topology": text})
    assert caught.value.problems


@pytest.mark.asyncio
async def test_an_unknown_node_definition_is_said_and_not_refused(world: World):
    """Its size is assumed, and a condition says so."""
    text = TOPOLOGY.replace("node_definition: iosv", "node_definition: martian", 1)
    made = await world.make("Definition", "d", {"topology": text})
    assert made.status.unknown_definitions == ("martian",)
    assert made.status.conditions[0].reason == "UnknownNodeDefinition"


@pytest.mark.asyncio
async def test_port_templates_must_fit_their_topology(world: World):
    """A port of a node that is not there, or twice, is refused."""
    port = {"name": "a", "node": "r9", "kind": "serial"}
    with pytest.raises(errors.Invalid, match="r9"):
        await world.definition("d", portTemplate=[port])
    twice = [{**port, "node": "r1"}, {**port, "node": "r2"}]
    with pytest.raises(errors.Invalid, match="twice"):
        await world.definition("d", portTemplate=twice)


@pytest.mark.asyncio
async def test_deleting_a_bound_session_cancels_it_and_keeps_its_record(world: World):
    """Its ports and lab are given back by its controller before it goes."""
    await world.definition()
    made = await world.session("s")
    await world.status(made, phase=SessionPhase.SCHEDULED, worker="w")
    ended = await objects.delete(world.parts, ADMIN, KINDS["Session"], "s")
    assert ended.metadata.finalizers == ("labfleet/cml-lab",)
    assert ended.spec.cancel.reason == "deleted"
    assert ended.metadata.generation == 2


@pytest.mark.asyncio
async def test_an_extension_by_patch_is_the_same_as_by_verb(world: World):
    """The end moves later only; start and zone stay; cancel is a verb."""
    await world.definition()
    start = world.clock.now() + timedelta(hours=1)
    await world.session("s", slot={"start": start.isoformat()})
    row = KINDS["Session"]

    async def patch(**slot):
        return await objects.patch(world.parts, ADMIN, row, "s", {"spec": {"slot": slot}})

    later = (start + timedelta(hours=2)).isoformat()
    changed = await patch(end=later)
    assert changed.status.end == start + timedelta(hours=2)
    for slot in ({"end": start.isoformat()}, {"end": None}, {"zone": "Europe/Paris"}):
        with pytest.raises(errors.Invalid):
            await patch(**slot)
    cancel = {"cancel": {"at": later}}
    with pytest.raises(errors.Invalid):
        await objects.patch(world.parts, ADMIN, row, "s", {"spec": cancel})
    await verbs.cancel(world.parts, ADMIN, "s")
    body = {"metadata": {}, "spec": {"definition": "two", "priority": 3}}
    kept = await objects.replace(world.parts, ADMIN, row, "s", body)
    assert isinstance(kept, Session)
    assert kept.spec.cancel is not None
    assert kept.spec.slot == changed.spec.slot


@pytest.mark.asyncio
async def test_simulations_are_made_by_a_verb_only(world: World):
    """A POST of a simulation is refused."""
    with pytest.raises(Refused) as caught:
        await world.make("Simulation", "s", {})
    assert caught.value.reason == "NotCreatable"

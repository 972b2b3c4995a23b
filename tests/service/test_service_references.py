"""What objects refer to: definitions, templates, pools, topologies; and what is in use."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from fleet_world import ADMIN, MACHINE, TOPOLOGY, World

from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker
from labfleet.service.core import warned
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects

BAD_NAMES = ["_x", "-x", "é", "李雷", "x" * 64, "a-b/c", "a/b-c", "ADMIN", "e\u0301", "a\0b", ""]


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
        ({"start": "2026-11-27T10:00:00"}, "spec.slot.start"),
        ({"start": "2026-11-27T10:00:00Z", "end": "2026-11-27T09:30:00Z"}, "spec.slot.end"),
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
async def test_a_time_without_an_offset_is_one_of_the_zone(world: World):
    """Nine o'clock in Berlin is 08:00Z in winter; a zone that is none is named, not the time."""
    await world.definition()
    slot = {"start": "2026-12-07T09:00:00", "end": "2026-12-07T11:00:00", "zone": "Europe/Berlin"}
    made = await world.session("s", slot=slot)
    assert [format_instant(each) for each in (made.status.start, made.status.end)] == [
        "2026-12-07T08:00:00.000Z", "2026-12-07T10:00:00.000Z",
    ]  # fmt: skip
    with pytest.raises(errors.Invalid) as caught:
        await world.session("t", slot={**slot, "zone": "Mars/Base"})
    assert caught.value.problems[0][0] == "spec.slot.zone"


@pytest.mark.asyncio
@pytest.mark.parametrize(("start", "told"), [
    ("2026-12-07T09:00:00+02:00", ("slot.start: 2026-12-07T09:00+02:00 is 08:00 in Europe/Berlin, whose "
     "clocks are at +01:00 then; for 09:00 there leave the offset out")),
    ("2026-12-07T09:00:00+01:00", ""), ("2026-12-07T08:00:00Z", ""), ("2026-12-07T09:00:00", ""),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["Session", "Group"])
async def test_an_offset_that_the_zone_does_not_have_is_told(
    world: World, kind: str, start: str, told: str
):
    """It counts, and is not passed over in silence; UTC and the zone's own offset say nothing."""
    await world.definition()
    more = {"size": 1} if kind == "Group" else {}
    spec = {"definition": "two", "slot": {"start": start, "zone": "Europe/Berlin"}, **more}
    made = await world.make(kind, "s", spec)
    assert warned.warnings(world.services, made) == ((told,) if told else ())


@pytest.mark.asyncio
async def test_an_unknown_or_deprecated_definition_is_refused(world: World):
    """The nearest name and the replacement are named."""
    await world.definition()
    await world.services.fresh()
    with pytest.raises(errors.Invalid, match="did you mean two"):
        await world.make("Session", "s", {"definition": "twoo"})
    row = KINDS["Definition"]
    patch = {"spec": {"deprecated": True, "replacement": "three"}}
    assert (
        await objects.patch(world.services, ADMIN, row, "two", patch, namespace="default")
    ).status.phase == "DEPRECATED"
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
            await objects.delete(world.services, ADMIN, KINDS[kind], name, "default")
        assert caught.value.reason == "InUse"
    await objects.delete(world.services, ADMIN, KINDS["Session"], "s", "default")
    await objects.delete(world.services, ADMIN, KINDS["Pool"], "p", "default")
    for kind, name in (("Definition", "two"), ("Template", "metal")):
        await objects.delete(world.services, ADMIN, KINDS[kind], name, "default")


@pytest.mark.asyncio
async def test_a_session_made_while_its_definition_is_deleted_never_hangs_in_the_air(world: World):
    """Of a racing create and delete at most one wins, in every order."""
    for n in range(10):
        await world.definition()
        results = await asyncio.gather(
            objects.delete(world.services, ADMIN, KINDS["Definition"], "two", "default"),
            world.session(f"s{n}"),
            return_exceptions=True,
        )
        deleted = not isinstance(results[0], BaseException)
        made = not isinstance(results[1], BaseException)
        assert not (deleted and made)
        if made:
            await objects.delete(world.services, ADMIN, KINDS["Session"], f"s{n}", "default")
        if not deleted:
            await objects.delete(world.services, ADMIN, KINDS["Definition"], "two", "default")


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
        world.services,
        ADMIN,
        KINDS["Worker"],
        "w",
        {"metadata": {}, "spec": {"desired": "Stopped"}},
        namespace="default",
    )
    assert changed.spec.machine == made.spec.machine


@pytest.mark.asyncio
async def test_a_pool_on_its_way_out_takes_no_worker(world: World):
    """Fifty threads add workers while the pool is deleted; none joins a dying pool."""
    await world.template()
    await world.make("Pool", "p", {"template": "metal", "track": "exam"})
    first = await world.make("Worker", "w", {"pool": "p"})
    assert first.spec.track == "exam"
    await world.services.fresh()

    async def join(n: int):
        return await world.make("Worker", f"w{n}", {"pool": "p"})

    results = await asyncio.gather(
        objects.delete(world.services, ADMIN, KINDS["Pool"], "p", "default"),
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
async def test_a_policy_that_is_none_and_bounds_that_cross_are_refused(world: World):
    """The policies there are are named, and so is the bound that is too large."""
    await world.template()
    with pytest.raises(errors.Invalid, match="NEED_BASED"):
        await world.make("Pool", "p", {"template": "metal", "scaling": {"policy": "GUESSED"}})
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
    """Link-local and nonsense addresses are refused in a template."""
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
    found = {each.type: each.reason for each in made.status.conditions}
    assert found == {"NodesKnown": "UnknownNodeDefinition", "DefinitionsAvailable": "NoPlace"}


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
    ended = await objects.delete(world.services, ADMIN, KINDS["Session"], "s", "default")
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
        return await objects.patch(
            world.services, ADMIN, row, "s", {"spec": {"slot": slot}}, namespace="default"
        )

    later = (start + timedelta(hours=2)).isoformat()
    changed = await patch(end=later)
    assert changed.status.end == start + timedelta(hours=2)
    for slot in ({"end": start.isoformat()}, {"end": None}, {"zone": "Europe/Paris"}):
        with pytest.raises(errors.Invalid):
            await patch(**slot)
    cancel = {"cancel": {"at": later}}
    with pytest.raises(errors.Invalid):
        await objects.patch(world.services, ADMIN, row, "s", {"spec": cancel}, namespace="default")
    await verbs.cancel(world.services, ADMIN, "s", "default")
    body = {"metadata": {}, "spec": {"definition": "two", "priority": 3}}
    kept = await objects.replace(world.services, ADMIN, row, "s", body, namespace="default")
    assert isinstance(kept, Session)
    assert kept.spec.cancel is not None
    assert kept.spec.slot == changed.spec.slot


@pytest.mark.asyncio
async def test_simulations_are_made_by_a_verb_only(world: World):
    """A POST of a simulation is refused."""
    with pytest.raises(Refused) as caught:
        await world.make("Simulation", "s", {})
    assert caught.value.reason == "NotCreatable"

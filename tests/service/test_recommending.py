"""What a definition should ask for is read, applied, undone, proposed (facts/fleet-bugs.md#t25)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from fleet_world import ADMIN, START, World, who

from labfleet.decisions import lab_bounds
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.definition import Definition
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.kinds import KINDS
from labfleet.resources.lab_recommendation import LabRecommendation, SizedAmounts
from labfleet.service.core.service_context import Refused
from labfleet.service.reads import recommendations
from labfleet.service.verbs import objects, recommending

pytestmark = pytest.mark.asyncio

OPERATOR = who("operator", "olga")
FOURFOLD = {"memory": "4Gi", "cpu": 8}
"""Four times what the two nodes of the topology reserve, 1024 MiB and 2 CPUs."""


async def past(world: World, count: int, family: str = "two", **changes: Any) -> None:
    """Keep past sessions of a family, each of which used 700 MiB and half a CPU for an hour."""
    use = {"memory_mib": Use(peak=700.0), "cpu_milli": Use(peak=500.0)}
    fields: dict[str, Any] = {"use": use, "parameters": {"definition": family}}
    made = [
        Run(
            kind=RunKind.SESSION,
            uid=world.ids.uid(),
            family=family,
            duration_seconds=3600.0,
            ended_at=START - timedelta(hours=count - number),
            **{**fields, **changes},
        )
        for number in range(count)
    ]
    cause = stores.Cause("test", world.clock.now())
    for first in range(0, count, 50):
        writes = tuple(stores.Teach(each) for each in made[first : first + 50])
        await world.store.commit(stores.Commit(cause, writes))


async def told(world: World, name: str = "two") -> LabRecommendation:
    """Return what is recommended."""
    return await recommendations.recommendation(world.services, ADMIN, name, "default")


async def apply(world: World, name: str = "two", value: Any = "bound", **more: Any) -> Definition:
    """Apply a recommendation as an admin."""
    return await recommending.apply(world.services, ADMIN, name, "default", value=value, **more)


async def pool(world: World) -> None:
    """Make a pool whose workers have 48 CPUs and 192 GiB, at a known price."""
    machine = {
        "provider": {"kind": "aws", "amiId": "ami-1"},
        "cml": {"adminPassword": {"env": "CML_PASSWORD"}, "maxNodesLicensed": 300},
        "licence": {"token": {"env": "CML_TOKEN"}},
        "hourlyPriceUsd": 4.0,
        "capacity": {"cpu": 48, "memory": "64Gi", "storage": "900Gi", "nodes": 300, "labs": 300,
                     "ports": 5000},
    }  # fmt: skip
    await world.make("Template", "metal", {"machine": machine})
    await world.make("Pool", "exam", {"template": "metal", "scaling": {"maxWorkers": 3}})
    await world.services.fresh()


async def test_a_fourfold_demand_is_recommended_down_to_what_its_nodes_reserve(
    world: World,
) -> None:
    """After five sessions the bound is the nodes' own ram, and what follows is told with money."""
    await pool(world)
    await world.definition(resources=FOURFOLD)
    await past(world, 5)
    found = await told(world)
    memory = found.dimensions[1]
    assert (memory.declared, memory.reserved, memory.bound) == (4096, 1024, 1024)
    assert found.needs_review
    by = {each.value: each for each in found.options}
    assert by["declared"].pools[0].sessions_per_worker == 6
    assert by["bound"].pools[0].sessions_per_worker == 24
    assert by["bound"].pools[0].usd_per_session_hour == 0.1667
    assert by["bound"].exceeded == 0
    assert "1024 MiB by their own ram" in by["max"].refused
    assert found.saving is not None
    assert (found.saving.sessions, found.saving.memory_gib_hours) == (5, 15.0)
    assert found.saving.usd == pytest.approx(2.5)


async def test_few_sessions_recommend_nothing(world: World) -> None:
    """Below the least number nothing can be applied, and the refusal says how many there are."""
    await world.definition(resources=FOURFOLD)
    await past(world, 4)
    found = await told(world)
    assert not found.needs_review
    assert "bound" not in {each.value for each in found.options}
    assert found.saving is None
    with pytest.raises(Refused) as refused:
        await apply(world)
    assert refused.value.reason == "TooFewSessions"
    assert "4 of the 5" in refused.value.message


async def test_applying_makes_the_next_version_of_the_family(world: World) -> None:
    """The new object is the family's next one with the same lab; the old one stays as it is."""
    old = await world.definition(resources=FOURFOLD, title="Two")
    await past(world, 6)
    made = await apply(world, reason="review")
    assert (made.name, made.spec.family, made.spec.version) == ("two-v2", "two", "1.1.0")
    assert made.spec.topology == old.spec.topology
    assert (made.status.demand.memory_mib, made.status.demand.cpu_milli) == (1024, 2000)
    assert made.status.applied is not None
    assert (made.status.applied.source, made.status.applied.by) == ("two", "ada")
    assert made.status.applied.declared == SizedAmounts(
        cpu_milli=8000, memory_mib=4096, storage_mib=old.status.demand.storage_mib
    )
    still = await world.services.objects.get(Definition, "two", "default")
    assert still is not None
    assert still.spec == old.spec
    events = await world.store.events_of(made.key)
    assert events[0].reason == "Applied bound to two: review"


async def test_evidence_survives_the_new_version(world: World) -> None:
    """Sessions of the old version count for the new one, as evidence of other versions."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await apply(world)
    found = await told(world, "two-v2")
    assert (found.family, found.looked_at) == ("two", 6)
    assert found.dimensions[1].evidence == "closest"
    alone = await recommendations.recommendation(
        world.services, ADMIN, "two-v2", "default", alone=True
    )
    assert (alone.looked_at, alone.dimensions[1].sessions) == (0, 0)
    assert not found.needs_review
    with pytest.raises(Refused) as refused:
        await apply(world, "two-v2")
    assert refused.value.reason == "NothingToApply"


async def test_only_the_newest_version_is_gone_on_from(world: World) -> None:
    """Whoever applies to a version that is not the newest is told which one is."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await apply(world)
    with pytest.raises(Refused) as refused:
        await apply(world)
    assert refused.value.reason == "NotNewest"
    assert "two-v2" in refused.value.message


async def test_a_repeated_request_makes_one_version(world: World) -> None:
    """The same idempotency key returns the version that the first request made."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    first = await apply(world, key="k1")
    assert (await apply(world, key="k1")).name == first.name == "two-v2"
    await world.services.fresh()
    assert len(world.services.cache.all(Definition)) == 2


async def test_undoing_deprecates_and_applying_goes_on_counting(world: World) -> None:
    """Undoing takes the version out of use in favour of the one before; the next one is v3."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await apply(world)
    undone = await recommending.undo(world.services, ADMIN, "two", "default")
    assert (undone.name, undone.spec.deprecated, undone.spec.replacement) == ("two-v2", True, "two")
    assert undone.status.phase == "DEPRECATED"
    with pytest.raises(Refused) as refused:
        await recommending.undo(world.services, ADMIN, "two", "default")
    assert refused.value.reason == "NothingToUndo"
    assert (await apply(world)).name == "two-v3"


async def test_undoing_a_version_again_takes_out_no_other(world: World) -> None:
    """However often, and whatever was made of it since: only the version that is named."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await apply(world)
    await world.services.fresh()
    custom = SizedAmounts(storage_mib=4000)
    await recommending.apply(
        world.services, ADMIN, "two-v2", "default", value="custom", custom=custom
    )
    undone = [recommending.undo(world.services, ADMIN, "two-v2", "default") for _ in range(4)]
    assert {each.name for each in await asyncio.gather(*undone)} == {"two-v2"}
    await world.services.fresh()
    used = [each.name for each in world.services.cache.all(Definition) if not each.spec.deprecated]
    assert sorted(used) == ["two", "two-v3"]


async def test_the_last_version_is_not_taken_out_of_use(world: World) -> None:
    """Undoing is refused where no other version could be used instead."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await apply(world)
    row, patch = KINDS["Definition"], {"spec": {"deprecated": True}}
    await objects.patch(world.services, ADMIN, row, "two", patch, namespace="default")
    with pytest.raises(Refused) as refused:
        await recommending.undo(world.services, ADMIN, "two-v2", "default")
    assert refused.value.reason == "LastVersion"


async def test_undoing_beside_a_deprecation_leaves_a_version_in_use(world: World) -> None:
    """Whichever comes first: undoing never takes out the last version that sessions may use."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await apply(world)
    row, sent = KINDS["Definition"], {"spec": {"deprecated": True}}
    patched = objects.patch(world.services, ADMIN, row, "two", sent, namespace="default")
    undone = recommending.undo(world.services, ADMIN, "two", "default")
    done = await asyncio.gather(patched, undone, return_exceptions=True)
    assert isinstance(done[1], Refused)
    assert done[1].reason == "LastVersion"
    await world.services.fresh()
    used = [each.name for each in world.services.cache.all(Definition) if not each.spec.deprecated]
    assert used == ["two-v2"]


async def test_less_memory_than_the_nodes_reserve_is_refused_by_name(world: World) -> None:
    """The refusal names the nodes' own ram as the thing to change."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    with pytest.raises(errors.Invalid) as refused:
        await apply(world, value="custom", custom=SizedAmounts(memory_mib=1000))
    assert refused.value.reason == "BelowReserved"
    assert "r1 512 MiB, r2 512 MiB" in refused.value.problems[0][1]


async def test_more_than_the_largest_worker_is_refused(world: World) -> None:
    """Nobody applies what no session could ever run with (T25: 100 T of memory)."""
    await pool(world)
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    with pytest.raises(errors.Invalid) as refused:
        await apply(world, value="custom", custom=SizedAmounts(memory_mib=100 * 2**20))
    assert refused.value.reason == "AboveWorkers"


async def test_a_proposal_is_applied_as_it_was_proposed(world: World) -> None:
    """An operator proposes; an admin applies those amounts, though sessions have used more since."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await recommending.propose(
        world.services, OPERATOR, "two", "default", value="bound", reason="half the fleet"
    )
    await past(world, 6, use={"memory_mib": Use(peak=3000.0), "cpu_milli": Use(peak=900.0)})
    with pytest.raises(errors.Denied):
        await recommending.apply(world.services, OPERATOR, "two", "default", value="proposed")
    made = await apply(world, value="proposed")
    assert (made.status.demand.memory_mib, made.status.demand.cpu_milli) == (1024, 2000)
    left = await world.services.objects.get(Definition, "two", "default")
    assert left is not None
    assert left.status.proposal is None


async def test_nobody_takes_cpus_from_labs_that_cml_reserves_for_them(world: World) -> None:
    """No value applies less than the nodes reserve, unless the definition asks for less already."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    by = {each.value: each.amounts.cpu_milli for each in (await told(world)).options}
    assert by == {"declared": 8000, "latest": 2000, "max": 2000, "bound": 2000}
    with pytest.raises(errors.Invalid, match="reserve 2000 mCPU") as refused:
        await apply(world, value="custom", custom=SizedAmounts(cpu_milli=1999))
    assert refused.value.reason == "BelowReserved"
    assert "lower ram" not in refused.value.message
    await world.definition("shared", resources={"cpu": 1})
    made = await apply(world, "shared", "custom", custom=SizedAmounts(memory_mib=2048))
    assert (made.status.demand.cpu_milli, made.status.demand.memory_mib) == (1000, 2048)


async def test_a_proposal_can_be_taken_back(world: World) -> None:
    """After that there is nothing proposed to apply."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await recommending.propose(world.services, OPERATOR, "two", "default", value="bound")
    taken = await recommending.propose(world.services, OPERATOR, "two", "default", value=None)
    assert taken.status.proposal is None
    with pytest.raises(Refused) as refused:
        await apply(world, value="proposed")
    assert refused.value.reason == "NothingProposed"


@pytest.mark.parametrize("role", ["user", "runner", "controller"])
async def test_others_read_and_propose_nothing(world: World, role: str) -> None:
    """What everybody's sessions used is for those who look after definitions."""
    await world.definition()
    with pytest.raises(errors.Denied):
        await recommendations.recommendation(world.services, who(role, "u"), "two", "default")
    with pytest.raises(errors.Denied):
        await recommending.propose(world.services, who(role, "u"), "two", "default", value="max")


async def test_a_session_may_name_the_family(world: World) -> None:
    """It gets the newest version in use and keeps it; a session that names a definition gets that."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    first = await world.make("Session", "a", {"family": "two"})
    await apply(world)
    second = await world.make("Session", "b", {"family": "two"}, who("user", "uma"))
    named = await world.make("Session", "c", {"definition": "two"})
    assert [each.spec.definition for each in (first, second, named)] == ["two", "two-v2", "two"]
    assert second.status.definition is not None
    assert second.status.definition.name == "two-v2"
    await recommending.undo(world.services, ADMIN, "two-v2", "default")
    again = await world.make("Session", "d", {"family": "two"})
    assert again.spec.definition == "two"
    kept = await objects.get(world.services, ADMIN, KINDS["Session"], "b", "default")
    assert kept.spec.definition == "two-v2"


async def test_a_family_must_be_there_and_in_use(world: World) -> None:
    """A family without a version in use, an unknown one, another one and none are four refusals."""
    await world.definition(deprecated=True, family="labs")
    await world.definition("other")
    for spec, reason in (
        ({"family": "labs"}, "DefinitionDeprecated"),
        ({"family": "lab"}, "UnknownName"),
        ({"family": "labs", "definition": "other"}, "Invalid"),
        ({}, "Invalid"),
    ):
        with pytest.raises(errors.Invalid) as refused:
            await world.make("Session", "a", spec)
        assert refused.value.reason == reason, spec


async def test_a_group_may_name_the_family(world: World) -> None:
    """Its seats all get the newest version in use."""
    await pool(world)
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    await apply(world)
    start = (START + timedelta(hours=5)).isoformat()
    group = await world.make("Group", "g", {"family": "two", "slot": {"start": start}, "size": 2})
    assert group.spec.definition == "two-v2"
    assert group.status.booked == 2


async def test_a_page_of_the_history_is_all_that_is_looked_at(world: World) -> None:
    """However many sessions there were, the newest two hundred are read."""
    await world.definition(resources=FOURFOLD)
    await past(world, 230)
    found = await told(world)
    assert (found.looked_at, found.most) == (lab_bounds.LOOKED_AT, lab_bounds.LOOKED_AT)
    assert found.dimensions[1].sessions == lab_bounds.LOOKED_AT


async def test_another_namespace_teaches_nothing(world: World) -> None:
    """Families of two namespaces are strangers."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6, namespace="elsewhere")
    assert (await told(world)).looked_at == 0


async def test_a_manifest_that_names_the_family_applies_again(world: World) -> None:
    """What was accepted keeps its version, also when the same manifest comes after a new one."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    first = await world.make("Session", "a", {"family": "two"})
    await apply(world)
    body = {"metadata": {"name": "a"}, "spec": {"family": "two", "owner": "ada"}}
    again = await objects.replace(
        world.services, ADMIN, KINDS["Session"], "a", body, namespace="default"
    )
    assert (again.spec, again.metadata) == (first.spec, first.metadata)


async def test_absurd_imported_sessions_make_nothing_unreadable(world: World) -> None:
    """The largest peaks that may be brought in give a version that can be read and gone on from."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6, use={"memory_mib": Use(peak=float(2**40))})
    made = await apply(world)
    found = await world.services.objects.get(Definition, made.name, "default")
    assert found is not None
    assert found.status.demand.memory_mib == 2**40
    later = await apply(world, made.name, value="custom", custom=SizedAmounts(memory_mib=4096))
    read = await world.services.objects.get(Definition, later.name, "default")
    assert read is not None
    assert read.status.applied is not None


async def test_two_who_apply_at_once_make_one_version(world: World) -> None:
    """Of ten at once one makes the next version; the others are told that it is newer."""
    await world.definition(resources=FOURFOLD)
    await past(world, 6)
    done = await asyncio.gather(*(apply(world) for _ in range(10)), return_exceptions=True)
    made = [each for each in done if isinstance(each, Definition)]
    assert [each.name for each in made] == ["two-v2"]
    assert {each.reason for each in done if isinstance(each, Refused)} == {"NotNewest"}
    assert len(done) == 10

"""What a session says of its person: time factor, e-mail address, values, limits."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import ADMIN, World, who
from hypothesis import given
from hypothesis import strategies as st
from test_service_claims import HOUR, MORNING, at, booked, fleet, packs
from test_session_times import MINUTE, extend, move

from labfleet.kernel import errors
from labfleet.resources import topology
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core import views
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import objects

ANN = who("user", "ann")


async def patch(world: World, name: str, **spec: Any) -> Session:
    """Change a session's spec."""
    return await objects.patch(world.services, ADMIN, KINDS["Session"], name, {"spec": spec},
                               namespace="default")  # fmt: skip


@pytest.mark.asyncio
@pytest.mark.parametrize(("factor", "minutes"), [(1, 60), (1.25, 75), (1.5, 90), (2, 120)])
async def test_a_factor_makes_slot_and_promise_longer(world: World, factor: float, minutes: int):
    """End and claim are those of the longer time, from the same start."""
    await fleet(world)
    plain = await world.session("plain", slot={"start": at()["start"]})
    made = await world.session("mine", slot={"start": at()["start"]}, timeFactor=factor)
    assert made.status.end == MORNING + minutes * MINUTE
    assert made.status.claim.start == plain.status.claim.start
    assert made.status.claim.end - plain.status.claim.end == (minutes - 60) * MINUTE
    moved = await move(world, "mine", MORNING + HOUR)
    assert moved.status.end - moved.status.start == minutes * MINUTE


@pytest.mark.asyncio
async def test_a_factor_given_later_takes_nothing_from_others(world: World):
    """A slot gets its person's time where that is free; else it is refused and stays as it is."""
    await fleet(world, workers=2)
    made = (await booked(world, 10))[0]
    longer = await patch(world, "s000", timeFactor=1.5)
    assert longer.status.end == MORNING + 1.5 * HOUR
    assert longer.status.claim.end - made.status.claim.end == HOUR / 2
    back = await patch(world, "s000", timeFactor=1)
    assert (back.status.end, back.status.claim.end) == (made.status.end, made.status.claim.end)
    gap = (made.status.claim.end - made.status.claim.start) / HOUR
    await booked(world, 20, first=10, hours=gap)
    with pytest.raises(Refused, match="promised to others"):
        await patch(world, "s001", timeFactor=1.25)
    await packs(world, 2)


@pytest.mark.asyncio
async def test_a_running_lab_counts_from_its_start(world: World):
    """Half its time over, the factor still counts for the whole of it."""
    await world.definition()
    made = await world.session("mine")
    now = world.clock.now()
    await world.status(made, phase=SessionPhase.RUNNING, start=now, started_at=now, end=now + HOUR)
    world.clock.forward(1800)
    assert (await patch(world, "mine", timeFactor=1.5)).status.end == now + 1.5 * HOUR


@pytest.mark.asyncio
async def test_who_may_give_a_factor_and_within_what(world: World):
    """Nobody gives it to themselves; the definition's longest grows with it; an end says all."""
    await world.definition(maxDurationMinutes=60)
    with pytest.raises(errors.Denied):
        await world.session("own", caller=ANN, timeFactor=2)
    made = await world.session("mine", owner="ann", slot={"start": at()["start"]}, timeFactor=2)
    with pytest.raises(errors.Invalid, match="60 minutes, times 2"):
        await extend(world, ADMIN, by=MINUTE)
    for wrong in (0.5, 4.1):
        with pytest.raises(errors.Invalid):
            await world.session("wrong", timeFactor=wrong)
    with pytest.raises(errors.Invalid, match="give one of them"):
        await world.session("both", slot=at(), timeFactor=1.5)
    assert made.status.end - made.status.start == 2 * HOUR


@pytest.mark.asyncio
async def test_a_request_says_how_long(world: World):
    """Minutes of the request stand for the definition's, times the factor, up to its longest."""
    await world.definition(maxDurationMinutes=120)
    made = await world.session(
        "mine", slot={"start": at()["start"]}, durationMinutes=40, timeFactor=1.5
    )
    assert made.status.end == MORNING + HOUR
    with pytest.raises(errors.Invalid, match="lasts at most 120 minutes"):
        await world.session("long", durationMinutes=121)
    with pytest.raises(errors.Invalid, match=r"slot\.end says when it ends"):
        await world.session("both", slot=at(), durationMinutes=40)


@pytest.mark.asyncio
async def test_an_address_is_for_its_person_and_operators(world: World):
    """Controllers and run scripts that read sessions see none; webhooks are given it."""
    await world.definition()
    made = await world.session("mine", caller=ANN, studentEmail="ann@example.org")

    def seen(role: str) -> str | None:
        return views.of(world.services, who(role, "ann").principal, made).spec.student_email

    assert {role: seen(role) for role in ("user", "operator", "admin", "system")} == dict.fromkeys(
        ("user", "operator", "admin", "system"), "ann@example.org"
    )
    assert (seen("controller"), seen("runner")) == (None, None)
    for wrong in ("ann", "a@b@c", "a b@c.org", "a@c.org\nBcc: all", "@c", "a" * 65 + "@c.org"):
        with pytest.raises(errors.Invalid):
            await world.session("wrong", studentEmail=wrong)


@pytest.mark.asyncio
async def test_a_variable_without_a_value_is_said(world: World):
    """Before anything is saved; values are one line each, so none adds a line to a configuration."""
    await world.definition(variables=["STUDENT", "SEAT"])
    with pytest.raises(errors.Invalid, match="needs SEAT; give each a value"):
        await world.session("mine", environment={"STUDENT": "ann"})
    both = {"STUDENT": "ann", "SEAT": "b12"}
    assert (await world.session("mine", environment=both)).spec.environment == both
    for wrong in (
        {**both, "SEAT": "1\nenable"},
        {**both, "a b": "x"},
        {**both, "SEAT": "x" * 1025},
    ):
        with pytest.raises(errors.Invalid):
            await world.session("wrong", environment=wrong)


@pytest.mark.asyncio
async def test_limits_below_what_a_lab_needs_are_refused(world: World):
    """It says by how much; limits that are not given limit nothing."""
    made = await world.definition(resources={"cpuMilli": 2000, "memoryMib": 2048})
    assert made.status.demand.memory_mib == 2048
    await world.session("fits", limits={"cpu": 2, "memory": "2Gi"})
    await world.session("cpu-only", limits={"cpu": "2"})
    with pytest.raises(errors.Invalid, match="needs 1 GiB more") as refusal:
        await world.session("mine", limits={"cpu": 2, "memory": "1Gi"})
    assert refusal.value.reason == "AboveLimits"


CONFIGURED = """
lab: {title: t, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: iosv, x: 0, y: 0, interfaces: [], configuration: "CONFIG"}
- id: n1
  label: r2
  node_definition: iosv
  x: 9
  y: 0
  interfaces: []
  configuration: [{name: boot, content: "hostname ${NAME} $NAME ${OTHER}"}]
links: []
"""


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=40))
def test_a_value_stays_one_value_whatever_it_holds(value: str):
    """It stands where the name stood, breaks no syntax, and names that are not given are left."""
    text = CONFIGURED.replace("CONFIG", "banner ${NAME}")
    made = topology.personalise(text, title="t", marker="m", tags={}, values={"NAME": value})
    nodes = topology.read(made).value["nodes"]
    assert nodes[0]["configuration"] == f"banner {value}"
    assert nodes[1]["configuration"][0]["content"] == f"hostname {value} $NAME ${{OTHER}}"

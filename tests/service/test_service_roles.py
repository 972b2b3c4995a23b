"""What each role may set and end: one table, walked field by field."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from fleet_world import ADMIN, World, who

from labfleet.interfaces.store import TokenRow
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import SessionPhase
from labfleet.service.core import access, tokens
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.roles import FOR_TOKENS, Role
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import admission, objects, worker_reports
from labfleet.service.verbs import lifecycle as verbs

CONTROLLER = who("controller", "lab-controller")


def stated() -> list[tuple[Role, str, str, frozenset[str]]]:
    """Every role, action and kind whose fields are bounded, with the fields."""
    return [
        (role, action, rules.name, fields)
        for rules in TABLE.values()
        for role, actions in rules.fields.items()
        for action, fields in actions.items()
    ]


def forbidden() -> list[tuple[Role, str, str, str]]:
    """Every role, action, kind and field of `spec` that the tables leave out."""
    return [
        (role, action, kind, field.encode_name)
        for role, action, kind, allowed in stated()
        for field in msgspec.structs.fields(kind_spec(kind))
        if field.encode_name not in allowed
    ]


def kind_spec(kind: str) -> type[msgspec.Struct]:
    """The type of a kind's `spec`."""
    fields = {field.name: field.type for field in msgspec.structs.fields(KINDS[kind].type)}
    return fields["spec"]


@pytest.mark.parametrize(("role", "action", "kind", "field"), forbidden(), ids=str)
def test_a_field_outside_the_table_is_refused(
    role: Role, action: str, kind: str, field: str
) -> None:
    """Whatever its value, with the fields that the role may set; an operator may."""
    with pytest.raises(errors.Denied, match=field) as raised:
        access.demand_fields(who(role).principal, action, kind, {field: {"any": 1}})
    assert raised.value.reason == "ForbiddenField"
    access.demand_fields(who("operator").principal, action, kind, {field: {"any": 1}})


def test_the_table_of_fields_names_real_ones() -> None:
    """A field that no kind has would let nothing in and tell nobody."""
    for _, _, kind, allowed in stated():
        assert allowed <= {each.encode_name for each in msgspec.structs.fields(kind_spec(kind))}


@pytest.mark.asyncio
async def test_a_controller_makes_a_worker_of_a_template_only(world: World) -> None:
    """No machine and no origin of its own: it could send a file of ours to any address."""
    await world.template("t")
    row = KINDS["Worker"]
    for spec in (
        {"machine": {"cml": {"adminPassword": {"file": "/etc/shadow"}}}},
        {"template": "t", "origin": {"kind": "external", "url": "https://evil", "managed": True}},
        {"template": "t", "tags": {"a": "b"}},
        {"template": "t", "pool": "p"},
    ):
        body = {"metadata": {"name": "w"}, "spec": spec}
        with pytest.raises(errors.Denied):
            await objects.create(world.services, CONTROLLER, row, body)
    made = await worker_reports.scale_up(world.services, CONTROLLER, "t", "default", reason="")
    assert made.spec.template == "t"


@pytest.mark.asyncio
async def test_a_controller_ends_nothing_that_runs(world: World) -> None:
    """No forced drain, no end of a worker that hosts sessions; an empty one it may end."""
    await world.template("t")
    await world.make("Worker", "w", {"template": "t"})
    await world.definition()
    session = await world.session("s")
    await world.status(session, phase=SessionPhase.RUNNING, worker="w")
    await world.services.fresh()
    with pytest.raises(errors.Denied):
        await verbs.drain(world.services, CONTROLLER, "w", "default", force=True)
    await verbs.drain(world.services, CONTROLLER, "w", "default")
    with pytest.raises(errors.Denied):
        await verbs.change_drain(world.services, CONTROLLER, "w", "default", force=True)
    with pytest.raises(Refused) as raised:
        await verbs.desire(world.services, CONTROLLER, "w", "default", desired="Terminated")
    assert raised.value.reason == "HostsSessions"
    await world.make("Worker", "empty", {"template": "t"})
    ended = await verbs.desire(world.services, CONTROLLER, "empty", "default", desired="Terminated")
    assert ended.spec.desired == "Terminated"


@pytest.mark.asyncio
async def test_a_runner_sees_and_ends_only_its_own_simulations(world: World) -> None:
    """Another's is as if it did not exist, and it asks for nobody else."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 8}})
    one, other = who("runner", "one"), who("runner", "other")
    cost = {"cost": {"cpu": 1}}
    made = await admission.request_run(world.services, one, cost, namespace="default")
    assert made.spec.owner == "one"
    with pytest.raises(errors.Gone):
        await admission.simulation_complete(world.services, other, made.name, "default")
    with pytest.raises(errors.Gone):
        await objects.get(world.services, other, KINDS["Simulation"], made.name, "default")
    with pytest.raises(errors.Invalid, match="yourself"):
        await admission.request_run(
            world.services, one, {**cost, "owner": "other"}, namespace="default"
        )
    ended = await admission.simulation_complete(world.services, one, made.name, "default")
    assert ended.status.phase == "COMPLETED"


@pytest.mark.asyncio
async def test_a_user_runs_on_the_definition_s_track(world: World) -> None:
    """Another track is another pool, whose paid machines would start; an operator may choose."""
    await world.definition()
    eve = who("user", "eve")
    with pytest.raises(errors.Invalid, match="track"):
        await world.session("s", eve, track="exam2")
    same = await world.session("s", eve, track="default")
    assert same.spec.track == "default"
    chosen = await world.session("o", who("operator", "olga"), track="exam2")
    assert chosen.spec.track == "exam2"


@pytest.mark.asyncio
async def test_a_token_of_an_earlier_role_is_what_it_became(world: World) -> None:
    """`internal` is controller now, is told so at start, and no new one is made."""
    keeper = tokens.Tokens(world.store, world.clock, world.ids)
    text = "lf_00000000000000aa_" + "s" * 43
    row = TokenRow(
        id="00000000000000aa", hash=tokens.hash_of("s" * 43), role="internal", owner="lab",
        created=world.clock.now() - timedelta(days=1),
    )  # fmt: skip
    await world.store.put_token(row)
    caller = await keeper.authenticate(text)
    assert caller.role is Role.CONTROLLER
    assert [each.id for each in await keeper.own(caller)] == [row.id]
    assert [each.id for each in await keeper.earlier()] == [row.id]
    with pytest.raises(errors.Invalid) as raised:
        await keeper.create(ADMIN.principal, role="internal", owner="lab")
    assert "runner" in raised.value.problems[0][1]
    for role in FOR_TOKENS:
        assert (await keeper.create(ADMIN.principal, role=role, owner="x")).row.role == role
    with pytest.raises(errors.Invalid):
        await keeper.create(ADMIN.principal, role="system", owner="x")

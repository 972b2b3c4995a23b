"""Roles and tokens."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_world import ADMIN, World, who

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.service.core import access, tokens
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.kind_table import TABLE
from labfleet.service.reads import explain, listing
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects

ALLOWED = {
    ("admin", "tokens", "Token"): True,
    ("operator", "tokens", "Token"): False,
    ("operator", "create", "Template"): True,
    ("operator", "drain", "Worker"): True,
    ("user", "read", "Definition"): True,
    ("user", "read", "Session"): True,
    ("user", "read", "Worker"): False,
    ("user", "read", "Simulation"): False,
    ("user", "create", "Session"): True,
    ("user", "create", "Definition"): False,
    ("user", "update", "Session"): False,
    ("user", "cancel", "Session"): True,
    ("user", "record", "Session"): False,
    ("user", "admit", "Simulation"): False,
    ("controller", "record", "Session"): True,
    ("controller", "record", "Worker"): True,
    ("controller", "drain", "Worker"): True,
    ("controller", "cleanup", "Worker"): True,
    ("controller", "force", "Worker"): False,
    ("controller", "delete", "Worker"): False,
    ("controller", "update", "Worker"): False,
    ("controller", "create", "Session"): False,
    ("controller", "cancel", "Session"): False,
    ("controller", "extend", "Session"): False,
    ("controller", "delete", "Session"): False,
    ("controller", "admit", "Simulation"): False,
    ("controller", "create", "Template"): False,
    ("controller", "tokens", "Token"): False,
    ("runner", "admit", "Simulation"): True,
    ("runner", "read", "Simulation"): True,
    ("runner", "read", "Session"): False,
    ("runner", "read", "Worker"): False,
    ("runner", "read", "Cluster"): False,
    ("runner", "create", "Worker"): False,
    ("runner", "record", "Session"): False,
    ("system", "tokens", "Token"): False,
}


@pytest.mark.parametrize(("case", "allowed"), ALLOWED.items(), ids=str)
def test_the_roles_table_says_who_may_do_what(case, allowed):
    """Each role may do what its row says and nothing else."""
    role, action, kind = case
    assert access.may(Principal("x", Role(role)), action, kind) is allowed


def test_every_rule_names_known_actions_and_kinds():
    """The table has no word that nobody checks."""
    assert set(TABLE) == set(KINDS)
    for name, rules in TABLE.items():
        assert rules.name == name
        assert set(rules.grants) <= set(Role) - {Role.ADMIN, Role.OPERATOR}
        assert frozenset().union(*rules.grants.values()) <= set(access.ACTIONS)
        # What is encoded once for many callers is kept by their sight.
        assert (rules.view is None) == (rules.sight is None)


@pytest.mark.parametrize(
    ("action", "kind", "said"),
    [
        ("read", "Worker", "role user may not read workers"),
        ("observe", "Worker", "role user may not look into workers"),
        ("drain", "Worker", "role user may not take workers in or out of service"),
        ("pause", "Settings", "role user may not pause or resume automatic actions"),
        ("pause", "Pool", "role user may not pause or resume automatic actions"),
        ("tokens", "Token", "role user may not create, list or revoke tokens"),
    ],
)
def test_a_refusal_is_a_plain_sentence(action: str, kind: str, said: str):
    """It names the role and the deed as people say it."""
    with pytest.raises(errors.Denied) as found:
        access.demand(Principal("x", Role.USER), action, kind)
    assert (found.value.message, found.value.reason) == (said, "Forbidden")


def test_every_action_with_every_kind_can_be_said():
    """No refusal shows the name of a type or the spelling of a table."""
    for action in access.ACTIONS:
        for kind, row in KINDS.items():
            said = access.deed_of(action, kind)
            assert not set("(){}") & set(said)
            assert row.plural in said or said.endswith("automatic actions")


@pytest.mark.asyncio
async def test_a_user_sees_and_ends_only_its_own_sessions(world: World):
    """Other people's sessions are as if they did not exist: get, list, verbs, explain, events."""
    await world.definition()
    eve, bob = who("user", "eve"), who("user", "bob")
    mine = await world.session("mine", eve)
    await world.session("other", bob)
    assert mine.spec.owner == "eve"
    row = KINDS["Session"]
    page = await listing.listed(world.services, eve, row, listing.Query())
    assert [each.name for each in page.items] == ["mine"]
    assert page.total == 1
    later = world.clock.now() + timedelta(hours=2)
    for call in (
        objects.get(world.services, eve, row, "other", "default"),
        objects.delete(world.services, eve, row, "other", "default"),
        objects.events(world.services, eve, row, "other", "default"),
        explain.explain(world.services, eve, row, "other", "default"),
        verbs.cancel(world.services, eve, "other", "default"),
        verbs.extend(world.services, eve, "other", "default", end=later),
        verbs.observe(world.services, eve, "other", "default"),
    ):
        with pytest.raises(errors.Gone):
            await call
    assert (await verbs.cancel(world.services, eve, "mine", "default")).spec.cancel.by == "eve"


@pytest.mark.asyncio
async def test_a_user_cannot_act_for_another_nor_jump_the_queue(world: World):
    """Owner and a raised priority are refused for role user."""
    await world.definition()
    for spec in ({"owner": "bob"}, {"priority": 5}):
        with pytest.raises(errors.Invalid):
            await world.session("s", who("user", "eve"), **spec)
    assert (await world.session("s", ADMIN, owner="bob", priority=5)).spec.owner == "bob"


@pytest.mark.asyncio
async def test_a_token_is_shown_once_and_only_its_hash_is_stored(world: World):
    """The secret is in no row, no repr and no list."""
    book = tokens.Tokens(world.store, world.clock, world.ids)
    made = await book.create(ADMIN.principal, role="user", owner="eve")
    secret = made.text.split("_", 2)[2]
    rows = await world.store.tokens()
    assert secret not in repr(rows) + repr(made) + repr(await book.listed(ADMIN.principal))
    found = await book.authenticate(made.text)
    assert (found.role, found.owner) == (Role.USER, "eve")


@pytest.mark.asyncio
async def test_wrong_expired_and_revoked_tokens_are_unauthenticated(world: World):
    """None of them gives a principal, and none says more than it must."""
    book = tokens.Tokens(world.store, world.clock, world.ids)
    until = world.clock.now() + timedelta(hours=1)
    made = await book.create(ADMIN.principal, role="operator", owner="o", expires=until)
    kept = await book.create(ADMIN.principal, role="operator", owner="o")
    for text in ("", "x", made.text + "x", "lf_nobody_secret", "lf__", "é" * 300, "\ud800"):
        with pytest.raises(errors.Denied) as caught:
            await book.authenticate(text)
        assert caught.value.reason == "Unauthenticated"
    world.clock.instant = until
    with pytest.raises(errors.Denied, match="expired"):
        await book.authenticate(made.text)
    await book.revoke(ADMIN.principal, kept.row.id)
    with pytest.raises(errors.Denied, match="revoked"):
        await book.authenticate(kept.text)
    with pytest.raises(errors.Gone):
        await book.revoke(ADMIN.principal, "nobody")


@pytest.mark.asyncio
async def test_only_an_admin_handles_tokens(world: World):
    """Operators, users and programs get Forbidden."""
    book = tokens.Tokens(world.store, world.clock, world.ids)
    for role in ("operator", "user", "controller", "runner"):
        with pytest.raises(errors.Denied) as caught:
            await book.create(who(role).principal, role="admin", owner="x")
        assert caught.value.reason == "Forbidden"


@pytest.mark.asyncio
async def test_the_first_token_is_made_once(world: World):
    """A second start, or a second process, gets none."""
    book = tokens.Tokens(world.store, world.clock, world.ids)
    first = await book.first()
    assert first is not None
    assert first.row.role == "admin"
    assert await book.first() is None
    assert await tokens.Tokens(world.store, world.clock, world.ids).first() is None


@pytest.mark.asyncio
async def test_bad_token_requests_name_every_problem(world: World):
    """Role, owner and expiry are judged together."""
    book = tokens.Tokens(world.store, world.clock, world.ids)
    past = world.clock.now() - timedelta(1)
    with pytest.raises(errors.Invalid) as caught:
        await book.create(ADMIN.principal, role="root", owner="a\nb", expires=past)
    assert {where for where, _ in caught.value.problems} == {"role", "owner", "expires"}

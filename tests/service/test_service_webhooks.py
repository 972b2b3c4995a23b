"""People's own webhooks: few, of their own sessions, and never with a secret that others trust."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import ADMIN, World, who

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.service.core.access import Role
from labfleet.service.kinds import webhook
from labfleet.service.reads import listing
from labfleet.service.reads.listing import Query
from labfleet.service.verbs import objects

ROW = KINDS["Webhook"]
ANN, BOB, OLGA = who(Role.USER, "ann"), who(Role.USER, "bob"), who(Role.OPERATOR, "olga")
pytestmark = pytest.mark.asyncio


def body(name: str = "h", **spec: Any) -> dict[str, Any]:
    """Return a webhook's body."""
    return {"metadata": {"name": name}, "spec": {"url": "https://hooks.example.com/", **spec}}


async def test_a_users_webhook_is_that_users_whatever_it_says(world: World) -> None:
    """Without an owner it is the caller's; another owner is refused; nobody else sees it."""
    made = await objects.create(world.services, ANN, ROW, body())
    assert made.spec.owner == "ann"
    with pytest.raises(errors.Invalid, match="for yourself only"):
        await objects.create(world.services, ANN, ROW, body("h2", owner="bob"))
    with pytest.raises(errors.Gone):
        await objects.get(world.services, BOB, ROW, "h", "default")
    await world.services.fresh()
    seen = {
        caller.principal.name: len(
            (await listing.listed(world.services, caller, ROW, Query())).items
        )
        for caller in (ANN, BOB, OLGA)
    }
    assert seen == {"ann": 1, "bob": 0, "olga": 1}
    with pytest.raises(errors.Invalid, match="cannot be changed"):
        await objects.patch(
            world.services, OLGA, ROW, "h", {"spec": {"owner": ""}}, namespace="default"
        )
    assert (await objects.create(world.services, OLGA, ROW, body("all"))).spec.owner == ""


async def test_a_user_names_no_secret_and_moves_none(world: World) -> None:
    """Else a person could have bodies signed that somebody else's receiver would take."""
    for name in ("secret", "previousSecret"):
        with pytest.raises(errors.Denied):
            await objects.create(world.services, ANN, ROW, body(**{name: {"env": "HOOK"}}))
    signed = body(owner="ann", secret={"env": "HOOK"})
    await objects.create(world.services, OLGA, ROW, signed)
    moved = {"spec": {"url": "https://evil.example.com/"}}
    with pytest.raises(errors.Denied, match="an operator may change"):
        await objects.patch(world.services, ANN, ROW, "h", moved, namespace="default")
    off = {"spec": {"enabled": False, "types": ["notice.*"]}}
    changed = await objects.patch(world.services, ANN, ROW, "h", off, namespace="default")
    assert changed.spec.secret is not None


async def test_a_user_has_as_many_as_the_fleet_allows(world: World) -> None:
    """A limit for each, which may be none, and one for all people together."""
    for name in ("a", "b"):
        await objects.create(world.services, ANN, ROW, body(name))
    with pytest.raises(errors.QuotaExceeded, match="ann has 2 webhooks") as caught:
        await objects.create(world.services, ANN, ROW, body("c"))
    assert caught.value.reason == "TooManyWebhooks"
    limits = {"metadata": {"name": "fleet"}, "spec": {"limits": {"webhooks": 0}}}
    await objects.create(world.services, ADMIN, KINDS["Settings"], limits)
    await world.services.fresh()
    with pytest.raises(errors.QuotaExceeded):
        await objects.create(world.services, BOB, ROW, body("d"))


async def test_all_people_together_have_a_bounded_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads the log, so a thousand people cannot have a thousand."""
    monkeypatch.setattr(webhook, "OWNED_MOST", 1)
    await objects.create(world.services, ANN, ROW, body())
    with pytest.raises(errors.QuotaExceeded, match="the most that this fleet delivers to"):
        await objects.create(world.services, BOB, ROW, body("h2"))


async def test_a_user_opens_no_way_inside(world: World) -> None:
    """The rules of addresses are those of operators."""
    for url in ("http://10.0.0.1/", "https://169.254.169.254/", "http://example.com/"):
        with pytest.raises(errors.Invalid):
            await objects.create(world.services, ANN, ROW, body(url=url))
    with pytest.raises(errors.Denied):
        await objects.create(world.services, ANN, ROW, body(allowPrivate=True))

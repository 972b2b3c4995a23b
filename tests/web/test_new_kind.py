"""A kind declared in two places is whole: REST, OpenAPI, pages, events, reference, backup.

The CLI's part is in tests/cli.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from api_caller import Reply, exchange, scope_of
from browser import Browser, plain
from browser import browser as opened
from throwaway_kind import BY_SIZE, GadgetCondition, GadgetReason, declare

from labfleet.resources import conditions, fleet_alerts, kinds
from labfleet.service.core import event_types
from labfleet.stores.opening import open_store, restore
from labfleet.stores.runners import Threads

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import reference

URL = "/api/v1/gadgets"
SOURCE = Path(__file__).parents[2] / "src" / "labfleet"

GENERIC = (
    "api/kinds/kind_routes.py", "resources/kinds.py", "resources/runbook.py",
    "service/core/access.py", "service/core/event_types.py", "service/core/intake.py",
    "service/kinds/rules.py", "service/reads/listing.py", "service/verbs/objects.py",
    "web/words.py",
)  # fmt: skip
"""What serves every kind, and so knows none by name."""


def named(path: Path) -> set[str]:
    """Return the kinds whose names stand in a file as text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)}
    return found & set(kinds.KINDS)


def test_what_serves_every_kind_names_none() -> None:
    """The generic verbs, routes, lists, names of events and pages branch on no kind's name."""
    assert {path: names for path in GENERIC if (names := named(SOURCE / path))} == {}


def test_a_webhook_is_its_two_declarations() -> None:
    """Nothing but the two modules of the kind says its name, beside what pages have for it alone.

    Those are its acts and its tabs, which are rows of two tables; it has pages without them.
    """
    found = [path for path in sorted(SOURCE.rglob("*.py")) if "Webhook" in named(path)]
    names = [path.relative_to(SOURCE).as_posix() for path in found]
    own = ("web/acts/", "web/panels/", "web/panel_table.py")
    assert [name for name in names if not name.startswith(own)] == [
        "resources/webhook.py", "service/kinds/webhook.py",
    ]  # fmt: skip


@pytest_asyncio.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    """An installation that has the throw-away kind."""
    declare(monkeypatch)
    async with opened() as made:
        yield made
        assert made.defects == []


async def call(
    site: Browser, method: str, target: str, body: Any = None, role: str = "admin", owner: str = ""
) -> Reply:
    """Call the API as a program does."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    token = await site.token(role, owner)
    sent = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    content = b"" if body is None else json.dumps(body).encode()
    return await exchange(site.app, scope_of(method, target, sent), content)


async def make(site: Browser, name: str, **spec: Any) -> Reply:
    return await call(site, "POST", URL, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.asyncio
async def test_rest_follows_both_declarations(site: Browser) -> None:
    """Created by its rule, named by us, listed by its filters, frozen, patched, deleted."""
    assert (await make(site, "g-1", colour="red", owner="ada")).status == 201
    assert (await make(site, "g-2", size=10)).json["problems"][0]["where"] == "spec.size"
    named = await call(site, "POST", URL, {"spec": {"colour": "blue"}}, "user", "kim")
    assert named.json["metadata"]["name"].startswith("blue-")
    reds = (await call(site, "GET", f"{URL}?colour=red")).json
    assert [each["metadata"]["name"] for each in reds["items"]] == ["g-1"]
    assert (await call(site, "GET", f"{URL}?pool=x")).status == 400
    assert (await call(site, "GET", URL, role="user", owner="eve")).json["total"] == 0
    assert (await call(site, "DELETE", f"{URL}/g-1", role="user", owner="ada")).status == 403
    frozen = await call(site, "PATCH", f"{URL}/g-1", {"spec": {"colour": "grey"}})
    assert frozen.json["reason"] == "FrozenField"
    assert (await call(site, "PATCH", f"{URL}/g-1", {"spec": {"size": 3}})).status == 200
    told = (await call(site, "GET", f"{URL}/g-1/explain")).json
    assert "it is red" in told["lines"]
    assert (await call(site, "DELETE", f"{URL}/g-1")).status == 200
    assert (await call(site, "GET", f"{URL}/g-1")).status == 404


@pytest.mark.asyncio
async def test_its_index_is_kept(site: Browser) -> None:
    """What the kind declares, the cache keeps."""
    await make(site, "g-1", size=4)
    await site.world.services.fresh()
    assert [each.name for each in site.world.services.cache.by(BY_SIZE, 4)] == ["g-1"]


@pytest.mark.asyncio
async def test_the_document_describes_it(site: Browser) -> None:
    """Its paths, its filter and its fields are in the OpenAPI document."""
    document = (await call(site, "GET", "/api/v1/openapi.json")).json
    listing = document["paths"][URL]["get"]
    assert "colour" in {each["name"] for each in listing["parameters"]}
    assert "colour" in json.dumps(document["components"]["schemas"]["GadgetSpec"])
    others = document["paths"]["/api/v1/workers"]["get"]["parameters"]
    assert "colour" not in {each["name"] for each in others}


@pytest.mark.asyncio
async def test_the_pages_show_it(site: Browser) -> None:
    """A table of its own that says what to do while it is empty, its states, its own page."""
    assert "labfleet apply -f gadget.yaml" in plain(await site.get("/live"))
    await make(site, "g-1", colour="red")
    page = await site.page("/live")
    assert "RESTING" in page.rows["Gadget/default/g-1"]
    assert {"href": "/gadgets/g-1"} in page.all("a")
    assert "red" in plain(await site.get("/gadgets/g-1"))


@pytest.mark.asyncio
async def test_its_changes_have_names(site: Browser) -> None:
    """Its own event types, the common ones, and a webhook that may ask for them."""
    await make(site, "g-1")
    get, row = site.world.services.objects.get, kinds.KINDS["Gadget"]
    old = await get(row.type, "g-1", "default")
    assert [each.type for each in event_types.changes(None, old)] == ["gadget.created"]
    await call(site, "PATCH", f"{URL}/g-1", {"spec": {"size": 2}})
    new = await get(row.type, "g-1", "default")
    assert [each.type for each in event_types.changes(old, new)] == ["gadget.resized"]
    facts = conditions.put(
        (), GadgetCondition.SMOOTH, "False", GadgetReason.SQUEAKS, now=site.world.clock.now()
    )
    loud = await site.world.status(new, conditions=facts)
    assert [each.type for each in event_types.changes(new, loud)] == ["condition.raised"]
    assert [each.condition for each in fleet_alerts.raised(loud)] == ["Smooth"]
    hook = {"url": "https://example.com/in", "types": ["gadget.*"]}
    body = {"metadata": {"name": "h"}, "spec": hook}
    assert (await call(site, "POST", "/api/v1/webhooks", body)).status == 201


def test_the_reference_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fields, conditions, reasons, events and runbook rows are on their pages."""
    declare(monkeypatch)
    pages = reference.pages()
    assert "## Gadget\n" in pages["kinds.md"]
    assert (
        "| `Smooth` | It turns without a sound. | `Greased`, `Squeaks` |"
        in (pages["conditions.md"])
    )
    assert "| `gadget.resized` | it has another size (size) |" in pages["events.md"]
    assert "Grease it." in pages["runbook.md"]
    assert "Stop it." in pages["runbook.md"]


@pytest.mark.asyncio
async def test_a_backup_holds_it(site: Browser, tmp_path: Path) -> None:
    """What was stored of it comes back from a backup as it was."""
    world = site.world
    await make(site, "g-1", colour="red")
    await world.store.backup(str(tmp_path / "copy.backup"))
    url, runner = f"sqlite:///{tmp_path / 'again.db'}", Threads()
    await restore(str(tmp_path / "copy.backup"), url, runner=runner, ids=world.ids)
    store = await open_store(url, runner=runner, ids=world.ids, clock=world.clock)
    try:
        found = (await store.list("Gadget")).items
        made = kinds.decode("Gadget", found[0].doc, found[0].revision)
        assert (made.name, made.spec.colour) == ("g-1", "red")
    finally:
        await store.close()

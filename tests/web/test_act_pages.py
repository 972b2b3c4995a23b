"""Booking, settings, tokens and the end of a visit, on pages."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from api_caller import ADMIN
from browser import Browser, Reader, plain
from fleet_world import MACHINE

from labfleet.interfaces.store import TokenRow
from labfleet.resources.group import Group
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import Session
from labfleet.resources.worker import WorkerPhase
from labfleet.web.acts import generic

GROUP = {"definition": "two", "name": "exam", "start": "2026-12-01T09:00", "zone": "Europe/Warsaw",
         "minutes": "60", "full": "refuse"}  # fmt: skip
ROSTER = "name,e-mail,seat,factor\nAda,ada@example.com,,\nBob <i>,bob@example.com,,1.5\n"


@pytest.mark.asyncio
async def test_a_session_is_booked_by_the_clocks_of_its_zone(browser: Browser) -> None:
    """A user books a slot of nine o'clock in Warsaw, twice by a second click, and gets one session."""
    await browser.world.definition()
    await browser.world.services.fresh()
    where = "/act/book/sessions"
    fields = {"definition": "two", "start": "2026-12-01T09:00", "zone": "Europe/Warsaw",
              "minutes": "60", "form": await browser.seal(where, "user", "kim")}  # fmt: skip
    look = await browser.sent(where, {**fields, "look": "1"}, "user", "kim")
    assert "2026-12-01 09:00 Europe/Warsaw (08:00Z)" in plain(look)
    done = [await browser.sent(where, dict(fields), "user", "kim") for _ in range(2)]
    assert [each.status for each in done] == [303, 303], plain(done[0])
    assert done[0].headers["location"] == done[1].headers["location"]
    await browser.world.services.fresh()
    found = list(browser.world.services.cache.all(Session))
    assert [each.spec.owner for each in found] == ["kim"]
    assert found[0].spec.slot.start is not None
    assert f"{found[0].spec.slot.start:%H:%M}" == "08:00"
    assert done[0].headers["location"] == f"/sessions/{found[0].name}"


@pytest.mark.asyncio
async def test_a_class_is_looked_at_before_it_is_booked(browser: Browser) -> None:
    """A pasted roster is shown seat by seat with nothing saved; only then the form books it."""
    await browser.world.definition()
    await browser.world.services.fresh()
    where = "/act/book/groups"
    first = Reader(plain(await browser.get(where, "user", "kim")))
    assert [each.get("name") for each in first.all("button") if each.get("name")] == ["look"]
    look = await browser.send(where, {**GROUP, "roster": ROSTER, "look": "1"}, "user", "kim")
    text = plain(look)
    assert look.status == 200
    assert "Seat 001: Ada." in text
    assert "Seat 002: Bob &lt;i&gt;, 1.5 times as long." in text
    assert "Book a class</button>" in text
    await browser.world.services.fresh()
    assert list(browser.world.services.cache.all(Group)) == []
    done = await browser.send(where, {**GROUP, "roster": ROSTER}, "user", "kim")
    assert (done.status, done.headers["location"]) == (303, "/groups/exam")
    await browser.world.services.fresh()
    assert {each.spec.owner for each in browser.world.services.cache.all(Session)} == {
        "Ada", "Bob <i>"
    }  # fmt: skip


@pytest.mark.asyncio
async def test_a_wrong_roster_is_told_row_by_row(browser: Browser) -> None:
    """Mistakes of a roster stand on the form by row, and what was pasted stays."""
    await browser.world.definition()
    await browser.world.services.fresh()
    wrong = "name,factor\nAda,99\nAda,1\n"
    reply = await browser.send("/act/book/groups", {**GROUP, "roster": wrong, "look": "1"})
    assert reply.status == 400
    assert "row 2" in plain(reply)
    assert "Ada,99" in plain(reply)
    assert "Book a class</button>" not in plain(reply)


@pytest.mark.asyncio
async def test_any_kind_is_made_from_a_text_of_its_fields(browser: Browser) -> None:
    """The form for a webhook names the fields of the kind; filled in, it makes one."""
    where = "/act/create/webhooks"
    assert "Where events are posted." in plain(await browser.get(where))
    text = generic.skeleton("Webhook").replace("name: ", "name: h1").replace(
        "  url: ", "  url: https://example.com/in"
    )  # fmt: skip
    done = await browser.send(where, {"text": text})
    assert (done.status, done.headers["location"]) == (303, "/webhooks/h1"), plain(done)
    wrong = await browser.send(where, {"text": "kind: Pool\nmetadata: {name: p}\nspec: {}"})
    assert wrong.status == 400
    for kind in ("Session", "Cluster"):
        made = generic.skeleton(kind)
        assert ("  name: " in made) is (kind == "Cluster")


@pytest.mark.asyncio
async def test_a_text_that_no_form_takes_is_told_on_a_page(browser: Browser) -> None:
    """More than 64 KiB as the browser sends it is refused to a person with a page, not with JSON."""
    seal = await browser.seal("/act/create/templates")
    long = {"form": seal, "text": "a: b\n" * 9900}
    reply = await browser.sent("/act/create/templates", long)
    assert reply.status == 400
    assert "A body is at most 65536 bytes here" in plain(reply)
    assert reply.headers["content-type"].startswith("text/html")


@pytest.mark.asyncio
async def test_a_setting_is_set_and_taken_back(browser: Browser) -> None:
    """A setting's page tells its source; set, it says what it was and leads to taking it back."""
    assert "idle.timeoutMinutes" in plain(await browser.get("/settings"))
    where = "/act/set/settings?setting=idle.timeoutMinutes"
    assert '<option value="idle.timeoutMinutes" selected>' in plain(await browser.get(where))
    done = await browser.send(where, {"setting": "idle.timeoutMinutes", "value": "77"})
    assert (done.status, done.headers["location"]) == (303, "/settings"), plain(done)
    cookie = f"labfleet-8470={await browser.token()}; {done.headers['set-cookie'].split(';')[0]}"
    await browser.world.services.fresh()
    text = plain(await browser.get("/settings", cookie=cookie))
    assert "Done: idle.timeoutMinutes is 77; it was" in text
    assert "/act/unset/settings?uid=&amp;setting" not in text
    assert 'href="/act/unset/settings?setting=idle.timeoutMinutes">Take it back' in text
    wrong = await browser.send(where, {"setting": "idle.timeoutMinutes", "value": "x"})
    assert wrong.status == 400
    assert (await browser.get("/settings", "operator")).status == 200
    assert "/act/set/settings" not in plain(await browser.get("/settings", "operator"))
    assert (await browser.get("/settings", "user", "kim")).status == 403


@pytest.mark.asyncio
async def test_a_token_is_shown_once(browser: Browser) -> None:
    """An admin makes a token, whose text stands in that answer alone; the same form makes no second."""
    fields = {"owner": "kim", "role": "user", "days": "3", "form": await browser.seal("/tokens")}
    made = await browser.sent("/tokens", dict(fields))
    assert made.status == 201
    secret = re.search(r"<code>(lf_[0-9a-f]{16}_\w+)</code>", plain(made))
    assert secret is not None
    assert (await browser.get("/", cookie=f"labfleet-8470={secret[1]}")).status == 200
    again = await browser.sent("/tokens", dict(fields))
    assert again.status == 409
    assert "revoke that token and make another" in plain(again)
    assert secret[1] not in plain(again) + plain(await browser.get("/tokens"))
    name = secret[1].split("_")[1]
    asked = plain(await browser.get(f"/tokens/{name}"))
    assert "Whatever comes with it is refused at once" in asked
    done = await browser.send(f"/tokens/{name}", {})
    assert (done.status, done.headers["location"]) == (303, "/tokens")
    assert (await browser.get("/", cookie=f"labfleet-8470={secret[1]}")).status == 303


@pytest.mark.asyncio
async def test_of_many_tokens_the_newest_are_shown(browser: Browser) -> None:
    """A page has 200 of them, the newest first, says how many are left out, and asks about each."""
    at, world = browser.world.clock.now() - timedelta(days=1), browser.world
    for number in range(203):
        await world.store.put_token(TokenRow(
            id=f"{number:016x}", hash="0" * 64, role="user", owner="kim",
            created=at + timedelta(minutes=number),
        ))  # fmt: skip
    text = plain(await browser.get("/tokens"))
    shown = re.findall(r'<th scope="row">([0-9a-f]{16})', text)
    assert len(shown) == 200
    assert shown[1:3] == [f"{202:016x}", f"{201:016x}"]
    assert "<b>4</b> more are not shown here" in text
    assert "Whatever comes with it" in plain(await browser.get(f"/tokens/{0:016x}"))


@pytest.mark.asyncio
@pytest.mark.parametrize("role", ["operator", "user", "runner", "controller"])
async def test_others_see_their_own_tokens_and_make_none(browser: Browser, role: str) -> None:
    """Without the right there is no form; of all tokens those of one's own name and role are shown."""
    other = await browser.tokens.create(ADMIN, role=role, owner="eve")
    text = plain(await browser.get("/tokens", role, "kim"))
    mine = (await browser.token(role, "kim")).split("_")[1]
    assert mine in text
    assert other.row.id not in text
    assert 'name="form"' not in text
    assert (await browser.get(f"/tokens/{other.row.id}", role, "kim")).status == 403


@pytest.mark.asyncio
async def test_the_end_of_a_visit_is_told_before(browser: Browser) -> None:
    """From a day before its token ends on, each page says so, with the way to sign in and come back."""
    now = browser.world.clock.now()
    for hours, told in ((23, True), (30, False)):
        made = await browser.tokens.create(
            ADMIN, role="operator", owner="kim", expires=now + timedelta(hours=hours)
        )
        text = plain(await browser.get("/pools?x=1", cookie=f"labfleet-8470={made.text}"))
        assert ('id="ends" role="status"' in text) is True
        assert (' hidden><b><span aria-hidden="true">▲</span> Token' in text) is not told
        assert 'href="/login?next=/pools%3Fx%3D1"' in text
    assert 'id="ends"' not in plain(await browser.get("/pools"))


@pytest.mark.asyncio
@pytest.mark.parametrize("role", ["admin", "operator", "user", "runner"])
async def test_everybody_reads_what_they_may_do(browser: Browser, role: str) -> None:
    """The page of actions leads only where its reader may go, and says what the role may."""
    page = await browser.page("/actions", role, "kim")
    hrefs = [str(each.get("href")) for each in page.all("a")]
    for href in hrefs:
        if href.startswith(("/act/", "/acts/")):
            assert (await browser.get(href, role, "kim")).status == 200, href
    assert ("/act/book/sessions" in hrefs) is (role in {"admin", "operator", "user"})
    assert ("/act/set/settings" in hrefs) is (role == "admin")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "start", ["9999-12-31T23:59", "9999-12-31T23:59-14:00", "0001-01-01T00:00"]
)
async def test_a_time_that_no_calendar_has_is_told_with_its_field(
    browser: Browser, start: str
) -> None:
    """A slot is not moved to the ends of time: the form says so, as the API does."""
    await browser.world.definition()
    slot = {"start": "2026-12-01T09:00:00Z", "end": "2026-12-01T10:00:00Z"}
    await browser.world.session("s1", owner="kim", slot=slot)
    fields = {"start": start, "zone": "UTC"}
    reply = await browser.send("/act/move/sessions/s1", fields, "user", "kim")
    assert reply.status == 400
    assert "must lie between the years 1970 and 9000" in plain(reply)


@pytest.mark.asyncio
async def test_what_an_hour_costs_is_told_by_the_list_and_region_in_force(browser: Browser) -> None:
    """Where the list has no price for a region, forms say that it is unknown, not another region's."""
    world = browser.world
    provider = {**MACHINE["provider"], "region": "eu-central-1"}
    await world.make("Template", "far", {"machine": {**MACHINE, "provider": provider}})
    await world.make("Pool", "far", {"template": "far"})
    made = await world.make("Worker", "w1", {"template": "far"})
    machine = MachineStatus(id="i-1", state="running", type="m5zn.metal")
    await world.status(made, phase=WorkerPhase.READY, machine=machine)
    await world.services.fresh()
    for where in ("/act/terminate/workers/w1", "/act/scale/pools/far"):
        text = plain(await browser.get(where))
        assert "is unknown: neither template nor" in text
        assert "$4.36" not in text

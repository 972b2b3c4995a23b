"""List pages: filter, sort, paging that loses no row, rights, and what a page costs."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest
from browser import Browser, Reader, plain
from counting_cache import CountingCache
from fleet_world import ADMIN
from fleet_world import world as opened

from labfleet.api.streams.latest_frames import Frames
from labfleet.interfaces import store as stores
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.web import lists, words
from labfleet.web.view import Asked
from labfleet.web.view_table import VIEWS

EVIL = '"><img src=x onerror=alert(1)>'


def names(page: Reader) -> list[str]:
    """Return the names of a list's rows in their order."""
    return [key.rpartition("/")[2] for key in page.rows]


def link(page: str, text: str) -> str:
    """Return where the link with this text leads; the page must have it."""
    found = re.search(rf'<a href="([^"]+)"[^>]*>{text}', page)
    assert found, text
    return unescape(found[1])


async def ended(browser: Browser, name: str, minutes: int, **spec: str) -> None:
    """Make a session that ended so many minutes from now."""
    at = browser.world.clock.now() + timedelta(minutes=minutes)
    made = await browser.world.session(name, **spec)
    await browser.world.status(made, phase=SessionPhase.COMPLETED, ended_at=at)


@pytest.mark.asyncio
async def test_pages_neither_repeat_nor_lose_a_row(browser: Browser) -> None:
    """251 sessions by end; ten come before the second page is asked for (facts/fleet-bugs.md#t29)."""
    await browser.world.definition()
    now = browser.world.clock.now()
    for number in range(251):
        name, at = f"s{number:03d}", now + timedelta(minutes=number * 7 % 251)
        spec, meta = SessionSpec(definition="two", owner="kim"), Metadata(
            name=name, uid=browser.world.ids.uid(), creation_timestamp=now
        )  # fmt: skip
        status = SessionStatus(phase=SessionPhase.COMPLETED, ended_at=at)
        await browser.world.services.objects.save(
            Session(metadata=meta, spec=spec, status=status), cause=stores.Cause("test", now)
        )
    first = plain(await browser.get("/sessions?show=over"))
    assert "<b>251</b> over" in first
    seen = names(Reader(first))
    assert len(seen) == words.ROWS
    for number in range(10):
        await ended(browser, f"new-{number}", number * 20)
    rest = await browser.page(link(first, "Next page"))
    below = [name for name in names(rest) if not name.startswith("new-")]
    assert sorted([*seen, *below]) == [f"s{number:03d}" for number in range(251)]
    assert [each for each in rest.all("a") if each.get("rel") == "next"] == []


@pytest.mark.asyncio
async def test_a_filter_begins_at_the_first_page_and_keeps_the_order(browser: Browser) -> None:
    """The form says the order and no cursor; a filter is in the address, and cleared by a link."""
    await browser.world.definition()
    for name, owner in (("b", "kim"), ("a", "kim"), ("c", "ada")):
        await browser.world.session(name, owner=owner)
    text = plain(await browser.get("/sessions?sort=metadata.name&owner=kim"))
    page = Reader(text)
    assert names(page) == ["a", "b"]
    assert "<b>2</b> that match" in text
    assert {"type": "hidden", "name": "sort", "value": "metadata.name"} in page.all("input")
    assert not [each for each in page.all("input") if each.get("name") == "cursor"]
    assert link(text, "Clear") == "/sessions"
    turned = link(text, "Session <i")
    assert dict(parse_qsl(urlsplit(turned).query)) == {"owner": "kim", "sort": "-metadata.name"}
    assert names(await browser.page(turned)) == ["b", "a"]
    assert page.all("th")[0]["aria-sort"] == "ascending"


@pytest.mark.asyncio
async def test_who_looks_for_something_finds_what_has_ended_too(browser: Browser) -> None:
    """What is live stands alone at first; a text finds by name and by fields, whatever its case."""
    await browser.world.definition()
    await browser.world.session("live-1", owner="kim")
    await ended(browser, "old-1", -5, owner="Ada")
    assert names(await browser.page("/sessions")) == ["live-1"]
    assert names(await browser.page("/sessions?show=over")) == ["old-1"]
    assert sorted(names(await browser.page("/sessions?show=all"))) == ["live-1", "old-1"]
    assert names(await browser.page("/sessions?q=aDA")) == ["old-1"]
    assert names(await browser.page("/sessions?q=1&show=live")) == ["live-1"]
    assert names(await browser.page("/sessions?phase=COMPLETED")) == ["old-1"]
    none = plain(await browser.get("/sessions?q=nobody"))
    assert "Nothing matches." in none
    assert link(none, "Clear the filter") == "/sessions"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "query",
    ["colour=red", "sort=spec.slot", "sort=nothing", "show=some", "cursor=x", "q=" + "x" * 201],
)
async def test_what_an_address_cannot_ask_is_said(browser: Browser, query: str) -> None:
    """A filter, order or page that is none is refused with its name, never left out in silence."""
    reply = await browser.get(f"/sessions?{query}")
    assert reply.status == 400
    assert query.partition("=")[0] in plain(reply).lower()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("query", "command", "heading"),
    [
        ("show=all", "get sessions -A", "The same in a terminal"),
        ("", "get sessions -A", "In a terminal, with what is left out here"),
        ("owner=kim", "get sessions -A", "In a terminal, with what is left out here"),
        ("q=it%27s+on", "get sessions -A --search 'it'\"'\"'s on'", "The same in a terminal"),
        (
            "namespace=lab&show=all&sort=status.endedAt|status.end",
            "get sessions -n lab --sort-by 'status.endedAt|status.end'",
            "The same in a terminal",
        ),
    ],
)
async def test_the_command_shows_the_same_or_says_that_it_shows_more(
    browser: Browser, query: str, command: str, heading: str
) -> None:
    """Text, order and namespaces stand in the command; what it cannot leave out is said above it."""
    page = unescape(plain(await browser.get(f"/sessions?{query}")))
    assert f"<code>labfleet {command}</code>" in page
    assert f"<h2>{heading}</h2>" in page


@pytest.mark.asyncio
async def test_a_user_finds_only_what_is_theirs(browser: Browser) -> None:
    """Neither rows nor their number tell of others' sessions, by no filter and no text."""
    await browser.world.definition()
    for name, owner in (("kims", "kim"), ("adas", "ada")):
        await browser.world.session(name, owner=owner)
    for query in ("", "?q=s", "?definition=two", "?show=all", "?owner=kim"):
        text = plain(await browser.get(f"/sessions{query}", "user", "kim"))
        assert names(Reader(text)) == ["kims"]
        assert "adas" not in text
        assert "<b>1</b>" in text
    assert "<b>0</b>" in plain(await browser.get("/sessions?owner=ada", "user", "kim"))


@pytest.mark.asyncio
async def test_hostile_filters_stay_text(browser: Browser) -> None:
    """What somebody puts into an address comes back as the text of a field."""
    for query in (f"q={EVIL}", f"owner={EVIL}", f"phase={EVIL}", f"namespace={EVIL}"):
        text = plain(await browser.get(f"/sessions?{query}"))
        assert Reader(text).all("img") == []


@pytest.mark.asyncio
async def test_each_row_can_be_chosen(browser: Browser) -> None:
    """A box stands before each row, named after it, with the row's key as its value."""
    await browser.world.template()
    await browser.world.make("Pool", "exam", {"template": "metal"})
    text = plain(await browser.get("/pools"))
    box = {"type": "checkbox", "form": "several", "name": "o", "value": "default/exam"}
    assert box in Reader(text).all("input")
    assert '<span class="vh">Select exam</span>' in text


@pytest.mark.asyncio
async def test_the_first_page_looks_at_nothing_that_has_ended() -> None:
    """With 5,000 finished sessions a page of live ones reads no more objects than without."""
    touched = []
    async with opened(CountingCache) as world:
        cache, now = world.services.cache, world.clock.now()
        assert isinstance(cache, CountingCache)
        await world.definition()
        await world.session("live")
        for _ in range(2):
            await world.services.fresh()
            cache.touched = 0
            page = await lists.page(world.services, ADMIN, KINDS["Session"], Asked({}))
            touched.append(cache.touched)
            assert [row.cells[0].text for row in page.table.rows] == ["live"]
            made = [
                Session(
                    metadata=Metadata(name=f"x{number}", uid=f"u{number}", creation_timestamp=now),
                    spec=SessionSpec(definition="two"),
                    status=SessionStatus(phase=SessionPhase.COMPLETED, ended_at=now),
                )
                for number in range(5000)
            ]
            for start in range(0, len(made), stores.COMMIT_LIMIT) if len(touched) == 1 else ():
                cause = stores.Cause("test", now)
                await world.services.objects.save(
                    *made[start : start + stores.COMMIT_LIMIT], cause=cause
                )
    assert touched[0] == touched[1]


@pytest.mark.asyncio
async def test_what_a_page_follows_the_stream_knows(browser: Browser) -> None:
    """A word that is no kind and no frame would get the whole stream of a page refused."""
    views = [view.path for view in VIEWS if not view.path.endswith("/") or view.path == "/"]
    seen = 0
    for path in (*views, *(f"/{row.plural}" for row in KINDS.values())):
        page = Reader(plain(await browser.get(path)))
        for each in page.all("div") + page.all("section"):
            words_followed = re.findall(r"[^\s,]+", each.get("data-follows") or "")
            assert set(words_followed) <= {*KINDS, *Frames}, path
            seen += bool(words_followed)
    assert seen > len(KINDS)


@pytest.mark.parametrize("row", [each for each in KINDS.values() if each.page is None])
def test_a_list_fits_a_laptop(row: Kind) -> None:
    """All columns of a kind stand beside the navigation at 1280 px: 84 ems of 13 px."""
    ems = {2: 8.5, 3: 11.9}
    assert 2.6 + sum(ems[each.wide] for each in lists.section_of(row).columns) <= 84, row.name

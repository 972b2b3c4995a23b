"""The lists of events on the pages say what `labfleet events` says."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec
import pytest
from browser import Browser, plain
from fleet_world import MACHINE, who

from labfleet.interfaces import store as stores
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.verbs import objects


class Cells(HTMLParser):
    """The text of each cell of the list of events, newest row first."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._inside = ("class", "events") in attrs
        elif self._inside and tag == "tr":
            self.rows.append([])
        elif self._inside and tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self._inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


async def step(browser: Browser, name: str, number: int) -> None:
    """Write one of a controller's steps, whose cause is a sentence."""
    objects_, now = browser.world.services.objects, browser.world.clock.now()
    old = await objects_.get(Session, name, "default")
    status = msgspec.structs.replace(
        old.status, phase=SessionPhase.STOPPING, message="stopping the lab", errors=number
    )
    cause = stores.Cause("lab-controller", now, reason="stopping the lab")
    await objects_.save(msgspec.structs.replace(old, status=status), cause=cause)


async def listed(browser: Browser, path: str) -> list[dict[str, str]]:
    """Return the rows of a page's list of events by the titles of their columns."""
    head, *rows = Cells(plain(await browser.get(path))).rows
    titles = [each.strip() for each in head]
    return [dict(zip(titles, (each.strip() for each in row), strict=True)) for row in rows]


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/", "/sessions/s1"])
async def test_a_reason_is_a_word_and_what_repeats_is_one_row(browser: Browser, path: str) -> None:
    """A step's sentence is its message; ten equal steps are one row that says since when."""
    world = browser.world
    await world.definition()
    made = await world.session("s1")
    other = await world.session("s2")
    for number in range(10):
        await world.clock.sleep(60)
        for each in (made, other):  # they take turns: on the first page, too, each has one row
            await step(browser, each.name, number)
    rows = [row for row in await listed(browser, path) if "s1" in row.get("Object", "s1")]
    assert ("Object" in rows[0]) == (path == "/")
    assert [row["Change"] for row in rows] == ["changed", "created"]
    assert [row["Reason"] for row in rows] == ["PhaseChanged", "Created"]
    assert rows[0]["Message"] == "stopping the lab (10 times since 2026-11-27 09:01:00Z)"
    assert rows[0]["State"].endswith("STOPPING")
    assert rows[0]["By"] == "lab-controller"


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/", "/workers/old"])
async def test_the_next_object_of_a_name_says_that_it_is_another(
    browser: Browser, path: str
) -> None:
    """The first event of a name's next object says that another had the name; no other does."""
    world, said = browser.world, "another object had this name before"
    await world.make("Worker", "old", {"machine": MACHINE})
    assert said not in plain(await browser.get("/")).partition("<main")[2]
    await objects.delete(world.services, who("admin"), KINDS["Worker"], "old", "default")
    await world.make("Worker", "old", {"machine": MACHINE})
    rows = [row for row in await listed(browser, path) if said in row["Message"]]
    assert [row["Change"] for row in rows] == ["created"]

"""Tables of pages and tabs: no column is squeezed, and none stands there that says nothing."""

from __future__ import annotations

import pytest
from browser import Browser, Reader, plain

from labfleet.resources.kinds import KINDS
from labfleet.web import sheet, values, words
from labfleet.web.details import FEW
from labfleet.web.panels import labs, ports
from labfleet.web.sheet import Head, Part
from labfleet.web.values import Cell


# private _HEADS: the columns of real tabs, which were squeezed.
@pytest.mark.parametrize("heads", [labs._HEADS, ports._HEADS, (Head("A", 5),) * 6])
def test_a_table_is_as_wide_as_its_columns(heads: tuple[Head, ...]) -> None:
    """What the others leave to a column without a width is enough for words, to ten ems."""
    fixed = sum((0, 6.5, 8.5, 12, 15.5, 21.5)[head.wide] for head in heads)
    left = Part("Labs", heads=heads, whole=True).least - fixed
    assert left > (10 if any(not head.wide for head in heads) else -10)


def test_a_last_column_that_says_nothing_is_left_out() -> None:
    """It goes where no row has words for it; where one has, every row keeps it."""
    heads = (Head("Lab"), Head("Why", 0))
    silent = (Cell("text", "a"), Cell("absent", "none"))
    speaks = (Cell("text", "b"), Cell("text", "somebody made it"))
    assert sheet.told(heads, (silent,)) == (heads[:1], (silent[:1],))
    assert sheet.told(heads, (silent, speaks)) == (heads, (silent, speaks))


def test_a_page_beyond_the_last_is_the_last_one() -> None:
    """Rows that went while a page was open leave what there is, and never that there is nothing."""
    rows = [(Cell("text", str(number)),) for number in range(words.ROWS + 1)]
    assert sheet.paged(rows, "2", "/alerts") == (tuple(rows[words.ROWS :]), 0, "")
    assert sheet.paged(rows, "7", "/alerts") == sheet.paged(rows, "2", "/alerts")
    assert sheet.paged(rows, "x", "/alerts")[1:] == (1, "/alerts?page=2")
    assert sheet.paged(rows, "²", "/alerts")[1:] == (1, "/alerts?page=2")
    assert sheet.paged([], "3", "/alerts") == ((), 0, "")


def test_an_amount_has_a_unit_that_people_use() -> None:
    """Pages write CPUs and GiB, exact on hover, for every column that counts in smaller ones."""
    cpu, memory = values.sized("status.demand.cpuMilli", 7500), values.sized("x.memoryMib", 22272)
    assert cpu is not None
    assert memory is not None
    assert (cpu.text, cpu.exact) == ("7.5 CPU", "7,500 thousandths of a CPU")
    assert (memory.text, memory.exact) == ("21.8 GiB", "22,272 MiB")
    lead = values.sized("status.lead.seconds", 2100)
    assert lead is not None
    assert (lead.text, lead.exact) == ("35 min", "2,100 s")
    assert values.sized("status.workers", 3) is None
    small = [
        path
        for row in KINDS.values()
        for each in row.columns
        if each.title.endswith(("(m)", "(MiB)", "(s)"))
        for path in each.path.split("|")
    ]
    assert small
    assert all(values.sized(path, 1) for path in small)


@pytest.mark.asyncio
async def test_the_first_tab_has_the_newest_events_and_leads_to_all(browser: Browser) -> None:
    """Few happenings stand there whole; of many the newest, with a link to the tab of events."""
    world = browser.world
    await world.template()
    pool = await world.make("Pool", "p", {"template": "metal"})
    assert "All its events" not in plain(await browser.get("/pools/p"))
    for number in range(FEW + 1):
        pool = await world.status(pool, workers=number, message=f"step {number}")
    page = await browser.page("/pools/p")
    assert len([key for key in page.rows if key]) == FEW
    assert {"href": "/pools/p?tab=events"} in page.all("a")
    tab = Reader(plain(await browser.get("/pools/p?tab=events")))
    assert len([key for key in tab.rows if key]) > FEW

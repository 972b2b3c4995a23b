"""The tab of a definition that draws its lab: any number of nodes, whatever they are called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser import Browser, plain

from labfleet.web import topology_picture, words

EVIL = "<img src=x onerror=alert(1)>"
TAB = "/definitions/lab?tab=topology"


def lab(count: int, *, placed: bool = True, label: str = "r") -> dict[str, Any]:
    """Return a definition's spec: nodes in a row, each linked to the next."""
    nodes = [
        {
            "id": f"n{number}", "label": f"{label}{number}", "node_definition": "iosv",
            "interfaces": [{"id": f"i{each}", "label": f"Gi0/{each}", "type": "physical"}
                           for each in range(2)],
            **({"x": 100 * (number % 20), "y": 100 * (number // 20)} if placed else {}),
        }
        for number in range(count)
    ]  # fmt: skip
    links = [
        {"id": f"l{number}", "n1": f"n{number}", "i1": "i1", "n2": f"n{number + 1}", "i2": "i0"}
        for number in range(count - 1)
    ]
    head = {"title": "x", "version": "0.1.0", "description": "", "notes": ""}
    return {"topology": json.dumps({"lab": head, "nodes": nodes, "links": links})}


@pytest.mark.asyncio
@pytest.mark.parametrize("count", [1, 20, 300])
async def test_a_lab_is_drawn_and_listed(browser: Browser, count: int) -> None:
    """Each node and link is in the drawing once, and in tables of at most a page's rows."""
    await browser.world.make("Definition", "lab", lab(count))
    page = await browser.page(TAB, role="user")
    groups = [each for each in page.all("g") if each.get("class") == "node"]
    assert len(groups) == count
    assert len([each for each in page.all("line") if each.get("class") == "link"]) == count - 1
    main = plain(await browser.get(TAB, role="user")).partition("<main ")[2].partition("</main>")[0]
    assert main.count('scope="row"') == min(count, words.ROWS) + min(count - 1, words.ROWS)
    [svg] = [each for each in page.all("svg") if each.get("role") == "img"]
    assert float(svg["width"] or 0) <= topology_picture.WIDEST


@pytest.mark.asyncio
async def test_a_long_table_goes_on_and_comes_back(browser: Browser) -> None:
    """The further rows of one table are an address that keeps tab and namespace."""
    await browser.world.make("Definition", "lab", lab(300))
    page = await browser.page(TAB)
    links = [each.get("href") or "" for each in page.all("a")]
    [further] = [each for each in links if "nodes=200" in each]
    assert further == "?tab=topology&nodes=200#nodes"
    text = plain(await browser.get("/definitions/lab?tab=topology&nodes=200"))
    assert "rows 201 to 300 of 300" in text
    assert 'href="?tab=topology#nodes"' in text
    assert ">r299<" in text
    assert "rows 1 to 200" in plain(await browser.get("/definitions/lab?tab=topology&nodes=zz"))


@pytest.mark.asyncio
async def test_a_large_lab_can_be_seen_whole(browser: Browser) -> None:
    """Its own size is scrolled; as wide as the page is an address that leads back."""
    await browser.world.make("Definition", "lab", lab(40))
    text = plain(await browser.get(f"{TAB}&size=page"))
    assert 'class="fits"' in text
    assert 'href="?tab=topology"' in text
    assert 'href="?tab=topology&amp;size=page"' in plain(await browser.get(TAB))


@pytest.mark.asyncio
async def test_a_lab_without_places_says_how_it_is_drawn(browser: Browser) -> None:
    """Layers are no claim of the file; names of strangers are text in drawing and table."""
    await browser.world.make("Definition", "lab", lab(5, placed=False, label=EVIL))
    page = await browser.page(TAB)
    text = plain(await browser.get(TAB))
    assert "The file places no node" in text
    assert page.all("img") == []
    assert "&lt;img src=x onerror=alert(1)&gt;4" in text


@pytest.mark.asyncio
async def test_a_lab_too_large_to_draw_has_its_tables(browser: Browser) -> None:
    """Beyond the bound there is no drawing, and the page says so."""
    await browser.world.make("Definition", "lab", lab(topology_picture.DRAWN + 1))
    text = plain(await browser.get(TAB))
    assert "is not drawn" in text
    assert 'class="node"' not in text
    assert f"of {topology_picture.DRAWN + 1}" in text

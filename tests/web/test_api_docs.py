"""The pages at /docs: all that the OpenAPI document says, and nothing from outside."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from browser import Browser, Reader, plain

from labfleet.api import front
from labfleet.web import api_docs, application

METHODS = {"get", "post", "put", "patch", "delete"}


async def document(browser: Browser) -> dict[str, Any]:
    """Return the OpenAPI document as programs get it."""
    found: dict[str, Any] = json.loads((await browser.get("/api/v1/openapi.json", None)).raw)
    return found


async def pages(browser: Browser, role: str | None = None) -> dict[str, str]:
    """Return every page below /docs by its address, as the links lead to them."""
    found: dict[str, str] = {}
    waiting = ["/docs"]
    while waiting:
        path = waiting.pop()
        reply = await browser.get(path, role)
        assert reply.status == 200, path
        found[path] = plain(reply)
        for link in Reader(found[path]).all("a"):
            there = str(link["href"]).partition("#")[0]
            if there.startswith("/docs") and there not in found and there not in waiting:
                waiting.append(there)
    return found


@pytest.mark.asyncio
async def test_each_operation_and_record_is_on_a_page(browser: Browser) -> None:
    """Path, summary, description, parameters and fields of the document, each where it belongs."""
    found = await document(browser)
    shown = await pages(browser)
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            text = unescape(shown[f"/docs/{operation['tags'][0]}"])
            assert f'id="{operation["operationId"]}"' in text
            assert f"{method.upper()}</b> <code>{path}</code>" in text
            prose = text.replace("<code>", "`").replace("</code>", "`")
            assert operation["description"] in prose
            for each in operation.get("parameters", ()):
                assert each["name"] in text
                assert each["description"] in prose
    for name, schema in found["components"]["schemas"].items():
        text = unescape(shown[f"/docs/schemas/{name}"])
        prose = text.replace("<code>", "`").replace("</code>", "`")
        for field, said in schema.get("properties", {}).items():
            assert f"<code>{field}</code>" in text
            assert said["description"] in prose
    assert "anything" not in {
        piece.text
        for group in api_docs.read(found).groups
        for operation in group.operations
        for each in operation.parameters
        for piece in each.type
    }


@pytest.mark.asyncio
async def test_what_is_code_looks_like_it(browser: Browser) -> None:
    """No page shows a backtick: between two of them stands code, also markup, as text."""
    for path, text in (await pages(browser)).items():
        told = re.sub(r"(?s)<(pre|script)\b.*?</\1>|<div class=.command.*?</div>", "", text)
        assert "`" not in told, (path, told[max(0, told.find("`") - 80) :][:160])
    # private _templates: a macro alone, on text that no document has
    cells = application._templates().get_template("cells.html")
    prose = cells.module.prose  # type: ignore[attr-defined]  # a macro of the template
    assert prose("a `<b>` & `c`") == "a <code>&lt;b&gt;</code> &amp; <code>c</code>"
    assert prose("it`s") == "it`s"


@pytest.mark.asyncio
async def test_nothing_is_asked_of_anybody_else(browser: Browser) -> None:
    """No page names another host for a script, a style, an image or a form, and none is inline."""
    for path, text in (await pages(browser)).items():
        reader = Reader(text)
        for tag, attributes in reader.elements:
            for name in ("src", "href", "action", "data", "srcset"):
                assert str(attributes.get(name) or "/").startswith(("/", "#")), (path, tag)
                assert not str(attributes.get(name) or "").startswith("//")
            assert "style" not in attributes
            assert tag not in {"style", "iframe", "object"}
    reply = await browser.get("/docs", None)
    assert reply.headers["content-security-policy"].startswith("default-src 'self'")


@pytest.mark.asyncio
@pytest.mark.parametrize("role", [None, "user"])
async def test_every_link_leads_somewhere(browser: Browser, role: str | None) -> None:
    """Links between the pages meet a page and an element there, signed in or not."""
    shown = await pages(browser, role)
    ids = {path: {each.get("id") for _, each in Reader(text).elements}
           for path, text in shown.items()}  # fmt: skip
    count = 0
    for path, text in shown.items():
        for link in Reader(text).all("a"):
            there, _, anchor = str(link["href"]).partition("#")
            there = there or path
            if there.startswith("/docs"):
                assert not anchor or anchor in ids[there], (path, link)
                count += 1
    assert count > 1000
    assert (await browser.get("/docs/schemas", role)).headers["location"] == "/docs#schemas"
    for nothing in ("/docs/nothing", "/docs/schemas/Nothing", "/docs/Worker", "/docs/workers/x"):
        assert (await browser.get(nothing, role)).status == 404


@pytest.mark.asyncio
async def test_a_command_asks_for_its_operation(browser: Browser) -> None:
    """Method, address and body of the curl line are the operation's; public ones need no token."""
    found = api_docs.read(await document(browser))
    told = {each.id: api_docs.curl(each, "http://h") for group in found.groups
            for each in group.operations}  # fmt: skip
    token = '-H "Authorization: Bearer $TOKEN"'
    assert told["getWorker"] == f"curl {token} http://h/api/v1/workers/NAME"
    assert told["healthz"] == "curl http://h/healthz"
    assert told["events"].startswith("curl -N ")
    assert told["deleteSession"] == f"curl -X DELETE {token} http://h/api/v1/sessions/NAME"
    drain = told["drainWorker"]
    assert drain.startswith(f"curl -X POST {token} -H 'Content-Type: application/json' -d '")
    assert drain.endswith("http://h/api/v1/workers/NAME/drain")


@pytest.mark.asyncio
async def test_an_instant_is_told_as_one(browser: Browser) -> None:
    """Programs and people read of each instant that it is one, not only that it is text."""
    records = api_docs.read(await document(browser)).records
    told = {field.name: "".join(piece.text for piece in field.type)
            for field in records["SessionStatus"].fields}  # fmt: skip
    assert (told["startedAt"], told["message"]) == ("instant or null", "text")
    fields = {field.name: field for field in records["Condition"].fields}
    assert fields["lastTransitionTime"].type[0].text == "instant"


def test_both_sides_mean_the_same_key() -> None:
    """The API hands its document over under the name by which the pages look for it."""
    assert front.DOCUMENT == api_docs.DOCUMENT

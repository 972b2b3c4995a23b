"""The tour of the API: every curl command of the page is asked of a server, in the page's order."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from api_caller import Api, Reply
from api_caller import api as opened

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "tour-of-the-api.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BASE = "http://server"
KIND = "Content-Type: application/json"


@dataclass
class Curl:
    """One command, as curl itself reads it; an option that the tour does not use is an error."""

    method: str = ""
    url: str = ""
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    streams: bool = False

    @classmethod
    def read(cls, command: str) -> Curl:
        words = iter(shlex.split(command)[1:])
        made = cls()
        for word in words:
            match word:
                case "-s":
                    pass
                case "-N":
                    made.streams = True
                case "--max-time":
                    next(words)
                case "-X":
                    made.method = next(words)
                case "-d":
                    made.body = next(words)
                case "-H":
                    name, _, value = next(words).partition(": ")
                    made.headers[name] = value
                case _:
                    assert word.startswith(BASE), word
                    made.url = word.removeprefix(BASE)
        made.method = made.method or ("GET" if made.body is None else "POST")
        return made


def commands(block: str, token: str) -> list[Curl]:
    """Return the commands of a block; the page's three variables have the test's values."""
    for name, value in {
        "URL": BASE,
        "AUTH": f"Authorization: Bearer {token}",
        "JSON": KIND,
    }.items():
        block = block.replace(f"${name}", value)
    assert "$" not in re.sub(r"^export .*$", "", block, flags=re.MULTILINE)
    return [Curl.read(each) for each in re.split(r"^(?=curl )", block, flags=re.MULTILINE)
            if each.startswith("curl ")]  # fmt: skip


def part_of(shown: Any, whole: Any, place: str = "$") -> None:
    """Fail unless what the page shows is a part of the answer."""
    if isinstance(shown, dict):
        assert isinstance(whole, dict), place
        for name, inner in shown.items():
            assert name in whole, f"{place}.{name}"
            part_of(inner, whole[name], f"{place}.{name}")
    elif isinstance(shown, list):
        assert isinstance(whole, list), place
        assert len(shown) <= len(whole), place
        for number, inner in enumerate(shown):
            part_of(inner, whole[number], f"{place}[{number}]")
    else:
        assert shown == whole, place


async def ask(api: Api, curl: Curl) -> Reply:
    """Ask as curl would: with the headers of the command, and no others."""
    raw = None if curl.body is None else curl.body.encode()
    return await api.call(curl.method, curl.url, role=None, raw=raw, **curl.headers)


@pytest.mark.asyncio
async def test_every_command_of_the_tour_gives_what_the_page_shows() -> None:
    """Each is answered with success, or with the refusal that is shown; answers are compared."""
    asked = compared = 0
    async with opened() as api:
        token = await api.token("admin")
        last: Reply | None = None
        refused = False
        for language, block in FENCE.findall(PAGE.read_text(encoding="utf-8")):
            if language == "sh":
                assert not refused, "a refusal that the page does not show"
                for curl in commands(block, token):
                    assert not refused, "a refusal that the page does not show"
                    asked += 1
                    if curl.streams:
                        async with api.stream(curl.url) as stream:
                            name, _, data = await stream.next()
                        assert name == "snapshot"
                        assert data["items"][0]["metadata"]["name"] == "kim-1"
                        continue
                    last = await ask(api, curl)
                    assert last.status < 500, last.raw
                    refused = last.status >= 400
            if language == "json":
                assert last is not None
                shown = json.loads(block)
                part_of(shown, last.json)
                assert shown.get("status", 200) == last.status or not refused
                refused = False
                compared += 1
    assert not refused
    assert (asked > 18, compared > 12) == (True, True)
    assert api.defects == []

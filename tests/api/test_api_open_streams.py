"""The life that all three streams share: whose they are, how many, and how they end."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest
from api_caller import ADMIN, Api
from litestar import Request, Response
from litestar.datastructures import Headers

from labfleet.api.streams import open_stream
from labfleet.interfaces.store import TokenRow
from labfleet.service.core import tokens

PATHS = ("/api/v1/events", "/api/events/stream", "/status-stream")
every_stream = pytest.mark.parametrize("path", PATHS)
pytestmark = pytest.mark.asyncio


async def row_of(api: Api, role: str) -> TokenRow:
    """The stored token of a role."""
    await api.token(role)
    return next(each for each in await api.world.store.tokens() if each.role == role)


async def drained(events: Any) -> str:
    """Read to the end; return all that came."""
    text = ""
    while block := await events.block():
        text += block + "\n\n"
    return text


@every_stream
async def test_nothing_is_sent_after_a_revocation_that_is_known(api: Api, path: str) -> None:
    """A change after the token was revoked here reaches its stream no more, however busy it is."""
    row = await row_of(api, "operator")
    async with api.stream(path, role="operator") as events:
        await events.block()
        await api.tokens.revoke(ADMIN, row.id)
        await api.world.definition("after-the-revocation")
        assert "after-the-revocation" not in await drained(events)
        await events.task


@every_stream
async def test_a_revocation_by_another_process_ends_a_busy_stream(
    api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is asked again while frames go out, not only when nothing else happens."""
    monkeypatch.setattr(open_stream, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(tokens, "REFRESH_SECONDS", 0.0)
    row = await row_of(api, "operator")
    async with api.stream(path, role="operator") as events:
        await events.block()
        await api.world.store.put_token(replace(row, revoked=api.world.clock.now()))
        number = 0
        while not events.task.done():
            await api.world.definition(f"d{number}")
            number += 1
        assert number < 100


@every_stream
async def test_the_end_of_the_server_ends_a_stream_whole(api: Api, path: str) -> None:
    """Each stream gets its last chunk at once; none is cut."""
    async with api.stream(path) as events:
        await events.block()
        api.app.shutdown()
        await drained(events)
        await events.task
    assert api.app.streams.clients == 0


@every_stream
async def test_an_open_stream_keeps_nothing_that_the_framework_made(api: Api, path: str) -> None:
    """It lives for hours: request, response and parsed headers are gone once it begins."""
    async with api.stream(path) as events:
        await events.block()
        gc.collect()
        made = (Headers, Request, Response)
        assert not [each for each in gc.get_objects() if isinstance(each, made)]


async def test_a_defect_before_the_head_is_a_problem(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked for the stream gets an answer, which says nothing of the defect."""

    async def broken(*_: object) -> None:
        raise ZeroDivisionError("the inner matter")

    monkeypatch.setattr(api.app.events, "serve", broken)
    got = await api.call("GET", PATHS[0])
    assert got.status == 500
    assert got.headers["content-type"].startswith("application/problem+json")
    assert b"matter" not in got.raw
    assert [type(each) for each in api.defects] == [ZeroDivisionError]
    api.defects.clear()


async def test_a_token_has_a_bounded_number_of_streams(api: Api) -> None:
    """Whatever their kinds: one more is 429 with Retry-After, and other tokens are not touched."""
    # private _per_token: two streams reach the bound instead of fifty
    api.app.streams._per_token = 2
    async with api.stream(PATHS[0]), api.stream(PATHS[1]):
        for path in PATHS:
            found = await api.call("GET", path)
            assert (found.status, found.json["reason"]) == (429, "TooManyStreamsOfToken")
            assert int(found.headers["retry-after"]) > 0
        async with api.stream(role="operator") as events:
            assert (await events.next())[0] == "snapshot"
    async with api.stream() as events:
        assert (await events.next())[0] == "snapshot"


async def test_users_cannot_take_the_streams_of_operators(api: Api) -> None:
    """The last streams of a process are kept for those who run the fleet."""
    # private _limit, _reserve: one stream for all and one in reserve instead of thousands
    api.app.streams._limit, api.app.streams._reserve = 2, 1
    async with api.stream(role="user", owner="eve"):
        found = await api.call("GET", PATHS[0], role="user", owner="mallory")
        assert (found.status, found.json["reason"]) == (503, "TooManyStreams")
        async with api.stream(role="operator") as events:
            assert (await events.next())[0] == "snapshot"

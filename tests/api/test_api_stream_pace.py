"""A paced event stream: the newest state of each object per turn, and no object lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from api_caller import Api, Stream

from labfleet.resources.session import Session, SessionPhase

SESSIONS = "/api/v1/events?kinds=sessions"
WRITES = "aabacbbacaab"
"""Whose status is written, one after the other."""


async def write(api: Api, name: str, errors: int) -> int:
    """Write a session's status; return the revision."""
    made = await api.world.services.objects.get(Session, name, "default")
    stored = await api.world.status(made, phase=SessionPhase.RUNNING, errors=errors)
    return int(stored.revision)


async def written(api: Api) -> tuple[str, dict[str, tuple[int, int]]]:
    """Make three sessions and write them; return a place before, and of each its newest write."""
    await api.world.definition()
    for name in "abc":
        await api.world.session(name)
    before = await api.world.services.fresh()
    place = str(api.world.services.cache.cursor)
    assert place.endswith(f".{before}")
    newest = {name: (await write(api, name, at), at) for at, name in enumerate(WRITES)}
    await api.world.services.fresh()
    return place, newest


async def told(events: Stream, count: int) -> list[tuple[int, str, int]]:
    """Return revision, name and errors of the next events."""
    found = []
    for _ in range(count):
        _, place, data = await events.next()
        obj: Any = data["object"]
        revision = int(place.rpartition(".")[2])
        found.append((revision, obj["metadata"]["name"], obj["status"]["errors"]))
    return found


async def is_quiet(events: Stream) -> bool:
    """Tell whether nothing is sent while everything that is ready runs."""
    for _ in range(50):
        await asyncio.sleep(0)
    return events.chunks.empty()


@pytest.mark.asyncio
async def test_a_turn_has_the_newest_state_of_each_object(api: Api) -> None:
    """Of twelve writes of three sessions three are told, in the order of their ids."""
    place, newest = await written(api)
    async with api.stream(f"{SESSIONS}&pace=5000", Last_Event_ID=place) as events:
        got = await told(events, 3)
        assert {name: (revision, errors) for revision, name, errors in got} == newest
        assert got == sorted(got)


@pytest.mark.asyncio
async def test_no_object_is_lost_from_any_id_of_a_turn(api: Api) -> None:
    """Who was cut off within a turn hears of every object that was told later than its id."""
    place, newest = await written(api)
    async with api.stream(f"{SESSIONS}&pace=5000", Last_Event_ID=place) as events:
        got = await told(events, 3)
    epoch = place.rpartition(".")[0]
    for at, (revision, _, _) in enumerate(got[:-1]):
        resumed = {"Last_Event_ID": f"{epoch}.{revision}"}
        async with api.stream(f"{SESSIONS}&pace=5000", **resumed) as events:
            rest = await told(events, len(got) - at - 1)
        assert {name for _, name, _ in rest} == {name for _, name, _ in got[at + 1 :]}
        assert all((revision, errors) == newest[name] for revision, name, errors in rest)


@pytest.mark.asyncio
async def test_between_two_turns_nothing_is_sent(api: Api) -> None:
    """After a turn a paced client rests while another is told each change at once, and then hears."""
    await api.world.definition()
    await api.world.session("a")
    await api.world.services.fresh()
    asked = f"{SESSIONS}&snapshot=false"
    async with (
        api.stream(f"{asked}&pace=5000") as slow,
        api.stream(f"{asked}&pace=1") as quick,
        api.stream(asked) as plain,
    ):
        for stream in (slow, quick, plain):
            assert await stream.block() == "retry: 1000"
            assert (await stream.block()).startswith("id: ")
        first = await write(api, "a", 1)
        for stream in (slow, quick, plain):
            assert await told(stream, 1) == [(first, "a", 1)]
        second, third = await write(api, "a", 2), await write(api, "a", 3)
        assert await told(plain, 2) == [(second, "a", 2), (third, "a", 3)]
        assert await is_quiet(slow)
        got = await told(quick, 1)
        got += [] if got[-1][2] == 3 else await told(quick, 1)
        assert got[-1] == (third, "a", 3)


@pytest.mark.asyncio
@pytest.mark.parametrize("pace", ["-1", "5001", "x"])
async def test_a_pace_is_bounded(api: Api, pace: str) -> None:
    """A pace that is none is refused with the parameter's name."""
    reply = await api.call("GET", f"{SESSIONS}&pace={pace}")
    assert reply.status == 400
    assert "pace" in reply.raw.decode()

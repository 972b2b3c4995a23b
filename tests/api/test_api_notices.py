"""The compatible stream tells an owner the sentences that their webhook is sent."""

from __future__ import annotations

import pytest
from api_caller import Api
from fleet_world import who

from labfleet.resources.session import SessionPhase

PATH = "/api/events/stream?event_types=lablet.notice."


@pytest.mark.asyncio
async def test_an_owner_follows_the_notices_of_their_own_sessions(api: Api) -> None:
    """Booked, then ready, in the stream's prefix; nobody else's, and no address of a lab."""
    await api.world.definition()
    async with api.stream(PATH, role="user", owner="eve") as events:
        assert (await events.next())[0] == "connected"
        await api.world.session("theirs", who("user", "bob"))
        made = await api.world.session("mine", who("user", "eve"))
        await api.world.status(made, phase=SessionPhase.READY)
        await api.world.services.fresh()
        told = [await events.next() for _ in range(2)]
        assert [name for name, _, _ in told] == ["lablet.notice.booked", "lablet.notice.ready"]
        assert [data["recipient"] for _, _, data in told] == [{"owner": "eve"}] * 2
        assert told[1][2]["subject"] == "Your lab two (mine) is ready"
        assert {data["session"]["name"] for _, _, data in told} == {"mine"}

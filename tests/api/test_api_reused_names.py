"""Names that were somebody else's before, and instants at the edge of the calendar."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from api_caller import Api
from fleet_world import START, who

from labfleet.kernel.clock import format_instant

pytestmark = pytest.mark.asyncio
SOON = format_instant(START + timedelta(days=2))
SECRET = b"secret.example.org"


def group(person: str, email: str = "") -> dict[str, Any]:
    """Return the body of a group of one seat."""
    seat = {"name": "a", "person": person, "email": email}
    spec = {"definition": "two", "seats": [seat], "slot": {"start": SOON}}
    return {"metadata": {"name": "g"}, "spec": spec}


async def test_the_events_of_a_freed_name_stay_its_earlier_owners(api: Api) -> None:
    """Who takes the name of a group or session reads its own events; operators read all."""
    await api.world.definition()
    address = f"ana@{SECRET.decode()}"
    session = {"metadata": {"name": "g"}, "spec": {"definition": "two", "studentEmail": address}}
    for plural, theirs, mine in (
        ("groups", group("ana", address), group("x")),
        ("sessions", session, {"metadata": {"name": "g"}, "spec": {"definition": "two"}}),
    ):
        path = f"/api/v1/{plural}"
        made = await api.call("POST", path, theirs, role="user", owner="teacher")
        assert made.status == 201
        await api.call("DELETE", f"{path}/g", role="user", owner="teacher")
        await api.world.services.fresh()
        assert (await api.call("POST", path, mine, role="user", owner="eve")).status == 201
        found = await api.call("GET", f"{path}/g/events", role="user", owner="eve")
        assert [each["type"] for each in found.json["items"]] == ["ADDED"]
        assert SECRET not in found.raw
        assert b"teacher" not in found.raw
        whole = await api.call("GET", f"{path}/g/events", role="operator", owner="ola")
        assert SECRET in whole.raw


async def test_a_seats_person_reads_nothing_of_who_sat_there(api: Api) -> None:
    """After a hand-over the events before it are the booker's alone, and the earlier person's gone."""
    await api.world.definition()
    made = await api.world.make("Group", "g", group("ana")["spec"], who("user", "teacher"))
    name = made.status.seats[0].session
    await api.call("PATCH", "/api/v1/groups/g", {"spec": group("bo")["spec"]}, role="user",
                   owner="teacher")  # fmt: skip
    path = f"/api/v1/sessions/{name}/events"
    seen = {}
    for owner in ("ana", "bo", "teacher"):
        found = await api.call("GET", path, role="user", owner=owner)
        seen[owner] = (found.status, len(found.json.get("items", ())), b'"ana"' in found.raw)
    assert seen == {"ana": (404, 0, False), "bo": (200, 1, False), "teacher": (200, 2, True)}


@pytest.mark.parametrize("start", ["9999-12-31T23:59:59Z", "2600-01-01T00:00:00Z"])
async def test_a_calendar_of_a_far_year_is_a_mistake_of_who_asks(api: Api, start: str) -> None:
    """It is told what may be asked, instead of a defect of the server."""
    found = await api.call("GET", f"/api/v1/calendar?from={start}")
    assert found.status == 400
    assert found.json["problems"][0]["where"] == "from"

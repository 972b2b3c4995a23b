"""Calendar files by REST: one's own slots, called-off ones too, and addresses that open no more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import icalendar
import pytest
from api_caller import Api
from fleet_world import START, who

from labfleet.kernel.clock import format_instant
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.reads import calendar_file

FILE, FEED = "/api/v1/calendar.ics", "/api/v1/calendar-feed"
NINE = START + timedelta(days=14)
SLOT = {
    "start": format_instant(NINE),
    "end": format_instant(NINE + timedelta(hours=2)),
    "zone": "Europe/Warsaw",
}
pytestmark = pytest.mark.asyncio


def events(raw: bytes) -> dict[str, icalendar.Event]:
    """Return what a calendar program finds, by the session's uid."""
    found = icalendar.Calendar.from_ical(raw).walk("VEVENT")
    return {str(each["uid"]).removesuffix("@labfleet"): each for each in found}


async def booked(api: Api, name: str, owner: str, **meta: Any) -> Session:
    """Book a slot for an owner."""
    if (await api.call("GET", "/api/v1/definitions/two")).status == 404:
        await api.world.definition("two")
    spec = {"definition": "two", "slot": SLOT}
    made: Session = await api.world.make("Session", name, spec, who("user", owner), **meta)
    return made


async def calendar(api: Api, query: str = "", **how: Any) -> dict[str, icalendar.Event]:
    """Return the calendar that a caller gets."""
    found = await api.call("GET", FILE + query, **how)
    assert found.status == 200, found.raw
    assert found.headers["content-type"] == "text/calendar; charset=utf-8"
    return events(found.raw)


async def test_a_person_gets_their_own_slots_and_an_operator_all_or_one_owners(api: Api) -> None:
    """By label, too; who asks for another person's gets none of them."""
    mine = await booked(api, "a", "ann", labels={"exam": "ccnp"})
    other = await booked(api, "b", "bob")
    ann = {"role": "user", "owner": "ann"}
    assert set(await calendar(api, **ann)) == {mine.metadata.uid}
    assert set(await calendar(api, "?owner=bob", **ann)) == set()
    both = {mine.metadata.uid, other.metadata.uid}
    assert set(await calendar(api, role="operator")) == both
    assert set(await calendar(api, "?owner=bob", role="operator")) == {other.metadata.uid}
    assert set(await calendar(api, "?labelSelector=exam%3Dccnp")) == {mine.metadata.uid}
    assert (await api.call("GET", FILE, role="runner")).status == 403
    assert (await api.call("GET", FILE, role=None)).status == 401


async def test_an_entry_keeps_its_identity_and_rises_with_each_change(api: Api) -> None:
    """Extended, then cancelled: the same uid, a higher sequence; off for a week, then gone."""
    made = await booked(api, "a", "ann")
    uid = made.metadata.uid
    first = (await calendar(api))[uid]
    assert first.decoded("dtstart") == NINE
    assert str(first["status"]) == "TENTATIVE"  # no pool has promised it
    assert "Europe/Warsaw" in str(first["description"])
    later = {"end": format_instant(NINE + timedelta(hours=3))}
    assert (await api.call("POST", "/api/v1/sessions/a/extend", later)).status == 200
    second = (await calendar(api))[uid]
    assert second.decoded("dtend") == NINE + timedelta(hours=3)
    assert int(second["sequence"]) > int(first["sequence"])
    await api.world.status(made, phase=SessionPhase.CANCELLED, ended_at=api.world.clock.now())
    third = (await calendar(api))[uid]
    assert str(third["status"]) == "CANCELLED"
    assert str(third["summary"]) == "Cancelled: Lab two"
    assert int(third["sequence"]) > int(second["sequence"])
    api.world.clock.forward(8 * 86400.0)
    assert await calendar(api) == {}


async def test_a_feed_opens_its_owners_calendar_and_nothing_else(api: Api) -> None:
    """Its token is no bearer token, and a bearer token is no feed's; even an admin's shows own slots."""
    mine = await booked(api, "a", "ann")
    await booked(api, "b", "bob")
    made = await api.call("POST", FEED, role="user", owner="ann")
    assert made.status == 201
    address = made.json["url"]
    text = address.partition("feed=")[2]
    found = await api.call("GET", address, role=None)
    assert set(events(found.raw)) == {mine.metadata.uid}
    for path in ("/api/v1/sessions", FILE, FEED, "/api/v1/version-of-nothing"):
        refused = await api.call("GET", path, role=None, Authorization=f"Bearer {text}")
        assert refused.status == 401, path
    bearer = await api.token("user", "ann")
    assert (await api.call("GET", f"{FEED}.ics?feed={bearer}", role=None)).status == 403
    admins = (await api.call("POST", FEED, role="admin")).json["url"]
    assert events((await api.call("GET", admins, role=None)).raw) == {}


async def test_a_feed_is_shown_once_ended_at_once_and_uses_up_no_tokens(api: Api) -> None:
    """A new address ends the old one; ten of them are one row, which an admin can revoke."""
    ann = {"role": "user", "owner": "ann"}
    await booked(api, "a", "ann")
    assert (await api.call("GET", FEED, **ann)).status == 404
    assert (await api.call("DELETE", FEED, **ann)).status == 404
    urls = [(await api.call("POST", FEED, **ann)).json["url"] for _ in range(3)]
    answers = [(await api.call("GET", each, role=None)).status for each in urls]
    assert answers == [403, 403, 200]
    shown = await api.call("GET", FEED, **ann)
    assert (shown.json["url"], shown.json["owner"], shown.json["revoked"]) == (None, "ann", None)
    rows = (await api.call("GET", "/api/v1/tokens")).json["items"]
    feeds = [each for each in rows if each["role"] == "calendar"]
    assert [each["owner"] for each in feeds] == ["ann"]
    assert feeds[0]["expires"] is not None
    assert (await api.call("DELETE", FEED, **ann)).json["revoked"] is not None
    assert (await api.call("GET", urls[-1], role=None)).status == 403
    again = (await api.call("POST", FEED, **ann)).json["url"]
    assert (await api.call("DELETE", f"/api/v1/tokens/{feeds[0]['id']}")).status == 200
    assert (await api.call("GET", again, role=None)).status == 403


async def test_a_feeds_token_stands_in_no_log_and_in_no_problem(api: Api) -> None:
    """Requests are logged by their path, and a refusal repeats nothing of the address."""
    url = (await api.call("POST", FEED, role="user", owner="ann")).json["url"]
    text = url.partition("feed=")[2]
    await api.call("GET", url, role=None)
    refused = await api.call("GET", f"{url}x", role=None)
    assert text.encode() not in refused.raw
    assert [each for each in api.done if text in str(each)] == []
    assert {each.path for each in api.done[-2:]} == {f"{FEED}.ics"}


async def test_a_calendar_has_a_bounded_number_of_entries_and_says_so(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more the first ones are there, and the file says how many there are."""
    monkeypatch.setattr(calendar_file, "MOST", 2)
    for name in "abc":
        await booked(api, name, "ann")
    raw = (await api.call("GET", FILE)).raw
    assert len(events(raw)) == 2
    about = str(icalendar.Calendar.from_ical(raw)["x-wr-caldesc"])
    assert about == "The first 2 of 3 sessions: ask for fewer by a label."


async def test_links_lead_to_the_pages_that_the_fleet_names(api: Api) -> None:
    """Without notices.pagesUrl there is no link: a path without a server means nothing there."""
    made = await booked(api, "a", "ann")
    assert "url" not in (await calendar(api))[made.metadata.uid]
    body = {"spec": {"notices": {"pagesUrl": "https://fleet.example.org"}}}
    assert (await api.call("PATCH", "/api/v1/settings/fleet", body)).status == 200
    await api.world.services.fresh()
    link = str((await calendar(api))[made.metadata.uid]["url"])
    assert link == f"https://fleet.example.org/sessions/a?uid={made.metadata.uid}"
    feed = (await api.call("POST", FEED)).json["url"]
    assert feed.startswith("https://fleet.example.org/api/v1/calendar-feed.ics?feed=lf_")
    for wrong in ("javascript:alert(1)", "https://x/?a=b", "https://u:p@x", "x"):
        body = {"spec": {"notices": {"pagesUrl": wrong}}}
        assert (await api.call("PATCH", "/api/v1/settings/fleet", body)).status == 400

"""What the adapter makes of telemetry events."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from scripted_cml import ScriptedCml, host_on, ok, refused

from labfleet.adapters.cml import activity
from labfleet.kernel import errors
from labfleet.resources import idle

AT = datetime(2026, 11, 27, 9, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-27T09:00:30+00:00",
        "2026-11-27T10:00:30+01:00",
        "2026-11-27T09:00:30.000000Z",
        "2026-11-27 09:00:30",
        "2026-11-27T09:00:30",
        AT.timestamp(),
    ],
)
def test_each_form_of_a_stamp_is_the_same_instant(stamp: object) -> None:
    """Offset, Z with fractions, no zone, seconds: all are 09:00:30 UTC."""
    assert idle.instant(stamp) == AT


@pytest.mark.parametrize("stamp", ["yesterday", "", None, True, [], 1e300, float("nan"), {}])
def test_a_stamp_that_is_none_is_unknown(stamp: object) -> None:
    """Nothing unreadable is taken for an instant, and nothing raises."""
    assert idle.instant(stamp) is None


def test_events_come_newest_first_undated_before_all() -> None:
    """Who decides must see at once what it cannot date."""
    told = [
        {"category": "a", "timestamp": "2026-11-27 09:00:00", "data": {"user_id": "u"}},
        {"category": "b", "timestamp": "2026-11-27 10:00:00", "data": None, "user": "v"},
        {"category": "c", "timestamp": "?", "data": {"username": "w"}},
        {"timestamp": 0},
        "noise",
    ]
    found = activity.parse(told, None)
    words = [(each.category, each.user) for each in found.events]
    assert words == [("c", "w"), ("b", "v"), ("a", "u"), ("unknown", None)]
    assert not found.declined


@pytest.mark.parametrize(
    ("opt_in", "declined"),
    [(False, True), (True, False), (None, False), ("declined", True), ("accepted", False)],
)
def test_declined_in_the_words_of_each_release(opt_in: object, declined: bool) -> None:
    """Silence of a server whose people opted out is no silence of people."""
    assert activity.parse([], opt_in).declined is declined


def test_what_is_no_list_is_no_answer() -> None:
    """A broken answer never reads as nobody did anything."""
    with pytest.raises(errors.Protocol):
        activity.parse({"code": 500}, True)


@pytest.mark.asyncio
async def test_both_questions_are_asked_and_a_failure_is_raised() -> None:
    """Two requests; when either fails there is no activity, not an empty one."""
    server = ScriptedCml({"GET telemetry/events": ok([]), "GET telemetry": ok({"opt_in": False})})
    assert (await host_on(server).activity()).declined
    server = ScriptedCml({"GET telemetry/events": ok([]), "GET telemetry": refused(403)})
    with pytest.raises(errors.Denied):
        await host_on(server).activity()

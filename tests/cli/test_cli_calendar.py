"""`calendar`: times in the reader's zone and in UTC, in 80 columns."""

from __future__ import annotations


def span(start: str, end: str, sessions: int | None = 0, free: int = 19, **more):
    """A time of a calendar as the server gives it."""
    places = None if sessions is None else 19 - free
    return {"start": start, "end": end, "free": free, "mine": 2, "places": places,
            "sessions": sessions, "inDanger": sessions and 0, "parts": [], **more}  # fmt: skip


def answer(*items, following=None, maximum=19):
    """A calendar of one pool."""
    pool = {"pool": "exam", "namespace": "default", "track": "ccnp", "maximum": maximum,
            "workers": 1, "items": list(items), "next": following}  # fmt: skip
    return {"start": "2026-11-29T00:00:00Z", "end": "2026-12-06T00:00:00Z", "pools": [pool],
            "leftOut": 0}  # fmt: skip


EXAM = (
    span("2026-11-29T00:00:00Z", "2026-11-29T23:45:00Z"),
    span("2026-11-29T23:45:00Z", "2026-11-30T10:10:00Z", 1000, 0,
         parts=[{"name": "ccnp-monday", "sessions": 1000}]),
    span("2026-11-30T10:10:00Z", "2026-12-06T00:00:00Z"),
)  # fmt: skip


def test_both_zones_are_shown(run, stub):
    """00:45 in Warsaw is 23:45Z of the day before: both are shown (facts/fleet-bugs.md#t03)."""
    stub.answers["GET /api/v1/calendar"] = (200, answer(*EXAM))
    told = run("calendar", "--zone", "Europe/Warsaw")
    head, _, exam, after = told.out.splitlines()
    assert head.split() == ["FROM", "TO", "UTC", "FREE", "SESSIONS", "WORKERS", "DANGER"]
    assert exam.split() == ["Mon", "30", "Nov", "00:45", "11:10", "29", "23:45Z", "0", "1000",
                            "19", "of", "19", "0"]  # fmt: skip
    assert after.startswith("Mon 30 Nov 11:10  Sun 06 Dec 01:00  10:10Z")
    assert "Times are of Europe/Warsaw" in told.err
    assert max(len(line) for line in told.out.splitlines()) <= 80
    wide = run("calendar", "--zone", "Europe/Warsaw", "-o", "wide").out
    assert "ccnp-monday 1000" in wide


def test_the_hour_of_a_zone_follows_its_summer_time(run, stub):
    """Nine o'clock UTC is ten in Warsaw in winter and eleven in summer."""
    summer = span("2027-06-01T09:00:00Z", "2027-06-01T10:00:00Z")
    winter = span("2027-01-04T09:00:00Z", "2027-01-04T10:00:00Z")
    stub.answers["GET /api/v1/calendar"] = (200, answer(winter, summer))
    _, one, two = run("calendar", "--zone", "Europe/Warsaw").out.splitlines()
    assert "10:00" in one.split()
    assert "11:00" in two.split()


def test_a_candidate_sees_what_is_free_and_theirs(run, stub):
    """Where the server tells nothing of others, no column pretends to."""
    stub.answers["GET /api/v1/calendar"] = (
        200,
        answer(span(EXAM[1]["start"], EXAM[1]["end"], None)),
    )
    head, row = run("calendar", "--zone", "UTC").out.splitlines()
    assert head.split() == ["FROM", "TO", "UTC", "FREE", "MINE"]
    assert row.split()[-2:] == ["19", "2"]


def test_what_is_left_out_and_unknown_is_said(run, stub):
    """The command that reads on, a pool without template, no pool, and a zone that is none."""
    stub.answers["GET /api/v1/calendar"] = (200, answer(*EXAM, following="2026-12-01T00:00:00Z"))
    told = run("calendar").err
    assert "labfleet calendar --pool exam --from 2026-12-01T00:00:00Z" in told
    stub.answers["GET /api/v1/calendar"] = (200, answer(maximum=None))
    assert "exam: its template is missing or disabled" in run("calendar").err
    stub.answers["GET /api/v1/calendar"] = (200, {**answer(), "pools": []})
    assert "there is no pool here" in run("calendar").err
    wrong = run("calendar", "--zone", "Mars/Base")
    assert wrong.code == 2
    assert "is no zone" in wrong.err


def test_a_span_is_asked_in_instants(run, stub):
    """14d is counted from now on; programs get the answer as it is."""
    stub.answers["GET /api/v1/calendar"] = (200, answer(*EXAM))
    done = run("calendar", "--pool", "exam", "--from", "2026-12-11T08:00:00Z", "-o", "json")
    assert done.json == answer(*EXAM)
    asked = stub.calls("GET")[-1].query
    assert (asked["pool"], asked["from"]) == ("exam", "2026-12-11T08:00:00.000Z")


def test_several_pools_are_tables_of_their_own(run, stub):
    """Each under its name, in 80 columns; as csv one table with a column for the pool."""
    found = answer(*EXAM)
    found["pools"].append({**found["pools"][0], "pool": "the-long-name-of-another-pool"})
    stub.answers["GET /api/v1/calendar"] = (200, found)
    lines = run("calendar", "--zone", "Europe/Warsaw").out.splitlines()
    assert lines[0] == "exam (track ccnp)"
    assert lines[5:7] == ["", "the-long-name-of-another-pool (track ccnp)"]
    assert max(map(len, lines)) <= 80
    table = run("calendar", "-o", "csv").out.splitlines()
    assert table[0].startswith("POOL,FROM,TO,UTC,FREE")
    assert len(table) == 7


def test_rows_that_people_cannot_tell_apart_are_one(run, stub):
    """Times of the same figures are joined, and one within a minute is left out; csv has them all."""
    items = (
        span("2026-11-29T08:00:10Z", "2026-11-29T08:00:40Z", 4),
        span(
            "2026-11-29T08:00:40Z", "2026-11-29T09:00:00Z", 8, parts=[{"name": "a", "sessions": 8}]
        ),
        span(
            "2026-11-29T09:00:00Z", "2026-11-29T10:00:00Z", 8, parts=[{"name": "b", "sessions": 8}]
        ),
        span("2026-11-29T10:00:00Z", "2026-11-29T11:00:00Z", 9),
    )
    stub.answers["GET /api/v1/calendar"] = (200, answer(*items))
    rows = [line.split() for line in run("calendar", "--zone", "UTC").out.splitlines()[1:]]
    assert [(row[3], row[4], row[7]) for row in rows] == [
        ("08:00", "10:00", "8"), ("10:00", "11:00", "9"),
    ]  # fmt: skip
    assert len(run("calendar", "--zone", "UTC", "-o", "wide").out.splitlines()) == 4
    assert len(run("calendar", "-o", "csv").out.splitlines()) == 5

"""Calendar files and the feed's address, as somebody types them, of a server that answers."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import urlopen

import icalendar
import pytest
from live_api import LiveApi, live_api, place

FEED = "/api/v1/calendar-feed"
SLOT = {"start": "2026-12-07T08:00:00Z", "end": "2026-12-07T10:00:00Z", "zone": "Europe/Warsaw"}


@pytest.fixture(scope="module")
def live() -> Iterator[LiveApi]:
    """An installation in which the admin has a slot and somebody else another one."""
    with place() as at, live_api(at) as made:
        made.do(made.api.world.definition("two"))
        for owner, label in (("admin", "ccnp"), ("bob", "ccna")):
            spec = {"definition": "two", "owner": owner, "slot": SLOT}
            made.do(made.api.world.make("Session", owner, spec, labels={"exam": label}))
        yield made


@pytest.fixture
def at(live) -> dict[str, str]:
    """The variables of who calls that installation."""
    return {"LABFLEET_URL": live.url, "LABFLEET_TOKEN": live.token}


def events(raw: bytes) -> list[str]:
    """Return the sessions that a calendar program finds, by the second line of each entry."""
    found = icalendar.Calendar.from_ical(raw).walk("VEVENT")
    return sorted(str(each["description"]).split("\n")[1] for each in found)


def test_a_calendar_file_is_written_as_it_came(run, at, tmp_path):
    """To stdout, or into a new file and never over another one; the selector goes along."""
    said = run("calendar-file", env=at)
    assert events(said.out.encode()) == ["Session admin: PENDING", "Session bob: PENDING"]
    file = tmp_path / "labs.ics"
    said = run("calendar-file", "-l", "exam=ccna", "--write", str(file), env=at)
    assert events(file.read_bytes()) == ["Session bob: PENDING"]
    assert said.err.endswith(f"1 session written to {file}.\n")
    again = run("calendar-file", "--write", str(file), env=at)
    assert (again.code, "exists already" in again.err) == (2, True)
    wrong = run("calendar-file", "-l", "exam in ccnp", env=at)
    assert (wrong.code, wrong.out) == (2, "")


def test_the_address_opens_ones_own_calendar_until_it_is_ended(run, at):
    """It is shown once, whole; a calendar program needs nothing else to read it."""
    assert run("calendar-feed", "show", env=at).code == 4
    said = run("calendar-feed", "create", env=at)
    url = said.out.strip()
    assert "not shown again" in said.err
    with urlopen(url) as answer:
        assert events(answer.read()) == ["Session admin: PENDING"]
    shown = run("calendar-feed", "show", env=at)
    assert shown.out.startswith("The calendar feed of admin is open until 2027-")
    assert url not in shown.out
    assert run("calendar-feed", "end", env=at).out == "The calendar feed of admin is ended.\n"
    assert "is ended" in run("calendar-feed", "show", env=at).out

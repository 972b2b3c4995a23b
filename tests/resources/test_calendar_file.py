"""Calendar files: another program's reader finds in them what was put in, whatever that was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import icalendar
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.resources import calendar_file
from labfleet.resources.calendar_file import CalendarEntry

NINE = datetime(2026, 11, 30, 8, tzinfo=UTC)
HOSTILE = [
    "x\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nSUMMARY:forged",
    "a\u2028ATTACH:file:///etc/passwd",
    "semi;colon, comma \\ back\\nslash",
    "\x00\x0b\x85\x1c bell\x07",
    "李雷 " * 60,
    '";ALTREP="http://evil.example/":x',
    "\ud800",
    "",
]


def entry(**fields: object) -> CalendarEntry:
    """Return an entry with these fields."""
    given = {"uid": "u-1@labfleet", "sequence": 7, "changed": NINE, "start": NINE,
             "end": NINE + timedelta(hours=2), "summary": "Lab two", **fields}  # fmt: skip
    return CalendarEntry(**given)


def read(raw: bytes) -> list[icalendar.Event]:
    """Return the events that the other reader finds, which refuses what is no calendar."""
    found = icalendar.Calendar.from_ical(raw)
    assert not found.errors
    return list(found.walk("VEVENT"))


def lines_of(raw: bytes) -> list[bytes]:
    """Return the physical lines; all of them end in CR LF."""
    assert raw.endswith(b"\r\n")
    lines = raw[:-2].split(b"\r\n")
    assert not any(b"\r" in each or b"\n" in each for each in lines)
    return lines


def test_an_entry_is_read_as_it_was_written() -> None:
    """Instants are UTC, so nobody needs to know a zone's rules to show them right."""
    raw = calendar_file.text([entry(url="https://fleet.example.org/sessions/s1")], name="Labs")
    (event,) = read(raw)
    assert event.decoded("dtstart") == NINE
    assert event.decoded("dtend") - NINE == timedelta(hours=2)
    assert (str(event["uid"]), int(event["sequence"])) == ("u-1@labfleet", 7)
    assert str(event["url"]) == "https://fleet.example.org/sessions/s1"
    assert str(icalendar.Calendar.from_ical(raw)["x-wr-calname"]) == "Labs"


def test_an_empty_calendar_is_one_too() -> None:
    """It holds a component, as the standard asks, and no event."""
    raw = calendar_file.text([], name="Labs")
    assert read(raw) == []
    assert b"BEGIN:VTIMEZONE" in raw


@settings(max_examples=60)
@given(st.sampled_from(HOSTILE) | st.text(max_size=300), st.integers(0, 2**40))
def test_no_text_makes_a_line_of_its_own(said: str, sequence: int) -> None:
    """Whatever a name or a reason holds: one event, its own fields, lines of 75 octets."""
    raw = calendar_file.text(
        [entry(summary=said, description=f"{said}\nlast line", url=said, sequence=sequence)],
        name=said,
        about=said,
    )
    lines = lines_of(raw)
    assert max(map(len, lines)) <= calendar_file.LINE_OCTETS
    (event,) = read(raw)
    assert set(event) <= {
        "UID", "SEQUENCE", "DTSTAMP", "LAST-MODIFIED", "DTSTART", "DTEND", "STATUS", "TRANSP",
        "SUMMARY", "DESCRIPTION", "URL",
    }  # fmt: skip
    assert 0 <= int(event["sequence"]) < 2**31
    if said.isprintable() and said.strip() == said:
        assert str(event["summary"]) == said.encode("utf-8", "replace").decode()


def test_folding_cuts_no_character_in_two() -> None:
    """Each physical line is UTF-8 by itself, and together they are the text again."""
    raw = calendar_file.folded("SUMMARY:" + "ü€𝄞" * 40)
    parts = [each.decode() for each in raw[:-2].split(b"\r\n")]
    assert all(each.startswith(" ") for each in parts[1:])
    assert parts[0] + "".join(each[1:] for each in parts[1:]) == "SUMMARY:" + "ü€𝄞" * 40


def test_an_entry_ends_after_it_begins() -> None:
    """A session that ended in the second of its start still is an event that programs take."""
    (event,) = read(calendar_file.text([entry(end=NINE)], name="x"))
    assert event.decoded("dtend") > event.decoded("dtstart")

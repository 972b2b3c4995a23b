"""Calendar files (RFC 5545) of entries with fixed instants: an own small writer, and why.

Pure. All times are UTC, so an entry keeps its instant over a change of the clocks and needs no
VTIMEZONE; the calendar program shows it in its reader's own zone. What is written here is five
properties of one component: the library that reads all of RFC 5545 judges it in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Literal

from labfleet.kernel.clock import in_utc
from labfleet.resources.meta import Record

MEDIA_TYPE = "text/calendar; charset=utf-8"
LINE_OCTETS = 75
LONGEST_TEXT = 1000
"""Characters of one text; a calendar shows a few lines of it."""
REFRESH_MINUTES = 15
_SHORTEST = timedelta(minutes=1)
_SEQUENCES = 0x7FFFFFFF
"""RFC 5545 gives an integer 31 bits and a sign."""
_EMPTY = (
    "BEGIN:VTIMEZONE",
    "TZID:Etc/UTC",
    "BEGIN:STANDARD",
    "DTSTART:19700101T000000",
    "TZOFFSETFROM:+0000",
    "TZOFFSETTO:+0000",
    "END:STANDARD",
    "END:VTIMEZONE",
)
"""A calendar holds at least one component; some programs refuse one that holds none."""


class CalendarEntry(Record, frozen=True, kw_only=True):
    """One entry of a calendar.

    uid: Its identity for ever, in every file.
    sequence: Rises with each change.
    changed: When it last changed.
    start: When it begins.
    end: When it ends.
    status: Whether it is certain, only wanted, or called off.
    summary: Its title.
    description: More of it, in lines.
    url: Where more is to be seen; empty for nowhere.
    """

    uid: str
    sequence: int
    changed: datetime
    start: datetime
    end: datetime
    status: Literal["CONFIRMED", "TENTATIVE", "CANCELLED"] = "CONFIRMED"
    summary: str
    description: str = ""
    url: str = ""


def text(entries: Iterable[CalendarEntry], *, name: str, about: str = "") -> bytes:
    """Return a whole calendar file: lines end in CR LF and are folded at 75 octets."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Labfleet//Sessions//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        f"X-WR-CALNAME:{escaped(name)}",
        f"REFRESH-INTERVAL;VALUE=DURATION:PT{REFRESH_MINUTES}M",
        f"X-PUBLISHED-TTL:PT{REFRESH_MINUTES}M",
    ]
    if about:
        lines.append(f"X-WR-CALDESC:{escaped(about)}")
    made = [line for each in entries for line in _lines(each)]
    whole = (*lines, *(made or _EMPTY), "END:VCALENDAR")
    return b"".join(folded(line) for line in whole)


def _lines(entry: CalendarEntry) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{escaped(entry.uid)}"
    yield f"SEQUENCE:{entry.sequence & _SEQUENCES}"
    yield f"DTSTAMP:{instant(entry.changed)}"
    yield f"LAST-MODIFIED:{instant(entry.changed)}"
    yield f"DTSTART:{instant(entry.start)}"
    yield f"DTEND:{instant(max(entry.end, entry.start + _SHORTEST))}"
    yield f"STATUS:{entry.status}"
    yield f"TRANSP:{'TRANSPARENT' if entry.status == 'CANCELLED' else 'OPAQUE'}"
    yield f"SUMMARY:{escaped(entry.summary)}"
    if entry.description:
        yield f"DESCRIPTION:{escaped(entry.description)}"
    if entry.url:
        yield f"URL:{_plain(entry.url)}"
    yield "END:VEVENT"


def instant(at: datetime) -> str:
    """Return an instant as RFC 5545 writes one in UTC: `20261130T080000Z`."""
    return f"{in_utc(at):%Y%m%dT%H%M%S}Z".rjust(16, "0")


def escaped(said: str) -> str:
    """Return a text as a value: nothing of it begins a new line, a parameter or a second value."""
    said = said.replace("\r\n", "\n").replace("\r", "\n")
    lines = [_plain(each) for each in said[:LONGEST_TEXT].split("\n")]
    return "\\n".join(
        each.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,") for each in lines
    )


def _plain(said: str) -> str:
    """Return a text without what some reader takes for the end of a line, or cannot encode."""
    shown = "".join(each if each.isprintable() else " " for each in said)
    return shown.encode("utf-8", "replace").decode("utf-8")


def folded(line: str) -> bytes:
    """Return a line with its end, as many lines as it takes; no character is cut into two."""
    parts, part, room = list[bytes](), b"", LINE_OCTETS
    for each in line:
        octets = each.encode("utf-8")
        if len(part) + len(octets) > room:
            parts.append(part)
            part, room = b"", LINE_OCTETS - 1  # the space before it counts
        part += octets
    parts.append(part)
    return b"\r\n ".join(parts) + b"\r\n"

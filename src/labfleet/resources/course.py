"""Course: a class that meets on several dates, each of them a group, booked together.

What happens on one date is read in its group; a course keeps its rule, and which groups are its
dates.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from labfleet.resources.declaration import Kind, columns, filters
from labfleet.resources.group import SEATS_LIMIT, Seat
from labfleet.resources.meta import Record, Resource, Text

LABEL = "labfleet.dev/course"
"""Label of the groups and sessions of a course, with its name, to choose them by."""
SESSIONS_LIMIT = 800
"""Sessions of one course that are not over: they are written in one commit."""
_TEXT_LIMIT = 256 * 1024
_WALL = r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?$"
_DAY = r"^\d{4}-\d\d-\d\d$"
WallTime = Annotated[str, msgspec.Meta(pattern=_WALL, max_length=32)]
Day = Annotated[str, msgspec.Meta(pattern=_DAY, max_length=10)]


class CourseSlot(Record, frozen=True, kw_only=True):
    """When the class meets for the first time, by the clock on the wall of its zone.

    start: Date and time of the first beginning there, such as 2026-10-05T09:00.
    end: Date and time of its end there; null means start plus the definition's default duration. All
    dates last as long.
    zone: IANA name of the zone by whose clocks it begins on every date, such as Europe/Zurich.
    """

    start: WallTime
    end: WallTime | None = None
    zone: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class CourseSpec(Record, frozen=True, kw_only=True):
    """What is booked on each date. Later slot.end, repeat, skip and who sits where may change.

    definition: Name of the definition whose lab each seat runs.
    owner: Who booked it: sees, extends and ends all seats; a user's own name unless an operator
    says another.
    slot: When it meets for the first time, and in which zone.
    repeat: On which dates it meets, as a rule of RFC 5545 of FREQ (WEEKLY or DAILY), INTERVAL,
    BYDAY, and COUNT or UNTIL, such as FREQ=WEEKLY;COUNT=12.
    skip: Dates of the rule on which it does not meet, such as holidays; COUNT counts them.
    track: Lab track whose workers may host it; null means the definition's.
    seats: Seats with a name or a person of their own.
    size: How many seats there are, those of `seats` included; null means as many as these.
    spare: How many seats there are beyond these, for whoever comes unannounced.
    when_full: What becomes of a course that does not fit on every date: all of it is refused, or on
    each date as many seats as fit are booked.
    description: What it is for, for people.
    """

    definition: Text
    owner: Annotated[str, msgspec.Meta(max_length=256)] = ""
    slot: CourseSlot
    repeat: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    skip: Annotated[tuple[Day, ...], msgspec.Meta(max_length=60)] = ()
    track: str | None = None
    seats: Annotated[tuple[Seat, ...], msgspec.Meta(max_length=SEATS_LIMIT)] = ()
    size: Annotated[int, msgspec.Meta(ge=1, le=SEATS_LIMIT)] | None = None
    spare: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    when_full: Literal["refuse", "some"] = "refuse"
    description: Annotated[str, msgspec.Meta(max_length=1024)] = ""


class CourseDate(Record, frozen=True, kw_only=True):
    """One date of a course.

    day: The date, in the course's zone.
    start: When the class begins; as its group says, when it is read.
    end: When it ends, of seats without a factor; likewise.
    group: Name of the group that is booked; null when there was no room on this date.
    uid: Identity of that group: which one is meant, should the name be given again.
    booked: How many of its seats got a session.
    note: What is special on this date, such as clocks that change; empty else.
    stands: Whether it is ahead, now, over, called off (its group is gone) or without room; worked
    out when it is read, null where nobody has, as in a stream.
    """

    day: Day
    start: datetime
    end: datetime
    group: str | None = None
    uid: str = ""
    booked: int = 0
    note: str = ""
    stands: Literal["ahead", "now", "over", "called off", "no room"] | None = None


class CourseStatus(Record, frozen=True, kw_only=True):
    """Which dates are booked.

    seats: How many seats each date was to have.
    dates: The dates, in their order.
    next: When it begins next; null when no date is ahead. Worked out when it is read.
    ahead: How many dates are ahead; worked out when it is read, null where nobody has.
    message: Sentence for people on what was booked or changed last.
    """

    seats: int = 0
    dates: tuple[CourseDate, ...] = ()
    next: datetime | None = None
    ahead: int | None = None
    message: str = ""


class Course(Resource, frozen=True, kw_only=True):
    """A class that meets on several dates, each of them a group, booked together."""

    spec: CourseSpec
    status: CourseStatus = CourseStatus()
    kind: str = "Course"


KIND = Kind(
    name="Course",
    plural="courses",
    type=Course,
    summary="A class that meets on several dates, each of them a group, booked together.",
    columns=columns(
        "DEFINITION=spec.definition",
        "OWNER=spec.owner",
        "NEXT=status.next",
        "AHEAD=status.ahead",
        "SEATS=status.seats",
        "REPEAT=spec.repeat*",
        "ZONE=spec.slot.zone*",
        "MESSAGE=status.message*",
    ),
    filters=filters("owner=spec.owner", "definition=spec.definition"),
    frozen=("definition", "owner", "track", "size", "spare", "when_full"),
    partial=("slot",),
    text_limit=_TEXT_LIMIT,
    named_by="definition",
    navigable=True,
    derived=("status.next", "status.ahead"),
)

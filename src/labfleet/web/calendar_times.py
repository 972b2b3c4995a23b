"""Which time a calendar's page shows: a day or a week by the clocks of a zone, from its address. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import urlencode

from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant
from labfleet.resources import zones

VIEWS = {"day": 1, "week": 7}
_KEPT = ("namespace", "pool", "zone")


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when ("" for the reader's defaults), and the addresses beside it.

    `links` are (word, address) of other views; the one that is shown has no address.
    """

    zone: str
    view: str
    day: str
    start: str
    end: str
    links: tuple[tuple[str, str], ...]
    before: str
    after: str
    over: bool = False


def of(asked: Mapping[str, str], now: datetime, root: str) -> Span:
    """Return the span that an address asks for; Invalid for a view, date or zone that there is not.

    `from` and `to` win over a view; without any the next days from now are meant.
    """
    zone = asked.get("zone") or "UTC"
    if zones.at_wall(datetime(2000, 1, 1), zone) is None:  # noqa: DTZ001 - of the wall
        raise errors.Invalid(f"zone: {zone[:64]!r} is no IANA time zone, such as Europe/Warsaw")
    view = asked.get("view", "")
    if view and view not in VIEWS:
        raise errors.Invalid("view: is day or week")
    today = now.astimezone(zones.zone_of(zone)).date()
    day = _day(asked.get("date", ""), today)
    kept = {name: asked[name] for name in _KEPT if asked.get(name)}
    plain = not view and "date" not in asked

    def at(view: str, day: date) -> str:
        return f"{root}?{urlencode({**kept, 'view': view, 'date': day.isoformat()})}"

    first = f"{root}?{urlencode(kept)}" if kept else root
    links = (
        ("Next 7 days", "" if plain else first),
        *((name.capitalize(), "" if name == view else at(name, day)) for name in VIEWS),
    )
    if plain:
        return Span(zone, "", today.isoformat(), asked.get("from", ""), asked.get("to", ""),
                    links, "", "")  # fmt: skip
    view = view or "day"
    length = VIEWS[view]
    start, end = _midnight(day, zone), _midnight(_later(day, length), zone)
    return Span(
        zone, view, day.isoformat(), format_instant(start), format_instant(end), links,
        at(view, _later(day, -length)), at(view, _later(day, length)), over=end <= now,
    )  # fmt: skip


def _day(text: str, today: date) -> date:
    if not text:
        return today
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise errors.Invalid("date: is a day such as 2026-11-30") from None
    if abs(found - today) > timedelta(days=3660):
        raise errors.Invalid("date: is too far away; nothing is promised then")
    return found


def _later(day: date, days: int) -> date:
    return day + timedelta(days=days)


def _midnight(day: date, zone: str) -> datetime:
    """Return when a day begins by the clocks of a zone; where midnight is left out, right after."""
    wall = datetime.combine(day, time())
    at = wall.replace(tzinfo=UTC) if zone == "UTC" else zones.at_wall(wall, zone)
    return at or wall.replace(tzinfo=UTC)

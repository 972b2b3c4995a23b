"""`calendar`: what pools have promised, time by time, and when places are free.

Times are shown in the reader's zone with UTC beside them, since the two days of a night differ by
zone; formats for programs have them as the server says them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import exits, human_units, output
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock

PARTS = 3
"""How many groups and labs a row of -o wide names."""


@click.command("calendar", short_help="Show what pools have promised, and when places are free.")
@click.option("--pool", metavar="NAME", help="Only this pool.")
@click.option("--from", "begin", metavar="DURATION|INSTANT", default="",
              help="From when: 14d (from now), or an instant. Default: now.")  # fmt: skip
@click.option("--to", "until", metavar="DURATION|INSTANT", default="",
              help="Until when, at most 31 days later. Default: 7 days later.")  # fmt: skip
@click.option("--zone", metavar="ZONE", default="",
              help="Zone of the times, such as Europe/Warsaw. Default: this machine's.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True,
              help="How many times of each pool.")  # fmt: skip
@connected
def calendar(call: Call, *, pool: str | None, begin: str, until: str, zone: str, limit: int) -> int:
    """Show for each pool what it has promised: sessions, the workers that they need, free places.

    A time lasts until something changes. FREE counts workers on which nothing is promised; more
    labs may fit beside others on the rest. Who sees only their own sessions sees FREE and MINE.
    """
    here = _zone(zone)
    answer = call.api.get(
        "/api/v1/calendar",
        **{"namespace": call.settings.namespace, "pool": pool, "limit": limit,
           "from": _instant(call, begin, "--from"), "to": _instant(call, until, "--to")},
    )  # fmt: skip
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    pools = answer.get("pools") or []
    rows = [(each, span) for each in pools for span in each.get("items") or []]
    whole = any(span.get("sessions") is not None for _, span in rows) or not rows
    wide, plain = call.out.format == "wide", call.out.format == "csv"
    titles = ["FROM", "TO", "UTC", "FREE"]
    titles += ["SESSIONS", "WORKERS", "DANGER"] if whole else ["MINE"]
    titles += ["WHAT"] if whole and (wide or plain) else []
    tables = list[tuple[str, list[list[str]]]]()
    for each in pools:
        lines = []
        for span in _told_apart(each.get("items") or [], wide=wide, plain=plain):
            cells = [*_times(span, here, plain=plain), *_numbers(each, span, whole=whole)]
            cells += [_parts(span)] if "WHAT" in titles else []
            lines.append([str(each["pool"]), *cells] if plain else cells)
        tables.append((f"{each['pool']} (track {each['track']})", lines))
    if plain:
        call.out.table(["POOL", *titles], [line for _, lines in tables for line in lines])
    else:
        _print(call, titles, tables)
    _notes(call, answer, pools, zone)
    return exits.OK


def _told_apart(
    items: list[dict[str, Any]], *, wide: bool, plain: bool
) -> Iterator[dict[str, Any]]:
    """Yield the times of a pool as people can tell them apart: rows that look alike are one.

    A time that begins and ends in the same minute is left out; programs get all of them.
    """
    before: dict[str, Any] | None = None
    shown = ("free", "mine", "sessions", "places", "inDanger", *(("parts",) if wide else ()))
    for each in items:
        if plain:
            yield each
            continue
        start, end = (str(each.get(name))[:16] for name in ("start", "end"))
        if start == end:
            continue
        joins = before is not None and str(before.get("end"))[:16] == start
        if before is not None and joins and all(before.get(n) == each.get(n) for n in shown):
            before = {**before, "end": each.get("end")}
            continue
        if before is not None:
            yield before
        before = each
    if before is not None:
        yield before


def _print(call: Call, titles: list[str], tables: list[tuple[str, list[list[str]]]]) -> None:
    """Print a table for each pool, under its name where there are several."""
    for number, (name, lines) in enumerate(tables):
        if len(tables) > 1:
            output.say(f"{chr(10) if number else ''}{human_units.printable(name)}")
        call.out.table(titles, lines)


def _zone(name: str) -> tzinfo | None:
    """Return the zone of a name, None for this machine's; Failure when there is none of it."""
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        hint = "Say for example --zone Europe/Warsaw."
        raise exits.usage(f"--zone: {name[:60]!r} is no zone", hint) from None


def _instant(call: Call, text: str, option: str) -> str | None:
    """Return an instant for the server; a duration counts from now on."""
    if not text:
        return None
    if human_units.is_duration(text):
        found = call.now() + timedelta(seconds=calls.seconds(text, option))
    else:
        found = calls.instant(text, option)
    return clock.format_instant(found)


def _times(span: dict[str, Any], zone: tzinfo | None, *, plain: bool) -> list[str]:
    """Return the beginning, the end, and the beginning in UTC."""
    start, end = human_units.instant(span.get("start")), human_units.instant(span.get("end"))
    if start is None or end is None or plain:
        return [str(span.get("start")), str(span.get("end")), str(span.get("start"))]
    begin, over = start.astimezone(zone), end.astimezone(zone)
    same = begin.date() == over.date()
    shown = f"{over:%H:%M}" if same else f"{over:%a %d %b %H:%M}"
    return [f"{begin:%a %d %b %H:%M}", shown, _utc(start, begin)]


def _utc(start: datetime, begin: datetime) -> str:
    """Return an instant in UTC: its day too where that is another one than the reader's."""
    utc = clock.in_utc(start)
    return f"{utc:%H:%MZ}" if utc.date() == begin.date() else f"{utc:%d %H:%MZ}"


def _numbers(pool: dict[str, Any], span: dict[str, Any], *, whole: bool) -> list[str]:
    free = _count(span.get("free"))
    if not whole:
        return [free, _count(span.get("mine"))]
    workers = f"{_count(span.get('places'))} of {_count(pool.get('maximum'))}"
    return [free, _count(span.get("sessions")), workers, _count(span.get("inDanger"))]


def _count(value: Any) -> str:
    return "-" if value is None else str(value)


def _parts(span: dict[str, Any]) -> str:
    parts = span.get("parts") or []
    said = ", ".join(f"{each['name']} {each['sessions']}" for each in parts[:PARTS])
    return f"{said}, +{len(parts) - PARTS}" if len(parts) > PARTS else said or "-"


def _notes(call: Call, answer: dict[str, Any], pools: list[dict[str, Any]], zone: str) -> None:
    """Say what the table leaves out, and in whose zone it is."""
    if not pools:
        call.out.note("there is no pool here")
        return
    for each in pools:
        if each.get("maximum") is None:
            call.out.note(
                f"{each['pool']}: its template is missing or disabled, so nobody knows what it holds"
            )
        elif each.get("next"):
            call.out.note(
                f"{each['pool']}: more from {each['next']}: "
                f"labfleet calendar --pool {each['pool']} --from {each['next']}"
            )
    call.out.note(f"Times are of {zone or 'this machine'}; UTC beside them.")
    call.out.left_out(answer, "pools")

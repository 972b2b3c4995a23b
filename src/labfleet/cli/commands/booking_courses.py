"""What `book` shows of a course before it is booked or changed: each date, and what is special on it."""

from __future__ import annotations

import itertools
from typing import Any

from labfleet.cli.kit import human_units, output, paths, targets
from labfleet.cli.kit.call import Call
from labfleet.cli.kit.manifest_sending import Outcome
from labfleet.resources import zones

_GIVEN = 5
"""Seats with other people that the look names."""


def show(call: Call, look: Outcome) -> None:
    """Print the dates of a course by the clocks of its zone, and what would become of each."""
    spec, status = look.obj.get("spec") or {}, look.obj.get("status") or {}
    zone = str(paths.simple(spec, "slot.zone") or "UTC")
    say = [f"{look.source.target}: {spec.get('definition')}, {spec.get('repeat')}, times of {zone}"]
    if look.result == "unchanged":
        say.append("It is booked so already; nothing would change.")
    else:
        say.append(f"Would be: {status.get('message') or look.result}")
    for each in say:
        output.say(human_units.printable(each))
    given = [] if look.before is None else _given(look.before, look.obj)
    if given:
        more = f" and {len(given) - _GIVEN} more" if len(given) > _GIVEN else ""
        output.say(human_units.printable(f"Other people: {', '.join(given[:_GIVEN])}{more}"))
    before, after = _dates(look.before or {}), _dates(look.obj)
    present = {} if look.before is None else _dates(_present(call, look))
    rows = []
    for day in sorted({*before, *after}):
        stands = str(present.get(day, {}).get("stands") or "ahead")
        becomes = _becomes(before.get(day), after.get(day), stands)
        date = after.get(day) or before[day]
        if becomes != "booked" and day in before and day in present:
            date = _with_own_times(date, before[day], present[day])
        rows.append(_row(date, zone, becomes, status))
    call.out.table(["DATE", "FROM", "TO", "UTC", "SEATS", "BECOMES"], rows)
    for date in after.values():
        if date.get("note"):
            output.say(human_units.printable(f"{date.get('day')}: {date['note']}"))


def question(look: Outcome) -> str:
    """Return what is asked before it is done."""
    if look.result != "configured":
        booked = sum(int(each.get("booked") or 0) for each in _dates(look.obj).values())
        return f"{human_units.count(booked, 'seat')} would be booked."
    return f"The course would be changed: {paths.simple(look.obj, 'status.message')}."


def _present(call: Call, look: Outcome) -> dict[str, Any]:
    """Return the course as it is read, which says how each date stands."""
    space = targets.space(call, look.source.target)
    found: dict[str, Any] = call.api.get(look.source.target.path, namespace=space)
    return found


def _dates(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = paths.simple(obj, "status.dates")
    return {str(each.get("day")): each for each in (found if isinstance(found, list) else [])}


def _given(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the seats that somebody else would get, on all dates that are not over."""
    was, new = (_people(each) for each in (before, after))
    return [
        f"seat {name} from {was.get(name) or 'nobody'} to {new.get(name) or 'nobody'}"
        for name in sorted({*was, *new})
        if (was.get(name) or "") != (new.get(name) or "")
    ]


def _people(obj: dict[str, Any]) -> dict[str, str]:
    found = paths.simple(obj, "spec.seats")
    seats = found if isinstance(found, list) else []
    named = {each.get("name") for each in seats}
    numbers = (f"{number:03d}" for number in itertools.count(1) if f"{number:03d}" not in named)
    return {each.get("name") or next(numbers): str(each.get("person") or "") for each in seats}


def _becomes(before: dict[str, Any] | None, after: dict[str, Any] | None, stands: str) -> str:
    """Return what becomes of a date, by what is stored of it before and after."""
    if after is None:
        return "called off"
    if before is None or (after.get("group") and not before.get("group")):
        return "booked" if after.get("group") else "no room"
    if before.get("end") != after.get("end"):
        return "changed"
    return "stays" if stands == "ahead" else f"stays {stands}"


def _with_own_times(
    date: dict[str, Any], before: dict[str, Any], present: dict[str, Any]
) -> dict[str, Any]:
    """Return a date with the times of its group, which may have been moved or extended alone.

    What is stored of a date knows nothing of that; a new end for all is as much later for it.
    """
    was, end, own = (human_units.instant(each.get("end")) for each in (before, date, present))
    if was is None or end is None or own is None:
        return date
    return {**date, "start": present.get("start"), "end": (own + (end - was)).isoformat()}


def _row(date: dict[str, Any], zone: str, becomes: str, status: dict[str, Any]) -> list[str]:
    start, end = (human_units.instant(date.get(each)) for each in ("start", "end"))
    if start is None or end is None:
        return [str(date.get("day")), *[output.NOTHING] * 4, becomes]
    there = zones.zone_of(zone)
    begins, ends = start.astimezone(there), end.astimezone(there)
    last = f"{ends:%H:%M}" if ends.date() == begins.date() else f"{ends:%m-%d %H:%M}"
    seats = f"{date.get('booked') or 0}/{status.get('seats') or 0}"
    return [f"{begins:%a %Y-%m-%d}", f"{begins:%H:%M}", last, f"{start:%H:%M}Z", seats, becomes]

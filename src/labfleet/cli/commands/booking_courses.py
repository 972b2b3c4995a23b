"""What `book` shows of a course before it is booked or changed: each date, and what is special on it."""

from __future__ import annotations

from typing import Any

from labfleet.cli.kit import human_units, output, paths, targets
from labfleet.cli.kit.call import Call
from labfleet.cli.kit.manifest_sending import Outcome
from labfleet.resources import zones


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
    before = {} if look.before is None else _dates(_present(call, look))
    after = _dates(look.obj)
    rows = [
        _row({**before, **after}[day], zone, _becomes(before.get(day), after.get(day)), status)
        for day in sorted({*before, *after})
    ]
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


def _becomes(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    if after is None:
        return "called off"
    if before is None or (after.get("group") and not before.get("group")):
        return "booked" if after.get("group") else "no room"
    if before.get("end") != after.get("end"):
        return "changed"
    stands = str(before.get("stands") or "ahead")
    return "stays" if stands == "ahead" else f"stays {stands}"


def _row(date: dict[str, Any], zone: str, becomes: str, status: dict[str, Any]) -> list[str]:
    start, end = (human_units.instant(date.get(each)) for each in ("start", "end"))
    if start is None or end is None:
        return [str(date.get("day")), *[output.NOTHING] * 4, becomes]
    there = zones.zone_of(zone)
    begins, ends = start.astimezone(there), end.astimezone(there)
    last = f"{ends:%H:%M}" if ends.date() == begins.date() else f"{ends:%m-%d %H:%M}"
    seats = f"{date.get('booked') or 0}/{status.get('seats') or 0}"
    return [f"{begins:%a %Y-%m-%d}", f"{begins:%H:%M}", last, f"{start:%H:%M}Z", seats, becomes]

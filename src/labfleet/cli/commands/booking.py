"""`book`: seats for a class, an exam or a course from a manifest and a roster, with a look before."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from labfleet.cli.commands import booking_courses, session_head
from labfleet.cli.kit import exits, human_units, manifest_sending, output, paths, sources
from labfleet.cli.kit.call import Call, connected
from labfleet.cli.kit.manifest_sending import Outcome
from labfleet.kernel import errors
from labfleet.resources import roster, zones
from labfleet.resources.group import lasting

_BOOKED = frozenset({"Group", "Course"})
ROWS = 20
"""Seats that the look before booking shows; -o wide shows all."""


@click.command("book", short_help="Book seats for a class, an exam or a course together.")
@click.argument("file", metavar="FILE")
@click.option("--csv", "people", metavar="ROSTER",
              help="Who sits there: a CSV file with headings such as name, e-mail, seat, factor.")  # fmt: skip
@click.option("--some", is_flag=True, help="Book as many seats as fit, when not all do.")
@click.option("--dry-run", is_flag=True, help="Only say what would be booked.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before the seats are booked.")
@connected
def book(call: Call, *, file: str, people: str | None, some: bool, dry_run: bool, yes: bool) -> int:
    """Book the seats of one Group or Course, which FILE describes: all in one step, or none.

    A Course meets on several dates. The server says first what would be booked; then this asks.
    The same command again books nothing twice.
    """
    source = _with_people(call, _group(file), people, some=some)
    (look,) = manifest_sending.rehearsed(call, [source])
    if look.failure is not None:
        raise look.failure
    if call.out.structured and (dry_run or look.result == "unchanged"):
        call.out.value({**look.obj, "result": look.result}, "")
        return exits.OK
    course = source.target.kind.name == "Course"
    if not call.out.structured and not call.out.quiet:
        (booking_courses.show if course else _show)(call, look)
    if dry_run or look.result == "unchanged":
        return exits.OK
    if course:
        question = booking_courses.question(look)
    else:
        booked = paths.simple(look.obj, "status.booked") or 0
        question = f"{human_units.count(booked, 'seat')} would be booked."
        if look.result == "configured":
            moved = sum(len(each.get("seats") or ()) for each in _changes(look))
            question = (
                f"The group would be changed, and the times of {human_units.count(moved, 'seat')}."
            )
    call.confirm(question, yes=yes)
    (done,) = manifest_sending.applied(call, [source])
    if done.failure is not None:
        raise done.failure
    if call.out.structured:
        call.out.value({**done.obj, "result": done.result}, "")
    elif call.out.quiet:
        output.say(source.target.name)
    else:
        said = paths.simple(done.obj, "status.message") or done.result
        output.say(human_units.printable(f"{source.target}: {said}"))
    return exits.OK


def _group(file: str) -> sources.Source:
    """Return the one group or course that a file describes."""
    found = sources.load((file,), recursive=False)
    kinds = sorted({each.target.kind.name for each in found})
    if len(found) != 1 or kinds[0] not in _BOOKED:
        what = f"{file} describes {human_units.count(len(found), 'object')} ({', '.join(kinds)})"
        raise exits.usage(
            f"{what}; book takes one Group or Course", "Other objects: labfleet apply -f FILE."
        )
    return found[0]


def _with_people(
    call: Call, source: sources.Source, people: str | None, *, some: bool
) -> sources.Source:
    """Return the group with the seats of a roster, and with what the command line says."""
    spec = dict(source.raw.get("spec") or {})
    if some:
        spec["whenFull"] = "some"
    if people is not None:
        if spec.get("seats"):
            cause = f"{source.where} names seats, and so does {people}"
            raise exits.usage(cause, "Name them in one of the two.")
        spec["seats"] = _seats(call, people)
    return dataclasses.replace(source, raw={**source.raw, "spec": spec})


def _seats(call: Call, people: str) -> list[dict[str, Any]]:
    """Return the seats of a roster as the API spells them; Failure names every mistake."""
    try:
        with Path(people).open("rb") as opened:
            data = opened.read(roster.BYTES_LIMIT + 1)
    except OSError as error:
        raise exits.usage(f"cannot read {people}: {error.strerror}") from None
    try:
        found = roster.read(data)
    except errors.Invalid as error:
        shown = [{"where": f"{people}: {where}", "what": what} for where, what in error.problems]
        raise exits.Failure(
            exits.USAGE, error.message, reason=error.reason, problem={"problems": shown}
        ) from None
    if found.encoding == "windows-1252":
        call.out.note(
            f"{people} is no UTF-8 and was read as Windows-1252: look at the names below."
        )
    if found.ignored:
        named = ", ".join(found.ignored)
        call.out.note(human_units.printable(f"{people}: these columns are not used: {named}"))
    # What is left out is the server's default, so that the file says no more than it says.
    return [{key: each for key, each in msgspec.to_builtins(seat).items() if each not in ("", 1.0)}
            for seat in found.seats]  # fmt: skip


def _show(call: Call, look: Outcome) -> None:
    """Print what would be booked: when, how much of it fits, who sits where and until when."""
    spec, status = look.obj.get("spec") or {}, look.obj.get("status") or {}
    start, end = (human_units.instant(status.get(each)) for each in ("start", "end"))
    zone = str((spec.get("slot") or {}).get("zone") or "UTC")
    output.say(human_units.printable(f"{look.source.target}: {spec.get('definition')}"))
    for said in session_head.titled("When", zones.span(start, end, zone)):
        output.say(said)
    output.say(human_units.printable(_fits(look, status)))
    if look.result == "unchanged":
        output.say("It is booked so already; nothing would change.")
    # Before anybody is asked: whose times would change is the heart of another look.
    call.tell_warnings()
    seats = status.get("seats") or []
    given = {each["name"]: each for each in named(spec, seats)}
    rows = []
    for each in seats:
        factor = given.get(each.get("name"), {}).get("factor")
        rows.append([
            str(each.get("name")),
            str(given.get(each.get("name"), {}).get("person") or output.NOTHING),
            _factor(factor),
            _ends(start, end, factor or 1.0, zone),
            str(each.get("session") or "no room"),
        ])  # fmt: skip
    shown = rows if call.out.format in {"wide", "csv"} else rows[:ROWS]
    call.out.table(["SEAT", "PERSON", "TIME", "ENDS", "SESSION"], shown)
    if len(rows) > len(shown):
        call.out.note(f"and {len(rows) - len(shown)} more seats (all: -o wide)")


def _changes(look: Outcome) -> list[dict[str, Any]]:
    """Return which seats' times would change, by what they are and would be."""
    return (look.obj.get("status") or {}).get("changes") or []


def _fits(look: Outcome, status: dict[str, Any]) -> str:
    """Return how many seats are booked, or would be, and what is missing."""
    said = str(status.get("message") or look.result)
    if look.result != "created":
        return said
    asked, booked = (int(status.get(each) or 0) for each in ("asked", "booked"))
    missing = said.partition("; ")[2]
    head = f"{booked} of {human_units.count(asked, 'seat')} would be booked"
    return f"{head}; {missing}" if missing else head


def _ends(start: datetime | None, end: datetime | None, factor: float, zone: str) -> str:
    """Return when a seat with a factor ends, in the group's zone; its day where it is another one."""
    if start is None or end is None:
        return output.NOTHING
    last = start + lasting(end - start, factor)
    there = zones.zone_of(zone)
    begin, over = start.astimezone(there), last.astimezone(there)
    return f"{over:%H:%M}" if begin.date() == over.date() else f"{over:%d %b %H:%M}"


def named(spec: dict[str, Any], seats: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the seats of a spec with their names: the booked ones stand in the same order."""
    pairs = zip(spec.get("seats") or [], seats, strict=False)
    return [{**wanted, "name": booked.get("name")} for wanted, booked in pairs]


def _factor(value: Any) -> str:
    return output.NOTHING if value in {None, 1} else f"x{value:g}"

"""Booking a session, or the seats of a class from a pasted roster: tried first, then made."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant
from labfleet.kernel.quantity import count
from labfleet.resources import roster, zones
from labfleet.resources.definition import Definition
from labfleet.resources.group import Seat, seats_of
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import API_VERSION
from labfleet.resources.session import Session
from labfleet.service.core import access, intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import objects
from labfleet.web import values
from labfleet.web.acts import edits, fields
from labfleet.web.acts.act import Act, Doing, Outcome
from labfleet.web.acts.fields import Field

CHOICES = 300
"""So many definitions are offered to choose from; with more of them one is typed."""
ROSTER_LIMIT = 40_000


def _definitions(services: ServiceContext, caller: Caller) -> tuple[str, ...]:
    found = (each for each in services.cache.all(Definition) if not each.spec.deprecated)
    return tuple(sorted(
        each.name for each in found
        if each.namespace == "default" and access.sees(caller.principal, each)
    ))  # fmt: skip


def _what(services: ServiceContext, caller: Caller) -> Field:
    names = _definitions(services, caller)
    if 0 < len(names) <= CHOICES:
        chosen = tuple((each, each) for each in names)
        return Field(name="definition", label="Lab", show="choice", required=True, choices=chosen)
    return Field(name="definition", label="Lab", help="Name of a definition.", required=True,
                 most=256)  # fmt: skip


def _owner(caller: Caller, told: str) -> tuple[Field, ...]:
    if caller.principal.role == "user":
        return ()
    return (Field(name="owner", label="For whom", help=told, most=256),)


def _session_fields(services: ServiceContext, caller: Caller, _obj: Any) -> tuple[Field, ...]:
    soon = "Empty: as soon as there is room."
    return (
        _what(services, caller),
        fields.instant("start", "Start", required=False, told=soon),
        fields.zone(),
        fields.minutes("Minutes", required=False, told="Empty: as long as the definition says."),
        *_owner(caller, "Name of the person, as their token carries it."),
    )


def _slot(doing: Doing) -> dict[str, Any]:
    start, span = doing.values.get("start"), doing.values.get("minutes")
    slot: dict[str, Any] = {"zone": doing.text(fields.ZONE) or "UTC"}
    if start is not None:
        slot["start"] = format_instant(start, "seconds")
        if span is not None:
            try:
                slot["end"] = format_instant(start + span, "seconds")
            except OverflowError:
                raise intake.invalid(("Minutes", "are too many")) from None
    return slot


def _session_spec(doing: Doing) -> dict[str, Any]:
    spec: dict[str, Any] = {"definition": doing.text("definition"), "slot": _slot(doing)}
    span = doing.values.get("minutes")
    if span is not None and doing.values.get("start") is None:
        spec["durationMinutes"] = int(span.total_seconds() // 60)
    return {**spec, "owner": doing.text("owner")} if doing.text("owner") else spec


def _body(kind: str, spec: dict[str, Any], name: str = "") -> dict[str, Any]:
    metadata = {"name": name} if name else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


async def _book(doing: Doing) -> Outcome:
    body = _body("Session", _session_spec(doing))
    new = await objects.create(doing.services, doing.caller, KINDS["Session"], body, key=doing.key)
    where = values.address("sessions", new.name, new.namespace)
    return Outcome(f"Done: session {new.name} is booked.", where)


async def _book_follows(doing: Doing) -> Sequence[str]:
    if not doing.text("definition"):
        return ["A lab of its own for one person. What is promised is kept, or you are told."]
    tried = await edits.tried(doing, [_body("Session", _session_spec(doing))])
    if not isinstance(tried, Session):
        return ()
    status, zone = tried.status, tried.spec.slot.zone
    when = zones.span(status.start or tried.spec.slot.start, status.end, zone)
    promised = status.claim is not None
    told = ["A place for it is promised." if promised else "It waits for room, without a promise."]
    return [f"{when[:1].upper()}{when[1:]}, for {tried.spec.owner or 'nobody yet'}.", *told]


def _line(kind: str, spec: dict[str, Any]) -> str:
    text = json.dumps(_body(kind, spec), ensure_ascii=False)
    return f"labfleet apply -f - <<< {shlex.quote(text)}"


def _group_fields(services: ServiceContext, caller: Caller, _obj: Any) -> tuple[Field, ...]:
    headings = "A list with headings, as a spreadsheet copies it: name, e-mail, seat, factor."
    full = (("refuse", "book none"), ("some", "book as many as fit"))
    return (
        _what(services, caller),
        Field(name="name", label="Name of the group", help="Empty: made here.", most=63),
        fields.instant("start", "Start"),
        fields.zone(),
        fields.minutes("Minutes", required=False, told="Empty: as long as the definition says."),
        Field(name="roster", label="Roster", show="long", help=headings, most=ROSTER_LIMIT),
        Field(name="size", label="Seats", show="number", most=500,
              help="Empty: as many as the roster has."),
        Field(name="spare", label="Spare seats", show="number", most=100, least=0,
              help="For whoever comes unannounced."),
        Field(name="full", label="When not all fit", show="choice", choices=full, first="refuse"),
        Field(name="description", label="What it is for", most=1024),
        *_owner(caller, "Who answers for it; empty: you."),
    )  # fmt: skip


def _seats(doing: Doing) -> tuple[Seat, ...]:
    text = doing.text("roster")
    return roster.read(text.encode()).seats if text.strip() else ()


def _group_spec(doing: Doing) -> dict[str, Any]:
    spec: dict[str, Any] = {"definition": doing.text("definition"), "slot": _slot(doing)}
    for name in ("size", "spare", "description", "owner"):
        value = doing.values.get(name)
        if value not in (None, ""):
            spec[name] = value
    if doing.text("full"):
        spec["whenFull"] = doing.text("full")
    seats = [
        {key: each for key, each in msgspec.to_builtins(seat).items() if each not in ("", 1.0)}
        for seat in _seats(doing)
    ]
    return {**spec, "seats": seats} if seats else spec


async def _book_group(doing: Doing) -> Outcome:
    body = _body("Group", _group_spec(doing), doing.text("name"))
    new: Any = await objects.create(
        doing.services, doing.caller, KINDS["Group"], body, key=doing.key
    )
    where = values.address("groups", new.name, new.namespace)
    return Outcome(f"Done: {new.name}: {new.status.message}.", where)


async def _group_follows(doing: Doing) -> Sequence[str]:
    """Return whether all seats fit, and then every seat with its person: to be read before booking."""
    if not doing.text("definition") or doing.values.get("start") is None:
        return ["Paste the roster, and look at what would be booked. Nothing is saved before."]
    body = _body("Group", _group_spec(doing), doing.text("name"))
    tried: Any = await edits.tried(doing, [body])
    if tried is None:
        return ()
    status, zone = tried.status, tried.spec.slot.zone
    told = [
        f"{zones.span(status.start, status.end, zone)}: {status.message}.",
        f"It is {tried.spec.owner}'s: they see, extend and end all seats.",
    ]
    known = {each.name: each.session for each in status.seats}
    return [*told, *(_seat(each, known.get(each.name)) for each in seats_of(tried.spec))]


def _seat(seat: Seat, session: str | None) -> str:
    who = seat.person or "nobody yet"
    longer = f", {seat.factor:g} times as long" if seat.factor != 1 else ""
    return f"Seat {seat.name}: {who}{longer}{'' if session else ', no room'}."


def _group_line(doing: Doing) -> str:
    spec = {**_group_spec(doing)} if _readable(doing) else {"definition": doing.text("definition")}
    seats = spec.pop("seats", ())
    told = f"  # and its {count(len(seats), 'seat')}" if seats else ""
    return _line("Group", spec) + told


def _readable(doing: Doing) -> bool:
    try:
        _seats(doing)
    except errors.Invalid:
        return False
    return True


ACTS = (
    Act(
        verb="book", kind="Session", title="Book a session", right="create", whole=True, look=True,
        routes="createSession", does=_book, follows=_book_follows, fields=_session_fields,
        line=lambda doing: _line("Session", _session_spec(doing)), back="Cancel ends it.",
    ),
    Act(
        verb="book", kind="Group", title="Book a class", right="create", whole=True, look=True,
        routes="createGroup", does=_book_group, follows=_group_follows, fields=_group_fields,
        line=_group_line, back="Cancel all ends its seats.",
    ),
)  # fmt: skip

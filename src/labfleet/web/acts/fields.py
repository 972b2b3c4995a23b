"""The fields of an act's form: how each is asked, and how what was typed is read.

Pure. A form is a mapping of names to texts; what is wrong is told with the field's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from labfleet.kernel import clock
from labfleet.resources import zones
from labfleet.service.core import intake

Show = Literal["text", "long", "minutes", "number", "instant", "flag", "choice", "hidden", "zone"]
YEAR_MINUTES = 525_600
ZONE = "zone"
"""Name of the field that says by whose clocks the instants of a form without an offset are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a form.

    `most` is the longest text in characters, or the greatest number; `least` the smallest number.
    `choices` are (value, words). `first` stands there at first. `right` is an action that a caller
    must have on the act's kind to see the field at all.
    """

    name: str
    label: str
    show: Show = "text"
    help: str = ""
    required: bool = False
    least: int = 1
    most: int = 1024
    choices: tuple[tuple[str, str], ...] = ()
    first: str = ""
    right: str = ""


def reason(most: int = 1024, *, required: bool = False) -> Field:
    """Return the field for why somebody does something."""
    told = "For the record, and for whoever it hits."
    return Field(name="reason", label="Reason", help=told, most=most, required=required)


def minutes(label: str, *, first: str = "", required: bool = True, told: str = "") -> Field:
    """Return the field for a span of time."""
    return Field(
        name="minutes", label=label, show="minutes", help=told, required=required,
        most=YEAR_MINUTES, first=first,
    )  # fmt: skip


def instant(name: str, label: str, *, required: bool = True, told: str = "") -> Field:
    """Return the field for an instant, by the clocks of the form's zone."""
    return Field(name=name, label=label, show="instant", help=told, required=required, most=32)


def zone(first: str = "") -> Field:
    """Return the field that says by whose clocks the times of a form are meant.

    Without one to begin with it is UTC, or where a script runs the zone of its browser.
    """
    told = "Whose clocks, such as Europe/Warsaw."
    show: Show = "text" if first else "zone"
    return Field(name=ZONE, label="Time zone", show=show, help=told, required=True, most=64,
                 first=first or "UTC")  # fmt: skip


def read(fields: tuple[Field, ...], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed values by name, None for an empty field; Invalid names each that is wrong.

    What is no field of the form is left out.
    """
    made: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for field in fields:
        raw = given.get(field.name, "")
        text = raw.replace("\r\n", "\n") if field.show == "long" else raw.strip()
        try:
            made[field.name] = _typed(field, text, given)
        except ValueError as error:
            problems.append((field.label, str(error)))
    if problems:
        raise intake.invalid(*problems)
    return made


def _typed(field: Field, text: str, given: Mapping[str, str]) -> Any:
    if field.show == "flag":
        return text != ""
    if not text.strip():
        if field.required:
            raise ValueError("is needed")
        return None
    if field.show in {"minutes", "number"}:
        return _number(field, text)
    if field.show == "instant":
        return _instant(text, given.get(ZONE, "").strip() or "UTC")
    if field.show == "choice":
        if text not in {value for value, _ in field.choices}:
            raise ValueError("is none of the choices")
        return text
    if len(text) > field.most:
        raise ValueError(f"has {len(text)} characters, at most {field.most} are taken")
    if not text.isprintable() and field.show != "long":
        raise ValueError("must not hold control characters")
    if "\0" in text or not _encodes(text):
        raise ValueError("holds characters that are no text")
    return text


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(field: Field, text: str) -> Any:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ValueError("must be a whole number")
    number = int(text)
    if not field.least <= number <= field.most:
        raise ValueError(f"must be from {field.least} to {field.most}")
    return timedelta(minutes=number) if field.show == "minutes" else number


def _instant(text: str, name: str) -> datetime:
    """Return the instant of a local time such as 2026-11-30T09:00, or of one with an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no time, such as 2026-11-30T09:00") from None
    there = zones.at_wall(at, name) if at.tzinfo is None else at
    if there is None:
        raise ValueError(f"cannot be read by the clocks of {name[:64]!r}: write for example "
                         "Europe/Warsaw")  # fmt: skip
    found = clock.in_utc(there)
    if not intake.EARLIEST <= found <= intake.LATEST:
        years = f"{intake.EARLIEST.year} and {intake.LATEST.year}"
        raise ValueError(f"must lie between the years {years}")
    return found

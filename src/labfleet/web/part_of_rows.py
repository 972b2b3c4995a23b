"""A part of a long table: its rows, and where the rows before and after them are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from labfleet.web import words
from labfleet.web.addresses import changed
from labfleet.web.view import Asked

R = TypeVar("R")
S = TypeVar("S")
_DIGITS = 7


@dataclass(frozen=True, slots=True)
class PartOfRows(Generic[R]):
    """So many rows from `first` on, counted from 0, of `total`; addresses are "" at an end."""

    rows: tuple[R, ...]
    first: int
    total: int
    earlier: str
    later: str

    @property
    def said(self) -> str:
        """Return which rows are shown, in words; "" when these are all."""
        if len(self.rows) == self.total:
            return ""
        return f"rows {self.first + 1} to {self.first + len(self.rows)} of {self.total}"

    def of(self, rows: tuple[S, ...]) -> PartOfRows[S]:
        """Return the same part with other rows, such as what is shown of each."""
        return PartOfRows(rows, self.first, self.total, self.earlier, self.later)


def part(rows: Sequence[R], asked: Asked, name: str) -> PartOfRows[R]:
    """Return the part of the rows that the value `name` of the query asks for, the first without."""
    first, size = number(asked.last(name)), words.ROWS
    first = first if first < len(rows) else 0
    return PartOfRows(
        rows=tuple(rows[first : first + size]),
        first=first,
        total=len(rows),
        earlier=changed(asked, name, **{name: max(0, first - size) or None}) if first else "",
        later=changed(asked, name, **{name: first + size}) if first + size < len(rows) else "",
    )


def number(said: str) -> int:
    """Return a whole number of a query; 0 for what is none."""
    return int(said) if said.isascii() and said.isdecimal() and len(said) <= _DIGITS else 0

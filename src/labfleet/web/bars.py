"""A bar of what a cluster or queue has, what is held of it and what is used, with its words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 100.0
TITLES = {
    "cpu_milli": "CPU", "memory_mib": "Memory", "storage_mib": "Storage", "nodes": "Nodes",
    "labs": "Labs", "ports": "Ports", "network_kbps": "Network", "duration_seconds": "Duration",
}  # fmt: skip
"""Words for what is reserved, predicted and used, of every page."""
_UNITS = {
    "cpu_milli": "CPU", "memory_mib": "MiB", "storage_mib": "MiB", "network_kbps": "Mbit/s",
    "network_in_kbps": "Mbit/s", "network_out_kbps": "Mbit/s", "nodes": "nodes", "labs": "labs",
    "ports": "ports",
}  # fmt: skip
_THOUSANDS = frozenset({"cpu_milli", "network_kbps", "network_in_kbps", "network_out_kbps"})


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a bar: what it means (a class of the style sheet), and from where to where."""

    means: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of 100 units across, marks within it, and the same in words.

    `words` are what a piece means ("" of a mark) and what it says. `tone` is "bad" where more is
    held than may be. A bar without pieces and marks is not drawn.
    """

    pieces: tuple[Piece, ...]
    marks: tuple[float, ...]
    words: tuple[tuple[str, str], ...]
    tone: str = ""


def bar(
    dimension: str,
    whole: int,
    parts: Sequence[tuple[str, str, float]],
    *,
    marks: Sequence[tuple[str, int]] = (),
    more: Sequence[str] = (),
    limit: int | None = None,
) -> Bar:
    """Return the bar of one dimension of amounts.

    `parts` are what each means, its words, and its amount: parts lie one behind the other, a part
    that means "used" lies over them from the beginning. `marks` are words and amount of each mark,
    `more` is said beside; more than `limit` in parts together makes the bar bad.
    """
    laid = sum(amount for means, _, amount in parts if means != "used")
    most = max(
        [float(whole), laid, *(amount for _, _, amount in parts), *(mark for _, mark in marks)]
    )
    if most <= 0:
        return Bar((), (), (("", "nothing of it is known"),))
    pieces, at = [], 0.0
    for means, _, amount in parts:
        begin = 0.0 if means == "used" else at
        at += 0.0 if means == "used" else amount
        pieces.append(Piece(means, _across(begin, most), _across(amount, most)))
    said = [(means, f"{short(dimension, amount)} {told}") for means, told, amount in parts]
    said += [("", f"{told} {short(dimension, mark)}") for told, mark in marks]
    said += [("", each) for each in more]
    return Bar(
        tuple(pieces),
        tuple(_across(mark, most) for _, mark in marks),
        tuple(said),
        "bad" if limit is not None and laid > limit else "",
    )


def _across(amount: float, most: float) -> float:
    return round(amount / most * WIDTH, 1)


def short(dimension: str, amount: float) -> str:
    """Return an amount with its unit in three digits: `5.2 CPU`, `12.2 GiB`, `450 Mbit/s`."""
    unit = 1000.0 if dimension in _THOUSANDS else 1.0
    if dimension in {"memory_mib", "storage_mib"} and amount >= 1024:
        return f"{_digits(amount / 1024)} GiB"
    if dimension == "duration_seconds":
        return f"{_digits(amount)} s" if amount < 90 else f"{_digits(amount / 60)} min"
    return f"{_digits(amount / unit)} {_UNITS[dimension]}"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"

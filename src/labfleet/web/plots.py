"""Small graphics over time: curves and dots with levels across, made on the server. Pure.

The box is 600 units across and 120 down; times go from left to right, values from 0 upwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from labfleet.kernel.clock import utc_text

WIDTH, HEIGHT = 600, 120
HOLE = 2.5
"""Steps without a value after which a curve is broken."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One value: its place, and what is told on hover."""

    x: float
    y: float
    told: str


@dataclass(frozen=True, slots=True)
class Level:
    """A line across at a value; `means` is a class of the style sheet, `told` its words."""

    y: float
    means: str
    told: str


@dataclass(frozen=True, slots=True)
class Plot:
    """One graphic with its words: title, greatest value of the box, begin and end of its time."""

    title: str
    top: str
    begin: str
    end: str
    dots: tuple[Dot, ...]
    curves: tuple[str, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One value at an instant; `told` is what hovering says, "" for points of curves."""

    at: datetime
    value: float
    told: str = ""


def plot(
    title: str,
    values: Sequence[Value],
    *,
    levels: Sequence[tuple[str, str, float]] = (),
    words: Callable[[float], str],
    step: float | None = None,
) -> Plot:
    """Return a graphic of at least one value, the oldest first.

    With a `step` in seconds values are joined by a curve that is broken where some are missing;
    without one they are dots. `levels` are what each means, its words, and its value; `words` says
    a value with its unit.
    """
    begin, end = values[0].at, values[-1].at
    whole = max((end - begin).total_seconds(), 1.0)
    top = max([each.value for each in values] + [value for *_, value in levels])

    def place(each: Value) -> tuple[float, float]:
        across = (each.at - begin).total_seconds() / whole * (WIDTH - 10) + 5
        return round(across, 1), _down(each.value, top)

    dots = [Dot(*place(each), each.told) for each in values] if step is None else []
    return Plot(
        title=title,
        top=words(top),
        begin=utc_text(begin),
        end=utc_text(end),
        dots=tuple(dots),
        curves=() if step is None else _curves(values, place, step),
        levels=tuple(
            Level(_down(value, top), means, f"{told} {words(value)}")
            for means, told, value in levels
        ),
    )


def _curves(
    values: Sequence[Value], place: Callable[[Value], tuple[float, float]], step: float
) -> tuple[str, ...]:
    lines: list[list[str]] = [[]]
    last: datetime | None = None
    for each in values:
        if last is not None and (each.at - last).total_seconds() > HOLE * step:
            lines.append([])
        last = each.at
        lines[-1].append("{},{}".format(*place(each)))
    return tuple(" ".join(line) for line in lines)


def _down(value: float, top: float) -> float:
    return round(HEIGHT - 4 - (value / top * (HEIGHT - 10) if top > 0 else 0.0), 1)

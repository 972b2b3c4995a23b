"""What nodes use by order: curves over the time since a node's start, set through `/_control`.

By default a node's use follows from its id and the time (`usage`). A curve says it instead, so that
a test knows the truth beside which a client's measurements are judged. Between two points the
earlier one holds; before the first, and for a figure that a point leaves out, the default does.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cml_simulator.core.errors import refused

CURVES = 100
POINTS = 2000


class UsePoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a node uses from `at` on: seconds since its start, percent of one core, MiB, MiB."""

    at: float
    cpu: float | None = None
    ram: int | None = None
    disk: int | None = None


class UseCurve(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Points in order of time, for the nodes whose whole label `node`, a regular expression, fits."""

    node: str = ".*"
    points: tuple[UsePoint, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """A checked curve."""

    label: re.Pattern[str]
    times: tuple[float, ...]
    points: tuple[UsePoint, ...]


def checked(wanted: Sequence[UseCurve]) -> tuple[Curve, ...]:
    """Return the curves, or refuse them by name."""
    if len(wanted) > CURVES:
        raise refused(f"More than {CURVES} curves.")
    return tuple(_checked(each) for each in wanted)


def _checked(wanted: UseCurve) -> Curve:
    times = tuple(point.at for point in wanted.points)
    if not 1 <= len(times) <= POINTS or list(times) != sorted(times) or times[0] < 0:
        raise refused(f"A curve has 1 to {POINTS} points in order of time, from 0 on.")
    figures = [(point.cpu, point.ram, point.disk) for point in wanted.points]
    if any(value is not None and value < 0 for point in figures for value in point):
        raise refused("A figure must not be negative.")
    try:
        return Curve(re.compile(wanted.node), times, wanted.points)
    except re.error as error:
        raise refused(f"Not a regular expression: {error}") from None


def point(curves: Sequence[Curve], label: str, age: float) -> UsePoint | None:
    """Return what the first curve that fits says of a node so many seconds after its start."""
    for curve in curves:
        if curve.label.fullmatch(label) is not None:
            place = bisect_right(curve.times, age) - 1
            return None if place < 0 else curve.points[place]
    return None

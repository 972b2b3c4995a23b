"""The words of a refused slot: pool, minute, what is short and by how much, and what would fit."""

from __future__ import annotations

from datetime import datetime

from labfleet.decisions import wording
from labfleet.decisions.claims.nearest import Nearest
from labfleet.decisions.claims.places import Extent, Lack
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count


def lacking(extent: Extent, lack: Lack | None) -> str:
    """Return why a pool cannot hold a slot, in a sentence."""
    if lack is None:
        return f"pool {extent.pool} may have no worker"
    have = f"which may have {count(extent.places, 'worker')}"
    short = wording.short(lack.shortages)
    return (
        f"pool {extent.pool}, {have}, is short {short} at {utc_text(lack.at)} on the best of them"
    )


def slots(near: Nearest, start: datetime, end: datetime) -> tuple[str, ...]:
    """Return the nearest slots that fit, each as `start to end`."""
    return tuple(
        f"{utc_text(start + move)} to {utc_text(end + move)}"
        for move in (near.earlier, near.later)
        if move is not None
    )


def nearest(near: Nearest, start: datetime, end: datetime, days: int, what: str = "") -> str:
    """Return which slots near it fit, and how far was looked; `what` is what they fit."""
    fitting = slots(near, start, end)
    said = f"the nearest slots that fit{what}: {' and '.join(fitting)}"
    if len(fitting) == 1:
        said = f"the nearest slot that fits{what}: {fitting[0]}"
    elif not fitting and near.before is None and near.after is None:
        said = f"no slot was found within {count(days, 'day')} either"
    elif not fitting:
        said = "no slot was found near it"
    if near.before is not None:
        said = f"{said}; none that starts before {utc_text(start + near.before)} was looked at"
    if near.after is not None:
        said = f"{said}; none that starts after {utc_text(start + near.after)} was looked at"
    return said


def advice(
    near: Nearest, start: datetime, end: datetime, days: int, *, grow: str, waits: bool = True
) -> str:
    """Return what would help; `grow` is what of the pool would, empty for who may not change it.

    `waits` tells whether there is a waiting list for it.
    """
    said = nearest(near, start, end, days)
    help_ = [f"a greater {grow} would hold it"] if grow else []
    if waits:
        help_.append("whenFull: wait puts it on the waiting list")
    return "; ".join([said, *([", ".join(help_)] if help_ else [])])

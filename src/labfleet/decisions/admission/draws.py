"""Draws of what a run may take while it runs: fixed by its uid, so that any process has the same.

A run is described by DRAWS equally likely outcomes. Outcome number k of a cluster is outcome k
of each run added up, so that the chance of exceeding a target is a count. One number k goes
through all dimensions of a run: a run that is heavy in one is heavy in all, which is cautious.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from labfleet.resources.amounts import MOST
from labfleet.resources.prediction import LEVELS

DRAWS = 400
"""How many outcomes describe a run."""
TARGETED = ("cpu_milli", "memory_mib", "network_kbps")
"""The dimensions that are drawn, in the order of a drawing's rows; others are summed plainly."""

AT_ONCE = 12
"""Runs that are drawn together: what is made of more falls out of the processor's cache."""

Draws = NDArray[np.int64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_COUNTER = np.arange(1, DRAWS + 1, dtype=np.uint64) * _STEP
_ROUNDS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_GRID = np.arange(1, DRAWS + 1) / DRAWS
_UPPER = np.clip(np.searchsorted(LEVELS, _GRID, side="left"), 1, len(LEVELS) - 1)
_LOWER = _UPPER - 1
_SHARE = (_GRID - np.asarray(LEVELS)[_UPPER - 1]) / np.diff(LEVELS)[_UPPER - 1]


Spreads = Sequence[Sequence[float]]


def draws(uid: str, spreads: Spreads) -> Draws:
    """Return the outcomes of a run, len(TARGETED) x DRAWS, in base units, rounded up.

    `spreads` has one row for each of TARGETED: quantiles at LEVELS, or one number that is
    certain. Only the uid decides which outcome gets which quantile; each run gets each of its
    DRAWS quantiles once, so that no run is drawn lighter than it is. Raises ValueError for a
    spread of another length.
    """
    return draws_of_all([(uid, spreads)])[0]


def draws_of_all(runs: Sequence[tuple[str, Spreads]]) -> list[Draws]:
    """Return what `draws` returns for each run; AT_ONCE together cost half of one by one."""
    found: list[Draws] = []
    for first in range(0, len(runs), AT_ONCE):
        found += _together(runs[first : first + AT_ONCE])
    return found


def _together(runs: Sequence[tuple[str, Spreads]]) -> list[Draws]:
    levels = len(LEVELS)
    rows = np.array([
        spread if len(spread) == levels else _certain(name, spread)
        for _, spreads in runs
        for name, spread in zip(TARGETED, spreads, strict=True)
    ])  # fmt: skip
    found = _quantiles(rows).reshape(len(runs), len(TARGETED), DRAWS)
    orders = _orders([uid for uid, _ in runs])
    return [each.take(order, axis=1) for each, order in zip(found, orders, strict=True)]


def _certain(name: str, spread: Sequence[float]) -> list[float]:
    """Return a row of one number; ValueError when it is neither that nor quantiles at LEVELS."""
    if len(spread) != 1:
        message = f"{name}: a spread has {len(LEVELS)} numbers or one, not {len(spread)}"
        raise ValueError(message)
    return [float(spread[0])] * len(LEVELS)


def _quantiles(rows: NDArray[np.float64]) -> Draws:
    """Return DRAWS evenly spaced quantiles of each row, the least first."""
    low = rows.take(_LOWER, axis=1)
    between = rows.take(_UPPER, axis=1)
    between -= low
    between *= _SHARE
    between += low
    # Interpolation may end a hair above a whole number; that is not a unit more.
    between -= 1e-6
    np.ceil(between, out=between)
    np.minimum(between, MOST, out=between)
    return between.astype(np.int64)


def _orders(uids: Sequence[str]) -> NDArray[np.intp]:
    """Return which quantile each outcome gets, 0 to DRAWS - 1 each once (splitmix64), a row a run."""
    digests = b"".join([hashlib.blake2b(uid.encode(), digest_size=8).digest() for uid in uids])
    mixed = _COUNTER + np.frombuffer(digests, dtype="<u8").reshape(-1, 1)
    for shift, factor in _ROUNDS:
        mixed ^= mixed >> shift
        mixed *= factor
    mixed ^= mixed >> np.uint64(31)
    found: NDArray[np.intp] = mixed.argsort(axis=1)
    return found

"""CAPACITY_BASED and LAB_COUNT_BASED: upstream 001's thresholds of load, one worker a step.

Pure. Load is what sessions have booked of the workers that serve or boot: a booting worker counts as
the room that it brings, so that one excess never adds two (facts/aws-bugs.md#case-17). One is removed
only when the others would stay below the threshold of growth: it would not be added again at once
(facts/aws-bugs.md#case-16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labfleet.decisions import ledger
from labfleet.decisions.pool_view import PoolWorker
from labfleet.decisions.pools.groups import Look
from labfleet.resources.pool_windows import Thresholds


@dataclass(frozen=True, slots=True)
class Load:
    """What is booked of a pool: shares in per cent, labs a worker; None while nothing has room."""

    cpu: float
    memory: float
    labs: float


_Judge = Callable[[Load, Thresholds], str]
"""Says why a load calls for a worker more; empty: it does not."""


def of(look: Look, *, fewer: int = 0) -> Load | None:
    """Return the load, or what it would be with so many fewer workers; None: no worker serves."""
    workers = [*look.groups.ready, *look.groups.booting]
    left = len(workers) - fewer
    if left <= 0:
        return None
    sizes = [each.capacity or (look.view.shape and look.view.shape.capacity) for each in workers]
    known = [each for each in sizes if each]
    if not known:
        return None
    held = [ledger.total(each.reservations) for each in workers]
    share = left / len(workers)
    cpu = sum(each.cpu_milli for each in known) * share
    memory = sum(each.memory_mib for each in known) * share
    return Load(
        cpu=100 * sum(each.cpu_milli for each in held) / max(1, cpu),
        memory=100 * sum(each.memory_mib for each in held) / max(1, memory),
        labs=sum(len(each.reservations) for each in workers) / left,
    )


def grow_by_capacity(look: Look) -> tuple[int, str, str]:
    """Return whether one worker is added since CPU or memory is booked above its threshold."""
    return _grow(look, _full)


def grow_by_labs(look: Look) -> tuple[int, str, str]:
    """Return whether one worker is added since the workers host too many labs each."""
    return _grow(look, _crowded)


def shrink_by_capacity(look: Look, candidates: Sequence[PoolWorker]) -> int:
    """Return whether one empty worker may go since CPU and memory are booked below theirs."""
    here, limits = of(look), look.view.spec.scaling.thresholds
    low = here is not None and (
        here.cpu < limits.cpu_down_percent and here.memory < limits.memory_down_percent
    )
    return int(low and _stays(look, _full) and bool(candidates))


def shrink_by_labs(look: Look, candidates: Sequence[PoolWorker]) -> int:
    """Return whether one empty worker may go since the workers host few labs each."""
    here = of(look)
    low = here is not None and here.labs < look.view.spec.scaling.thresholds.labs_down
    return int(low and _stays(look, _crowded) and bool(candidates))


def _grow(look: Look, over: _Judge) -> tuple[int, str, str]:
    here = of(look)
    if here is None:
        many = len(look.view.waiting)
        be = "session waits" if many == 1 else "sessions wait"
        return (1, "SessionsWaiting", f"{many} {be} and no worker serves") if many else (0, "", "")
    told = over(here, look.view.spec.scaling.thresholds)
    return (1, "LoadAbove", told) if told else (0, "", "")


def _stays(look: Look, over: _Judge) -> bool:
    """Tell whether the others would not be added to at once."""
    left = of(look, fewer=1)
    return left is not None and not over(left, look.view.spec.scaling.thresholds)


def _full(here: Load, limits: Thresholds) -> str:
    if here.cpu > limits.cpu_up_percent:
        return f"{here.cpu:.0f} % of CPU is booked, more than {limits.cpu_up_percent} %"
    if here.memory > limits.memory_up_percent:
        return f"{here.memory:.0f} % of memory is booked, more than {limits.memory_up_percent} %"
    return ""


def _crowded(here: Load, limits: Thresholds) -> str:
    return (
        f"labs a worker: {here.labs:.1f}, more than {limits.labs_up}"
        if here.labs > limits.labs_up
        else ""
    )

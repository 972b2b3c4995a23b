"""By what a worker is preferred among those that fit: one rule for each strategy.

First the pool, then the worker: of the pools that serve a session the one of the preferred region
and the lowest price comes first (`Rank`), and within it the worker with the least key of the pool's
strategy; of equals the first name wins. The parts of BEST_FIT's score are those of upstream 001
(facts/upstream.md#strategies). All rules but RANDOM look at one worker alone, so an index may keep
their answers until that worker changes. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from labfleet.resources.amounts import Amounts
from labfleet.resources.strategy import Strategy

Key = float
"""What is compared within a pool; the least comes first."""
Rank = tuple[int, float, str]
"""What comes before the key: place of the region among the preferred ones, US dollars an hour
(infinite when unknown), name of the pool."""
Parts = dict[str, float]
ANYWHERE: Rank = (0, math.inf, "")
ENDLESS = 2**38
"""Unix seconds after every end."""
BUSY, MANY_LABS = 0.8, 15
"""Share and number of labs from which upstream 001's BestFit gives no points."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _MICROSECOND, _MINUTE = timedelta(seconds=1), timedelta(microseconds=1), 60.0
# A quarter of the worker, the last end, how full it is: compared in this order in one number.
_STEPS, _FILL_BITS, _END_BITS = 4, 24, 40
_FILL_UNIT = 2**20
_PLACED_BITS = 20


class Load(Protocol):
    """What a strategy looks at.

    `fill` is the mean share of CPU and memory that is booked, `shares` those of CPU, memory and
    storage; `last_end` when its last session ends (Unix seconds, 0 for none, ENDLESS for one
    without an end), `placed` its last placement as `placed_again` counts.
    """

    @property
    def fill(self) -> float: ...

    @property
    def shares(self) -> tuple[float, float, float]: ...

    @property
    def sessions(self) -> int: ...

    @property
    def last_end(self) -> int: ...

    @property
    def placed(self) -> int: ...

    @property
    def licensed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One strategy.

    weigh: Key and score of a worker; the score is for people, and larger is better.
    parts: What the score is made of, by name.
    drawn: Whether the key is a random number, which the chooser draws.
    """

    weigh: Callable[[Load], tuple[Key, float]]
    parts: Callable[[Load, datetime], Parts]
    drawn: bool = False


def fill_of(cpu_milli: int, memory_mib: int, real: Amounts) -> float:
    """Return the mean share of CPU and memory that is booked."""
    cpu = cpu_milli / max(1, real.cpu_milli)
    return (cpu + memory_mib / max(1, real.memory_mib)) / 2


def shares_of(
    cpu_milli: int, memory_mib: int, storage_mib: int, real: Amounts | None
) -> tuple[float, float, float]:
    """Return the shares that are booked, 1 at most; 1 too of what the worker is not known to have."""
    if real is None:
        return 1.0, 1.0, 1.0
    return (
        min(1.0, cpu_milli / max(1, real.cpu_milli)),
        min(1.0, memory_mib / max(1, real.memory_mib)),
        min(1.0, storage_mib / max(1, real.storage_mib)),
    )


def seconds(end: datetime | None) -> int:
    """Return an end in Unix seconds; ENDLESS for none."""
    return ENDLESS if end is None else int(end.timestamp())


def placed_at(instants: Sequence[datetime]) -> int:
    """Return the last placement on a worker from the instants of its placements."""
    if not instants:
        return 0
    last = max(instants)
    return (((last - _EPOCH) // _MICROSECOND) << _PLACED_BITS) + instants.count(last)


def placed_again(before: int, now: datetime) -> int:
    """Return the last placement once one more was made now: several at one instant are counted."""
    return max(before, ((now - _EPOCH) // _MICROSECOND) << _PLACED_BITS) + 1


# --- the rules ---------------------------------------------------------------------------


def _packed(load: Load) -> tuple[Key, float]:
    """Return the fuller quarter first, in it what ends last, then the fullest.

    What ends soonest is left alone on its workers, which so become empty and can go: measured
    some 2 % fewer worker-hours than by fullness alone (docs/decisions/0033-strategies.md).
    """
    score = load.fill + min(0.05, 0.01 * load.sessions)
    key = (int(score * _STEPS) << _END_BITS) + load.last_end
    return -((key << _FILL_BITS) + int(score * _FILL_UNIT)), score


def _packed_parts(load: Load, now: datetime) -> Parts:
    parts = {"filled": load.fill, "sessions": min(0.05, 0.01 * load.sessions)}
    if 0 < load.last_end < ENDLESS:
        parts["minutesToLastEnd"] = (load.last_end - now.timestamp()) // _MINUTE
    return parts


def _best_fit(load: Load) -> tuple[Key, float]:
    score = sum(_best_fit_parts(load, _EPOCH).values())
    return -score, score


def _best_fit_parts(load: Load, now: datetime) -> Parts:
    """Return upstream 001's points; a busy worker loses some there and here, and is not dropped."""
    del now
    shares = load.shares
    return {
        "hasCapacity": 0.4 if max(shares) < BUSY else 0.0,
        "fewLabs": 0.2 if load.sessions < MANY_LABS else 0.0,
        "free": round(0.2 * (1 - sum(shares) / 3), 6),
        "licensed": 0.1 if load.licensed else 0.0,
        "noLabs": 0.05 if load.sessions == 0 else 0.0,
    }


def _least_utilized(load: Load) -> tuple[Key, float]:
    used = sum(load.shares) / 3
    return used, 1 - used


def _least_utilized_parts(load: Load, now: datetime) -> Parts:
    del now
    named = zip(("freeCpu", "freeMemory", "freeStorage"), load.shares, strict=True)
    return {name: round((1 - share) / 3, 6) for name, share in named}


def _least_labs(load: Load) -> tuple[Key, float]:
    return load.sessions, -float(load.sessions)


def _least_labs_parts(load: Load, now: datetime) -> Parts:
    del now
    return {"labs": -float(load.sessions)}


def _round_robin(load: Load) -> tuple[Key, float]:
    return load.placed, -float(load.placed >> _PLACED_BITS) / 1e6


def _round_robin_parts(load: Load, now: datetime) -> Parts:
    if not load.placed:
        return {"neverBefore": 1.0}
    since = (now - _EPOCH) / _SECOND - (load.placed >> _PLACED_BITS) / 1e6
    return {"minutesSinceLast": round(since / _MINUTE, 1)}


def _random(load: Load) -> tuple[Key, float]:
    del load
    return 0.0, 0.0


def _random_parts(load: Load, now: datetime) -> Parts:
    del load, now
    return {}


RULES: dict[Strategy, Rule] = {
    Strategy.BEST_FIT: Rule(_best_fit, _best_fit_parts),
    Strategy.LEAST_UTILIZED: Rule(_least_utilized, _least_utilized_parts),
    Strategy.LEAST_LABS: Rule(_least_labs, _least_labs_parts),
    Strategy.ROUND_ROBIN: Rule(_round_robin, _round_robin_parts),
    Strategy.RANDOM: Rule(_random, _random_parts, drawn=True),
    Strategy.PACKED: Rule(_packed, _packed_parts),
}


def parts_of(load: Load, strategy: Strategy, rank: Rank, now: datetime) -> Parts:
    """Return what a choice was made by: of the pool what is known of it, then of the worker."""
    parts = RULES[strategy].parts(load, now)
    if rank[1] < math.inf:
        parts["dollarsAnHour"] = rank[1]
    if rank[0]:
        parts["regionPlace"] = float(rank[0])
    return parts


def rank_of(pool: str | None, region: str, price: float | None, preferred: Sequence[str]) -> Rank:
    """Return when a pool's turn comes: regions that nobody prefers, and unknown prices, last."""
    place = preferred.index(region) if region in preferred else len(preferred)
    return place, math.inf if price is None else price, pool or ""

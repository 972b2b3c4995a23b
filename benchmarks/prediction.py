"""Predictions of the product's learner on recorded runs: are bounds kept, how wide, how fast?

Each run is predicted, judged and only then learned from, in the order of the file and in shuffles;
the learner has the product's defaults. `coverage` counts runs and misses by how many runs of the
type came before; the figures of `bars` are those of the project's own targets.
"""

from __future__ import annotations

import gc
import random
import time
from collections import defaultdict
from math import exp, lgamma, log, log1p
from pathlib import Path
from typing import Any

from benchmarks import traces
from benchmarks.measure import Plan, quantile
from benchmarks.traces import Row, Trace
from labfleet.decisions.prediction.learner import Learner
from labfleet.resources.history import RunKind

SUMMARY = "coverage and width of learned bounds on recorded runs (--data), CPU of a prediction"
LEVELS = (0.9, 0.95, 0.99)
BUCKETS = ((50, "50+"), (20, "20-49"), (10, "10-19"), (5, "5-9"), (3, "3-4"), (2, "2"), (1, "1"))
SHUFFLES = (1, 2, 3, 4, 5)
JUDGED = 200
"""Runs from which on a bucket is judged by itself; smaller ones are judged together."""
LOOSE = {"duration_seconds", "storage_mib"}
"""Duration and what was written are judged at 90 and 95 %."""
FEW_TYPES = {"lobsterCMSsimulation", "bioblast"}
"""Three types each: only their runs from the 50th on are judged."""
RULE = (
    "each run is predicted before it is learned from; rows without runtime dropped, at most "
    "900 of a type, order = seed of a shuffle (none: as in the file), declared = 2 x the type's "
    "largest peak of each resource, a miss is a peak more than one unit of the source's rounding "
    "above the bound, tied are peaks within one unit of it; miss and tied are counts; width is "
    "memory-hours allocated over used at 95 % with every run counted, width_by_run the same "
    "without hours; waste is memory-hours of the recommended size not used, over used, where a "
    "run above it wastes all of it and is then given the type's largest, times 1.02"
)


def measure(plan: Plan) -> dict[str, Any]:
    """Return coverage, width and waste by data set, and thread CPU of a prediction."""
    found: dict[str, Any] = {
        "coverage": {}, "first_runs": {}, "width": {}, "width_by_run": {}, "waste": {}, "missed_sizes": {},
        "outside_bars": [], "rule": RULE,
    }  # fmt: skip
    for trace in sources(plan):
        for order in (0, *SHUFFLES[: plan.size(len(SHUFFLES), 1)]):
            name = f"{trace.name}, shuffle {order}" if order else trace.name
            _played(trace, order, name, found)
    latency = _latency(plan.size(10_000, 300), plan.size(200, 6), plan.size(2000, 40))
    return {
        **found,
        "latency_ms": latency["predict"],
        "rows": [{"name": name, **figures} for name, figures in latency.items()],
        "peers": [],
        "ratios": {},
    }


def sources(plan: Plan) -> list[Trace]:
    """Return what is to be measured; what is missing is said."""
    if plan.trace is not None:
        return [traces.read(plan.trace)]
    if plan.data is not None:
        names = (traces.WFINSTANCES, traces.LOBSTER, traces.BIOBLAST)
        return [traces.read(plan.data / name) for name in names if _there(plan, plan.data / name)]
    if plan.smoke:
        return [made()]
    plan.skip("coverage of predictions: no recorded runs (--data DIR or --trace FILE)")
    return []


def _there(plan: Plan, path: Path) -> bool:
    if path.exists():
        return True
    plan.skip(f"{path} is not there")
    return False


def made(types: int = 4, runs: int = 240, seed: int = 1) -> Trace:
    """Return runs whose peaks grow with a size and scatter around it; none are real."""
    rng = random.Random(seed)
    rows = []
    for _ in range(runs):
        family = rng.randrange(types)
        size = float(rng.choice((10, 20, 50, 100)))
        rows.append(
            Row(
                family=f"made/{family}",
                parameters={"size": size, "variant": rng.choice("ab")},
                used={
                    "memory_mib": (20 + 5 * size) * rng.lognormvariate(0, 0.1 + 0.1 * family),
                    "cpu_milli": 100 * rng.lognormvariate(0, 0.3),
                    "network_kbps": 10 * size * rng.random(),
                    "duration_seconds": size * rng.lognormvariate(0, 0.5),
                },
                unit={},
                seconds=size,
            )
        )
    return Trace("made", rows)


def _played(trace: Trace, order: int, name: str, found: dict[str, Any]) -> None:
    """Predict, judge and learn every run of a trace in one order."""
    learner = Learner()
    before: dict[str, int] = defaultdict(int)
    counts: dict[tuple[str, float, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    width = [0.0, 0.0, 0.0, 0.0]
    for place, row in enumerate(trace.ordered(order), 1):
        bucket = next((word for least, word in BUCKETS if before[row.family] >= least), "0")
        for level in LEVELS:
            _judge(learner, trace, row, level, bucket, counts, width)
        before[row.family] += 1
        learner.learn(trace.run(row, place))
    found["first_runs"][name] = _coverage(counts, only="0")
    found["coverage"][name] = _coverage({at: each for at, each in counts.items() if at[2] != "0"})
    found["width"][name] = round(width[0] / width[1], 4)
    found["width_by_run"][name] = round(width[2] / width[3], 4)
    found["outside_bars"] += _outside(trace.name, name, found["coverage"][name])
    if trace.name not in FEW_TYPES or order < 2:
        waste, missed = _waste(trace, order)
        found["waste"][name] = waste
        found["missed_sizes"][name] = missed


def _judge(
    learner: Learner, trace: Trace, row: Row, level: float, bucket: str,
    counts: dict[tuple[str, float, str], list[int]], width: list[float],
) -> None:  # fmt: skip
    prediction = learner.predict(
        RunKind.SIMULATION, "default", row.family, row.parameters, trace.declared[row.family],
        coverage=level,
    )  # fmt: skip
    for forecast in prediction.forecasts:
        peak = row.used.get(forecast.resource)
        if peak is None:
            continue
        over = peak - forecast.bound
        unit = row.unit.get(forecast.resource, 0.0) + 1e-9 * peak
        counted = counts[forecast.resource, level, bucket]
        counted[0] += 1
        counted[1] += over > unit
        counted[2] += abs(over) <= unit
        if level == 0.95 and forecast.resource == "memory_mib":
            for at, weight in ((0, row.seconds), (2, 1.0)):
                width[at] += forecast.bound * weight
                width[at + 1] += peak * weight


def _coverage(counts: dict[tuple[str, float, str], list[int]], only: str = "") -> dict[str, Any]:
    """Return the counts in order; those of small buckets again, together, as `pooled`."""
    found: dict[str, Any] = {}
    for (resource, level, bucket), (runs, miss, tied) in sorted(counts.items()):
        if only and bucket != only:
            continue
        levels = found.setdefault(resource, {}).setdefault(str(level), {})
        levels[bucket] = {"runs": runs, "miss": miss, "tied": tied}
        if not only and runs < JUDGED:
            pooled = levels.setdefault("pooled", {"runs": 0, "miss": 0, "tied": 0, "of": []})
            for key, count in (("runs", runs), ("miss", miss), ("tied", tied)):
                pooled[key] += count
            pooled["of"].append(bucket)
    return found


def _outside(trace: str, name: str, coverage: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the buckets of at least JUDGED runs that are outside the project's bars."""
    outside = []
    for resource, levels in coverage.items():
        for level, buckets in levels.items():
            for bucket, counted in buckets.items():
                judged = bucket == "50+" if trace in FEW_TYPES else True
                if not judged or counted["runs"] < JUDGED:
                    continue
                why = why_outside(resource, float(level), counted)
                if why:
                    of = {"data": name, "resource": resource, "level": level, "bucket": bucket}
                    outside.append({**of, **counted, "why": why})
    return outside


def why_outside(resource: str, level: float, counted: dict[str, int]) -> str:
    """Say how a bucket leaves the bars, or nothing."""
    runs, miss = counted["runs"], counted["miss"]
    allowed = 1.0 - level
    if level == 0.99:
        if resource in LOOSE:
            return ""
        if miss > 0.03 * runs:
            return "more than 3 % missed"
    elif miss < (allowed - 0.04) * runs:
        if miss + counted["tied"] >= allowed * runs:
            return "over-covered, but only by peaks within one unit of the bound"
        return "over-covered by more than 4 points"
    if miss > allowed * runs and at_least(runs, miss, allowed) < 0.0005:
        return "more missed than stated: the 99.9 % interval does not reach down to it"
    return ""


def at_least(runs: int, miss: int, share: float) -> float:
    """Return the chance of so many or more misses among runs that miss with this share."""
    total = 0.0
    for each in range(miss, runs + 1):
        ways = lgamma(runs + 1) - lgamma(each + 1) - lgamma(runs - each + 1)
        total += exp(ways + each * log(share) + (runs - each) * log1p(-share))
    return total


def _waste(trace: Trace, order: int) -> tuple[float, int]:
    """Return memory-hours wasted by recommended sizes over those used, and how many were missed."""
    learner = Learner()
    wasted = used = 0.0
    missed = 0
    largest: dict[str, float] = {}
    for place, row in enumerate(trace.ordered(order), 1):
        peak = row.used["memory_mib"]
        before = largest.get(row.family)
        if before is not None:
            found = learner.recommend(
                RunKind.SIMULATION, "default", row.family, row.parameters, "memory_mib"
            )
            size = found.size if found is not None else trace.declared[row.family]["memory_mib"]
            used += peak * row.seconds
            again = max(before * 1.02, 0.001)
            while size < peak:
                wasted += size * row.seconds
                missed += 1
                size, again = max(again, size * 1.02), again * 2
            wasted += (size - peak) * row.seconds
        largest[row.family] = max(before or 0.0, peak)
        learner.learn(trace.run(row, place))
    return round(wasted / used, 4), missed


def _latency(runs: int, families: int, asked: int) -> dict[str, dict[str, float]]:
    """Return thread CPU of predictions of four resources, each after a run was learned."""
    trace = made(families, runs + asked, seed=2)
    rows = trace.rows
    learner = Learner()
    for place, row in enumerate(rows[:runs], 1):
        learner.learn(trace.run(row, place))
    # The rows are the benchmark's: a server holds no such list that a collection would walk.
    gc.collect()
    gc.freeze()
    predicting, learning = [], []
    for place, row in enumerate(rows[runs:], runs + 1):
        kept = trace.run(row, place)
        begun = time.thread_time_ns()
        learner.predict(RunKind.SIMULATION, "default", row.family, row.parameters)
        middle = time.thread_time_ns()
        learner.learn(kept)
        learning.append(time.thread_time_ns() - middle)
        predicting.append(middle - begun)
    gc.unfreeze()
    return {"predict": _figures(predicting), "learn": _figures(learning)}


def _figures(spent: list[int]) -> dict[str, float]:
    ordered = sorted(each / 1e6 for each in spent)
    mean = sum(ordered) / len(ordered)
    return {
        "p50": round(quantile(ordered, 0.5), 4),
        "p99": round(quantile(ordered, 0.99), 4),
        "cpu_mean_ms": round(mean, 4),
        "per_cpu_second": round(1000 / mean, 1),
    }

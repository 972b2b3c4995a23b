"""What each policy of a pool costs and makes people wait, on a recorded month and on exam days.

Worker-hours are counted against a bound that no policy can beat: just the whole workers that all jobs
need at each instant, known beforehand. The decisions are the product's (`pool_days`, `exam_day`), with
the product's defaults but for what is fixed on days 0 to 14 of the same log, before the days that
are judged: spares, a timetable and a fixed size. Those stand in the result as `fixed`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks import cluster_log, exam_day
from benchmarks.measure import Plan
from benchmarks.pool_days import Job, Played, PoolDays, quantile
from labfleet.resources.pool import Scaling, ScalingPolicy
from labfleet.resources.pool_windows import WorkersWindow

SUMMARY = "pools' policies on a recorded month (--data) and exam days: cost to bound, waits"
MOST = 1000
"""The maximum of each played pool: none that any policy reaches."""
DAYS, SMOKE_DAYS = 200, 1
BUSY = 3
"""Hours of the day with two spares, those of the most submissions on the days before; else one."""
RULE = (
    "4,195 parts of jobs submitted on days 14 to 42 and followed to their ends, workers of 64 CPUs and "
    "512 GB, boots of 5 minutes, a look each 30 s; ratio is worker-hours to the bound, waits are from "
    "submission to placement, theta_u and theta_o are worker-hours missing and not needed to the bound, "
    "changes are looks that changed the pool's size, a day"
)


def measure(plan: Plan) -> dict[str, Any]:
    """Return worker-hours, waits and changes of each policy, and of exam days how many began late."""
    found: dict[str, Any] = {"peers": [], "ratios": {}, "rows": [], "rule": RULE, "policies": {}}
    path = None if plan.data is None else plan.data / cluster_log.LOG
    if path is not None and path.exists():
        found |= table(cluster_log.jobs(path), fixed(cluster_log.jobs(path, 0, 14)), "log")
    elif plan.smoke:
        found |= table(cluster_log.made(), fixed(cluster_log.made(seed=2)), "made, means nothing")
    else:
        plan.skip(f"autoscaling's month: {cluster_log.LOG} is not in the folder that --data names")
    cpu = time.process_time()
    found["exam_day"] = exam_day.days(plan.size(DAYS, SMOKE_DAYS))
    spent = round(time.process_time() - cpu, 2)
    found["rows"] = [*found["rows"], {"name": "exam day", "cpu_s": spent, **found["exam_day"]}]
    return found


def fixed(before: Sequence[Job]) -> dict[str, Any]:
    """Return what is fixed on the days before: busy hours, workers by hour of the day, the peak."""
    hours = Counter(job.submit // 3600 % 24 for job in before)
    busy = sorted(hour for hour, _ in hours.most_common(BUSY))
    by_hour, at = [0] * 24, min(job.submit for job in before)
    for workers, seconds in cluster_log.needed(before):
        for hour in range(at // 3600, (at + seconds) // 3600 + 1):
            by_hour[hour % 24] = max(by_hour[hour % 24], workers)
        at += seconds
    return {"two_spares_at": busy, "timetable": by_hour, "peak": max(by_hour)}


def policies(known: dict[str, Any]) -> dict[str, Scaling]:
    """Return the pools that are compared, by name."""
    table_ = tuple(_hour(hour, many) for hour, many in enumerate(known["timetable"]))
    busy = tuple(_hour(hour, 2) for hour in known["two_spares_at"])
    slow = {"cooldown_up_seconds": 600, "cooldown_down_seconds": 1200}
    policy = ScalingPolicy
    return {
        "NEED_BASED": Scaling(max_workers=MOST, spare_workers=1, spare_times=busy),
        "NEED_BASED, no spare": Scaling(max_workers=MOST),
        "CAPACITY_BASED": Scaling(max_workers=MOST, policy=policy.CAPACITY_BASED),
        "CAPACITY_BASED, seed's cool-downs": Scaling(
            max_workers=MOST, policy=policy.CAPACITY_BASED, **slow
        ),
        "LAB_COUNT_BASED": Scaling(max_workers=MOST, policy=policy.LAB_COUNT_BASED),
        "SCHEDULED": Scaling(max_workers=MOST, policy=policy.SCHEDULED, timetable=table_),
        "HYBRID": Scaling(max_workers=MOST, policy=policy.HYBRID, timetable=table_),
        "NONE": Scaling(max_workers=MOST, policy=policy.NONE, min_workers=known["peak"]),
    }


def table(jobs: Sequence[Job], known: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the figures of each policy on these jobs."""
    bound = cluster_log.bound(jobs)
    found, rows = dict[str, dict[str, float]](), list[dict[str, Any]]()
    for name, rules in policies(known).items():
        cpu = time.process_time()
        found[name] = figures(PoolDays(jobs, cluster_log.WORKER, rules).play(), bound)
        rows.append({"name": name, "cpu_s": round(time.process_time() - cpu, 2), **found[name]})
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    return {
        "bound_worker_hours": round(bound),
        "policies": found,
        "rows": rows,
        "ratios": {name: each["ratio"] for name, each in found.items()},
        "fixed": known,
        "data": source,
    }


def figures(played: Played, bound: float) -> dict[str, float]:
    """Return what came of one pool as figures."""
    return {
        "worker_hours": round(played.worker_hours),
        "ratio": round(played.worker_hours / bound, 3),
        "mean_wait_s": round(statistics.mean(played.waits), 1),
        "p95_wait_s": quantile(played.waits, 0.95),
        "theta_u": round(played.short / bound, 4),
        "theta_o": round(played.surplus / bound, 4),
        "changes": round(played.changes / max(played.days, 1), 1),
    }


def _hour(hour: int, many: int) -> WorkersWindow:
    """Return a number of workers for one hour of each day."""
    return WorkersWindow(start=f"{hour:02d}:00", end=f"{(hour + 1) % 24:02d}:00", workers=many)

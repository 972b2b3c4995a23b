"""Kueue's own performance test through HTTP, each reply after its fsync.

5 cohorts of 6 queues, each with a quota of 20 and up to 100 borrowed; 15,000 workloads of three
sizes come at their pace. By its published figures Kueue needs 351 s and keeps its queues
55.9 % full on the mean; the work alone takes 66 s. The server is the product on one CPU, the load
generator a process of its own on another. Wall time means something on a quiet machine only.

With the kind Queue there is one cluster, and each queue is an object of its cohort. Without it (a
revision from before) each cohort is a cluster with the room of its six quotas and one line.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks import runs_system as system
from benchmarks.measure import Plan
from benchmarks.polls import Child
from labfleet.resources.amounts import Amounts
from labfleet.resources.kinds import KINDS

SUMMARY = "Kueue's performance test through HTTP: 15,000 workloads in 30 queues, fsynced"
COHORTS, QUEUES = 5, 6
NOMINAL, BORROWED = 20, 100
SIZES = {
    "small": (350, 1, 0.2, 50, 0.1),
    "medium": (100, 5, 0.5, 100, 0.5),
    "large": (50, 20, 1.0, 200, 1.2),
}
"""Workloads of one queue: how many, units, seconds that they run, priority, seconds apart."""
KUEUE = {"wall_s": 351.0, "use_percent": 55.9, "waits_s": [16.5, 76.8, 215.5]}
"""Published means of five runs; waits of large, medium, small."""
CONNECTIONS = 64
UNIT_MILLI = 1000


def measure(plan: Plan) -> dict[str, Any]:
    """Return wall time, how full the queues were, and the CPU of server and load generator."""
    if plan.smoke:
        return trial(plan, cohorts=2, queues=2, share=0.02)
    return trial(plan)


def trial(
    plan: Plan, *, cohorts: int = COHORTS, queues: int = QUEUES, share: float = 1.0
) -> dict[str, Any]:
    """Run the test, or a share of the workloads of each queue in fewer queues."""
    objects = "Queue" in KINDS
    server_cpu, load_cpu = system.cpus()
    load = os.getloadavg()
    whole = Amounts(cpu_milli=cohorts * queues * NOMINAL * UNIT_MILLI, memory_mib=1024)
    with plan.place() as place:
        system.prepare(place / "ready", 0, whole)
        with system.product(place / "ready", server_cpu) as served:
            _describe(served, cohorts, queues, objects=objects)
            child = Child("queue_client", load_cpu, served.port, CONNECTIONS, served.token)
            try:
                before = served.cpu()
                jobs = jobs_of(cohorts, queues, share, objects=objects)
                every = {size: each[4] for size, each in SIZES.items()}
                found = system.asks(child, jobs=jobs, every=every)
                server = served.cpu() - before
            finally:
                child.end()
    quota = cohorts * queues * NOMINAL
    row = {
        "name": f"{found['jobs']:,} workloads, {cohorts} cohorts of {queues} queues",
        "per_second": round(found["jobs"] / found["wall"], 1),
        "wall_s": round(found["wall"], 2),
        "least_wall_s": round(found["worked"] / quota, 2),
        "use_percent": round(100 * found["worked"] / quota / found["wall"], 1),
        "held_percent": round(100 * found["held"] / quota / found["wall"], 1),
        "server_cpu_s": round(server, 2),
        "load_generator_cpu_s": round(found["cpu"], 2),
        "cpu_us_per_workload": round(server / found["jobs"] * 1e6, 1),
        **{f"wait_{size}_s": round(wait, 3) for size, wait in found["waits"].items()},
        "sent_again": found["again"],
        **found["outcomes"],
    }
    return {
        "rows": [row],
        "peers": [{"name": "Kueue, published", **KUEUE}],
        "ratios": {"wall_to_least": round(found["wall"] * quota / found["worked"], 3)},
        "queues": "objects of the kind Queue"
        if objects
        else "the kind Queue is not there: each cohort is a cluster, with one line by priority",
        "load_before": load,
        "load_after": os.getloadavg(),
    }


def _describe(served: system.Served, cohorts: int, queues: int, *, objects: bool) -> None:
    """Make the queues, or the clusters that stand for cohorts."""
    everything = {"cpuPercent": 100, "memoryPercent": 100, "rule": "declared"}
    served.send("PATCH", "/api/v1/clusters/default", {"spec": everything})
    for cohort in range(cohorts):
        if not objects:
            has = {"cpu": queues * NOMINAL, "memory": "1Gi"}
            spec = {**everything, "capacity": has}
            made = {"metadata": {"name": f"cohort-{cohort}"}, "spec": spec}
            served.send("POST", "/api/v1/clusters", made)
            continue
        for queue in range(queues):
            spec = {
                "cluster": "default", "cohort": f"cohort-{cohort}", "quota": {"cpu": NOMINAL},
                "borrowingLimit": {"cpu": BORROWED},
            }  # fmt: skip
            made = {"metadata": {"name": f"queue-{cohort}-{queue}"}, "spec": spec}
            served.send("POST", "/api/v1/queues", made)


def jobs_of(cohorts: int, queues: int, share: float, *, objects: bool) -> list[dict[str, Any]]:
    """Return a share of the workloads of each queue, for the load generator."""
    found = []
    for cohort in range(cohorts):
        for queue in range(queues):
            for size, (count, units, seconds, priority, _) in SIZES.items():
                job = {
                    "size": size, "units": units, "seconds": seconds, "priority": priority,
                    "queue": f"queue-{cohort}-{queue}" if objects else "",
                    "cluster": "default" if objects else f"cohort-{cohort}",
                }  # fmt: skip
                found += [job] * max(1, round(count * share))
    return found

"""Sums what stands on a cluster: pods by run, all others, and which runs are over. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from labfleet.adapters.kubernetes.ends import Ends, Fate, run_over
from labfleet.adapters.kubernetes.pods import PodSeen
from labfleet.interfaces.cluster_view import NodeView, RunOver, RunPods
from labfleet.kernel import errors

RUNS = 2000
"""Most runs of one cluster that are looked at."""
RETRY = timedelta(seconds=360)
"""The longest time that a Job waits before it tries again what failed."""


@dataclass(slots=True)
class _Run:
    """What is counted of one run."""

    pending: int = 0
    running: int = 0
    requested: dict[str, int] = field(default_factory=dict)
    waits: str = ""
    fates: list[Fate] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)

    @property
    def live(self) -> RunPods | None:
        """Its pods, when one of them is not over."""
        if not self.pending and not self.running:
            return None
        return RunPods(self.pending, self.running, self.requested, self.waits)


class Job(NamedTuple):
    """A Job that may try again what failed, as far as its pods tell."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands on a cluster, as of ClusterView.

    unsure: The Jobs by which alone a run is not over: whether they are over, they say themselves.
    """

    runs: Mapping[str, RunPods]
    over: Mapping[str, RunOver]
    others: Mapping[str, int]
    unsure: tuple[Job, ...] = ()


def standing(
    pods: Iterable[PodSeen],
    nodes: Iterable[NodeView],
    ends: Ends,
    run_of: Callable[[PodSeen], str],
    now: datetime,
    *,
    closed: Container[str] = (),
) -> Standing:
    """Return the sums; Invalid when there are more runs than are looked at.

    `closed` has the uids of Jobs that are known to be over.
    """
    usable = {each.name for each in nodes if each.ready and each.schedulable}
    found: dict[str, _Run] = {}
    others: dict[str, int] = {}
    for pod in pods:
        name = run_of(pod)
        if name:
            _count(found.setdefault(name, _Run()), pod)
        elif not pod.over and pod.node in usable:
            # What stands on a node that is no capacity takes nothing of it.
            _add(others, pod.requested)
    if len(found) > RUNS:
        message = f"pods of {len(found)} runs are there, and at most {RUNS} are looked at"
        raise errors.Invalid(message, reason="TooManyRuns")
    runs: dict[str, RunPods] = {}
    unsure: list[Job] = []
    for name, each in found.items():
        live = each.live or _waits(each, now, closed, unsure)
        if live is not None:
            runs[name] = live
    named = dict.fromkeys((*found, *ends.runs()))
    over = {
        name: run_over((*ends.of(name), *(found[name].fates if name in found else ())))
        for name in named
        if name not in runs
    }
    return Standing(runs, over, others, tuple(unsure))


def _count(run: _Run, pod: PodSeen) -> None:
    if pod.fate is not None:
        run.fates.append(pod.fate)
        if pod.job and pod.owner is not None:
            run.jobs[pod.job] = Job(pod.namespace, pod.owner[1], pod.job)
        return
    _add(run.requested, pod.requested)
    if pod.phase == "Pending":
        run.pending += 1
        run.waits = run.waits or pod.waits
    else:
        run.running += 1


def _waits(run: _Run, now: datetime, closed: Container[str], unsure: list[Job]) -> RunPods | None:
    """Return what is told of a run of which a Job may try again; None when all of it is over."""
    newest: dict[str, Fate] = {}
    for each in run.fates:
        if each.job and (each.job not in newest or each.ended > newest[each.job].ended):
            newest[each.job] = each
    for each in newest.values():
        if each.reason == "Completed" or each.job in closed:
            continue
        if now - each.noticed < RETRY and now - each.ended < RETRY:
            unsure.append(run.jobs[each.job])
            return RunPods(waits=f"its job may try again: {each.message}")
    return None


def _add(to: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        to[name] = to.get(name, 0) + value

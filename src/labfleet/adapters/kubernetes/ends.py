"""How pods end, and what that makes of their run. Pure.

A run ends as its last pods did: an earlier failure that it outlived is not how it ended, nor is a
failed try of a Job that a later try of it made good.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.adapters.kubernetes.objects import PodObject, Terminated
from labfleet.interfaces.cluster_view import RunOver
from labfleet.kernel.clock import parse_instant

TOGETHER = timedelta(seconds=60)
"""Pods that end within this time of the last one of their run ended with it."""
KEPT = 100
"""Most ends that are kept of one run; pods of one run mostly end alike."""
MESSAGE = 300
_WORST_FIRST = ("OOMKilled", "Evicted", "Failed", "Gone", "Completed")


@dataclass(frozen=True, slots=True)
class Fate:
    """How one pod ended.

    reason: As of RunOver.
    at: When, as the cluster says; None when it does not.
    noticed: When we saw it (fleet time).
    job: Uid of the Job whose try it was; empty when it was none.
    """

    reason: str
    message: str
    at: datetime | None
    noticed: datetime
    job: str = ""

    @property
    def ended(self) -> datetime:
        """When it ended, as far as anybody knows."""
        return self.at or self.noticed


def fate(pod: PodObject, noticed: datetime, job: str, *, deleted: bool) -> Fate:
    """Return how a pod ended; `deleted` says that it was removed before it was over.

    What is removed while it runs ends with any exit code, which says nothing of the run.
    """
    status = pod.status
    ends = list(_terminated(pod))
    at = max((found for _, each in ends if (found := _instant(each.finished_at))), default=None)
    said = "" if status is None else (status.message or "")[:MESSAGE]
    done = status is not None and status.phase == "Succeeded" and not deleted
    disrupted = "" if done else _disrupted(pod)
    if disrupted or (status is not None and status.reason == "Evicted"):
        return Fate("Evicted", said or disrupted, at, noticed, job)
    killed = next((name for name, each in ends if each.reason == "OOMKilled"), None)
    if killed is not None:
        told = f"container {killed} of pod {pod.metadata.name} used more memory than it may"
        return Fate("OOMKilled", told, at, noticed, job)
    if deleted or status is None:
        return Fate("Gone", f"pod {pod.metadata.name} was removed", at, noticed, job)
    if done:
        return Fate("Completed", "", at, noticed, job)
    wrong = next(((name, each) for name, each in ends if each.exit_code), None)
    if wrong is not None:
        name, each = wrong
        cause = f" ({each.reason})" if each.reason and each.reason != "Error" else ""
        said = f"container {name} of pod {pod.metadata.name} ended with {each.exit_code}{cause}"
    return Fate("Failed", said or f"pod {pod.metadata.name} failed", at, noticed, job)


def _terminated(pod: PodObject) -> Iterable[tuple[str, Terminated]]:
    """Yield the containers that do not run any more with how they ended."""
    statuses = () if pod.status is None else pod.status.container_statuses or ()
    for each in statuses:
        now = each.state
        if now is None:
            continue
        if now.terminated is None and now.waiting is not None:  # between two tries
            now = each.last_state
        if now is not None and now.terminated is not None:
            yield each.name, now.terminated


def _disrupted(pod: PodObject) -> str:
    """Return why the cluster itself ended a pod; empty when it did not."""
    conditions = () if pod.status is None else pod.status.conditions or ()
    for each in conditions:
        if each.type == "DisruptionTarget" and each.status == "True":
            return (each.message or each.reason or "ended by the cluster")[:MESSAGE]
    return ""


def _instant(text: str | None) -> datetime | None:
    try:
        found = None if text is None else parse_instant(text)
    except ValueError:
        return None
    # Go writes an instant that nobody set as one of the year 1.
    return None if found is None or found.year < 1970 else found


def run_over(fates: Iterable[Fate]) -> RunOver:
    """Return how a run ended whose pods ended so; `Gone` when nobody saw any end."""
    newest: dict[str, Fate] = {}
    counted: list[Fate] = []
    for each in sorted(fates, key=lambda found: found.ended):
        if each.job:
            before = newest.get(each.job)
            gone = each.reason == "Gone" and before is not None
            # A Job that gave up, or is done, removes its other pods itself.
            if before is None or not gone or each.ended - before.ended > TOGETHER:
                newest[each.job] = each
        else:
            counted.append(each)
    counted += newest.values()
    if not counted:
        return RunOver("Gone")
    last = max(each.ended for each in counted)
    final = [each for each in counted if each.ended >= last - TOGETHER]
    worst = min(final, key=lambda each: (_WORST_FIRST.index(each.reason), each.message))
    told = max((each.at for each in final if each.at is not None), default=None)
    return RunOver(worst.reason, worst.message, told)


class Ends:
    """Remembers how the pods ended that are not there any more, by run; bounded."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: OrderedDict[str, list[Fate]] = OrderedDict()

    def note(self, run: str, found: Fate) -> None:
        """Remember an end; the runs that were heard of longest ago are forgotten first."""
        kept = self._runs.setdefault(run, [])
        self._runs.move_to_end(run)
        kept.append(found)
        if len(kept) > KEPT:
            last = max(each.ended for each in kept)
            kept[:] = [each for each in kept if each.ended >= last - TOGETHER]
            kept.sort(key=lambda each: _WORST_FIRST.index(each.reason))
            del kept[KEPT:]
        while len(self._runs) > self._most:
            self._runs.popitem(last=False)

    def of(self, run: str) -> tuple[Fate, ...]:
        """Return the ends that are remembered of a run."""
        return tuple(self._runs.get(run, ()))

    def runs(self) -> tuple[str, ...]:
        """Return the runs of which any end is remembered."""
        return tuple(self._runs)

"""The line of one cluster in the decider's memory: what waits for it, and what runs on it.

It is a function of what is stored and can be dropped at any time: the next question makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from labfleet.decisions.admission.targets import targets
from labfleet.decisions.queueing.line import Line, Round
from labfleet.decisions.queueing.requests import Request, Terms, terms
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.cluster import Cluster, as_seen, capacity_of
from labfleet.resources.decision import Rule
from labfleet.resources.queue import Queue
from labfleet.resources.simulation import HOLDING, Simulation, SimulationPhase, SimulationSpec

if TYPE_CHECKING:
    from labfleet.decisions.admission.load import Load, Need
    from labfleet.decisions.admission.room import Taken


MOST = 10_000
"""How many may wait in the line of a cluster without naming a queue."""


class WaitingLine:
    """A `Line` with what each waiting run would take; `queues` are those of the cluster."""

    def __init__(
        self, cluster: Cluster, queues: Iterable[Queue], rule: Rule, default_seconds: int
    ) -> None:
        """`default_seconds` is how long a run may last of which nothing is known."""
        self._default_seconds = default_seconds
        self._named = {queue.key.path for queue in queues}
        self._most = {queue.key.path: queue.spec.max_waiting for queue in queues}
        self.made_for = made_for(cluster, queues, rule)
        self._rule = rule
        self._target = targets(as_seen(cluster))
        self.line = Line(_terms(queues), self._target)
        self._taken: dict[str, Taken] = {}

    def decide(self, load: Load, epsilon: float, now: datetime) -> Round:
        """Return which requests start now, each beside those before it."""
        from labfleet.decisions.admission.room import LoadRoom

        room = LoadRoom(load, self._taken, target=self._target, rule=self._rule, epsilon=epsilon)
        return self.line.decide(room, now)

    def never(self, request: Request) -> bool:
        """Tell whether a request is more than its queue may ever hold."""
        return self.line.quotas.never(request.queue, vector(request.amounts))

    def full(self, request: Request) -> bool:
        """Tell whether as many wait in a request's queue as may."""
        waiting = self.line.queues.get(request.queue)
        return waiting is not None and len(waiting.all) >= self._most.get(request.queue, MOST)

    def wait(self, request: Request, wanted: Need) -> None:
        """Let a request wait; one that waits already stays as it is."""
        from labfleet.decisions.admission.room import taken

        if request.uid not in self.line.requests:
            self._taken[request.uid] = taken(request.uid, wanted, self._rule)
            self.line.wait(request)

    def start(self, run: Simulation, request: Request) -> None:
        """Count a run that holds something, as long as its reservation says."""
        held = run.status.reservation
        self.line.start(request, request.since if held is None else held.start,
                        None if held is None else held.end)  # fmt: skip
        self._taken.pop(run.metadata.uid, None)

    def leave(self, uid: str) -> None:
        """Let a request wait no longer and count its run no longer; no error for another one."""
        self.line.withdraw(uid)
        self.line.end(uid)
        self._taken.pop(uid, None)

    def request(
        self,
        run: tuple[str, str, SimulationSpec],
        *,
        since: datetime,
        amounts: Amounts,
        seconds: float,
        durations: tuple[float, ...] = (),
        alike: str = "",
    ) -> Request:
        """Return a request of a run, given as uid, namespace and spec, as decisions see it."""
        uid, namespace, spec = run
        queue = f"{namespace}/{spec.queue}"
        return Request(
            uid=uid,
            queue=queue if queue in self._named else "",
            owner=spec.owner,
            amounts=amounts,
            seconds=seconds,
            priority=spec.priority,
            since=since,
            spread=durations,
            alike=alike,
        )

    def follow(self, run: Simulation, wanted: Need | None) -> None:
        """Take in what was stored of a run; `wanted` is what it counts for, None when it is over."""
        phase, uid = run.status.phase, run.metadata.uid
        if wanted is None or (phase is not SimulationPhase.QUEUED and phase not in HOLDING):
            self.leave(uid)
            return
        request = self.stored(run, wanted)
        if phase in HOLDING:
            self.start(run, request)
        else:
            self.wait(request, wanted)

    def stored(self, run: Simulation, wanted: Need) -> Request:
        """Return the request of a stored run."""
        status = run.status
        found = None if status.prediction is None else status.prediction.of("duration_seconds")
        held = status.reservation
        seconds = run.spec.duration_seconds or (None if found is None else found.bound)
        if held is not None and held.end is not None:
            seconds = (held.end - held.start).total_seconds()
        return self.request(
            (run.metadata.uid, run.namespace, run.spec),
            since=status.asked_at or status.decided_at or run.metadata.creation_timestamp or _EVER,
            amounts=wanted.bounds,
            seconds=seconds or self._default_seconds,
            durations=() if found is None else found.spread,
            alike=alike(wanted),
        )


def alike(wanted: Need) -> str:
    """Return a word that is equal for runs that one answer holds for."""
    return f"{hash((wanted.spreads, wanted.later)):x}"


def made_for(cluster: Cluster, queues: Iterable[Queue], rule: Rule) -> tuple[object, ...]:
    """Return all that a line depends on beside its runs: another one needs another line."""
    return (
        capacity_of(cluster),
        targets(as_seen(cluster)),
        rule is Rule.DECLARED,
        tuple((queue.key.path, queue.spec) for queue in queues),
    )


def _terms(queues: Iterable[Queue]) -> list[Terms]:
    return [terms(queue) for queue in queues]


_EVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

"""Makes decisions on requests before they are committed: each beside all that came before it.

Where nothing waits and no queue shares the cluster, a request is approved or denied at once. Else
it joins the line: a request that nobody lets wait may still go past those that wait, if it delays
none of them, and is denied when it would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from labfleet.decisions.admission.targets import NEVER_FITS
from labfleet.decisions.queueing.line import Blocked
from labfleet.decisions.queueing.quotas import Level
from labfleet.decisions.queueing.requests import Request
from labfleet.decisions.safe_mode import SafeMode, in_safe_mode
from labfleet.kernel import errors
from labfleet.resources import refs
from labfleet.resources.amounts import Reservation
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import WhenBlind
from labfleet.resources.decision import Decision
from labfleet.resources.meta import DEFAULT_NAMESPACE, Metadata, Ref, Resource
from labfleet.resources.queue import Queue
from labfleet.resources.simulation import (
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
    family_of,
)
from labfleet.service.core import intake
from labfleet.service.core.asked_runs import Asked
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.verbs.waiting_line import WaitingLine, alike, made_for

if TYPE_CHECKING:
    from labfleet.decisions.admission.judge import Judge, Judged, Ready
    from labfleet.decisions.admission.load import Load
    from labfleet.decisions.prediction.learner import Learner

    _Asks = dict[str, tuple["_New", Judged]]

QUEUE_FULL = "QueueFull"
"""Reason of a decision: as many wait in its queue as may."""
OTHERS_WAIT = "OthersWait"
"""Reason of a decision: there is room, but it is kept for requests that came before."""
_EVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
UNDECIDED = 100
"""Requests of other processes that one round decides of a cluster."""


@dataclass(slots=True)
class Draft:
    """A decided request before its commit; `asked` is None for one that lay in the store."""

    made: Simulation
    cluster: Cluster
    asked: Asked | None = None


@dataclass(frozen=True, slots=True)
class _New:
    """A request that nobody has decided yet, of this process or stored by another one."""

    spec: SimulationSpec
    metadata: Metadata
    since: datetime
    asked: Asked | None = None
    old: Simulation | None = None


class Drafter:
    """What the decider keeps in memory: judge and lines, all made from what is stored."""

    def __init__(self, services: ServiceContext) -> None:
        self._services = services
        self._judges: Judge | None = None
        self._lines: dict[str, WaitingLine] = {}
        self._recent: dict[str, Simulation] = {}
        """Own approvals that the cache does not have yet: whatever is made anew counts them too."""
        self._ready: dict[str, Ready] = {}
        """What this round has made of requests before it decides them, by uid."""
        self._taught = True
        self._now = services.clock.now()
        """When this round began: all of it is decided as of then."""
        services.cache.on_change(Simulation, self._changed)

    async def drafts(self, asked: Sequence[Asked]) -> list[Draft]:
        """Return the decisions on these requests and on all that wait in the store, in order."""
        cache, now = self._services.cache, self._services.clock.now()
        self._now = now
        if not asked and not cache.keys(Cluster):
            return []  # no need to learn, which brings numpy to a server without clusters
        await self._learn()
        new: dict[str, list[_New]] = {}
        clusters: dict[str, Cluster] = {}
        for each in asked:
            cluster = await self._cluster(each)
            if cluster is not None:
                path = cluster.key.path
                clusters[path] = cluster
                metadata = named(self._services, each.namespace, now)
                new.setdefault(path, []).append(_New(each.spec, metadata, now, asked=each))
        for path in cache.values(indices.SIMULATIONS_QUEUED):
            first = next(cache.each(indices.SIMULATIONS_QUEUED, path), None)
            found = None if first is None else cache.find(refs.cluster_of(first))
            if found is not None:
                clusters.setdefault(path, found)
                new[path] = [*self._undecided(path), *new.get(path, [])]
        await self._services.learning.read(_family(one) for each in new.values() for one in each)
        made: list[Draft] = []
        for path, cluster in clusters.items():
            made += self._of_cluster(cluster, new.get(path, []))
        return made

    @property
    def loads(self) -> Mapping[str, Load]:
        """The loads that are kept, by the path of their cluster."""
        return {} if self._judges is None else self._judges.loads

    def take_back(self, draft: Draft) -> None:
        """Count no longer what a draft holds whose commit did not happen."""
        self._recent.pop(draft.made.metadata.uid, None)
        self._judge().drop(draft.made)
        self._lines.pop(draft.cluster.key.path, None)

    def follow(self, run: Simulation) -> None:
        """Count a run as it is stored."""
        judge, line = self._judge(), self._lines.get(refs.cluster_path(run))
        judge.count(run)
        if line is not None and run.status.decision is not None:
            line.follow(run, judge.wanted(run))

    def forget(self) -> None:
        """Count everything anew at the next question: another process may have decided since."""
        if self._judges is not None:
            self._judges.forget()
        self._lines.clear()
        self._recent.clear()
        self._taught = True

    # --- one cluster ------------------------------------------------------------------------

    def _of_cluster(self, cluster: Cluster, new: list[_New]) -> list[Draft]:
        path, cache = cluster.key.path, self._services.cache
        asked = [(each.metadata.uid, each.spec) for each in new]
        made = self._judge().ready(cluster, self._learner(), asked)
        self._ready = {uid: each for (uid, _), each in zip(asked, made, strict=True)}
        queues = cache.by(indices.QUEUES_OF_CLUSTER, path)
        queued = any(each.spec.queue is not None for each in new)
        if not queues and not queued and not cache.count(indices.SIMULATIONS_QUEUED, path):
            return [self._at_once(cluster, each) for each in new]
        return self._in_line(cluster, queues, new)

    def _safe_mode(self, cluster: Cluster) -> SafeMode | None:
        """Return why a cluster is in safe mode now; None when it is not."""
        return self._services.watch.safe_mode(cluster, self._services.clock.monotonic())

    def _declared(self, cluster: Cluster) -> bool:
        """Tell whether the cluster is decided by what callers declare, since it is in safe mode."""
        return (
            cluster.spec.when_blind is WhenBlind.DECLARED and self._safe_mode(cluster) is not None
        )

    def _denies(self, cluster: Cluster) -> SafeMode | None:
        """Return why nothing may start on a cluster for now; None when its load decides."""
        return None if cluster.spec.when_blind is WhenBlind.DECLARED else self._safe_mode(cluster)

    def _at_once(self, cluster: Cluster, new: _New) -> Draft:
        judged = self._judged(cluster, new.spec, new.metadata)
        if (blind := self._denies(cluster)) is not None:
            told = in_safe_mode(judged.decision, cluster.name, blind)
            return self._draft(cluster, new, self._denied(new, judged, told))
        if judged.decision.outcome == "approved":
            return self._counted(self._draft(cluster, new, self._approved(new, judged)))
        return self._draft(cluster, new, self._denied(new, judged, judged.decision))

    def _in_line(self, cluster: Cluster, queues: tuple[Queue, ...], new: list[_New]) -> list[Draft]:
        """Return which of the new and of the waiting requests start, and what becomes of the rest."""
        made: list[Draft] = []
        waiting = self._line(cluster, queues)
        asks: _Asks = {}
        for each in new:
            judged = self._judged(cluster, each.spec, each.metadata)
            if judged.decision.reason == NEVER_FITS:
                made.append(self._draft(cluster, each, self._denied(each, judged, judged.decision)))
                continue
            request = self._request(waiting, each, judged)
            if waiting.never(request):
                told = _never(each, judged.decision)
                made.append(self._draft(cluster, each, self._denied(each, judged, told)))
                continue
            if each.old is None and each.spec.queue is not None and waiting.full(request):
                told = _full(each, judged.decision)
                made.append(self._draft(cluster, each, self._denied(each, judged, told)))
                continue
            asks[each.metadata.uid] = (each, judged)
            waiting.wait(request, judged.need)
        judge, now = self._judge(), self._now
        load, (_, epsilon) = judge.load(cluster, self._live(cluster)), judge.in_force(cluster)
        if self._denies(cluster) is not None:
            return made + self._all_left(cluster, waiting, asks, {})
        found = waiting.decide(load, epsilon, now)
        for request in found.started:
            draft = self._started(cluster, waiting, request.uid, asks)
            if draft is not None:
                made.append(draft)
        return made + self._all_left(cluster, waiting, asks, found.blocked)

    def _all_left(
        self,
        cluster: Cluster,
        waiting: WaitingLine,
        asks: _Asks,
        blocked: Mapping[str, Blocked],
    ) -> list[Draft]:
        """Return what becomes of new requests that may not start; others keep their place."""
        made = []
        for each, judged in asks.values():
            held = blocked.get(each.metadata.uid)
            made.append(self._left(cluster, each, judged, None if held is None else held.level))
            if each.spec.queue is None:
                waiting.leave(each.metadata.uid)
        return made

    def _started(
        self, cluster: Cluster, waiting: WaitingLine, uid: str, asks: _Asks
    ) -> Draft | None:
        """Return the approval of a request whose turn it is; None when it needs more by now.

        It waits on with what it needs by now, so that it does not stand at the head for nothing;
        and is denied when that is more than the cluster will ever have.
        """
        new = asks[uid][0] if uid in asks else self._waiting(uid)
        if new is None or self._services.learning.unread(*_family(new)):
            return None  # Of a family that has to be read first it is the next round's turn.
        judged = self._judged(cluster, new.spec, new.metadata)
        if judged.decision.reason == NEVER_FITS:
            asks.pop(uid, None)
            waiting.leave(uid)
            return self._draft(cluster, new, self._denied(new, judged, judged.decision))
        if judged.decision.outcome != "approved":
            waiting.leave(uid)
            waiting.wait(self._request(waiting, new, judged), judged.need)
            return None
        asks.pop(uid, None)
        return self._counted(self._draft(cluster, new, self._approved(new, judged)))

    def _left(self, cluster: Cluster, new: _New, judged: Judged, level: Level | None) -> Draft:
        """Return what becomes of a new request that may not start now; `level` keeps it waiting."""
        decision = judged.decision
        if (blind := self._denies(cluster)) is not None:
            decision = in_safe_mode(decision, cluster.name, blind)
        elif decision.outcome == "approved":
            limited = level in {Level.QUEUE, Level.COHORT}
            why = "its queue has no more to give" if limited else "the room is kept for others"
            told = f"{decision.message.partition(';')[0]}; {why}, who came before"
            decision = msgspec.structs.replace(
                decision,
                outcome="denied",
                reason=OTHERS_WAIT,
                message=told if not limited else told.removesuffix(", who came before"),
                chosen=None,
                candidates=(),
            )
        if new.spec.queue is None:
            return self._draft(cluster, new, self._denied(new, judged, decision))
        said = decision.message.removesuffix("; ask again later")
        waits = msgspec.structs.replace(decision, outcome="waiting", message=said)
        return self._draft(cluster, new, self._status(new, judged, waits))

    def _line(self, cluster: Cluster, queues: tuple[Queue, ...]) -> WaitingLine:
        """Return the cluster's line, made from what is stored when something about it changed."""
        path, judge = cluster.key.path, self._judge()
        rule, _ = judge.in_force(cluster, blind=self._declared(cluster))
        line = self._lines.get(path)
        if line is None or line.made_for != made_for(cluster, queues, rule):
            cache = self._services.cache
            default = self._services.settings.now().admission.default_duration_seconds
            line = self._lines[path] = WaitingLine(cluster, queues, rule, default)
            for run in (*cache.by(indices.SIMULATIONS_QUEUED, path), *self._live(cluster)):
                if run.status.decision is not None:
                    line.follow(run, judge.wanted(run))
        return line

    def _request(self, waiting: WaitingLine, new: _New, judged: Judged) -> Request:
        lasts = judged.prediction.of("duration_seconds")
        default = self._services.settings.now().admission.default_duration_seconds
        return waiting.request(
            (new.metadata.uid, new.metadata.namespace, new.spec),
            since=new.since,
            amounts=judged.need.bounds,
            seconds=judged.seconds or default,
            durations=() if lasts is None else lasts.spread,
            alike=alike(judged.need),
        )

    # --- what is in the store ---------------------------------------------------------------

    def _undecided(self, path: str) -> list[_New]:
        """Return the requests of other processes, in the order in which they came."""
        cache = self._services.cache
        found = cache.by(indices.SIMULATIONS_UNDECIDED, path)
        ordered = sorted(found, key=lambda each: (each.status.asked_at or _EVER, each.name))
        return [_new(each) for each in ordered[:UNDECIDED]]

    def _waiting(self, uid: str) -> _New | None:
        found = self._services.cache.of_uid(Simulation, uid)
        if found is None or found.status.phase is not SimulationPhase.QUEUED:
            return None
        return _new(found)

    async def _cluster(self, asked: Asked) -> Cluster | None:
        """Return the cluster that is asked for; None when the request was refused for want of it."""
        services, ref = self._services, Ref(Cluster, asked.namespace, asked.spec.cluster)
        cluster = services.cache.find(ref)
        if cluster is None:
            await services.fresh()
            cluster = services.cache.find(ref)
        if cluster is None or cluster.deleting:
            services.asked.refuse(asked, _no_cluster(services, asked, cluster))
            return None
        return cluster

    # --- judging ----------------------------------------------------------------------------

    def _judge(self) -> Judge:
        """Return the judge, made at the first request: it brings numpy, which not all need."""
        if self._judges is None:
            from labfleet.decisions.admission.judge import Judge

            self._judges = Judge()
        return self._judges

    async def _learn(self) -> None:
        """Learn from the runs that have ended since the last round."""
        trust = self._services.settings.now().admission.trust_reports
        known = self._services.learning.known
        stale = self._services.learning.stale
        if self._taught or stale or known is None or known.trusts_reports != trust:
            self._taught = False
            try:
                await self._services.learning.current(trust_reports=trust)
            except BaseException:
                self._taught = True
                raise

    def _judged(self, cluster: Cluster, spec: SimulationSpec, metadata: Metadata) -> Judged:
        services = self._services
        return self._judge().decide(
            spec,
            self._learner(),
            uid=metadata.uid,
            cluster=cluster,
            live=self._live(cluster),
            now=self._now,
            revision=services.cache.revision,
            default_seconds=services.settings.now().admission.default_duration_seconds,
            blind=self._declared(cluster),
            ready=self._ready.get(metadata.uid),
        )

    def _learner(self) -> Learner:
        learner = self._services.learning.known
        assert learner is not None  # noqa: S101 - a round begins with learning
        return learner

    def _live(self, cluster: Cluster) -> Iterator[Simulation]:
        """Yield the runs that hold something of a cluster, own approvals of just now last."""
        path = cluster.key.path
        yield from self._services.cache.each(indices.SIMULATIONS_HOLDING, path)
        for run in self._recent.values():
            if refs.cluster_path(run) == path:
                yield run

    def _counted(self, draft: Draft) -> Draft:
        """Count what an approved request holds before the next one is decided."""
        self._recent[draft.made.metadata.uid] = draft.made
        self.follow(draft.made)
        return draft

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        """Follow what others wrote; what this process has committed is counted already."""
        run = new or old
        if self._judges is None or not isinstance(run, Simulation):
            return
        if run.status.phase is not SimulationPhase.QUEUED:
            self._recent.pop(run.metadata.uid, None)
        line = self._lines.get(refs.cluster_path(run))
        if new is None:
            self._judges.drop(run)
            if line is not None:
                line.leave(run.metadata.uid)
            return
        self.follow(run)
        self._taught = self._taught or run.status.reported

    # --- statuses ---------------------------------------------------------------------------

    def _draft(self, cluster: Cluster, new: _New, status: SimulationStatus) -> Draft:
        if new.old is not None:
            return Draft(msgspec.structs.replace(new.old, status=status), cluster)
        made = Simulation(metadata=new.metadata, spec=new.spec, status=status)
        return Draft(made, cluster, new.asked)

    def _status(self, new: _New, judged: Judged, decision: Decision) -> SimulationStatus:
        return SimulationStatus(
            decision=decision,
            prediction=judged.prediction,
            evidence=judged.evidence,
            asked_at=new.since,
            observed_generation=new.metadata.generation,
        )

    def _denied(self, new: _New, judged: Judged, decision: Decision) -> SimulationStatus:
        status = self._status(new, judged, decision)
        return msgspec.structs.replace(status, phase=SimulationPhase.DENIED, decided_at=decision.at)

    def _approved(self, new: _New, judged: Judged) -> SimulationStatus:
        """Return the status of an approved request: what it holds, until when, what it owes."""
        now, settings = judged.decision.at, self._services.settings.now().admission
        seconds = judged.seconds or settings.default_duration_seconds
        end = now + timedelta(seconds=seconds + settings.grace_seconds)
        ttl, waited = new.spec.ttl_seconds, new.spec.queue is not None and new.old is not None
        return msgspec.structs.replace(
            self._status(new, judged, judged.decision),
            phase=SimulationPhase.APPROVED,
            reservation=Reservation(
                holder=new.metadata.name, amounts=judged.decision.requested, start=now, end=end
            ),
            decided_at=now,
            lease_until=None if ttl is None else now + 3 * timedelta(seconds=ttl),
            take_up_by=now + timedelta(seconds=settings.take_up_seconds) if waited else None,
        )


def named(services: ServiceContext, namespace: str, now: datetime) -> Metadata:
    """Return the metadata of a new simulation, named after its uid."""
    uid = services.ids.uid()
    return Metadata(
        name=f"sim-{uid.replace('-', '')[:20]}",
        namespace=namespace,
        uid=uid,
        generation=1,
        creation_timestamp=now,
    )


def _full(new: _New, decision: Decision) -> Decision:
    """Return the decision on a request for whose queue as many wait as may."""
    told = f"as many wait in queue {new.spec.queue} as may; ask again later"
    return _refused(decision, QUEUE_FULL, told)


def _never(new: _New, decision: Decision) -> Decision:
    """Return the decision on a request that is more than its queue may ever hold."""
    told = (
        f"{decision.message.partition(';')[0]}; queue {new.spec.queue} may never hold as much: "
        "its quota and borrowing limit, or its cohort's quotas, are smaller"
    )
    return _refused(decision, NEVER_FITS, told)


def _refused(decision: Decision, reason: str, message: str) -> Decision:
    return msgspec.structs.replace(
        decision,
        outcome="denied",
        reason=reason,
        message=message,
        chosen=None,
        candidates=(),
        rejected_by_reason={},
    )


def _family(new: _New) -> tuple[str, str, str]:
    return new.metadata.namespace, family_of(new.spec), new.spec.owner


def _new(old: Simulation) -> _New:
    since = old.status.asked_at or old.metadata.creation_timestamp or _EVER
    return _New(old.spec, old.metadata, since, old=old)


def _no_cluster(services: ServiceContext, asked: Asked, cluster: Cluster | None) -> errors.Invalid:
    name, space = asked.spec.cluster, asked.namespace
    there = "" if space == DEFAULT_NAMESPACE else f" in namespace {space}"
    if cluster is not None:
        what = f"cluster {name!r} is being deleted"
        return intake.invalid(("cluster", what), reason="ClusterTerminating")
    known = [each.name for each in services.cache.all(Cluster) if each.namespace == asked.namespace]
    what = f"cluster {name[:64]!r} does not exist{there}" + intake.hint(name[:64], known)
    return intake.invalid(("cluster", what), reason="UnknownName")

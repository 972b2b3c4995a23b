"""The decider: takes all requests that wait, decides them in order, commits them together.

One process decides at a time, under the lease of its role, so no decision has to be checked against
another one's. It keeps what the live runs of each cluster hold, and a decision costs the same
however many runs are over. The commits of a round are handed over at once, which makes them one
transaction with one fsync (`stores.group_commit`), each with its own cause. Requests of other
processes lie in the store as QUEUED. A caller is answered after the commit, never before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from labfleet.decisions.admission.targets import NEVER_FITS
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import refs
from labfleet.resources.amounts import Reservation
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Metadata, Ref, Resource
from labfleet.resources.simulation import (
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.asked_runs import Asked
from labfleet.service.core.idempotency import Memo
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices

if TYPE_CHECKING:
    from labfleet.decisions.admission.judge import Judge, Judged
    from labfleet.decisions.admission.load import Load

BATCH = 100
"""Requests of one round of each sort: those of the store, and those that wait in this process."""
TRIES = 5
ACTOR = "admission"
_REASONS = {SimulationPhase.QUEUED: "Queued", SimulationPhase.DENIED: "Denied"}


@dataclass(slots=True)
class _Draft:
    """A decided request before its commit; `asked` is None for one that lay in the store."""

    made: Simulation
    cluster: Cluster
    asked: Asked | None = None


class Decider:
    """Decides on simulations; only one call of `round` runs at a time."""

    def __init__(self, services: ServiceContext) -> None:
        self._services = services
        self._judges: Judge | None = None
        self._lost = False
        self._taught = True
        self.rests = True
        """Whether no round is under way: what is counted is what is stored and read, no more."""
        services.cache.on_change(Simulation, self._changed)

    @property
    def loads(self) -> Mapping[str, Load]:
        """The loads that are kept, by the path of their cluster."""
        return {} if self._judges is None else self._judges.loads

    async def round(self, fence: stores.Fence | None) -> bool:
        """Decide a batch of what waits here and in the store; return whether more may wait."""
        self.rests = False
        try:
            return await self._round(fence)
        finally:
            self.rests = True

    async def _round(self, fence: stores.Fence | None) -> bool:
        services = self._services
        if self._lost:
            await services.fresh()
            self.forget()
        stored = self._stored()
        asked = services.asked.take(BATCH)
        if not stored and not asked:
            return False
        try:
            await self._learn()
            drafts = [each for each in map(self._of_stored, stored) if each is not None]
            for each in asked:
                draft = await self._of_asked(each)
                if draft is not None:
                    drafts.append(draft)
            done = await asyncio.gather(
                *(self._record(each, fence) for each in drafts), return_exceptions=True
            )
        finally:
            # Cut off or no longer leading: nobody may wait for an answer that does not come.
            for each in asked:
                if not each.answer.done():
                    services.asked.refuse(each, _ask_again("the server is being changed over"))
        for problem in done:
            if isinstance(problem, BaseException):
                raise problem
        return bool(len(services.asked)) or len(stored) == BATCH

    def _stored(self) -> list[Simulation]:
        """Return the waiting requests of the store that may be decided now, in their order."""
        cache = self._services.cache
        found: list[Simulation] = []
        for cluster in cache.values(indices.SIMULATIONS_QUEUED):
            waiting = cache.by(indices.SIMULATIONS_QUEUED, cluster)
            undecided = [each for each in waiting if each.status.decision is None]
            line = sorted((each for each in waiting if each.status.decision), key=_turn)
            found += sorted(undecided, key=_turn)
            found += line
        return found[:BATCH]

    # --- one decision -----------------------------------------------------------------------

    def _of_stored(self, old: Simulation) -> _Draft | None:
        """Return a stored request as decided; None when there is nothing to change in it."""
        cluster = self._services.cache.find(refs.cluster_of(old))
        if cluster is None:
            return None  # A cluster with waiting requests is not deleted; its cache is behind.
        decided = self._decided(old.spec, old.metadata, cluster, asked_at=old.status.asked_at)
        if decided.phase is SimulationPhase.QUEUED and old.status.decision is not None:
            return None
        made = msgspec.structs.replace(old, status=decided)
        return self._counted(_Draft(made, cluster))

    async def _of_asked(self, asked: Asked) -> _Draft | None:
        """Return a new request as decided; None when it was refused at once."""
        services = self._services
        ref = Ref(Cluster, asked.namespace, asked.spec.cluster)
        cluster = services.cache.find(ref)
        if cluster is None:
            await services.fresh()
            cluster = services.cache.find(ref)
        if cluster is None or cluster.deleting:
            services.asked.refuse(asked, _no_cluster(services, asked, cluster))
            return None
        metadata = named(services, asked.namespace)
        status = self._decided(asked.spec, metadata, cluster, asked_at=services.clock.now())
        made = Simulation(metadata=metadata, spec=asked.spec, status=status)
        return self._counted(_Draft(made, cluster, asked))

    def _decided(
        self, spec: SimulationSpec, metadata: Metadata, cluster: Cluster, asked_at: datetime | None
    ) -> SimulationStatus:
        """Return the status of a request that is decided on now."""
        services = self._services
        learner = services.learning.known
        assert learner is not None  # noqa: S101 - a round begins with learning
        judged = self._judge().decide(
            spec,
            learner,
            uid=metadata.uid,
            cluster=cluster,
            live=services.cache.by(indices.SIMULATIONS_HOLDING, cluster.key.path),
            now=services.clock.now(),
            revision=services.cache.revision,
        )
        status = SimulationStatus(
            decision=judged.decision,
            prediction=judged.prediction,
            evidence=judged.evidence,
            asked_at=asked_at,
            observed_generation=metadata.generation,
        )
        return self._settled(status, spec, metadata, judged)

    def _settled(
        self,
        status: SimulationStatus,
        spec: SimulationSpec,
        metadata: Metadata,
        judged: Judged,
    ) -> SimulationStatus:
        """Return the status with the phase that follows from the decision, and what it holds."""
        decision = judged.decision
        now, settings = decision.at, self._services.settings.now().admission
        if decision.outcome == "denied":
            if spec.queue is not None and decision.reason != NEVER_FITS:
                waits = msgspec.structs.replace(decision, outcome="waiting")
                return msgspec.structs.replace(status, decision=waits)
            return msgspec.structs.replace(status, phase=SimulationPhase.DENIED, decided_at=now)
        seconds = judged.seconds or settings.default_duration_seconds
        end = now + timedelta(seconds=seconds + settings.grace_seconds)
        take_up = None
        if spec.queue is not None:
            take_up = now + timedelta(seconds=settings.take_up_seconds)
        lease = None if spec.ttl_seconds is None else now + 3 * timedelta(seconds=spec.ttl_seconds)
        return msgspec.structs.replace(
            status,
            phase=SimulationPhase.APPROVED,
            reservation=Reservation(
                holder=metadata.name, amounts=decision.requested, start=now, end=end
            ),
            decided_at=now,
            lease_until=lease,
            take_up_by=take_up,
        )

    # --- what is held -----------------------------------------------------------------------

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
        if self._taught or known is None or known.trusts_reports != trust:
            self._taught = False
            try:
                await self._services.learning.current(trust_reports=trust)
            except BaseException:
                self._taught = True
                raise

    def _counted(self, draft: _Draft) -> _Draft:
        """Count what an approved request holds before the next one is decided."""
        self._judge().count(draft.made)
        return draft

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        """Follow what others wrote; what this process has committed is counted already."""
        if self._judges is None:
            return
        if isinstance(new, Simulation):
            self._judges.count(new)
            self._taught = self._taught or new.status.reported
        elif isinstance(old, Simulation):
            self._judges.drop(old)

    def forget(self) -> None:
        """Count everything anew at the next question: another process may have decided since."""
        if self._judges is not None:
            self._judges.forget()
        self._lost, self._taught = False, True

    # --- the commit -------------------------------------------------------------------------

    async def _record(self, draft: _Draft | None, fence: stores.Fence | None) -> None:
        """Commit a decision and answer its caller; after a conflict decide anew.

        Raises Fenced when this process no longer leads.
        """
        for _ in range(TRIES):
            if draft is None:
                return
            try:
                _, stored = await self._save(draft, fence)
            except errors.Fenced:
                self._judge().drop(draft.made)
                raise
            except errors.Conflict as problem:
                self._judge().drop(draft.made)
                if await self._answered_before(draft, problem):
                    return
                draft = await self._again(draft)
            except errors.LabfleetError as problem:
                await self._doubtful(draft, problem)
                return
            else:
                made = stored[0]
                if draft.asked is not None and isinstance(made, Simulation):
                    self._services.asked.answer(draft.asked, made)
                return
        if draft is not None:
            self._judge().drop(draft.made)
            if draft.asked is not None:
                problem_ = _ask_again("the cluster is being changed by many")
                self._services.asked.refuse(draft.asked, problem_)

    async def _save(
        self, draft: _Draft, fence: stores.Fence | None
    ) -> tuple[int, tuple[Resource, ...]]:
        services, asked, made = self._services, draft.asked, draft.made
        writes: list[stores.Write] = []
        if made.status.reservation is not None:
            writes.append(ledger_rows.touch(ledger_rows.of(draft.cluster.key)))
        if asked is not None and asked.key is not None:
            writes.append(Memo(asked.key, asked.digest).write(services, made))
        cause = stores.Cause(
            actor=ACTOR if asked is None else asked.actor,
            at=services.clock.now(),
            request_id="" if asked is None else asked.request_id,
            reason=_REASONS.get(made.status.phase, "Approved"),
        )
        return await services.objects.save(
            made,
            cause=cause,
            preconditions=(stores.AtRevision(draft.cluster.key, draft.cluster.revision),),
            writes=writes,
            fence=fence,
        )

    async def _answered_before(self, draft: _Draft, problem: errors.Conflict) -> bool:
        """Tell whether another process has answered this key, and if so pass its answer on."""
        asked = draft.asked
        if asked is None or asked.key is None:
            return False
        if await self._services.replies.reply(asked.key) is None:
            return False
        self._services.asked.refuse(asked, problem)  # Its caller reads the stored answer.
        return True

    async def _again(self, draft: _Draft) -> _Draft | None:
        """Return a request decided anew on fresh state; None when it needs no decision."""
        await self._services.fresh()
        if draft.asked is not None:
            return await self._of_asked(draft.asked)
        found = self._services.cache.at(draft.made.key)
        if not isinstance(found, Simulation) or found.status.phase is not SimulationPhase.QUEUED:
            return None
        return self._of_stored(found)

    async def _doubtful(self, draft: _Draft, problem: errors.LabfleetError) -> None:
        """Find out what became of a commit whose answer was lost, and answer by that.

        What cannot be looked up stays counted until all is counted anew: rather too much than twice.
        """
        if not isinstance(problem, errors.Ambiguous):
            self._judge().drop(draft.made)
        else:
            try:
                await self._services.fresh()
            except errors.LabfleetError:
                self._lost = True
            found = self._services.cache.at(draft.made.key)
            same = found is not None and found.metadata.uid == draft.made.metadata.uid
            if same and isinstance(found, Simulation) and found.status.decision is not None:
                if draft.asked is not None:
                    self._services.asked.answer(draft.asked, found)
                return
            if not self._lost:
                self._judge().drop(draft.made)
        if draft.asked is not None:
            self._services.asked.refuse(draft.asked, problem)


def named(services: ServiceContext, namespace: str) -> Metadata:
    """Return the metadata of a new simulation, named after its uid."""
    uid = services.ids.uid()
    return Metadata(
        name=f"sim-{uid.replace('-', '')[:20]}",
        namespace=namespace,
        uid=uid,
        generation=1,
        creation_timestamp=services.clock.now(),
    )


def _turn(each: Simulation) -> tuple[int, float, str]:
    """Return the place in the line: the greater priority, then the earlier request."""
    at = each.status.asked_at
    return (-each.spec.priority, 0.0 if at is None else at.timestamp(), each.name)


def _ask_again(why: str) -> errors.Temporary:
    return errors.Temporary(f"{why}; ask again", reason="Starting", retry_after=1)


def _no_cluster(services: ServiceContext, asked: Asked, cluster: Cluster | None) -> errors.Invalid:
    name = asked.spec.cluster
    if cluster is not None:
        what = f"cluster {name!r} is being deleted"
        return intake.invalid(("cluster", what), reason="ClusterTerminating")
    known = [each.name for each in services.cache.all(Cluster) if each.namespace == asked.namespace]
    what = f"cluster {name[:64]!r} does not exist" + intake.hint(name[:64], known)
    return intake.invalid(("cluster", what), reason="UnknownName")

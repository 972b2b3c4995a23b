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
from typing import TYPE_CHECKING

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Resource
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.service.core import ledger_rows
from labfleet.service.core.idempotency import Memo
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.verbs.drafting import Draft, Drafter

if TYPE_CHECKING:
    from labfleet.decisions.admission.load import Load

BATCH = 100
"""Requests of this process that one round decides."""
TRIES = 5
"""How often a request is decided anew after its commit met another write."""
ACTOR = "admission"
_REASONS = {SimulationPhase.QUEUED: "Queued", SimulationPhase.DENIED: "Denied"}


class Decider:
    """Decides on simulations; only one call of `round` runs at a time."""

    def __init__(self, services: ServiceContext) -> None:
        self._services = services
        self._drafter = Drafter(services)
        self._lost = False
        self.rests = True
        """Whether no round is under way: what is counted is what is stored and read, no more."""

    @property
    def loads(self) -> Mapping[str, Load]:
        """The loads that are kept, by the path of their cluster."""
        return self._drafter.loads

    async def round(self, fence: stores.Fence | None) -> bool:
        """Decide what waits here and in the store; return whether more may be decided now."""
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
        asked = services.asked.take(BATCH)
        done: list[int | BaseException] = []
        try:
            drafts = await self._drafter.drafts(asked)
            done = await asyncio.gather(
                *(self._record(each, fence) for each in drafts), return_exceptions=True
            )
        finally:
            # Cut off or no longer leading: nobody may wait for an answer that does not come.
            for each in asked:
                if not each.answer.done() and not services.asked.waits(each):
                    services.asked.refuse(each, _ask_again("the server is being changed over"))
        for outcome in done:
            if isinstance(outcome, BaseException):
                raise outcome
        # What lay in the store is found decided in the next round, not undecided once more.
        last = max((each for each in done if isinstance(each, int)), default=0)
        if any(each.asked is None for each in drafts):
            await services.reached(last)
        return bool(len(services.asked)) or (bool(drafts) and not asked) or services.learning.waits

    def forget(self) -> None:
        """Count everything anew at the next question: another process may have decided since."""
        self._drafter.forget()
        self._lost = False

    async def _record(self, draft: Draft, fence: stores.Fence | None) -> int:
        """Commit a decision and answer its caller; after a conflict it is decided anew.

        Returns the commit's revision, 0 when it did not happen. Raises Fenced when this process no
        longer leads.
        """
        try:
            revision, stored = await self._save(draft, fence)
        except errors.Fenced:
            self._drafter.take_back(draft)
            raise
        except errors.Conflict as problem:
            self._drafter.take_back(draft)
            await self._anew(draft, problem)
        except errors.LabfleetError as problem:
            await self._doubtful(draft, problem)
        else:
            self._services.cache.wrote(stored[0])
            if draft.asked is not None and isinstance(stored[0], Simulation):
                self._services.asked.answer(draft.asked, stored[0])
            return revision
        return 0

    async def _save(
        self, draft: Draft, fence: stores.Fence | None
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

    async def _anew(self, draft: Draft, problem: errors.Conflict) -> None:
        """Let a request be decided again on fresh state, if nobody has answered its key.

        One of the store is found again by itself.
        """
        services, asked = self._services, draft.asked
        await services.fresh()
        if asked is None:
            found = services.cache.at(draft.made.key)
            if isinstance(found, Simulation):
                self._drafter.follow(found)
            return
        if asked.key is not None and await services.replies.reply(asked.key) is not None:
            services.asked.refuse(asked, problem)  # Its caller reads the stored answer.
        elif asked.tries >= TRIES:
            services.asked.refuse(asked, _ask_again("the cluster is being changed by many"))
        else:
            services.asked.again(asked)

    async def _doubtful(self, draft: Draft, problem: errors.LabfleetError) -> None:
        """Find out what became of a commit whose answer was lost, and answer by that.

        What cannot be looked up stays counted until all is counted anew: rather too much than twice.
        """
        services = self._services
        if isinstance(problem, errors.Ambiguous):
            try:
                await services.fresh()
            except errors.LabfleetError:
                self._lost = True
            found = services.cache.at(draft.made.key)
            same = found is not None and found.metadata.uid == draft.made.metadata.uid
            if same and isinstance(found, Simulation) and found.status.decision is not None:
                if draft.asked is not None:
                    services.asked.answer(draft.asked, found)
                return
        if not self._lost:
            self._drafter.take_back(draft)
        if draft.asked is not None:
            services.asked.refuse(draft.asked, problem)


def _ask_again(why: str) -> errors.Temporary:
    return errors.Temporary(f"{why}; ask again", reason="Starting", retry_after=1)

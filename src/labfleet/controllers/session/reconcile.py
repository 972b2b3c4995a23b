"""Reconciles one session: observe, settle an open effect, decide, record, act."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.controllers.session import act, circumstances, observer
from labfleet.controllers.session.lab_samples import LabSamples
from labfleet.controllers.session.usage_report import UsageReporter
from labfleet.decisions import lab_use
from labfleet.decisions.lifecycle.session import budget, promise
from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.interfaces.lab_host import LabHost
from labfleet.kernel import errors
from labfleet.resources import refs
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Effect, Key
from labfleet.resources.session import TERMINAL, LabStatus, Session, SessionStatus
from labfleet.resources.session_conditions import SessionReason
from labfleet.service.core import access, ledger_rows
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import paid_rows, past_runs
from labfleet.service.verbs import observations

ACTOR = "session-controller"


class SessionController:
    """Reconciles sessions from SCHEDULED to their end; PENDING ones expire here too."""

    def __init__(
        self, context: Context, services: ServiceContext, samples: LabSamples | None = None
    ) -> None:
        """Take what measures labs; with None nobody does."""
        self.context = context
        self._samples = samples
        self._look = observer.SessionObserver(context)
        self._actions = act.Actions(context, services.kept, services.aside)
        self._observer = UsageReporter(context)
        self._services = services

    async def reconcile(self, key: Key) -> Done | Again:
        """Take one step for the session of this key."""
        session = self.context.cache.get(Session, key.name, key.namespace)
        if session is None:
            return Done()
        if self._samples is not None and not session_phases.is_live(session):
            self._samples.forget(session)
        effect = session.status.effect
        # Computed before the look-up: a lab may appear during it.
        over = effect is not None and self.context.effects.overdue(effect)
        sight = await self._look.at(session)
        if effect is not None:
            if not over and not self._settled(effect, sight.seen):
                return Again(2.0)
            session = _without_effect(session)
        if sight.host is not None and sight.spare:
            cleared = await self._clear(session, sight.host, sight.spare[0])
            if cleared is None:
                return Again(1.0)
            session = cleared
        seen = await self._measured(session, sight)
        step = lifecycle.decide(session, seen, self.context.clock.now())
        if step.action is None or sight.host is None:
            session = await self._record(session, step)
            return Again(step.again) if session_phases.is_live(session) else Done()
        if step.action == "observe":
            return await self._observe(session, step, sight.host)
        return await self._act(session, step, sight.host)

    async def _measured(
        self, session: Session, sight: observer.LabObservation
    ) -> lifecycle.SessionObservation:
        """Return what was seen, with what its lab has used where that is worth recording."""
        seen, status = sight.seen, session.status
        if self._samples is None or sight.host is None or seen.lab is None:
            return seen
        if not self.context.settings.now().observation.enabled:
            return seen
        use = await self._samples.look(session, sight.host)
        if use is None:
            return seen
        now = use.used()
        if not lab_use.worth_recording(status.used, status.measured, now, use.readings):
            return seen
        return replace(seen, used=now, measured=use.readings)

    def _settled(self, effect: Effect, seen: lifecycle.SessionObservation) -> bool:
        """Tell whether the outcome of an effect is known although its call may not be over.

        An import is found by its marker. Once the call is surely over, the other calls are
        safe to repeat, and an import is repeated only when a look finds no lab of ours.
        """
        if self.context.effects.known_not_done(effect) or seen.host_dead:
            return True
        return effect.kind == "import" and seen.lab is not None

    async def _clear(self, session: Session, host: LabHost, spare: str) -> Session | None:
        """Do one step in removing a second lab with our marker; None when it was done.

        Best effort: when CML refuses, the session continues, and its end finds the lab again.
        """
        kind = await act.next_removal(host, spare)
        if kind is None:
            return None
        effect = self.context.effects.open(
            kind, deadline=act.DEADLINE, parameters={"marker": session.metadata.uid, "lab": spare}
        )
        before = session.status
        status = msgspec.structs.replace(before, effect=effect)
        session = await self._save(session, status, f"{kind} of the spare lab {spare}")
        try:
            await self._actions.remove(effect, host, spare)
        except errors.Ambiguous:
            raise
        except errors.LabfleetError as problem:
            told = f"{kind} of the spare lab {spare} failed: {problem.message}"
            return await self._save(_without_effect(session), before, told)
        await self._save(_without_effect(session), before, f"{kind} of the spare lab {spare}")
        return None

    async def _act(self, session: Session, step: lifecycle.Step, host: LabHost) -> Done | Again:
        marker = session.metadata.uid
        effect = self.context.effects.open(
            step.action or "", deadline=act.DEADLINE, parameters={"marker": marker}
        )
        lab = step.status.lab or LabStatus(title=observer.lab_title(session), marker=marker)
        step = replace(step, status=msgspec.structs.replace(step.status, lab=lab))
        session = await self._record(session, step, effect)
        try:
            outcome = await self._actions.perform(session, host, step.action or "")
        except errors.Ambiguous as problem:
            # The effect stays open; report the unknown outcome, for it may outlast the budget.
            told = f"{step.action}: outcome unknown, looking for it: {problem.message}"[:500]
            status = msgspec.structs.replace(session.status, message=told)
            await self._save(session, status, told)
            raise
        except errors.LabfleetError as problem:
            await self._failed(session, step.action or "", problem)
            raise
        return await self._after(session, outcome)

    async def _failed(self, session: Session, action: str, problem: errors.LabfleetError) -> None:
        """Close the effect after a definite failure and record the error; the queue backs off.

        Before an import a look has found no lab of ours, so after one that certainly did nothing
        there is none: its record goes, and the session may leave a worker that does not answer.
        """
        status = msgspec.structs.replace(
            session.status, effect=None, message=f"{action}: {problem.message}"[:500]
        )
        if action == "import":
            status = msgspec.structs.replace(status, lab=None)
        await self.context.record(
            session, status=status, actor=ACTOR, reason=f"{action} failed: {problem.reason}"
        )

    async def _after(self, session: Session, outcome: act.ActionResult) -> Done | Again:
        """Record the call's result and close its effect in one commit."""
        session = _without_effect(session)
        lab = session.status.lab
        if outcome.lab_id is not None and lab is not None:
            lab = observer.replace_lab(lab, id=outcome.lab_id, state="DEFINED_ON_CORE")
            status = msgspec.structs.replace(session.status, lab=lab)
            await self._save(session, status, f"imported as {outcome.lab_id}")
            return Again(0.0)
        if outcome.refused is not None:
            seen = replace(self._look.known(session), refused=outcome.refused)
            await self._record(session, lifecycle.decide(session, seen, self.context.clock.now()))
            return Again(0.0)
        await self._save(session, session.status, session.status.message or "done")
        return Again(1.0)

    async def _observe(self, session: Session, step: lifecycle.Step, host: LabHost) -> Done | Again:
        """Observe, report through the service, and record that this was tried."""
        session = await self._record(session, step)
        asked = session.spec.observe_requested
        person = session.spec.observe_requested_by if lifecycle.asked_anew(session) else ""
        use = None
        if self._samples is not None and self.context.settings.now().observation.enabled:
            use = await self._samples.look(session, host, last=True)
        found = await self._observer.look(session, host, use, person)
        told = found if isinstance(found, str) else ""
        if not isinstance(found, str):
            try:
                await observations.record(
                    self._services,
                    Caller(access.SYSTEM),
                    session.name,
                    session.metadata.namespace,
                    resources=found,
                    ports=found.observed_ports,
                    fence=self.context.fence(),
                )
            except errors.LabfleetError as problem:
                told = problem.message
        fresh = await self.context.objects.get(Session, session.name, session.metadata.namespace)
        if fresh is None:
            return Done()
        status = msgspec.structs.replace(fresh.status, observe_handled=asked)
        status = lifecycle.collected(fresh, status, told, self.context.clock.now())
        await self.context.record(
            fresh, status=status, actor=ACTOR, reason=told or "resources observed"
        )
        return Again(0.0)

    async def _record(
        self, session: Session, step: lifecycle.Step, effect: Effect | None = None
    ) -> Session:
        writes: tuple[stores.Write, ...] = ()
        worker = refs.worker_of(session)
        if step.release and worker is not None:
            writes = (
                stores.FreePorts(worker=worker.key.path, owner=session.metadata.uid),
                ledger_rows.touch(ledger_rows.of(worker.key)),
            )
        writes += self._taught(session, step)
        there, now = self.context.cache.find(worker), self.context.clock.now()
        stay = paid_rows.of_session(session, step.status, there, now)
        writes += () if stay is None else (stores.Teach(stay),)
        status = msgspec.structs.replace(self._judged(session, step.status), effect=effect)
        return await self._save(
            session, status, status.message or status.phase, step.finalizers, writes
        )

    def _judged(self, session: Session, status: SessionStatus) -> SessionStatus:
        """Return the status with what became of the session's promise, when this step decides it."""
        now, claim = self.context.clock.now(), session.status.claim
        grace = budget.of(session, self.context.cache.find(refs.definition_of(session))).grace
        found = promise.outcome(session, status, timedelta(seconds=grace), now)
        if found is None or claim is None:
            return status
        why = SessionReason.IN_TIME
        if found == "missed":
            why = promise.cause(status.reason, circumstances.around(self.context, session, claim))
        return promise.judged(status, why, now)

    def _taught(self, session: Session, step: lifecycle.Step) -> tuple[stores.Write, ...]:
        """Return the write that keeps a session's run when it ends with this step."""
        if session_phases.is_live(session) and step.status.phase in TERMINAL:
            cache, pin = self.context.cache, step.status.definition
            definition = None
            if pin is not None:
                definition = cache.get(Definition, pin.name, session.namespace)
                if definition is not None and definition.metadata.uid != pin.uid:
                    definition = None  # another has the name by now
            worker = cache.find(refs.worker_of(session))
            run = past_runs.of_session(session, step.status, definition, worker)
            return () if run is None else (stores.Teach(run),)
        return ()

    async def _save(
        self,
        session: Session,
        status: object,
        reason: str,
        finalizers: tuple[str, ...] | None = None,
        writes: tuple[stores.Write, ...] = (),
    ) -> Session:
        key = session.key
        stored = self.context.cache.at(key)
        if not isinstance(stored, Session) or stored.revision != session.revision:
            raise errors.Conflict(f"{key} changed while it was looked at")
        return await self.context.record(
            stored,
            status=status,
            finalizers=finalizers,
            actor=ACTOR,
            reason=reason,
            writes=writes,
        )


def _without_effect(session: Session) -> Session:
    return msgspec.structs.replace(
        session, status=msgspec.structs.replace(session.status, effect=None)
    )

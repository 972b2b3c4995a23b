"""Deliberate breaks of product code, one for each rule that a rehearsal watches.

A break edits the product (never a world, never the checker) through `monkeypatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from labfleet.adapters.aws import launches
from labfleet.controllers import placeable
from labfleet.controllers.context import Context
from labfleet.controllers.scheduler import Scheduler
from labfleet.controllers.session.reconcile import SessionController
from labfleet.controllers.worker import inventory, launch
from labfleet.controllers.worker import observer as worker_look
from labfleet.decisions import (
    demand,
    garbage,
    ledger,
    pausing,
    placement,
    pool_status,
    port_numbers,
)
from labfleet.decisions.lifecycle.session import decide as session_rules
from labfleet.decisions.lifecycle.session import start as session_start
from labfleet.decisions.lifecycle.worker import decide as worker
from labfleet.decisions.lifecycle.worker import down as worker_down
from labfleet.decisions.lifecycle.worker import draft as worker_draft
from labfleet.decisions.lifecycle.worker import idle_rule
from labfleet.decisions.lifecycle.worker import up as worker_up
from labfleet.decisions.lifecycle.worker.calls import Call
from labfleet.engine.controller import Again
from labfleet.interfaces import store as stores
from labfleet.rehearsal import faults
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources.held_ports import FIRST
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import FINALIZER_MACHINE, WorkerPhase
from labfleet.service.verbs import adoption
from labfleet.stores import sqlite

Patch = pytest.MonkeyPatch
SHORT = Options(hours=6)
TIGHT = Options(hours=6, workers=1, sessions=240)
CROWDED = Options(hours=3, workers=1, sessions=480)


@dataclass(frozen=True)
class Break:
    """What is broken, which rule must notice, in which fleet, from which seed on to look."""

    rule: str
    apply: Callable[[Patch], None]
    options: Options = SHORT
    first: int = 1
    """The seed that shows the break soonest, as measured: the search begins there. A later change
    may move it; a break that takes more than some seconds wants another one."""


def drop_the_token(patch: Patch) -> None:
    """Send every launch with a token of its own, and do not look before sending again."""
    count = iter(range(10**9))
    before = launch.Launcher.request

    def request(self: Any, *args: Any) -> Any:
        return replace(before(self, *args), token=f"fresh-{next(count)}")

    async def look_up(self: Any, *_: Any) -> Call:
        return Call("over")

    patch.setattr(launch.Launcher, "request", request)
    patch.setattr(launch.Launcher, "look_up", look_up)


def place_blindly(patch: Patch) -> None:
    """Believe that everything fits."""
    patch.setattr(ledger, "shortages", lambda *args, **kwargs: ())
    patch.setattr(ledger, "less", lambda capacity, held: capacity)
    patch.setattr(placement.ledger, "peak", lambda *args: placement.Amounts())


def overstay(patch: Patch) -> None:
    """Leave a lab on its server for 20 minutes after its end; no rule forbids that."""
    # private _record, _HANDLERS, _finish, _RULES, _save, _workers: the product is broken at
    # exactly this step
    before = session_rules._HANDLERS[SessionPhase.STOPPING]

    def stopping(draft: Any) -> Any:
        wait = draft.age < timedelta(minutes=20)
        return draft.stay("it may stay a while", again=60.0) if wait else before(draft)

    patch.setitem(session_rules._HANDLERS, SessionPhase.STOPPING, stopping)


def come_too_early(patch: Patch) -> None:
    """Let a booked lab come up although its room is still held by one past its end."""
    overstay(patch)
    patch.setattr(session_start, "room_held", lambda *args: "")


def free_ports_early(patch: Patch) -> None:
    """Give a session's ports back when its teardown begins, not when its lab is gone.

    All labs have one home, so that what is free too early is soon given to another.
    """
    patch.setattr(port_numbers, "home", lambda *_: FIRST)
    before = SessionController._record

    async def record(self: Any, session: Any, step: Any, effect: Any = None) -> Any:
        if step.status.phase is SessionPhase.RUNNING and session.status.worker:
            await self.context.objects.store.commit(
                stores.Commit(
                    cause=self.context.cause("session-controller", "early"),
                    writes=(
                        stores.FreePorts(
                            worker=f"{session.namespace}/{session.status.worker}",
                            owner=session.metadata.uid,
                        ),
                    ),
                    fence=self.context.leadership.fence,
                )
            )
        return await before(self, session, step, effect)

    patch.setattr(SessionController, "_record", record)


def forget_labs(patch: Patch) -> None:
    """End a session without deleting its lab."""
    patch.setitem(session_rules._HANDLERS, SessionPhase.STOPPING, session_rules._finish)


def write_without_fence(patch: Patch) -> None:
    """Let controllers write without their fencing token."""

    async def write(
        self: Any, *objects: Any, actor: str, reason: str, writes: Any = (), preconditions: Any = ()
    ) -> Any:
        revision, stored = await self.objects.save(
            *objects,
            cause=self.cause(actor, reason),
            writes=writes,
            preconditions=preconditions,
        )
        await self.cache.reached(revision)
        return stored

    patch.setattr(Context, "write", write)


def believe_in_the_end(patch: Patch) -> None:
    """Call an instance gone when its end was asked for."""
    for module in (worker_draft, worker_down, worker):
        patch.setattr(module, "gone", lambda draft: True)


def ignore_sessions(patch: Patch) -> None:
    """Count no sessions on a worker that is to stop."""
    patch.setattr(worker_look, "live_sessions", lambda here: 0)


def forget_licences(patch: Patch) -> None:
    """Let go of a licence without giving it back and without a word."""
    patch.setattr(worker_draft, "must_return_licence", lambda draft: False)
    from labfleet.decisions.lifecycle.worker import hosting as worker_hosting

    for module in (worker_hosting, worker_up):
        patch.setattr(module, "must_return_licence", lambda draft: False)

    def drop(draft: Any, why: str) -> None:
        draft.drop("labfleet/cml-licence")

    for module in (worker_down, worker_up, worker):
        patch.setattr(module, "leak", drop)
    patch.setattr(worker_draft.Draft, "licence_held", property(lambda self: False))


def leak_for_nothing(patch: Patch) -> None:
    """Record a leak instead of giving the licence back."""

    def unlicensing(draft: Any) -> Any:
        worker_draft.leak(draft, "lazy")
        return draft.go(WorkerPhase.STOPPING, "lazy")

    patch.setitem(worker._RULES, WorkerPhase.UNLICENSING, unlicensing)


def tag_wrongly(patch: Patch) -> None:
    """Launch machines that carry another worker's identity."""
    before = launch.Launcher.request
    patch.setattr(
        launch.Launcher,
        "request",
        lambda self, *args: replace(before(self, *args), worker_uid="somebody-else"),
    )


def say_nothing(patch: Patch) -> None:
    """Record no reason for waiting."""

    async def wait(self: Any, *given: Any) -> int:
        return 0

    patch.setattr(Scheduler, "_wait", wait)


def hammer(patch: Patch) -> None:
    """List all machines for every look at one of them."""

    async def find(self: Any, region: str, instance_id: str) -> Any:
        for _ in range(200):
            await self._compute.describe(region, instance_id)
        return await self._compute.describe(region, instance_id)

    patch.setattr(inventory.Inventory, "find", find)


def lose_events(patch: Patch) -> None:
    """Remove objects without removing their rows."""
    before = sqlite.SqliteDatabase._save

    def save(self: Any, plan: Any) -> None:
        plan.dropped.clear()
        before(self, plan)

    patch.setattr(sqlite.SqliteDatabase, "_save", save)


def never_finish(patch: Patch) -> None:
    """Stop halfway through a teardown."""
    patch.setitem(
        session_rules._HANDLERS, SessionPhase.STOPPING, lambda draft: draft.stay("resting")
    )


def skip_a_phase(patch: Patch) -> None:
    """Say RUNNING before READY."""

    def booting(draft: Any, lab: Any) -> Any:
        draft.set(phase=SessionPhase.RUNNING)
        return session_rules.Step(draft.status, draft.finalizers)

    patch.setattr(session_rules, "_booting", booting)


def crash(patch: Patch) -> None:
    """Trip over a missing field in the pool's decision."""
    patch.setattr(pool_status, "after", lambda *args: msgspec.UNSET.missing)


def stop_without_looking_again(patch: Patch) -> None:
    """Ask for an idle stop on the strength of the first look, whatever the whole one shows."""
    before = idle_rule.judge

    def believe(worker: Any, finding: Any, now: Any) -> Any:
        found = before(worker, finding, now)
        withdrawn = finding.whole and found.wish is idle_rule.Wish.WITHDRAW
        if not withdrawn:
            return found
        return idle_rule.Judgement(idle_rule.Wish.STOP, found.why, found.verdict)

    patch.setattr(idle_rule, "judge", believe)


def adopt_everything(patch: Patch) -> None:
    """Take whatever discovery finds for our own, unasked."""
    before = adoption._workers

    def workers(*args: Any) -> Any:
        found = []
        for each in before(*args):
            origin = msgspec.structs.replace(each.spec.origin, managed=True)
            spec = msgspec.structs.replace(each.spec, origin=origin)
            found.append(msgspec.structs.replace(each, spec=spec))
        return found

    patch.setattr(adoption, "_workers", workers)


def act_while_paused(patch: Patch) -> None:
    """Let a pool do what it decided on although somebody paused it."""
    patch.setattr(pausing, "held", lambda decision, paused, **rest: decision)


def sweep_everything(patch: Patch) -> None:
    """Sweep what its tag protects, too."""
    before = garbage.leftover
    patch.setattr(garbage, "leftover", lambda found, known, tag: before(found, known, "no such"))


def release_early(patch: Patch) -> None:
    """Give room and ports back when a session's time is over, while its lab stands."""

    def collect(draft: Any, outcome: SessionPhase, reason: str, message: str) -> Any:
        draft.set(outcome=outcome, outcome_message=message)
        return draft.go(SessionPhase.COLLECTING, reason, message, release=True)

    patch.setattr(session_rules, "_collect", collect)


def forget_ports_early(patch: Patch) -> None:
    """Give a session's ports back while it runs, and forget that it had any; all have one home."""
    patch.setattr(port_numbers, "home", lambda *_: FIRST)
    before = SessionController._record

    async def record(self: Any, session: Any, step: Any, effect: Any = None) -> Any:
        if step.status.phase is SessionPhase.RUNNING and session.status.ports:
            status = msgspec.structs.replace(step.status, ports=(), effect=effect)
            freed = stores.FreePorts(
                worker=f"{session.namespace}/{session.status.worker}", owner=session.metadata.uid
            )
            return await self._save(session, status, "early", step.finalizers, (freed,))
        return await before(self, session, step, effect)

    patch.setattr(SessionController, "_record", record)
    # The worker's look would take the tags of such a lab for a stranger's and avoid them.
    patch.setattr(port_numbers, "claims", lambda nodes: set())


def give_out_held_ports(patch: Patch) -> None:
    """Give out numbers that labs are known to name unasked; all have one home, beside which they are."""
    patch.setattr(port_numbers, "home", lambda *_: FIRST)
    patch.setattr(placeable, "_foreign", lambda worker: set())


def ask_for_a_tenth(patch: Patch) -> None:
    """Reserve a tenth of what a lab's nodes want."""
    before = demand.of

    def of(*args: Any, **kwargs: Any) -> Any:
        found = before(*args, **kwargs)
        small = {
            name: getattr(found.amounts, name) // 10
            for name in ("cpu_milli", "memory_mib", "storage_mib", "nodes")
        }
        return replace(found, amounts=msgspec.structs.replace(found.amounts, **small))

    patch.setattr(demand, "of", of)


def forget_the_machine(patch: Patch) -> None:
    """Say TERMINATED without asking EC2, with the instance id forgotten first."""

    def terminating(draft: Any) -> Any:
        worker_draft.leak(draft, "the instance ended before the licence was returned")
        draft.set(machine=MachineStatus())
        draft.drop(FINALIZER_MACHINE)
        return draft.go(WorkerPhase.TERMINATED, "terminated")

    patch.setitem(worker._RULES, WorkerPhase.TERMINATING_EC2, terminating)


def stop_the_busy(patch: Patch) -> None:
    """Stop a busy worker once it has been up for a while."""
    for phase in (WorkerPhase.READY, WorkerPhase.ACTIVE):
        before = worker._RULES[phase]

        def rule(draft: Any, before: Any = before) -> Any:
            if draft.seen.sessions and draft.status.effect is None and draft.late(1260):
                return draft.stay("resting", do="stop")
            return before(draft)

        patch.setitem(worker._RULES, phase, rule)


def two_without_a_tag(patch: Patch) -> None:
    """Launch twice, with no tag that tells for whom."""
    drop_the_token(patch)
    before = launches.tags_of

    def tags_of(*args: Any) -> Any:
        found = before(*args)
        return {key: found[key] for key in found if key != launches.WORKER_UID}

    patch.setattr(launches, "tags_of", tags_of)


def tidy_up_at_once(patch: Patch) -> None:
    """Drop a session's open effect on sight, as if the leader before had done nothing."""
    before = SessionController.reconcile

    async def reconcile(self: SessionController, key: Any) -> Any:
        session = self.context.cache.get(Session, key.name, key.namespace)
        effect = None if session is None else session.status.effect
        if session is None or effect is None or self.context.effects.known_not_done(effect):
            return await before(self, key)
        status = msgspec.structs.replace(session.status, effect=None)
        await self.context.record(session, status=status, actor="session-controller", reason="")
        return Again(1.0)

    patch.setattr(SessionController, "reconcile", reconcile)


KILLED_AT_ANSWER = tuple(word for word in faults.KINDS if word != "killed_at_answer")
"""Without these, all that goes wrong are kills between an answer and its record."""

LOST_ANSWERS = Options(
    hours=1,
    workers=16,
    sessions=60,
    without=tuple(
        word for word in faults.KINDS if word not in {"call_lost_after", "instance_death"}
    ),
)
"""Many launches, some of whose answers are lost."""

BREAKS: dict[str, Break] = {
    "drop_the_token_of_a_lost_answer": Break(
        "operation",
        drop_the_token,
        Options(hours=2, sessions=120, without=KILLED_AT_ANSWER),
        first=101,
    ),
    "tidy_up_at_once": Break("operation", tidy_up_at_once),
    "release_early": Break("capacity", release_early, TIGHT),
    "forget_ports_early": Break("port", forget_ports_early),
    "ask_for_a_tenth": Break("capacity", ask_for_a_tenth, TIGHT),
    "forget_the_machine": Break("terminated", forget_the_machine),
    "stop_the_busy": Break("hosting", stop_the_busy),
    "two_without_a_tag": Break("one-instance", two_without_a_tag, LOST_ANSWERS, first=5),
    "sweep_everything": Break("stranger", sweep_everything, Options(hours=2), first=134),
    "act_while_paused": Break("paused", act_while_paused, first=5),
    "adopt_everything": Break("stranger", adopt_everything, Options(hours=2, sessions=20)),
    "stop_without_looking_again": Break("idle", stop_without_looking_again, first=7),
    "drop_the_token": Break("one-instance", drop_the_token, LOST_ANSWERS, first=5),
    "place_blindly": Break("capacity", place_blindly, TIGHT),
    "come_too_early": Break(
        "capacity",
        come_too_early,
        Options(hours=3, workers=1, sessions=120, harshness="none", replicas=1),
        first=7,
    ),
    "free_ports_early": Break("port", free_ports_early),
    "give_out_held_ports": Break("port", give_out_held_ports, first=6),
    "forget_labs": Break("lab-finalizer", forget_labs),
    "write_without_fence": Break("fence", write_without_fence),
    "believe_in_the_end": Break("terminated", believe_in_the_end),
    "ignore_sessions": Break("hosting", ignore_sessions, Options(hours=6, sessions=120), first=5),
    "forget_licences": Break("licence", forget_licences),
    "leak_for_nothing": Break(
        "leak", leak_for_nothing, Options(hours=6, sessions=80, harshness="none"), first=2
    ),
    "tag_wrongly": Break("orphan", tag_wrongly),
    "say_nothing": Break("reason", say_nothing, CROWDED, first=2),
    "hammer": Break("budget", hammer, Options(hours=2, sessions=200), first=3),
    "lose_events": Break("replay", lose_events, Options(hours=1, sessions=8)),
    "never_finish": Break(
        "liveness", never_finish, Options(hours=1, workers=2, sessions=16, replicas=1)
    ),
    "skip_a_phase": Break("edge", skip_a_phase),
    "crash": Break("bug", crash),
}

"""The rules for a worker on its way up: launched, booting, licensing."""

from __future__ import annotations

from labfleet.decisions.lifecycle.worker import health as worker_health
from labfleet.decisions.lifecycle.worker import limits, phases, settle
from labfleet.decisions.lifecycle.worker import outside as worker_outside
from labfleet.decisions.lifecycle.worker.calls import Offer
from labfleet.decisions.lifecycle.worker.draft import (
    CHECK,
    SOON,
    Draft,
    P,
    Step,
    leak,
    must_return_licence,
    note_server,
    seen_twice,
    stage_reason,
    surely_unregistered,
    takes_licence,
    wants_licence,
)
from labfleet.kernel import errors
from labfleet.resources.worker import FINALIZER_LICENCE, FINALIZER_MACHINE
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason


def pending(draft: Draft) -> Step:
    """Launch, or end before anything exists."""
    if phases.desire(draft.worker) != "Ready":
        draft.drop(FINALIZER_MACHINE)
        return draft.go(P.TERMINATED, "ended before anything was launched")
    if draft.worker.spec.machine is None:
        return draft.fail(
            WorkerReason.NO_MACHINE, "spec.machine is empty: name a template that exists"
        )
    draft.hold(FINALIZER_MACHINE)
    draft.set(attempt=draft.status.attempt + 1)
    return draft.go(P.PROVISIONING_EC2, "launching", again=0.0)


def provisioning(draft: Draft) -> Step:
    """Launch until there is an instance, then wait until it runs."""
    machine = draft.status.machine
    want = phases.desire(draft.worker)
    if machine.id is None:
        if want != "Ready":
            return draft.go(P.TERMINATING_EC2, "ended while launching")
        if draft.answer.refused:
            return draft.fail(
                WorkerReason.LAUNCH_REFUSED, f"launch refused: {draft.answer.refused}"
            )
        if limits.late(draft):
            return draft.fail(
                WorkerReason.LAUNCH_TIMEOUT, f"no instance yet: {draft.seen.trouble or 'late'}"
            )
        return _launch(draft)
    if want == "Terminated":
        return draft.go(P.TERMINATING_EC2, "ended while the instance came up")
    if want == "Stopped" and machine.state == "running":
        return draft.go(P.STOPPING, "stopped while the instance came up")
    if draft.seen.machine is not None and machine.state == "running":
        return draft.go(P.EC2_READY, "instance is running")
    if limits.late(draft):
        return draft.fail(
            WorkerReason.LAUNCH_TIMEOUT, f"instance is {machine.state}, not running, for too long"
        )
    return draft.stay(f"instance is {machine.state or 'not visible yet'}")


def _launch(draft: Draft) -> Step:
    """Ask for the machine that the provider offers, or say why there is none now."""
    draft.set(attempt=max(draft.status.attempt, 1))
    offer = draft.seen.offer or Offer()
    if offer.held is not None:
        return settle.held(draft, offer.held)
    problem = offer.problem
    if isinstance(problem, errors.Invalid):
        return draft.fail(WorkerReason.LAUNCH_REFUSED, f"launch refused: {problem.message}")
    if isinstance(problem, errors.OutOfCapacity | errors.QuotaExceeded):
        return draft.stay(again=SOON)  # the next look says why
    if problem is not None:
        return settle.trouble(draft, problem)
    if offer.parameters is None:
        return draft.stay(again=offer.wait or SOON)
    return draft.stay("launching", again=SOON, do="launch")


def ec2_ready(draft: Draft) -> Step:
    """Wait for an address."""
    want = phases.desire(draft.worker)
    if want == "Terminated" and not draft.licence_held:
        return draft.go(P.TERMINATING_EC2, "ended before CML was up")
    if want == "Stopped" and not must_return_licence(draft):
        return draft.go(P.STOPPING, "stopped before CML was up")
    if draft.status.machine.public_address is None and draft.status.machine.private_address is None:
        if draft.seen.machine is not None and limits.late(draft):
            return draft.fail(WorkerReason.NO_ADDRESS, "the instance got no address")
        return draft.stay("waiting for an address", again=5.0)
    return draft.go(P.STARTING, "CML is starting")


def starting(draft: Draft) -> Step:
    """Wait for CML by stages, or leave the phase early when the worker is no longer wanted."""
    want, machine, seen = phases.desire(draft.worker), draft.status.machine, draft.seen
    # Sessions can be ended only on a server that answers: if any are bound, bring it up first.
    if want == "Terminated" and not draft.licence_held and not seen.sessions:
        return draft.go(P.TERMINATING_EC2, "ended while CML was starting")
    settled = machine.state in {"running", "stopped"} and not seen.sessions
    if want == "Stopped" and settled and not must_return_licence(draft):
        return draft.go(P.STOPPING, "stopped while CML was starting")
    late = limits.late(draft)
    if machine.state == "stopped" and not late:
        return draft.stay("starting the instance", again=5.0, do="start")
    if seen.stage == "ready" and seen.licence is not None:
        return _started(draft)
    detail = (
        seen.login_refused or seen.trouble or (seen.stage or "instance is " + str(machine.state))
    )
    why = worker_health.cause(seen.samples) if seen.stage == "not_ready" else ""
    if why:
        detail = f"{detail}: {why}"
    draft.fact(WorkerCondition.CML_READY, "False", stage_reason(seen), detail)
    if late:
        if want == "Terminated" and takes_licence(draft) and not seen.sessions:
            return draft.go(P.UNLICENSING, "returning the licence to a server that is not ready")
        if want == "Terminated":
            leak(draft, f"CML did not come up to return the licence: {detail}")
            return draft.go(P.TERMINATING_EC2, "licence could not be returned in time")
        return draft.fail(WorkerReason.BOOT_TIMEOUT, f"CML is not ready in time: {detail}")
    return draft.stay(f"waiting for CML: {detail}", again=5.0)


def _started(draft: Draft) -> Step:
    """CML answers: record its state, then license, host, or return the licence it holds."""
    note_server(draft)
    worker_health.note(draft)
    worker_outside.settled(draft)
    draft.fact(
        WorkerCondition.CML_READY, "True", WorkerReason.READY, f"CML {draft.status.cml.version}"
    )
    licence = draft.status.licence
    if licence.registered and not seen_twice(draft):
        draft.hold(FINALIZER_LICENCE)
    elif surely_unregistered(draft) or seen_twice(draft):
        draft.drop(FINALIZER_LICENCE)
    want, sessions = phases.desire(draft.worker), draft.seen.sessions
    if want != "Ready" and not sessions:
        if must_return_licence(draft):
            return draft.go(P.UNLICENSING, "returning the licence")
        target = P.STOPPING if want == "Stopped" else P.TERMINATING_EC2
        return draft.go(target, "nothing to return")
    draft.set(ready_since=draft.now, empty_since=draft.now)
    if licence.licensed:
        draft.fact(
            WorkerCondition.LICENSED, "True", WorkerReason.IN_COMPLIANCE, licence.product or ""
        )
        return draft.go(P.READY, "ready", again=CHECK)
    if wants_licence(draft) and not sessions:
        draft.hold(FINALIZER_LICENCE)
        return draft.go(P.LICENSING, "licensing", do="register")
    draft.fact(WorkerCondition.LICENSED, "False", WorkerReason.NO_LICENCE, "runs unlicensed")
    return draft.go(P.READY_UNLICENSED, "ready, unlicensed", again=CHECK)


def licensing(draft: Draft) -> Step:
    """Register until CML says that it is in compliance, with a deadline."""
    note_server(draft)
    licence = draft.status.licence
    if phases.desire(draft.worker) != "Ready":
        return draft.go(P.UNLICENSING, "ended while licensing")
    if licence.licensed and draft.seen.licence is not None:
        if _short_of_nodes(draft) and not limits.late(draft):
            have, want = licence.node_capacity, draft.seen.wanted_nodes
            again = _next_try(draft)
            return draft.stay(f"licence has {have} of {want} nodes", again=again, do="register")
        draft.fact(
            WorkerCondition.LICENSED, "True", WorkerReason.IN_COMPLIANCE, licence.product or ""
        )
        draft.set(ready_since=draft.now, empty_since=draft.now)
        return draft.go(P.READY, "ready", again=CHECK)
    told = f"registration {licence.registration}, authorization {licence.authorization}"
    if draft.answer.refused:
        draft.fact(WorkerCondition.LICENSED, "False", WorkerReason.REFUSED, draft.answer.refused)
        return draft.fail(WorkerReason.LICENCE_REFUSED, f"licence refused: {draft.answer.refused}")
    if limits.late(draft):
        draft.fact(WorkerCondition.LICENSED, "False", WorkerReason.TIMED_OUT, told)
        return draft.fail(WorkerReason.LICENCE_TIMEOUT, f"not licensed in time: {told}")
    draft.fact(WorkerCondition.LICENSED, "False", WorkerReason.IN_PROGRESS, told)
    begin = draft.seen.licence is not None and not licence.registered
    if begin and licence.registration != "IN_PROGRESS":
        return draft.stay(told, again=_next_try(draft), do="register")
    return draft.stay(told, again=5.0)


def _next_try(draft: Draft) -> float:
    """Return after how many seconds to register again: a quarter of the time spent, 5 to 60 s.

    A token that the licence cloud turns down later is asked with a dozen times, not each 5 s.
    """
    spent = (draft.now - (draft.status.phase_since or draft.now)).total_seconds()
    return min(max(5.0, spent / 4), 60.0)


def _short_of_nodes(draft: Draft) -> bool:
    """Tell whether the expansion nodes are not granted yet; only now can they be requested."""
    wanted, have = draft.seen.wanted_nodes, draft.status.licence.node_capacity
    return wanted is not None and have is not None and have < wanted and not draft.answer.refused

"""What people ask of a licence: done beside the sessions where CML allows it, and never a worker's end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, Cloud, machine, worker

from labfleet.decisions.lifecycle.worker import decide as workers
from labfleet.decisions.lifecycle.worker import licence_orders, phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Call
from labfleet.resources import conditions
from labfleet.resources.machine import TimeLimits
from labfleet.resources.meta import SecretRef
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    LicenceOrder,
    LicenceStatus,
    WorkerPhase,
)

P = WorkerPhase


class LicensedCloud(Cloud):
    """A worker whose CML has a product, tokens that are good or not, and calls that are counted."""

    product = "CML_Enterprise"
    token_good = True
    labs_of_others = False

    def __init__(self, **spec: Any) -> None:
        super().__init__(worker(**spec))
        self.calls: list[str] = []

    def see(self) -> workers.WorkerObservation:
        seen = super().see()
        if seen.licence is None:
            return seen
        registered = self.registration == "COMPLETED"
        product = self.product if registered else "CML_Free"
        return msgspec.structs.replace(
            seen, licence=msgspec.structs.replace(seen.licence, product=product)
        )

    def pass_time(self, seconds: float) -> None:
        failing = self.registration == "IN_PROGRESS" and not self.token_good
        super().pass_time(seconds)
        if failing and self.registration == "COMPLETED":
            self.registration = "FAILED"

    def do_register(self) -> Answer:
        self.calls.append("register")
        wanted = self.worker.spec.licensing
        assert wanted is not None
        if self.registration == "COMPLETED":
            if wanted.product != self.product:
                return Answer(refused="OtherProduct")
            if not licence_orders.anew(self.worker):
                return Answer()
        self.product, self.registration = wanted.product, "IN_PROGRESS"
        return Answer()

    def do_renew(self) -> Answer:
        self.calls.append("renew")
        return Answer() if self.registration == "COMPLETED" else Answer(refused="not registered")

    def do_deregister(self) -> Answer:
        self.calls.append("deregister")
        assert not self.sessions
        if self.labs_of_others:
            return Answer(nodes_running=True)
        return super().do_deregister()

    def do_stop_labs(self) -> None:
        self.calls.append("stop_labs")
        self.labs_of_others = False

    def order(self, verb: Any, name: str = "o-1", **given: Any) -> None:
        """Ask for something, as the verb does."""
        before = self.worker.spec.licence
        kept: dict[str, Any] = {}
        if before is not None:
            kept = {"licensed": before.licensed, "product": before.product, "token": before.token}
        if verb != "renew":
            kept["licensed"] = verb == "register"
        self.want(licence=LicenceOrder(id=name, verb=verb, at=self.now, **{**kept, **given}))

    def settled(self, steps: int = 400) -> str:
        """Live until the order is over; return how it ended and what the condition says."""
        for _ in range(steps):
            known, order = self.worker.status.licence.order, self.worker.spec.licence
            assert order is not None
            if known is not None and known.id == order.id and known.state in {"done", "refused"}:
                fact = conditions.find(self.worker.status.conditions, "LicenceOrdered")
                assert fact is not None
                assert fact.status == ("True" if known.state == "done" else "False")
                return known.state
            self.step()
        raise AssertionError(f"not over: {self.worker.status.licence} {self.worker.status.message}")

    @property
    def phase(self) -> WorkerPhase:
        return self.worker.status.phase

    def rest(self, steps: int = 30) -> None:
        """Live on for a while."""
        for _ in range(steps):
            self.step()


def hosting(*, auto: bool = True, sessions: int = 0) -> LicensedCloud:
    """A worker that is up, licensed when that happens by itself, with sessions on it."""
    made = machine()
    cloud = LicensedCloud(machine=msgspec.structs.replace(made, auto_license=auto))
    cloud.until(P.READY if auto else P.READY_UNLICENSED)
    cloud.sessions = sessions
    cloud.step()
    cloud.calls.clear()
    return cloud


def test_a_worker_registers_when_asked_and_is_ready() -> None:
    """Without autoLicense it stays unlicensed until somebody asks."""
    cloud = hosting(auto=False)
    cloud.rest()
    assert cloud.calls == []
    cloud.order("register")
    assert cloud.settled() == "done"
    cloud.until(P.READY)
    assert FINALIZER_LICENCE in cloud.worker.metadata.finalizers
    cloud.rest()
    assert cloud.registration == "COMPLETED"


def test_a_worker_registers_beside_its_sessions() -> None:
    """It never leaves ACTIVE for it: CML takes a licence while nodes run."""
    cloud = hosting(auto=False, sessions=3)
    cloud.order("register")
    since = len(cloud.trail)
    assert cloud.settled() == "done"
    assert set(cloud.trail[since:]) == {P.ACTIVE}
    assert cloud.sessions == 3
    cloud.sessions = 0
    cloud.until(P.READY)


def test_a_licence_goes_back_and_stays_away() -> None:
    """autoLicense does not take it again at once, nor after a stop; register does."""
    cloud = hosting()
    cloud.order("deregister")
    assert phases.drain_wanted(cloud.worker)
    assert cloud.settled() == "done"
    assert (cloud.registration, cloud.phase) == ("NOT_REGISTERED", P.READY_UNLICENSED)
    assert FINALIZER_LICENCE not in cloud.worker.metadata.finalizers
    cloud.want(desired="Stopped")
    cloud.until(P.STOPPED)
    cloud.want(desired="Ready")
    cloud.until(P.READY_UNLICENSED)
    cloud.rest()
    assert cloud.registration == "NOT_REGISTERED"
    assert cloud.calls == ["deregister"]
    cloud.order("register", "o-2")
    assert cloud.settled() == "done"
    cloud.until(P.READY)


def test_sessions_end_before_a_licence_goes_back() -> None:
    """With force the worker is emptied first; the deregistration waits for it."""
    cloud = hosting(sessions=2)
    cloud.order("deregister", force=True)
    assert phases.forced(cloud.worker, cloud.now) is PhaseReason.LICENCE_RETURNED
    assert cloud.settled() == "done"
    assert (cloud.sessions, cloud.calls) == (0, ["deregister"])
    assert not phases.forced(cloud.worker, cloud.now)
    cloud.rest()
    assert cloud.phase is P.READY_UNLICENSED


def test_what_others_run_is_only_stopped_by_force() -> None:
    """Without it the order is refused and the worker goes on with its licence."""
    cloud = hosting()
    cloud.labs_of_others = True
    cloud.order("deregister")
    assert cloud.settled() == "refused"
    assert (cloud.phase, cloud.registration) == (P.READY, "COMPLETED")
    cloud.rest()
    assert cloud.phase is P.READY
    assert "stop_labs" not in cloud.calls
    cloud.order("deregister", "o-2", force=True)
    assert cloud.settled() == "done"
    assert "stop_labs" in cloud.calls


def test_a_deregistration_that_lasts_too_long_is_refused() -> None:
    """The limit counts from when the licence begins to go back; the worker serves again."""
    cloud = hosting()
    cloud.do_deregister = Answer  # type: ignore[method-assign]
    begun = cloud.now
    cloud.order("deregister")
    assert cloud.settled() == "refused"
    assert cloud.now - begun > timedelta(seconds=TimeLimits().unlicense)
    assert cloud.phase is P.READY
    assert "in time" in cloud.worker.status.licence.order.message  # type: ignore[union-attr]
    assert cloud.worker.status.licence.leak is None


@pytest.mark.parametrize("seen", [None, False, True])
def test_an_order_given_up_keeps_what_nobody_sees_returned(seen: bool | None) -> None:
    """What was known before a call is no proof: the licence is let go of when it is seen to be gone."""
    before = worker()
    order = LicenceOrder(id="o-1", verb="register", at=START, renewed=True, force=True)
    known = LicenceStatus(registration="FAILED", registered=False, licensed=True)
    before = msgspec.structs.replace(
        before,
        metadata=msgspec.structs.replace(before.metadata, finalizers=(FINALIZER_LICENCE,)),
        spec=msgspec.structs.replace(before.spec, licence=order),
        status=msgspec.structs.replace(
            before.status, phase=P.UNLICENSING, phase_since=START, licence=known
        ),
    )
    sight = workers.WorkerObservation(
        stage="unreachable" if seen is None else "ready",
        licence=None
        if seen is None
        else LicenceStatus(
            registration="COMPLETED" if seen else "NOT_REGISTERED", registered=seen, licensed=seen
        ),
    )
    step = workers.decide(before, sight, START + timedelta(seconds=601))
    assert (FINALIZER_LICENCE in step.finalizers) is (seen is not False)


def test_an_order_that_is_taken_back_keeps_the_licence() -> None:
    """register while the licence is about to go back: the worker serves again at once."""
    cloud = hosting()
    cloud.do_deregister = Answer  # type: ignore[method-assign]
    cloud.order("deregister")
    cloud.until(P.UNLICENSING)
    cloud.order("register", "o-2")
    cloud.until(P.READY)
    assert cloud.settled() == "done"


def test_another_token_registers_anew_once() -> None:
    """Beside the sessions; the same order is not carried out twice."""
    cloud = hosting(sessions=1)
    cloud.order("register", token=SecretRef(env="OTHER"), renewed=True)
    assert cloud.worker.spec.licensing.token == SecretRef(env="OTHER")  # type: ignore[union-attr]
    assert cloud.settled() == "done"
    cloud.rest()
    assert (cloud.calls, cloud.sessions) == (["register"], 1)


def test_another_product_goes_by_way_of_no_licence() -> None:
    """CML changes the product only unregistered: emptied, given back, registered as the other."""
    cloud = hosting()
    cloud.order("register", product="CML_Personal40", renewed=True)
    assert cloud.settled() == "done"
    assert (cloud.product, cloud.registration) == ("CML_Personal40", "COMPLETED")
    assert cloud.calls[:2] == ["deregister", "register"]
    cloud.until(P.READY)
    cloud.rest()
    assert cloud.phase is P.READY


def test_a_bad_token_never_ends_the_worker() -> None:
    """The order is refused; the worker hosts on, and nothing tries the token again."""
    cloud = hosting(auto=False, sessions=1)
    cloud.token_good = False
    cloud.order("register", token=SecretRef(env="TYPO"), renewed=True)
    assert cloud.settled() == "refused"
    cloud.sessions = 0
    cloud.rest()
    assert cloud.phase is P.READY_UNLICENSED
    assert cloud.calls == ["register"]


def test_a_renewal_is_asked_for_once() -> None:
    """It needs a licence, and leaves everything else as it is."""
    cloud = hosting(sessions=1)
    cloud.order("renew")
    assert cloud.settled() == "done"
    assert cloud.worker.status.licence.renewed_at is not None
    cloud.rest()
    assert (cloud.calls, cloud.phase) == (["renew"], P.ACTIVE)
    without = hosting(auto=False)
    without.order("renew")
    assert without.settled() == "refused"
    assert without.calls == []


def test_an_order_does_not_shorten_the_patience_with_a_server() -> None:
    """Failed looks are counted: asked more often, a server would count as silent in 15 s."""
    cloud = hosting()
    cloud.order("renew")
    cloud.broken = True
    begun = cloud.now
    while cloud.worker.status.failed_checks < workers.TOLERATED_CHECKS:
        cloud.step()
    assert cloud.now - begun >= timedelta(seconds=2 * cloud.see().poll)
    cloud.broken = False
    assert cloud.settled() == "done"


def test_what_is_asked_of_a_stopped_worker_waits_for_it() -> None:
    """The order is heard at once and carried out when the server is up."""
    cloud = hosting()
    cloud.want(desired="Stopped")
    cloud.until(P.STOPPED)
    cloud.order("renew")
    cloud.step()
    known = cloud.worker.status.licence.order
    assert known is not None
    assert known.state == "waiting"
    cloud.want(desired="Ready")
    assert cloud.settled() == "done"


def test_a_registration_that_a_bad_token_cost_is_doubted() -> None:
    """CML forgets the old one at once; whether the licence cloud does is not known."""
    cloud = hosting()
    cloud.token_good = False
    cloud.order("register", token=SecretRef(env="TYPO"), renewed=True)
    assert cloud.settled() == "refused"
    leaked = conditions.find(cloud.worker.status.conditions, "LicenceLeaked")
    assert leaked is not None
    assert (leaked.status, leaked.reason) == ("Unknown", "OutcomeLost")


@pytest.mark.parametrize("verb", ["register", "renew"])
def test_a_call_whose_outcome_is_unknown_is_made_again(verb: str) -> None:
    """The process that asked is gone: what it asked for is safe to ask for twice."""
    cloud = hosting()
    cloud.order(verb, renewed=True)
    while not cloud.calls:
        cloud.step()
    cloud.call = Call("over")
    assert cloud.settled() == "done"
    assert cloud.calls == [verb, verb]


def test_a_call_that_cml_has_no_time_for_is_repeated_until_its_limit() -> None:
    """409: another licensing operation is under way; after limits.licence the order is refused."""
    cloud = hosting()
    cloud.do_renew = lambda: Answer(later=True)  # type: ignore[method-assign]
    cloud.order("renew")
    begun = cloud.now
    assert cloud.settled() == "refused"
    assert cloud.now - begun > timedelta(seconds=TimeLimits().licence)


ASKED = st.sampled_from(["register", "deregister", "renew", "token", "product", "stop", "start"])


@given(st.lists(st.tuples(ASKED, st.integers(0, 12), st.booleans()), min_size=1, max_size=6))
def test_any_orders_in_any_order_come_to_an_end(story: list[tuple[str, int, bool]]) -> None:
    """Whatever is asked when: no order fails the worker, ends a session unasked, or stays open."""
    cloud = hosting(sessions=1)
    for number, (what, steps, force) in enumerate(story):
        if what in {"stop", "start"}:
            cloud.want(desired="Stopped" if what == "stop" else "Ready")
        elif what == "token":
            cloud.order("register", f"o-{number}", token=SecretRef(env="B"), renewed=True)
        elif what == "product":
            cloud.order("register", f"o-{number}", product="CML_Personal", force=force)
        else:
            cloud.order(what, f"o-{number}", force=force)
        cloud.rest(steps)
        assert cloud.phase is not P.FAILED
    cloud.want(desired="Ready")
    if cloud.worker.spec.licence is not None:
        cloud.settled()
    cloud.rest(3)
    cloud.until(*phases.HOSTING)
    cloud.rest()
    held = cloud.registration == "COMPLETED"
    assert held == (FINALIZER_LICENCE in cloud.worker.metadata.finalizers)

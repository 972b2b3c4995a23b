"""What a pause leaves of a pool's decision."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from labfleet.decisions import pausing
from labfleet.decisions.placement import WorkerShape
from labfleet.decisions.scaling import (
    PoolDecision,
    PoolView,
    PoolWorker,
    Retirement,
    decide_pool,
)
from labfleet.resources.amounts import Amounts
from labfleet.resources.pool import PoolPhase, PoolSpec, Scaling, ScalingEvent
from labfleet.resources.worker import WorkerPhase

EVENT = ScalingEvent(
    at=datetime(2026, 11, 27, tzinfo=UTC), kind="scale_up", reason="BelowMinimum", before=0,
    after=1, worker="w-1",
)  # fmt: skip
ACTS = PoolDecision(
    phase=PoolPhase.SCALING_UP,
    message="0 of at least 1 worker; adding 1",
    create=("w-1",),
    start=("w-2",),
    retire=(Retirement(name="w-3", reason="Failed"),),
    created_workers=1,
    events=(EVENT,),
    failed=1,
)


def test_nothing_is_made_started_retired_or_replaced() -> None:
    """A paused pool keeps its workers, its phase and its counter, and says what it would do."""
    held = pausing.held(ACTS, "pool p is paused by ada", before=PoolPhase.READY, made=0)
    assert (held.create, held.start, held.retire, held.events) == ((), (), (), ())
    assert (held.phase, held.created_workers, held.failed) == (PoolPhase.READY, 0, 1)
    told = "Pool p is paused by ada. Without it: 0 of at least 1 worker; adding 1"
    assert held.message == told


def test_without_a_pause_the_decision_is_the_same() -> None:
    """None is not paused."""
    assert pausing.held(ACTS, None, before=PoolPhase.READY, made=0) is ACTS


@pytest.mark.parametrize("phase", sorted(pausing.ASKED_FOR))
def test_what_people_asked_for_goes_on(phase: PoolPhase) -> None:
    """Draining or ending a pool was somebody's word and is not stopped by a pause."""
    asked = PoolDecision(phase=phase, message="terminating", retire=ACTS.retire)
    assert pausing.held(asked, "paused", before=PoolPhase.READY, made=0) is asked


def test_a_quiet_pool_says_that_it_is_paused() -> None:
    """With nothing to do the phase goes on and the message still shows the pause."""
    quiet = PoolDecision(phase=PoolPhase.READY, message="2 ready", ready=2)
    held = pausing.held(quiet, "paused", before=PoolPhase.SCALING_UP, made=2)
    assert (held.phase, held.message) == (PoolPhase.READY, "Paused. Without it: 2 ready")


def test_a_paused_pool_keeps_its_workers_on_impaired_hosts() -> None:
    """Neither the worker goes nor its replacement comes until the pause ends; the text says both."""
    ill = PoolWorker(name="w-1", phase=WorkerPhase.READY, ill=True, empty_since=EVENT.at)
    spec = PoolSpec(template="metal", scaling=Scaling(min_workers=1, max_workers=3))
    shape = WorkerShape(name="new", track="default", capacity=Amounts(cpu_milli=1000))
    view = PoolView(name="p", spec=spec, phase=PoolPhase.READY, workers=(ill,), shape=shape)
    decided = decide_pool(view, EVENT.at)
    assert [each.reason for each in decided.retire] == ["Impaired"]
    assert len(decided.create) == 1
    held = pausing.held(decided, "pool p paused itself", before=PoolPhase.READY, made=0)
    assert (held.retire, held.create, held.events) == ((), (), ())
    assert held.message == f"Pool p paused itself. Without it: {decided.message}"

"""Workers for which the provider has had no room so far."""

from __future__ import annotations

from test_scaling import ask, decide, worker

from labfleet.resources.pool import ScalingPolicy
from labfleet.resources.worker import WorkerPhase


def test_a_worker_for_which_there_was_no_room_goes_when_nobody_waits() -> None:
    """Nothing is paid for it yet; the minimum, and a session that waits, keep it."""
    waits = worker(phase=WorkerPhase.PROVISIONING_EC2, unlaunched=True)
    boots = worker("w-default-002", phase=WorkerPhase.PROVISIONING_EC2)
    assert [each.name for each in decide(waits, boots).retire] == [waits.name]
    assert decide(waits, min_workers=1).retire == ()
    assert decide(waits, waiting=(ask(),)).retire == ()
    assert decide(waits, policy=ScalingPolicy.NONE).retire == ()

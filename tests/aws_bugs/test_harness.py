"""The harness itself: a worker's whole life over the simulator, through boto3, in virtual time."""

from __future__ import annotations

from bug_world import bugs
from virtual_time import play


def test_a_worker_lives_and_ends_over_the_simulator() -> None:
    """Launched with tags, READY with a licence, ended with nothing left: I1 to I9 are clean."""

    async def story() -> None:
        async with bugs() as w:
            await w.start()
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            [instance] = w.cloud.instances("w1")
            assert instance["tags"]["labfleet:owner"] == "inst"
            assert w.cloud.calls("RunInstances") == 1
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            assert w.cloud.instances() == []
            w.check()

    play(story)

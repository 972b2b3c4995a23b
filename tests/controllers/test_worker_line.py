"""The worker controller: from nothing to READY and down again, on good days."""

from __future__ import annotations

from virtual_time import play
from world import world


def test_a_worker_is_launched_booted_licensed_and_ended() -> None:
    """The whole line up to READY and down to TERMINATED passes every phase in order."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            assert w.get_worker().status.licence.node_capacity == 200
            assert w.get_worker().status.capacity.nodes == 200
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.check_empty()
            assert w.phases["w1"] == [
                "PENDING", "PROVISIONING_EC2", "EC2_READY", "STARTING", "LICENSING", "READY",
                "DRAINING", "UNLICENSING", "STOPPING", "TERMINATING_EC2", "TERMINATED",
            ]  # fmt: skip
            assert w.get_worker().metadata.finalizers == ()

    play(story)


def test_a_session_is_placed_run_observed_and_taken_down() -> None:
    """The whole line of a session passes every phase in order and leaves nothing."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.definition()
            await w.session()
            await w.until(w.in_phase("s1", "COMPLETED"))
            assert w.phases["s1"] == [
                "PENDING", "SCHEDULED", "INSTANTIATING", "READY", "RUNNING", "COLLECTING",
                "STOPPING", "COMPLETED",
            ]  # fmt: skip
            assert w.get_session().status.observation_count == 1
            assert w.get_session().status.observed_resources.actual_node_count == 2
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.check_empty()

    play(story)

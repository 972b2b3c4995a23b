"""The witness itself: that I3, I4, I8 and I9 would be seen when the product broke them."""

from __future__ import annotations

from bug_world import bugs
from virtual_time import play


def test_the_witness_sees_a_stop_of_a_busy_machine_and_an_end_with_a_licence() -> None:
    """Calls made behind the controllers' back violate I3 and I9, then I8, then I4."""

    async def story() -> None:
        async with bugs() as w:
            process = await w.start()
            await w.worker("w1")
            await w.until(w.in_phase("w1", "READY"))
            name = w.get_worker().status.machine.id
            w.hosts.run("w1")
            process.kill()
            await w.let_pass(300)
            w.check()
            await w.compute.stop("us-east-1", name)
            found = {each["invariant"] for each in w.cloud.violations(**w.facts())}
            assert found == {"I3", "I9"}
            await w.compute.terminate("us-east-1", name)
            found = {each["invariant"] for each in w.cloud.violations(**w.facts())}
            assert found == {"I3", "I8", "I9"}
            w.witness.intents.clear()
            found = {each["invariant"] for each in w.cloud.violations(**w.facts())}
            assert found == {"I3", "I4", "I8", "I9"}
            assert w.cloud.violations(**w.facts(forced=[name], intents=None)) == []

    play(story)

"""What a pool's worker was made for stands on its record, and is read from there."""

from __future__ import annotations

from virtual_time import play
from world import later, world

from labfleet.controllers import pool as pools
from labfleet.resources.worker import Worker


def test_a_worker_for_a_promised_slot_says_so_and_counts_as_unused_until_it_hosts() -> None:
    """Made within the lead of a slot it is for that; one that hosted a session is not unused."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.pool(scaling={"maxWorkers": 2})
            await w.definition()
            await w.session("exam", slot={"start": later(w, 30)})
            await w.services.fresh()
            await w.let_pass(120)
            (made,) = w.cache.all(Worker)
            assert made.metadata.annotations[pools.MADE_FOR] == "Promised"
            # private _of: what the decision gets of this record
            seen = pools._of(made, (), None)
            assert (seen.for_promises, seen.unused) == (True, True)
            await w.let_pass(40 * 60)
            (made,) = w.cache.all(Worker)
            seen = pools._of(made, (), None)
            assert (seen.for_promises, seen.unused) == (True, False)

    play(story)

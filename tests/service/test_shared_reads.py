"""Reads that the objects of one request share: once, and anew after a conflict or a write."""

from __future__ import annotations

import asyncio

import pytest
from fleet_world import ADMIN, TOPOLOGY, world

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Key
from labfleet.service.core.shared_reads import SharedReads
from labfleet.service.verbs import applying


class Counted:
    """A store that counts its reads by kind."""

    def __init__(self, real: stores.ObjectStore) -> None:
        self.real = real
        self.reads: list[str] = []

    async def get(self, key: Key) -> stores.Stored | None:
        """Count, then read."""
        self.reads.append(key.kind)
        return await self.real.get(key)

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)


def test_many_sessions_read_their_definition_once() -> None:
    """A definition holds a whole topology; fifty sessions of it cost one read, not fifty."""

    async def story() -> None:
        async with world() as w:
            lab = {
                "kind": "Definition",
                "metadata": {"name": "lab"},
                "spec": {"topology": TOPOLOGY},
            }
            await applying.apply(w.services, ADMIN, [lab])
            counted = Counted(w.services.objects.store)
            w.services.objects.store = counted  # type: ignore[assignment]  # it does what a store does
            items = [
                {"kind": "Session", "metadata": {"name": f"s-{n}"}, "spec": {"definition": "lab"}}
                for n in range(50)
            ]
            done = await applying.apply(w.services, ADMIN, items)
            assert {each.result for each in done} == {applying.ApplyResult.CREATED}
            # Those that begin together may each read it; who comes later finds it.
            assert counted.reads.count("Definition") <= applying.TOGETHER

    asyncio.run(story())


def test_what_changed_meanwhile_is_read_anew() -> None:
    """After a conflict nothing stays known, so the next attempt sees what made it fail."""

    async def story() -> None:
        async with world() as w:
            made = await w.make("Definition", "lab", {"topology": TOPOLOGY})
            shared = SharedReads(w.services.objects)
            assert await shared.get(Definition, "lab", "default") == made
            cause = stores.Cause("ada", w.clock.now())
            (newer,) = (await w.services.objects.save(made, cause=cause))[1]
            assert await shared.get(Definition, "lab", "default") == made
            with pytest.raises(errors.Conflict):
                await shared.save(made, cause=cause)
            assert await shared.get(Definition, "lab", "default") == newer
            (last,) = (await shared.save(newer, cause=cause))[1]
            assert await shared.get(Definition, "lab", "default") == last
            assert await shared.get(Definition, "none", "default") is None

    asyncio.run(story())

"""The gauge of what is set aside because it cannot be read (facts/aws-bugs.md#case-42)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))
from fleet_world import world as opened

from labfleet.app.metrics import Metrics
from labfleet.app.watchers import add_gauges
from labfleet.resources.meta import Key


@pytest.mark.asyncio
async def test_objects_that_cannot_be_read_are_counted_by_kind() -> None:
    """labfleet_unreadable_objects is 0 for each kind until a row of it is quarantined."""
    async with opened() as world:
        metrics, cache = Metrics(), world.services.cache
        add_gauges(metrics, cache, [])

        def of(kind: str) -> str:
            text = metrics.text()[0].decode()
            start = f'labfleet_unreadable_objects{{kind="{kind}"}} '
            [line] = [each for each in text.splitlines() if each.startswith(start)]
            return line.removeprefix(start)

        assert of("Worker") == "0.0"
        cache.quarantined[Key("Worker", "default", "w1")] = "expected object"
        assert (of("Worker"), of("Session")) == ("1.0", "0.0")

"""One node of a lab is operated alike in the rehearsal's direct world and through the real adapter."""

from __future__ import annotations

import asyncio

import pytest
from test_lab_host_rules import Place, Play, play

from labfleet.kernel import errors

__all__ = ["play"]


def test_one_node_is_stopped_wiped_and_started_beside_the_others(play: Play) -> None:
    """Repeated it is no error; a wipe of what runs comes too early; what is not there is gone."""

    async def story(at: Place) -> None:
        host = at.host
        lab = await at.lab()
        await asyncio.sleep(300)
        one, other = sorted(await host.nodes(lab), key=lambda node: node.label)

        async def states() -> list[str]:
            found = sorted(await host.nodes(lab), key=lambda node: node.label)
            return [each.state for each in found]

        assert await states() == ["BOOTED", "BOOTED"]
        with pytest.raises(errors.Conflict) as early:
            await host.operate_node(lab, one.id, "wipe")
        assert early.value.reason == "Later"
        for verb, state in (("stop", "STOPPED"), ("wipe", "DEFINED_ON_CORE"), ("start", "BOOTED")):
            for _ in range(2):
                await host.operate_node(lab, one.id, verb)  # type: ignore[arg-type]
                await asyncio.sleep(300)
            assert await states() == [state, "BOOTED"]
        for missing in ((lab, "00000000-0000-4000-8000-000000000000"), ("nothing", other.id)):
            with pytest.raises(errors.Gone):
                await host.operate_node(*missing, "stop")

    play(story)

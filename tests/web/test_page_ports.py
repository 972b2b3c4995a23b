"""The page of a session shows which of its lab's ports are not as they were given."""

from __future__ import annotations

import msgspec
import pytest
from browser import Browser, plain

from labfleet.decisions import port_drift
from labfleet.resources.session import PortAllocation, SessionPhase


@pytest.mark.asyncio
async def test_a_sessions_page_shows_what_differs_of_its_ports(browser: Browser) -> None:
    """Added, removed and changed, each in its row; what its person may run for more is there."""
    world = browser.world
    await world.definition()
    session = await world.session("exam-1", owner="kim")
    ports = tuple(
        PortAllocation(name=f"{node}_serial", node=node, kind="serial", number=number)
        for number, node in enumerate(("r1", "r2", "r3"), 2001)
    )
    status = msgspec.structs.replace(session.status, phase=SessionPhase.RUNNING, ports=ports)
    seen = {"r1_serial": 2001, "r2_serial": 2099, "<b>x</b>_serial": 5041}
    status = port_drift.noted(status, seen, world.clock.now())
    changes = {name: getattr(status, name) for name in status.__struct_fields__}
    await world.status(session, **changes)
    await world.services.fresh()
    tab = plain(await browser.get("/sessions/exam-1?tab=ports"))
    for told in ("same", "changed", "2099", "removed", "not there", "added", "5041"):
        assert told in tab
    assert "<b>x</b>" not in tab
    text = plain(await browser.get("/sessions/exam-1"))
    assert "labfleet observe session/exam-1" in text
    assert "drift-caption" not in text
    assert "added &lt;b&gt;x&lt;/b&gt;_serial 5041" in text
    assert "<b>x</b>" not in text

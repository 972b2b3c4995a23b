"""The console text kept of a worker, by REST."""

from __future__ import annotations

import msgspec
import pytest
from api_caller import Api
from fleet_world import MACHINE

from labfleet.interfaces import store as stores
from labfleet.resources.worker import Worker

PATH = "/api/v1/workers/w/logs"


@pytest.mark.asyncio
async def test_kept_console_text_is_shown_with_its_boot(api: Api) -> None:
    """Nothing kept is an empty text with the reason; unknown workers are not found."""
    assert (await api.call("GET", PATH)).status == 404
    await api.world.make("Worker", "w", {"machine": MACHINE})
    await api.world.services.fresh()
    none = (await api.call("GET", PATH)).json
    assert none["text"] == ""
    assert "none is kept" in none["reason"]
    services = api.world.services
    worker = await services.objects.get(Worker, "w", "default")
    console = "[i-1@2026-11-27 09:00:00+00:00 read 2026-11-27T09:30:00Z]\npanic\nhalted"
    status = msgspec.structs.replace(worker.status, console=console)
    stored = msgspec.structs.replace(worker, status=status)
    await services.objects.save(stored, cause=stores.Cause("tester", services.clock.now()))
    await services.fresh()
    assert (await api.call("GET", PATH)).json == {
        "worker": "w",
        "boot": "i-1@2026-11-27 09:00:00+00:00",
        "readAt": "2026-11-27T09:30:00Z",
        "text": "panic\nhalted",
        "reason": "",
        "answered": None,
    }

"""A clock that jumped is an alert, and people confirm it by a route."""

from __future__ import annotations

import dataclasses

import pytest
from api_caller import api as opened

from labfleet.api import application
from labfleet.app.system import SystemClock
from labfleet.engine.clock_check import ClockCheck

DAY = 86400.0


@pytest.mark.asyncio
@pytest.mark.parametrize("stored", [False, True])
async def test_a_jump_is_an_alert_until_somebody_who_may_confirms_it(stored: bool):
    """Nobody else may; the event says who and why; the settings stay as they were."""
    async with opened() as api:
        start = api.world.clock.now().timestamp()
        now = [start, 5.0]
        clock = SystemClock(wall=lambda: now[0], steady=lambda: now[1])
        settings = api.world.services.settings
        check = ClockCheck(clock, api.world.store, settings.clock_confirmed)
        services = dataclasses.replace(api.world.services, clock_check=check)
        api.app = application.build(
            services, api.tokens, api.ring, readiness=lambda: api.waiting,
            metrics=lambda: (b"", "text/plain"),
        )  # fmt: skip
        if stored:
            sent = {"set": {"idle.timeoutMinutes": 77}}
            assert (await api.call("POST", "/api/v1/settings/change", sent)).status == 200
        alerts = "/api/v1/fleet/alerts"
        assert (await api.call("GET", alerts)).json["items"] == []
        now[0] += DAY
        (row,) = (await api.call("GET", alerts)).json["items"]
        assert (row["condition"], row["object"]) == ("ClockJumped", "server/clock")
        assert "24 hours ahead" in row["message"]
        path = "/api/v1/settings/confirm-clock"
        denied = await api.call("POST", path, {}, role="user", owner="eve")
        assert denied.status == 403
        done = await api.call("POST", path, {"reason": "NTP was off"}, role="operator")
        assert done.status == 200
        assert (await api.call("GET", alerts)).json["items"] == []
        assert clock.now().timestamp() == start + DAY
        events = (await api.call("GET", "/api/v1/settings/fleet/events")).json["items"]
        said = events[0]["reason"], events[0]["message"]
        assert said == ("ClockConfirmed", "NTP was off")
        if stored:
            assert settings.now().idle.timeout_minutes == 77

"""One fact of the store, shown alike by `/readyz`, the alerts and the pages."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from api_caller import api as opened
from api_caller import scope_of

from labfleet.api import application
from labfleet.engine.store_health import StoreHealth, StoreState
from labfleet.kernel import clock, errors
from labfleet.web import application as pages
from labfleet.web import doors


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("state", "status", "condition"),
    [
        (StoreState.READ_ONLY, 200, "StoreReadOnly"),
        (StoreState.UNREADABLE, 503, "StoreUnreadable"),
        (StoreState.BEHIND, 503, "StoreBehind"),
    ],
)
async def test_readyz_alerts_and_pages_say_the_same(state: StoreState, status: int, condition: str):
    """503 when nothing can be read; 200 with state, reason and since when only writes fail."""
    async with opened() as api:
        health = StoreHealth(api.world.clock)
        services = dataclasses.replace(api.world.services, health=health)
        looked = []

        async def look() -> None:
            looked.append(1)

        app = application.build(
            services, api.tokens, api.ring, readiness=lambda: api.waiting, look=look,
            metrics=lambda: (b"", "text/plain"), web=pages.build(services, api.tokens),
            credentials=doors.credentials,
        )  # fmt: skip
        api.app = app
        ok = await api.call("GET", "/readyz", role=None)
        assert (ok.status, ok.json["store"], ok.json["storeSince"]) == (200, "ok", None)
        since = services.clock.now()
        health.begin(state, "Cause", "it says why", "driver text at 10.9.8.7")
        found = await api.call("GET", "/readyz", role=None)
        assert found.status == status
        assert found.json["store"] == state.value
        assert found.json["storeReason"] == "it says why"
        assert clock.parse_instant(found.json["storeSince"]) == since
        alive = await api.call("GET", "/healthz", role=None)
        assert (alive.status, alive.json) == (200, {"status": "ok"})
        (row,) = (await api.call("GET", "/api/v1/fleet/alerts")).json["items"]
        assert (row["condition"], row["object"]) == (condition, "server/store")
        assert row["message"] == "it says why"
        assert clock.parse_instant(row["since"]) == since
        made = doors.set_cookie(scope_of("GET", "/", {}), await api.token("admin"))[1].decode()
        cookie = made.split(";")[0]
        page = await api.call("GET", "/", role=None, Cookie=cookie)
        assert b"It says why, since " in page.raw
        assert b"10.9.8.7" not in page.raw + found.raw
        health.over(state)
        assert (await api.call("GET", "/readyz", role=None)).json == ok.json
        assert looked


@pytest.mark.asyncio
async def test_a_store_that_is_gone_never_turns_a_public_route_away():
    """No token is looked up for a probe, so a stopped database cannot make it fail."""
    async with opened() as api:

        async def gone(text: str) -> None:
            raise errors.Unreachable("10.9.8.7 does not answer")

        # private _tokens: every look-up of a token fails, as with a stopped database
        api.app._tokens = SimpleNamespace(authenticate=gone)  # type: ignore[assignment]
        for route in api.app.routes.values():
            if route.public:
                found = await api.call("GET", route.path, role=None, Authorization="Bearer lf_x")
                # A calendar's address has a key of its own in place of a token, and none was given.
                assert found.status == (403 if route.path.endswith("/calendar-feed.ics") else 200)
        assert (await api.call("GET", "/api/v1/workers", role=None, Authorization="Bearer lf_x")
                ).status == 503  # fmt: skip

"""Logins, their repeat, their deadline, and the breaker.

The numbered cases are rows of facts/cml-issues.md.
"""

from __future__ import annotations

import asyncio

import pytest
from scripted_cml import LAB, ScriptedCml, done, host_on, ok, page, refused

from labfleet.adapters.cml.breaker import Breaker
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines, NotSent
from labfleet.kernel import errors

START = f"PUT labs/{LAB}/start"


@pytest.mark.asyncio
async def test_one_login_serves_many_calls():
    """The token is kept: two calls log in once."""
    server = ScriptedCml({START: done()})
    host = host_on(server)
    await host.start(LAB)
    await host.start(LAB)
    assert server.logins == 1
    assert server.headers[-1]["Authorization"] == "Bearer token-1"


@pytest.mark.asyncio
async def test_a_401_in_the_middle_logs_in_once_and_repeats_once():
    """An expired token costs exactly one new login and one repeat."""
    server = ScriptedCml({START: [done(), refused(401), done()]})
    host = host_on(server)
    await host.start(LAB)
    await host.start(LAB)
    assert server.logins == 2
    assert server.count()[START] == 3
    assert server.headers[-1]["Authorization"] == "Bearer token-2"


@pytest.mark.asyncio
async def test_a_second_401_is_denied_without_another_try():
    """A server that refuses fresh tokens is not asked again and again."""
    server = ScriptedCml({START: refused(401)})
    with pytest.raises(errors.Denied) as caught:
        await host_on(server).start(LAB)
    assert caught.value.reason == "Unauthorized"
    assert (server.logins, server.count()[START]) == (2, 2)


@pytest.mark.asyncio
async def test_a_wrong_password_is_denied():
    """403 at login means credentials, and says which user."""
    server = ScriptedCml({"POST authenticate": refused(403, "Authentication failed!")})
    with pytest.raises(errors.Denied, match="'admin'") as caught:
        await host_on(server).authenticate()
    assert caught.value.reason == "BadCredentials"


@pytest.mark.asyncio
async def test_a_booting_server_is_no_wrong_password():
    """A 403 page of the proxy at login is booting, not credentials."""
    server = ScriptedCml({"POST authenticate": page(403)})
    with pytest.raises(errors.Booting):
        await host_on(server).authenticate()


@pytest.mark.asyncio
@pytest.mark.parametrize("token", [None, 7, {"token": "x"}, "", "two words", "a\r\nX: y"])
async def test_an_unusable_token_is_a_protocol_error(token):
    """What is no token is never put into a header."""
    server = ScriptedCml({"POST authenticate": ok(token)})
    with pytest.raises(errors.Protocol):
        await host_on(server).authenticate()


@pytest.mark.asyncio
async def test_authentication_survives_a_release_without_authok():
    """A server without authok still proves the password by its login."""
    server = ScriptedCml({"GET authok": refused(404)})
    await host_on(server).authenticate()
    assert server.logins == 1


class Restarted(ScriptedCml):
    """Refuses the first token after a while, and lets other tasks run in between."""

    refuses = False

    async def request(self, method, path, body, deadlines, *, headers):
        await asyncio.sleep(0)
        if self.refuses and headers.get("Authorization") == "Bearer token-1":
            return refused(401)
        return await super().request(method, path, body, deadlines, headers=headers)


@pytest.mark.asyncio
async def test_callers_that_meet_a_401_together_log_in_once():
    """Twenty callers with one expired token cause one new login."""
    server = Restarted({"GET system_stats": ok({})})
    host = host_on(server)
    await host.system_stats()
    server.refuses = True
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(host.system_stats())
    assert server.logins == 2


@pytest.mark.asyncio
async def test_the_deadline_covers_login_and_repeat():
    """Every request of a call gets only what is left of the call's total."""
    server = ScriptedCml({START: [refused(401), done()]})
    limits = Limits(write=Deadlines(connect=1, read=1, total=0.5))
    await host_on(server, limits).start(LAB)
    totals = [d.total for d in server.deadlines]
    assert len(totals) == 4
    assert all(total <= 0.5 for total in totals)
    assert totals == sorted(totals, reverse=True)


class Hanging(ScriptedCml):
    """Accepts the login and never answers."""

    async def request(self, method, path, body, deadlines, *, headers):
        if path == "authenticate":
            await asyncio.Event().wait()
        return await super().request(method, path, body, deadlines, headers=headers)


@pytest.mark.asyncio
async def test_waiting_for_somebody_elses_login_ends():
    """A caller behind a hanging login gives up at its own deadline."""
    host = host_on(Hanging(), Limits(read=Deadlines(connect=1, read=1, total=0.02)))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(host.system_stats())
        await asyncio.sleep(0)
        with pytest.raises(errors.Temporary) as caught:
            await host.system_stats()
        first.cancel()
    assert caught.value.reason == "Busy"


@pytest.mark.asyncio
async def test_the_breaker_leaves_a_dead_server_alone():
    """After the bounded failures no request is sent until the rest is over."""
    server = ScriptedCml({"POST authenticate": NotSent("timeout", "no answer")})
    host = host_on(server, Limits(breaker_failures=3, breaker_rest=60))
    for _ in range(3):
        with pytest.raises(errors.Unreachable):
            await host.system_stats()
    with pytest.raises(errors.Unreachable) as caught:
        await host.system_stats()
    assert caught.value.reason == "BreakerOpen"
    assert caught.value.retry_after == pytest.approx(60, abs=1)
    assert len(server.log) == 3


@pytest.mark.asyncio
async def test_401_after_every_login_opens_the_breaker():
    """A server that logs in and accepts no token is left alone: no login for each call (F24)."""
    server = ScriptedCml({"GET system_stats": refused(401, "no")})
    host = host_on(server, Limits(breaker_failures=3, breaker_rest=60))
    for _ in range(6):
        with pytest.raises(errors.Denied) as caught:
            await host.system_stats()
        assert caught.value.reason == "Unauthorized"
    assert (server.logins, server.log.count("GET system_stats")) == (6, 6)


@pytest.mark.asyncio
async def test_readiness_looks_past_the_breaker_and_closes_it():
    """The probe always looks; a server that answers is used again at once."""
    server = ScriptedCml({"POST authenticate": NotSent("refused", "refused")})
    host = host_on(server, Limits(breaker_failures=1, breaker_rest=60))
    with pytest.raises(errors.Booting):
        await host.system_stats()
    server.answers |= {
        "POST authenticate": ok("t"),
        "GET system_stats": ok({}),
        "GET system_information": ok({"ready": True, "version": "2.9.1"}),
    }
    assert (await host.readiness()).stage == "ready"
    await host.system_stats()


def test_a_breaker_opens_on_link_failures_only():
    """An API refusal proves that the server lives; a login that fails stays Denied."""
    breaker = Breaker(failures=2, rest=10)
    breaker.failed(errors.Booting("a", reason="Refused"), 0)
    breaker.failed(errors.Gone("b"), 0)
    breaker.failed(errors.Booting("c", reason="Refused"), 0)
    breaker.check(1, "w1")
    breaker.failed(errors.Booting("d", reason="BadGateway"), 0)
    with pytest.raises(errors.Unreachable):
        breaker.check(9.9, "w1")
    breaker.check(10, "w1")
    breaker.succeeded()
    for _ in range(2):
        breaker.failed(errors.Denied("wrong", reason="BadCredentials"), 20)
    breaker.link_works()
    with pytest.raises(errors.Denied, match="wrong"):
        breaker.check(21, "w1")

"""What makes a poll cheap and changes nothing else: kept answers, headers, absent paths."""

from __future__ import annotations

import pytest
from scripted_cml import ScriptedCml, address, host_on, licence, ok, refused

from labfleet.adapters.cml import client, transport
from labfleet.adapters.http import connection
from labfleet.adapters.http.transport import Deadlines
from labfleet.kernel import errors

HEALTH = {"valid": True, "computes": {}, "is_licensed": True}


@pytest.mark.asyncio
async def test_an_answer_that_did_not_change_is_the_same_record():
    """Kept looks share one record; another answer, also a null, is another record at once."""
    other = {**HEALTH, "is_licensed": None}
    server = ScriptedCml({
        "GET system_health": [ok(HEALTH), ok(HEALTH), ok(other), refused(500), ok(HEALTH)],
    })  # fmt: skip
    host = host_on(server)
    first, second, third = [await host.system_health() for _ in range(3)]
    assert second is first
    assert (first.is_licensed, third.is_licensed) == (True, None)
    with pytest.raises(errors.Temporary):
        await host.system_health()
    assert (await host.system_health()) == first


@pytest.mark.asyncio
async def test_a_long_answer_is_not_kept(monkeypatch):
    """What is compared with the next answer is bounded."""
    monkeypatch.setattr(client, "REMEMBERED", 10)
    host = host_on(ScriptedCml({"GET system_health": ok(HEALTH)}))
    first, second = await host.system_health(), await host.system_health()
    assert first == second
    assert first is not second


@pytest.mark.asyncio
async def test_diagnostics_that_a_release_has_not_are_asked_for_once():
    """2.7 and 2.8 answer 404: the reason stays in the gaps; a failure is asked for again."""
    answers = {"GET licensing": ok(licence())}
    server = ScriptedCml(answers)
    host = host_on(server)
    gaps = [(await host.licensing()).gaps["quota"] for _ in range(3)]
    assert len(set(gaps)) == 1
    assert "404" in gaps[0]
    assert server.count() == {"GET licensing": 3, "GET diagnostics/licensing": 1}
    server = ScriptedCml({**answers, "GET diagnostics/licensing": refused(500)})
    host = host_on(server)
    for _ in range(2):
        await host.licensing()
    assert server.count()["GET diagnostics/licensing"] == 2


@pytest.mark.asyncio
async def test_a_new_token_is_sent_at_once():
    """The headers kept for a token go with it."""
    server = ScriptedCml({"GET labs": [ok([]), refused(401), ok([]), ok([])]})
    host = host_on(server)
    for _ in range(3):
        assert await host.labs() == ()
    sent = [each.get("Authorization") for each in server.headers]
    assert sent == [None, "Bearer token-1", "Bearer token-1", None, "Bearer token-2",
                    "Bearer token-2"]  # fmt: skip


@pytest.mark.asyncio
async def test_headers_that_change_are_written_anew():
    """What the transport kept of the last headers is never sent for other ones."""
    made = transport.connect(address(base_url="http://[::1]:81/x/"), None, transport.Limits())
    # private _open: one connection's bytes are looked at without a socket
    made._open()
    one, two = {"A": "1"}, {"A": "2"}
    # private _written: the bytes of a request are compared before they go out
    heads = [made._written("GET", "labs", None, each) for each in (one, one, two, one)]
    assert [b"A: 2" in each for each in heads] == [False, False, True, False]
    assert heads[0].startswith(b"GET /x/api/v0/labs HTTP/1.1\r\nHost: [::1]:81\r\n")


def test_a_request_never_shows_what_is_in_it():
    """Token and password stand in head and body."""
    made = connection.Request("POST", b"Authorization: s3cret", b"s3cret", 1.0, 1.0)
    assert "s3cret" not in repr(made)


def test_deadlines_never_grow():
    """What is left of a call bounds it; more than its own total changes nothing."""
    mine = Deadlines(connect=5, read=15, total=30)
    assert mine.within(31) is mine
    assert mine.within(7).total == 7
    assert mine.within(-1).total == 0

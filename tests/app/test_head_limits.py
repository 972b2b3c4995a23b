"""A request's head is bounded in bytes and in time, before anybody has shown a token."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from labfleet.app import head_limits, open_files, serving, whole_requests


class Wire(asyncio.Transport):
    """A transport that keeps what was written until it was closed, as a socket's does."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.sent = b""
        self.closed = False

    def write(self, data: Any) -> None:
        if not self.closed:
            self.sent += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """Nothing to pause."""

    def resume_reading(self) -> None:
        """Nothing to resume."""


async def _app(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _opened() -> tuple[head_limits.BoundedHeads, Wire]:
    config = uvicorn.Config(_app, ws="none", lifespan="off", log_config=None)
    config.load()
    made = head_limits.BoundedHeads(config=config, server_state=ServerState(), app_state={})
    wire = Wire()
    made.connection_made(wire)
    return made, wire


@pytest.mark.asyncio
async def test_a_head_without_an_end_is_refused():
    """One endless header, or headers without end, cost a bounded amount of memory."""
    for piece in (b"a" * 10_000, b"X-A: b\r\n" * 1000):
        protocol, wire = _opened()
        protocol.data_received(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(20):
            if wire.closed:
                break
            protocol.data_received(piece)
        assert wire.closed
        assert b" 431 " in wire.sent
        protocol.connection_lost(None)


@pytest.mark.asyncio
@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_a_client_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch, said: bytes):
    """A connection without a whole head ends after its time."""
    monkeypatch.setattr(head_limits, "HEAD_SECONDS", 0.001)
    protocol, wire = _opened()
    if said:
        protocol.data_received(said)
    await asyncio.sleep(0.02)
    assert wire.closed
    protocol.connection_lost(None)


@pytest.mark.asyncio
async def test_whole_requests_on_one_connection_are_served(monkeypatch: pytest.MonkeyPatch):
    """The bound is on each head: a connection may carry many, and bodies are not counted."""
    monkeypatch.setattr(head_limits, "HEAD_BYTES", 200)
    protocol, wire = _opened()
    for _ in range(5):
        protocol.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        protocol.data_received(b"b" * 900)
        await asyncio.sleep(0.001)
    assert wire.sent.count(b" 204 ") == 5
    assert not wire.closed
    protocol.connection_lost(None)


@pytest.mark.asyncio
@pytest.mark.parametrize("rest", [b"1", b"b" * 899])
async def test_an_early_answer_does_not_keep_its_connection_for_ever(
    monkeypatch: pytest.MonkeyPatch, rest: bytes
):
    """A part of a body, or all of it, that comes after a refusal and then nothing: it ends."""
    monkeypatch.setattr(head_limits, "HEAD_SECONDS", 0.001)
    protocol, wire = _opened()
    protocol.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nb")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert b" 204 " in wire.sent
    assert not wire.closed
    protocol.data_received(rest)
    await asyncio.sleep(0.02)
    assert wire.closed
    protocol.connection_lost(None)


@pytest.mark.asyncio
async def test_the_body_of_an_upgrade_is_no_request_of_its_own():
    """httptools stops at an upgrade that nobody offers, and would read on behind its head."""
    protocol, wire = _opened()
    upgrade = b"Host: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
    protocol.data_received(b"POST / HTTP/1.1\r\n" + upgrade + b"Content-Length: 27\r\n\r\n")
    if not wire.closed:
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.001)
    assert wire.sent.startswith(b"HTTP/1.1 400 ")
    assert wire.sent.count(b"HTTP/1.1 ") == 1
    assert wire.closed
    protocol.connection_lost(None)
    protocol, wire = _opened()  # one that asks for nothing else is answered as if it did not
    protocol.data_received(b"GET / HTTP/1.1\r\n" + upgrade + b"\r\n")
    await asyncio.sleep(0.001)
    assert b" 204 " in wire.sent
    protocol.connection_lost(None)


@pytest.mark.asyncio
async def test_one_connection_too_many_is_ended_and_its_place_comes_back():
    """Files are left for the store and for probes, however many clients connect and say nothing."""
    config = uvicorn.Config(_app, ws="none", lifespan="off", log_config=None)
    config.load()
    state, refusals = ServerState(), serving.Refusals()
    kind = whole_requests.bounded(3, refusals.note)

    def connected() -> tuple[head_limits.BoundedHeads, Wire]:
        made, wire = kind(config=config, server_state=state, app_state={}), Wire()
        made.connection_made(wire)
        if wire.closed:
            made.connection_lost(None)
        return made, wire

    held = [connected() for _ in range(3)]
    assert not any(wire.closed for _, wire in held)
    assert all(connected()[1].closed for _ in range(5))
    assert refusals.count == 5
    held[0][0].connection_lost(None)
    again, wire = connected()
    assert not wire.closed
    for protocol in (again, *(each for each, _ in held[1:])):
        protocol.connection_lost(None)


def test_the_limit_of_open_files_is_raised_to_what_the_system_allows():
    """The usual 1,024 would be used up by clients within their limits; what is lower stays usable."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = open_files.WANTED if before[1] == resource.RLIM_INFINITY else min(before[1], 65_536)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        assert open_files.raise_limit() == most
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert open_files.for_clients(65_536) == 65_536 - open_files.KEPT
    assert open_files.for_clients(100) == open_files.LEAST

"""What replies, servers and callers do to a connection: framing, keeping, cancelling, TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import networks
import pytest
import uvloop
from loop_time import leap, locks, seen
from loopback_server import answer, identity, serving
from scripted_cml import address

from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http import connection, pool
from labfleet.adapters.http.transport import Deadlines, NotSent, ReplyLost
from labfleet.resources.machine import TlsSettings

QUICK = Deadlines(connect=2, read=2, total=5)
OK = answer(b'"OK"')
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve connections with this coroutine; yields the URL."""

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(whole, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        listener.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def network_at(url, *, seen=None, limits=None, tls=None):
    where = address(base_url=url, tls=tls or TlsSettings())
    made = networks.connect(where, seen, limits or Limits())
    try:
        yield made
    finally:
        await made.close()


async def get(made, method="GET", body=None, deadlines=QUICK):
    return await made.request(method, "labs", body, deadlines, headers={})


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("reply", "status", "body", "connections"),
    [
        (CHUNKED + b"\r\n", 200, b"abcde", 1),
        (CHUNKED + b"X-Trailer: 1\r\n\r\n", 200, b"abcde", 1),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", 1),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, b"", 1),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b'"OK"', 1),
        (answer(b"", "201 Created"), 201, b"", 1),
        (answer(b"x", extra="Connection: close\r\n"), 200, b"x", 2),
        (OK.replace(b"HTTP/1.1", b"HTTP/1.0"), 200, b'"OK"', 2),
    ],
)
async def test_every_framing_is_read_and_kept_where_it_may_be(reply, status, body, connections):
    """Chunks, lengths, no body and interim replies; a connection that ends is not used again."""
    async with serving(reply) as server, network_at(server.url) as made:
        for _ in range(2):
            found = await get(made)
            assert (found.status, found.body) == (status, body)
    assert server.connections == connections
    assert "x-trailer" not in found.headers


@pytest.mark.asyncio
@pytest.mark.parametrize("secure", [False, True])
async def test_a_body_without_a_length_ends_with_the_connection(secure, tmp_path):
    """HTTP/1.0 servers end a body by closing; over TLS that is by an orderly end."""
    tls = identity(tmp_path, "one")[0] if secure else None

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the ")
        await writer.drain()
        writer.write(b"end")

    async with talking(talk, tls) as url, network_at(url) as made:
        for _ in range(2):
            assert (await get(made)).body == b"to the end"


@pytest.mark.asyncio
async def test_head_has_no_body_and_what_follows_is_not_confused():
    """The length of a HEAD reply announces nothing; the next reply is the next one."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
    async with serving(reply) as server, network_at(server.url) as made:
        for _ in range(2):
            found = await get(made, "HEAD")
            assert (found.status, found.body) == (200, b"")
    assert len(server.heads) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (CHUNKED.replace(b"0\r\n", b"9\r\ncut"), "truncated"),
        (CHUNKED.replace(b"3\r\n", b"zz\r\ncut"), "broken"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"cut\r\n\r\n", "broken"),
        (b"HTTP/1.1 200 OK\r\nX: cut", "closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\ncut", "broken"),
    ],
)
async def test_a_reply_that_is_none_is_lost(reply, cause):
    """Cut in a chunk or the head, with a wrong size, a huge head, two lengths."""
    async with serving(reply) as server, network_at(server.url) as made:
        with pytest.raises(ReplyLost) as caught:
            await get(made, "POST", b"x")
    assert caught.value.cause == cause
    assert len(server.heads) == 1


@pytest.mark.asyncio
async def test_a_connection_that_the_server_closed_while_idle_is_not_used():
    """The next request, a change too, goes over a new connection and reaches the server."""
    count = 0

    async def talk(reader, writer):
        nonlocal count
        count += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)

    async with talking(talk) as url, network_at(url) as made:
        for method in ("GET", "POST", "GET"):
            await get(made, method)
            for _ in range(20):
                await asyncio.sleep(0.001)
    assert count == 3


@pytest.mark.asyncio
async def test_a_read_that_meets_the_closing_is_sent_once_more():
    """A kept connection that ends unheard costs a GET nothing; a second silence is a loss."""
    heads = []

    async def talk(reader, writer):
        while True:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            if len(heads) in (2, 4, 5):
                return
            writer.write(OK)

    async with talking(talk) as url, network_at(url) as made:
        for _ in range(2):
            assert (await get(made)).status == 200
        with pytest.raises(ReplyLost) as caught:
            await get(made)
        assert caught.value.cause == "closed"
    assert len(heads) == 5


@pytest.mark.asyncio
async def test_a_cancelled_call_leaves_no_reply_for_the_next():
    """The reply of a call that was given up never answers another call."""
    asked = 0
    go = asyncio.Event()

    async def talk(reader, writer):
        nonlocal asked
        while True:
            await reader.readuntil(b"\r\n\r\n")
            asked += 1
            number = asked
            if number == 2:
                await go.wait()
            writer.write(answer(str(number).encode()))

    async with talking(talk) as url, network_at(url, limits=Limits(connections=1)) as made:
        assert (await get(made)).body == b"1"
        given_up = asyncio.create_task(get(made))
        await seen(lambda: asked == 2)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        go.set()
        assert (await get(made)).body == b"3"


@pytest.mark.asyncio
async def test_calls_over_the_bound_wait_their_turn_and_end_in_time():
    """Two at once; the rest follow; one that cannot start in time was not sent."""
    two, one = Limits(connections=2), Limits(connections=1)
    async with serving(OK) as server, network_at(server.url, limits=two) as made:
        await asyncio.gather(*(get(made) for _ in range(9)))
    assert (server.connections, len(server.heads)) == (2, 9)
    async with (
        serving(None) as server,
        network_at(server.url, limits=one) as made,
        asyncio.TaskGroup() as group,
    ):
        first = group.create_task(lost(made, 600))
        await seen(lambda: server.heads)
        second = group.create_task(lost(made, 300))
        third = group.create_task(lost(made, 5000))
        await locks()
        third.cancel()
        leap(400)
        await second
        leap(400)
    assert [type(await each) for each in (first, second)] == [ReplyLost, NotSent]
    assert "free connection" in (await second).detail
    assert len(server.heads) == 1


async def lost(made, total):
    try:
        await get(made, deadlines=Deadlines(connect=60, read=9000, total=total))
    except (NotSent, ReplyLost) as error:
        return error


@pytest.mark.asyncio
@pytest.mark.parametrize("secure", [False, True])
async def test_a_large_upload_goes_as_fast_as_it_is_taken(secure, tmp_path):
    """Ten megabytes arrive whole though the server reads in small bits."""
    tls = identity(tmp_path, "one")[0] if secure else None
    size, got = 10_000_000, 0

    async def talk(reader, writer):
        nonlocal got
        await reader.readuntil(b"\r\n\r\n")
        while got < size:
            got += len(await reader.read(50_000))
        writer.write(OK)
        await reader.read()

    async with talking(talk, tls) as url, network_at(url) as made:
        assert (await get(made, "POST", b"z" * size)).status == 200
    assert got == size


@pytest.mark.asyncio
async def test_closing_ends_calls_on_their_way():
    """A call that waits for its reply when the boot is forgotten is lost, not stuck."""
    async with (
        serving(None) as server,
        network_at(server.url) as made,
        asyncio.TaskGroup() as group,
    ):
        call = group.create_task(lost(made, 5))
        while not server.heads:
            await asyncio.sleep(0.001)
        await made.close()
    assert (await call).cause == "closed"


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["pin", "verify", "off"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_kept_session_is_taken_up_again(mode, version, tmp_path):
    """A new connection to the same server resumes, and its certificate is still looked at."""
    tls, certificate, fingerprint = identity(tmp_path, "one")
    tls.maximum_version = version
    reply = answer(b"1", extra="Connection: close\r\n")
    policy = TlsSettings(mode=mode, ca_file=str(certificate) if mode == "verify" else None)
    async with serving(reply, tls) as server, network_at(server.url, tls=policy) as made:
        for _ in range(3):
            await get(made)
            for _ in range(20):
                await asyncio.sleep(0.001)
        stats = tls.session_stats()
        assert made.fingerprint == fingerprint
    assert (server.connections, stats["hits"]) == (3, 2)


@pytest.mark.asyncio
async def test_another_servers_session_is_of_no_use(tmp_path):
    """A server that changed its certificate between connections is found out."""
    first, _, fingerprint = identity(tmp_path, "one")
    other, _, _ = identity(tmp_path, "two")
    reply = answer(b"1", extra="Connection: close\r\n")
    async with serving(reply, first) as server, network_at(server.url) as made:
        await get(made)
        async with serving(reply, other) as impostor:
            # private _port: the address must change under a client that lives on
            made._port = impostor.port
            with pytest.raises(NotSent) as caught:
                await get(made)
    assert caught.value.cause == "certificate"
    # private _pin: which certificate is trusted is not told outside
    assert (made._pin.pinned, impostor.heads) == (fingerprint, [])


@pytest.mark.asyncio
async def test_a_tls_connection_cut_without_an_end_is_truncated(tmp_path):
    """Who cuts the wire cannot make a part of a body look whole."""
    tls, _, _ = identity(tmp_path, "one")

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhalf")
        await writer.drain()
        writer.transport.abort()

    async with talking(talk, tls) as url, network_at(url) as made:
        with pytest.raises(ReplyLost) as caught:
            await get(made)
    assert caught.value.cause == "truncated"


@pytest.mark.asyncio
async def test_a_change_is_not_sent_over_a_connection_that_may_be_closing(monkeypatch):
    """An old connection serves reads; a change takes a fresh one; in time all are closed."""
    monkeypatch.setattr(pool, "FRESH_S", 0.0)
    async with serving(OK) as server, network_at(server.url, limits=Limits(idle=600)) as made:
        await get(made)
        await get(made)
        assert server.connections == 1
        await get(made, "POST")
        assert server.connections == 2
        # private _idle, _all, _busy: a leak of connections shows in no answer
        assert len(made._idle) == 1
        leap(601)
        await seen(lambda: not made._all)
        assert (made._idle, made._all, made._busy) == ([], set(), 0)


@pytest.mark.asyncio
async def test_bytes_nobody_asked_for_end_a_connection():
    """A second reply in the bytes of the first is dropped with its connection."""
    async with serving(OK + OK) as server, network_at(server.url) as made:
        for _ in range(3):
            assert (await get(made)).body == b'"OK"'
    assert server.connections == 3


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * (connection.INTERIM + 1),
        b"HTTP/1.1 101 Go On\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
async def test_interim_replies_are_bounded(interim):
    """A server that only says Continue, or changes the protocol, is broken."""
    async with serving(interim) as server, network_at(server.url) as made:
        with pytest.raises(ReplyLost) as caught:
            await get(made)
    assert caught.value.cause == "broken"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "headers"),
    [("a b", {}), ("a\r\nX: y", {}), ("ü", {}), ("a", {"X": "1\r\nY: 2"}), ("a", {"X Y": "1"})],
)
async def test_nothing_can_be_smuggled_into_a_request(path, headers):
    """A path or header with control characters is not sent."""
    async with serving(OK) as server, network_at(server.url) as made:
        with pytest.raises(NotSent):
            await made.request("GET", path, None, QUICK, headers=headers)
    assert server.heads == []


def test_it_works_on_the_loop_that_the_server_runs_on(tmp_path):
    """Uvloop, which the product runs on, gives the same replies, deadlines and resumption."""
    tls, _, _ = identity(tmp_path, "one")

    async def all_of_it() -> None:
        reply = answer(b"x" * 100_000, extra="Connection: close\r\n")
        async with serving(reply, tls) as server, network_at(server.url) as made:
            for _ in range(3):
                assert len((await get(made, "POST", b"y" * 200_000)).body) == 100_000
        async with serving(None, tls) as server, network_at(server.url) as made:
            assert (await lost(made, 0.03)).cause == "timeout"
        async with serving(OK, tls) as server, network_at(server.url) as made:
            for _ in range(3):
                await get(made)
        assert server.connections == 1

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_of_it())

"""Requests that are answered past ASGI get what they would have got through it."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from test_head_limits import Wire
from uvicorn.server import ServerState

from labfleet.app import whole_requests

POST = (
    b"POST /ask HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
)
REPLY = (200, [(b"content-type", b"text/plain")])
ODD = [
    POST.replace(b"HTTP/1.1", b"HTTP/1.0"),
    POST.replace(b"Host: x", b"Host: x\r\nConnection: close"),
    POST.replace(b"Host: x", b"Host: x\r\nHost: y"),
    POST.replace(b"Host: x", b"Host: x\r\nExpect: 100-continue"),
    POST.replace(b"Host: x", b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket"),
    POST.replace(b"Content-Length: 5", b"Content-Length: 0000000005"),
    POST.replace(b"/ask", b"/ask?a=b"),
    POST.replace(b"/ask", b"/other"),
    POST.replace(b"POST", b"PUT"),
    POST.replace(b"Content-Length: 5\r\n\r\nhello", b"Content-Length: 0\r\n\r\n"),
    POST.replace(
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
]


class Application:
    """Says back how long a body was, through ASGI and past it; counts how often it went past."""

    direct = {b"/ask": "ask"}

    def __init__(self, asks: asyncio.Event | None = None) -> None:
        self.past = 0
        self.asks = asks

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        told, made = self._reply(body)
        start = {"type": "http.response.start", "status": REPLY[0], "headers": told}
        await send(start)
        await send({"type": "http.response.body", "body": made})

    async def answer(self, direct: Any, headers: Any, body: bytes) -> Any:
        assert direct == "ask"
        assert (b"host", b"x") in headers
        self.past += 1
        if self.asks is not None:
            await self.asks.wait()
        return REPLY[0], *self._reply(body)

    def _reply(self, body: bytes) -> tuple[Any, bytes]:
        made = b"%d of %d" % (len(body), sum(body))
        return [*REPLY[1], (b"content-length", b"%d" % len(made))], made


def opened(app: Application, *, past: bool = True) -> tuple[whole_requests.WholeRequests, Wire]:
    """Return a protocol over a transport that keeps what was written."""
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
    config.load()
    kind = whole_requests.bounded(10, lambda: None, app if past else None)
    state = ServerState()
    state.default_headers = [(b"date", b"today")]
    made, wire = kind(config=config, server_state=state, app_state={}), Wire()
    made.connection_made(wire)
    return made, wire


async def told(app: Application, *reads: bytes, past: bool = True) -> tuple[bytes, bool]:
    """Return what was written in answer to some reads, and whether the connection was ended."""
    protocol, wire = opened(app, past=past)
    for each in reads:
        if not wire.closed:
            protocol.data_received(each)
        for _ in range(8):
            await asyncio.sleep(0)
    found = wire.sent, wire.closed
    protocol.connection_lost(None)
    return found


@pytest.mark.asyncio
async def test_whole_requests_go_past_asgi_with_the_same_reply() -> None:
    """Several on one connection, byte for byte what uvicorn's own protocol writes."""
    app = Application()
    ours = await told(app, POST, POST, POST)
    assert app.past == 3
    assert ours == await told(Application(), POST, POST, POST, past=False)
    assert ours[0].count(b"5 of 532") == 3


@pytest.mark.asyncio
@pytest.mark.parametrize("at", range(1, len(POST)))
async def test_a_request_in_two_reads_is_answered_alike(at: int) -> None:
    """Wherever it is cut, uvicorn's protocol takes it over with all that was read."""
    app = Application()
    ours = await told(app, POST[:at], POST[at:])
    assert ours == await told(Application(), POST, past=False)
    # One whose body is there in one read goes past ASGI, also when its head came before.
    assert app.past == (at < POST.index(b"\r\n\r\n") + 4)


@pytest.mark.asyncio
@pytest.mark.parametrize("sent", ODD)
async def test_what_is_odd_goes_through_asgi(sent: bytes) -> None:
    """A repeated header, a body without a length, an older version: uvicorn judges those."""
    app = Application()
    assert await told(app, sent) == await told(Application(), sent, past=False)
    assert app.past == 0


@pytest.mark.asyncio
async def test_requests_sent_at_once_are_answered_in_order() -> None:
    """The second one waits in uvicorn's line for the first, which goes past ASGI."""
    app = Application()
    longer = POST.replace(b"5\r\n\r\nhello", b"6\r\n\r\nhellos")
    sent, _ = await told(app, POST + longer + POST)
    places = [sent.index(b"5 of"), sent.index(b"6 of"), sent.rindex(b"5 of")]
    assert places == sorted(places)
    assert sent.count(b"HTTP/1.1 200") == 3
    assert app.past == 1


@pytest.mark.asyncio
async def test_a_client_that_leaves_gets_nothing_and_harms_nobody() -> None:
    """Its request is answered to the end, and nothing is written to where it was."""
    app = Application(asyncio.Event())
    protocol, wire = opened(app)
    protocol.data_received(POST)
    await asyncio.sleep(0)
    protocol.connection_lost(None)
    assert app.asks is not None
    app.asks.set()
    (task,) = protocol.tasks
    await task
    assert app.past == 1
    assert wire.sent == b""


@pytest.mark.asyncio
async def test_an_answer_that_breaks_is_told_and_ends_the_connection() -> None:
    """Nobody waits for a reply that will not come, whatever went wrong behind it."""

    class Broken(Application):
        async def answer(self, direct: Any, headers: Any, body: bytes) -> Any:
            raise RuntimeError("of the test")

    sent, closed = await told(Broken(), POST)
    assert sent.startswith(b"HTTP/1.1 500 ")
    assert b"of the test" not in sent
    assert closed


@pytest.mark.asyncio
async def test_nothing_is_written_to_a_connection_that_was_ended() -> None:
    """Also while its answer was on its way: a write to a closed socket raises."""
    asks = asyncio.Event()
    protocol, wire = opened(Application(asks))
    protocol.data_received(POST)
    await asyncio.sleep(0)
    wire.closed = True
    asks.set()
    for _ in range(8):
        await asyncio.sleep(0)
    assert wire.sent == b""
    protocol.connection_lost(None)


@pytest.mark.asyncio
async def test_a_server_that_ends_lets_its_last_request_be_answered() -> None:
    """The reply says that the connection ends, and it ends after it."""
    app = Application(asyncio.Event())
    protocol, wire = opened(app)
    protocol.data_received(POST)
    await asyncio.sleep(0)
    protocol.shutdown()
    assert not wire.closed
    assert app.asks is not None
    app.asks.set()
    (task,) = protocol.tasks
    await task
    assert b"connection: close\r\n" in wire.sent
    assert wire.closed
    protocol.connection_lost(None)


PIECES = st.one_of(
    st.sampled_from([POST, *ODD]),
    st.sampled_from(
        [b"\r\n", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"Content-Length: 3\r\n", b"5\r\n"]
    ),
    st.binary(max_size=6),
)


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(PIECES, max_size=5),
    cuts=st.lists(st.integers(0, 700), max_size=4),
    drops=st.lists(st.tuples(st.integers(0, 600), st.binary(max_size=2)), max_size=2),
)
def test_whatever_is_sent_both_ways_write_the_same(
    pieces: list[bytes], cuts: list[int], drops: list[tuple[int, bytes]]
) -> None:
    """Requests cut, glued, spoiled: the same replies and the same end as without the way past."""
    text = b"".join(pieces)
    for place, instead in drops:
        text = text[:place] + instead + text[place + 1 :]
    edges = sorted({0, len(text), *(each for each in cuts if each < len(text))})
    reads = [text[one:two] for one, two in itertools.pairwise(edges)]

    async def both() -> tuple[Any, Any]:
        return await told(Application(), *reads), await told(Application(), *reads, past=False)

    ours, its = asyncio.run(both())
    assert ours == its

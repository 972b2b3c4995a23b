"""Our HTTP client against servers that lie: every outcome is a reply or a typed failure, in bounds.

The servers are scripts of bytes in virtual time (`scripted_network`). What is held for all of them:
`asked` judges each outcome.
"""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_network import Script, ScriptedLoop, Turn, marks, play

from labfleet.adapters.http import connection
from labfleet.adapters.http.pool import HttpTransport
from labfleet.adapters.http.transport import Bounds, Deadlines, NotSent, Reply, ReplyLost
from labfleet.resources.machine import TlsSettings

DEADLINES = Deadlines(connect=3, read=7, total=20)
SMALL = Bounds(connections=2, idle=75, reply_bytes=2000)
MOST = SMALL.reply_bytes + connection.HEAD_BYTES + connection.CHUNK_COST * SMALL.reply_bytes
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n~~~"

Outcome = Reply | NotSent | ReplyLost


async def asked(
    loop: ScriptedLoop, made: HttpTransport, method: str = "GET", body: bytes | None = None
) -> Outcome:
    """Ask once and judge what holds whatever the server does; anything else is raised."""
    begun, before = loop.time(), len(loop.requests)
    outcome: Outcome
    try:
        outcome = await made.request(method, "x", body, DEADLINES, headers={})
    except (NotSent, ReplyLost) as problem:
        outcome = problem
    assert loop.time() - begun <= DEADLINES.total + 0.01
    sent = len(loop.requests) - before
    if isinstance(outcome, NotSent):
        # A read is sent again once; what is said then is of the second time.
        assert sent <= (0 if method == "POST" else 1)
    else:
        assert sent <= (1 if method == "POST" else 2)
    if isinstance(outcome, Reply):
        assert len(outcome.body) <= SMALL.reply_bytes
        told = outcome.body + "".join(outcome.headers.values()).encode("latin-1")
        assert marks(told) <= {len(loop.requests)}  # no byte from before this request
    return outcome


def outcomes(
    *scripts: Script, times: int = 1, method: str = "GET", pause: float = 0.0
) -> list[Outcome]:
    """Ask so often, one request after the other, over plain connections of these scripts."""
    found: list[Outcome] = []

    async def client(loop: ScriptedLoop) -> None:
        made = HttpTransport("http://h", TlsSettings(), SMALL)
        for _ in range(times):
            body = b"b" if method == "POST" else None
            found.append(await asked(loop, made, method, body))
            if pause:
                await later(loop, pause)
        await made.close()

    judge_line(play(scripts, client))
    return found


async def later(loop: ScriptedLoop, seconds: float) -> None:
    """Let virtual time pass."""
    waiting = loop.create_future()
    loop.call_later(seconds, waiting.set_result, None)
    await waiting


def judge_line(loop: ScriptedLoop) -> None:
    """Nothing was complained about, and no connection took more than its bounds."""
    assert loop.complaints == []
    for line in loop.lines:
        # The bounds hold for each exchange of a connection; one delivery may go beyond.
        assert line.delivered <= (MOST + 70_000) * max(1, len(loop.requests))


# --- servers -------------------------------------------------------------------------------------

STATUS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 x",
        b"HTTP/1.1 100 Continue", b"HTTP/1.1 101 Switching", b"HTTP/1.1 103 Hints",
        b"HTTP/1.1 000 none", b"HTTP/1.1 999 most", b"HTTP/1.1 2000 long", b"HTTP/1.1 -1 x",
        b"HTTP/2.0 200 OK", b"HTTP/0.9 200", b"HTTP/1.1 200", b"http/1.1 200 OK", b"ICY 200 OK",
        b"HTTP/1.1  200 OK", b"HTTP/1.1 200 O\x00K", b"HTTP/1.1 302 Found",
    ]
)  # fmt: skip
LENGTHS = st.sampled_from(
    [
        b"0", b"1", b"3", b"5", b"2000", b"2001", b"99999999999999999999999", b"18446744073709551615",
        b"-1", b"+3", b"0x3", b"3,3", b"3, 5", b"3 3", b" 3 ", b"", b"three", b"3\t", b"03",
    ]
)  # fmt: skip
CODINGS = st.sampled_from(
    [
        b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity",
        b"xchunked", b"chunked;q=1", b"", b"\x0bchunked", b"chunked\x00", b" chunked ",
    ]
)  # fmt: skip
FIELD = st.one_of(
    LENGTHS.map(lambda value: b"Content-Length: " + value),
    LENGTHS.map(lambda value: b"content-length:" + value),
    CODINGS.map(lambda value: b"Transfer-Encoding: " + value),
    st.sampled_from(
        [
            b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade",
            b"Upgrade: h2c", b"X: ~", b" folded: 3", b"Content-Length : 3", b": none",
            b"Transfer-Encoding\r\n chunked", b"no colon", b"X: \r\n Content-Length: 5",
            b"Content-Length: 3\nTransfer-Encoding: chunked", b"X: " + b"v" * 70_000,
            b"Trailer: X", b"Location: /~",
        ]
    ),
)  # fmt: skip
CHUNK = st.sampled_from(
    [
        b"3\r\n~~~\r\n", b"1\r\n~\r\n", b"0\r\n\r\n", b"0\r\nX: ~\r\n\r\n", b"3\r\n~~~", b"3\r\n~~~~\r\n",
        b"-1\r\n~\r\n", b"0x3\r\n~~~\r\n", b"3;ext=~\r\n~~~\r\n", b"ffffffffffffffff\r\n~",
        b"fffffffffffffffff\r\n~", b"3\n~~~\n", b" 3\r\n~~~\r\n", b"3 \r\n~~~\r\n", b"\r\n",
        b"7d0\r\n" + b"~" * 2000 + b"\r\n", b"3;" + b"e" * 70_000 + b"\r\n~~~\r\n",
        b"0\r\nContent-Length: 5\r\n\r\n", b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ]
)  # fmt: skip
BODY = st.one_of(
    st.lists(CHUNK, max_size=5).map(b"".join),
    st.integers(0, 6).map(lambda count: b"~" * count),
    st.sampled_from([b"~" * 2000, b"~" * 2001, b"~" * 9000]),
    st.binary(max_size=40).map(lambda data: bytes(each & 0x7F for each in data)),
)


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """Bytes that are more or less a reply."""
    fields = draw(st.lists(FIELD, max_size=4))
    head = b"\r\n".join([draw(STATUS), *fields]) + b"\r\n\r\n"
    return head + draw(BODY)


WELL = st.sampled_from(
    [
        OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n~~~\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\n\r\n~~~",
    ]
)
WAITS = st.sampled_from([0.0, 0.5, 6.9, 7.5, 30.0])
END = st.sampled_from(["eof", "reset"])


@st.composite
def turns(draw: st.DrawFn) -> list[Any]:
    """One turn: pieces of replies with pauses between, and maybe an end."""
    data = b"".join(draw(st.lists(st.one_of(WELL, replies(), WELL), min_size=0, max_size=3)))
    cut = draw(st.integers(0, len(data))) if draw(st.booleans()) else len(data)
    data = data[:cut]
    size = draw(st.sampled_from([1, 2, 3, 7, 64, 1 << 20])) if len(data) < 500 else 1 << 16
    pieces: list[Any] = [data[at : at + size] for at in range(0, len(data), size)]
    for _ in range(draw(st.integers(0, 2))):
        pieces.insert(draw(st.integers(0, len(pieces))), draw(WAITS))
    if draw(st.booleans()):
        pieces.append(draw(END))
    return pieces


SCRIPT = st.builds(
    Script,
    turns=st.lists(turns(), max_size=4),
    early=st.one_of(st.just(()), st.just(()), st.just(()), turns()),
)


@settings(max_examples=100, deadline=None)
@given(
    scripts=st.lists(SCRIPT, max_size=6),
    times=st.integers(1, 5),
    method=st.sampled_from(["GET", "HEAD", "POST"]),
    pause=st.sampled_from([0.0, 0.0, 1.0, 80.0]),
)
def test_every_outcome_is_a_reply_or_a_typed_failure_within_bounds(
    scripts: list[Script], times: int, method: str, pause: float
) -> None:
    """No hang, no foreign exception, no byte said before a request in its reply."""
    assert len(outcomes(*scripts, times=times, method=method, pause=pause)) == times


@settings(max_examples=50, deadline=None)
@given(
    scripts=st.lists(SCRIPT, max_size=8),
    methods=st.lists(st.sampled_from(["GET", "POST"]), min_size=2, max_size=6),
)
def test_requests_at_once_end_whatever_the_servers_do(
    scripts: list[Script], methods: list[str]
) -> None:
    """Requests that share the connections all end in time, and none is left on its way."""

    async def client(loop: ScriptedLoop) -> None:
        made = HttpTransport("http://h", TlsSettings(), SMALL)
        ends: list[Outcome] = []

        async def one(method: str) -> None:
            try:
                ends.append(await made.request(method, "x", b"b", DEADLINES, headers={}))
            except (NotSent, ReplyLost) as problem:
                ends.append(problem)

        tasks = [loop.create_task(one(method)) for method in methods]
        for task in tasks:
            await task
        assert len(ends) == len(methods)
        assert loop.time() <= DEADLINES.total + 0.01
        # private _busy, _waiting: a place that is never given back shows only much later
        assert (made._busy, made._waiting) == (0, [])
        await made.close()

    judge_line(play(scripts, client))


# --- what must be the same however it arrives ----------------------------------------------------

FRAMINGS = {
    "length": OK,
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n~~\r\n1\r\n~\r\n0\r\nT: 1\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n" + OK,
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n~~~~~",
    "same length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n~~~",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "chunks not last": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk too short": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n~~\r\n0\r\n\r\n",
    "chunk too long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n~~\r\n0\r\n\r\n",
    "length too long": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n~~~",
}  # fmt: skip
GOOD = {"length", "chunks", "interim", "nothing", "chunked twice"}


def said(outcome: Outcome) -> tuple[object, ...]:
    """What a caller learns of an outcome."""
    if isinstance(outcome, Reply):
        return outcome.status, dict(outcome.headers), outcome.body
    return type(outcome), outcome.cause


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_split_at_any_byte_changes_nothing(name: str) -> None:
    """However a reply is cut in two, its outcome is that of the whole; contradictions are refused."""
    data = FRAMINGS[name]
    whole = said(*outcomes(Script([[data, "eof"]])))
    assert (whole[0] in (200, 204)) == (name in GOOD), whole
    for at in range(len(data) + 1):
        assert said(*outcomes(Script([[data[:at], data[at:], "eof"]]))) == whole
    single = [data[at : at + 1] for at in range(len(data))]
    assert said(*outcomes(Script([[*single, "eof"]]))) == whole


@pytest.mark.parametrize(
    "extra", [b"~", OK, b"\x00", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n~"]
)
@pytest.mark.parametrize("waited", [None, 0.0, 0.5])
def test_bytes_after_a_reply_end_the_connection(extra: bytes, waited: float | None) -> None:
    """What comes behind a whole reply is nobody's: the next request goes over a new connection."""
    turn: list[Any] = [OK + extra] if waited is None else [OK, waited, extra]
    first, second = outcomes(Script([turn, [b"never"]]), Script([[OK]]), times=2, pause=1.0)
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert (marks(first.body), marks(second.body)) == ({1}, {2})


# --- endless ones --------------------------------------------------------------------------------


def endless(*steps: Any) -> Iterator[Any]:
    """Say this for ever."""
    return itertools.cycle(steps)


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS: dict[str, tuple[Turn, str]] = {
    "interim replies": (endless(b"HTTP/1.1 103 Hints\r\nX: 1\r\n\r\n"), "broken"),
    "slow interim replies": (endless(b"HTTP/1.1 100 Continue\r\n\r\n", 1.5), "broken timeout"),
    "a head": (itertools.chain([HEAD], endless(b"X: 1\r\n")), "broken"),
    "one field": (itertools.chain([HEAD + b"X: "], endless(b"v" * 1000)), "broken"),
    "one name": (itertools.chain([HEAD], endless(b"n" * 1000)), "broken"),
    "a status line": (itertools.chain([b"HTTP/1.1 200 "], endless(b"O" * 1000)), "broken"),
    "a body": (itertools.chain([HEAD + b"\r\n"], endless(b"~" * 1000)), "too_large"),
    "a long body": (itertools.chain([HEAD + b"Content-Length: 10000000000\r\n\r\n"], endless(b"~" * 1000)), "too_large"),
    "small chunks": (itertools.chain([CHUNKS], endless(b"1\r\n~\r\n")), "too_large"),
    "chunk extensions": (itertools.chain([CHUNKS + b"1;"], endless(b"e" * 1000)), "broken"),
    "extended chunks": (itertools.chain([CHUNKS], endless(b"1;" + b"e" * 500 + b"\r\n~\r\n")), "broken too_large"),
    "trailers": (itertools.chain([CHUNKS + b"0\r\n"], endless(b"T: 1\r\n")), "broken"),
    "leading zeros": (itertools.chain([CHUNKS], endless(b"0" * 1000)), "broken"),
    "empty lines": (endless(b"\r\n" * 100), "broken"),
    "a slow head": (itertools.chain([HEAD], endless(b"X: 1\r\n", 5.0)), "timeout"),
    "a slow body": (itertools.chain([HEAD + b"\r\n"], endless(b"~", 5.0)), "timeout"),
    "silence": ([], "timeout"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_ends_is_ended(name: str) -> None:
    """By a bound of bytes at once, or by the deadline when it is slow."""
    turn, causes = ENDLESS[name]
    (outcome,) = outcomes(Script([list(itertools.islice(turn, 150_000))]), method="POST")
    assert isinstance(outcome, ReplyLost)
    assert outcome.cause in causes.split()


def test_a_body_of_the_smallest_chunks_costs_little_more_than_its_bytes() -> None:
    """Pieces are not kept one by one: a body in chunks of two bytes takes a few times its size."""
    size = 200_000
    data = CHUNKS + b"2\r\n~~\r\n" * (size // 2) + b"0\r\n\r\n"
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
    found: list[int] = []

    async def client(loop: ScriptedLoop) -> None:
        made = HttpTransport("http://h", TlsSettings(), Bounds(reply_bytes=size))
        tracemalloc.start()
        try:
            reply = await made.request("GET", "x", None, DEADLINES, headers={})
            found.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert len(reply.body) == size
        await made.close()

    play([Script([pieces])], client)
    assert found[0] < 4 * size


def test_names_of_headers_are_not_hoarded() -> None:
    """Long names that a server invents are not kept beyond their reply."""
    connection.lowered.cache_clear()
    lines = b"".join(b"n%d%s: 1\r\n" % (number, b"x" * 5000) for number in range(10))
    reply = HEAD + lines + b"Content-Length: 0\r\n\r\n"
    (outcome,) = outcomes(Script([[reply]]))
    assert isinstance(outcome, Reply)
    assert len(outcome.headers) == 11
    assert connection.lowered.cache_info().currsize == 1

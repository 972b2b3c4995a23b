"""One HTTP/1.1 connection to a server: one request on its way at most, one bounded reply.

The parsing is httptools' (llhttp). It knows sockets, TLS and HTTP, not the pool.
Anything but a whole reply ends the connection, so that a reused one never has unread bytes.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable
from typing import NamedTuple, cast

import httptools

from labfleet.adapters.http.tls import RECORD, Channel
from labfleet.adapters.http.transport import NotSent, Reply, ReplyLost

HEAD_BYTES = 65536
"""Most bytes of a reply that are not body; a body of many small chunks may have more."""
CHUNK_COST = 8
INTERIM = 16
"""Most 1xx replies before the real one."""
PIECE = 65536
"""Bytes of a request handed to the socket at once."""
FRAMED = ("content-length", "transfer-encoding")


NAME_BYTES = 64
"""Longer names of headers are not remembered: a server could have us keep what it invents."""


@functools.lru_cache(maxsize=256)
def lowered(raw: bytes) -> str:
    """Return a header's name in lower case."""
    return raw.decode("latin-1").lower()


class Request(NamedTuple):
    """One request: head as it goes out, `until` in loop time, `read` in seconds."""

    method: str
    head: bytes
    body: bytes | None
    until: float
    read: float

    def __repr__(self) -> str:
        """Name the method: head and body hold secrets."""
        return f"Request({self.method})"


class Connection(asyncio.Protocol):
    """A connection with its deadlines; `lost` is called once when it is over.

    Requests share one timer: when it fires, it checks whether the deadline has moved meanwhile.
    """

    __slots__ = (
        "_body", "_channel", "_cut", "_head_done", "_headers", "_interim", "_lost",
        "_method", "_most", "_open", "_parser", "_raw", "_read", "_reply", "_resume", "_shaken",
        "_size", "_status", "_timer", "_timer_at", "_transport", "_until", "fed", "heard_at",
        "idle_since", "loop", "on_header", "reusable",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, most: int, lost: Callable[[Connection], None]
    ) -> None:
        """Take the most bytes that a reply's body may have."""
        self.loop = loop
        self._most = most
        self._lost = lost
        self._transport: asyncio.Transport
        self._channel: Channel | None = None
        self._shaken: asyncio.Future[None] | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._reply: asyncio.Future[Reply] | None = None
        self._resume: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = self._until = self._read = self.heard_at = self.idle_since = 0.0
        self._open = self.reusable = False
        self._method = ""
        self._raw: dict[bytes, bytes] = {}
        # The parser's own way in: most of a reply's callbacks are headers.
        self.on_header = self._raw.__setitem__
        self._begin()

    def _begin(self) -> None:
        self._raw.clear()
        self._headers: dict[str, str] = {}
        self._body: bytes | bytearray = b""
        self._size = self._status = self._interim = self.fed = 0
        self._head_done = self._cut = False

    # --- making it and ending it ---------------------------------------------------------

    async def secure(
        self, trust: ssl.SSLContext, hostname: str, session: ssl.SSLSession | None
    ) -> Channel:
        """Do the TLS handshake; SSLError or ConnectionResetError when it fails."""
        channel = self._channel = Channel(trust, hostname, session)
        shaken = self._shaken = self.loop.create_future()
        self._shake()
        await shaken
        return channel

    def _shake(self) -> bool:
        """Go on with the handshake; True when it is done."""
        channel, shaken = self._channel, self._shaken
        if channel is None or shaken is None or shaken.done():
            return False
        try:
            done = channel.shake()
        except (ssl.SSLError, ssl.CertificateError) as problem:
            shaken.set_exception(problem)
            done = False
        self._flush(channel)
        if done:
            shaken.set_result(None)
            self._shaken = None
        return done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        self._transport = cast("asyncio.Transport", transport)
        self._open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """End whatever waits."""
        del exc
        self._end()
        self._open = self.reusable = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parser = None
        self._lost(self)

    def eof_received(self) -> bool:
        """End; over TLS a reply without a length is not whole unless TLS was ended first."""
        self._cut = self._channel is not None
        self._end()
        return False

    @property
    def alive(self) -> bool:
        """Tell whether a request may be sent."""
        return self._open and not self._transport.is_closing()

    @property
    def ready(self) -> bool:
        """Tell whether a kept connection may take a request.

        A part of a TLS record that came unasked would become the beginning of the next reply.
        """
        here = self._open and not self._transport.is_closing()
        return here and (self._channel is None or self._channel.between)

    def session(self, trust: ssl.SSLContext | None) -> ssl.SSLSession | None:
        """Return the TLS session to offer next time, while the same is trusted."""
        return None if self._channel is None else self._channel.session(trust)

    def close(self) -> None:
        """Say goodbye and end; a reply that is waited for is lost."""
        if not self.alive:
            return
        if self._reply is not None:
            self._fail(ReplyLost("closed", "the connection was closed"))
            return
        if self._channel is not None and self._shaken is None:
            self._transport.write(self._channel.goodbye())
        self._transport.close()
        self._open = False

    def abort(self) -> None:
        """End at once."""
        was, self._open, self.reusable = self._open, False, False
        if was:
            self._transport.abort()

    # --- one exchange ----------------------------------------------------------------------

    async def exchange(self, request: Request) -> Reply:
        """Send a request and return its reply, or ReplyLost.

        Cancelled or failed, the connection is gone. NotSent when it was gone before.
        """
        if not self.ready or self._reply is not None:
            raise NotSent("closed", "the connection was closed")
        self._begin()
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        self.reusable = False
        self._method = request.method
        reply: asyncio.Future[Reply] = self.loop.create_future()
        self._reply = reply
        self.heard_at = self.loop.time()
        self._until, self._read = request.until, request.read
        self._watch()
        head, body = request.head, request.body
        try:
            if body is None or len(body) <= PIECE:
                self._write(head if body is None else head + body)
            else:
                await self._upload(head, body, reply)
            return await reply
        except BaseException:
            self.abort()
            raise
        finally:
            self._reply = None

    async def _upload(self, head: bytes, body: bytes, reply: asyncio.Future[Reply]) -> None:
        """Send a large body as fast as it is taken; an early reply ends it."""
        self._write(head)
        for start in range(0, len(body), PIECE):
            if self._resume is not None:
                await self._resume
            if reply.done():  # the rest of the body would be taken for the next request
                self.reusable = False
                return
            self.heard_at = self.loop.time()
            self._write(body[start : start + PIECE])

    def _write(self, data: bytes) -> None:
        channel = self._channel
        try:
            sealed = data if channel is None else channel.seal(data)
        except ssl.SSLError:
            self._fail(ReplyLost("closed", "the connection was closed"))
            return
        self._transport.write(sealed)

    def pause_writing(self) -> None:
        """Let an upload wait."""
        self._resume = self.loop.create_future()

    def resume_writing(self) -> None:
        """Let it go on."""
        resume, self._resume = self._resume, None
        if resume is not None and not resume.done():
            resume.set_result(None)

    def _watch(self) -> None:
        due = min(self._until, self.heard_at + self._read)
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self.loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._reply is None:
            return
        # The loop rounds its clock and its timers to milliseconds in different ways.
        if min(self._until, self.heard_at + self._read) <= self.loop.time() + 0.001:
            self._fail(ReplyLost("timeout", "no answer in time"))
        else:
            self._watch()

    def _fail(self, why: ReplyLost) -> None:
        reply = self._reply
        if reply is not None and not reply.done():
            reply.set_exception(why)
        self.resume_writing()
        self.abort()

    def _end(self) -> None:
        """At the end of input, decide whether the reply is whole, truncated, or missing."""
        self.resume_writing()
        if self._shaken is not None and not self._shaken.done():
            self._shaken.set_exception(ConnectionResetError())
        reply = self._reply
        if reply is None or reply.done():
            return
        if not self._head_done:
            self._fail(ReplyLost("closed", "the connection was closed"))
        elif not self._cut and self._headers.keys().isdisjoint(FRAMED):
            self._finish(reusable=False)
        else:
            self._fail(ReplyLost("truncated", "the reply broke off"))

    # --- what comes in -----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take bytes off the wire."""
        channel = self._channel
        if channel is None:
            self._feed(data)
            return
        channel.take(data)
        if self._shaken is not None and not (self._shake() and channel.unread):
            return
        try:
            self._open_up(channel)
        except ssl.SSLError:
            self._fail(ReplyLost("broken", "the TLS connection broke"))
            return
        self._flush(channel)

    def _open_up(self, channel: Channel) -> None:
        """Read what came through TLS; SSLError when it is not what the server sealed."""
        while (plain := channel.read()) is not None:
            if not plain:
                self._end()
                self.close()
                return
            self._feed(plain)
            if len(plain) < RECORD and not channel.unread:
                return

    def _flush(self, channel: Channel) -> None:
        """Send TLS's own pending bytes."""
        if channel.speaks and self._open:
            self._transport.write(channel.outgoing())

    def _feed(self, data: bytes) -> None:
        reply, parser = self._reply, self._parser
        if reply is None or parser is None or reply.done():
            self.abort()  # no request is open
            return
        self.heard_at = self.loop.time()
        self.fed += len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if reply.done():
                self.abort()
            else:
                self._fail(ReplyLost("broken", "the reply is not HTTP"))
            return
        if not reply.done() and self.fed - self._size > HEAD_BYTES + CHUNK_COST * self._size:
            self._fail(ReplyLost("broken", "the reply's head is larger than allowed"))

    def on_message_begin(self) -> None:
        """Refuse a second reply in the same bytes."""
        if self._reply is None or self._reply.done():
            raise ValueError("nobody asked")

    def on_headers_complete(self) -> None:
        """See what kind of reply it is."""
        parser = self._parser
        self._status = status = 0 if parser is None else parser.get_status_code()
        if status < 200:
            return
        self._head_done = True
        # Decoded now: what the parser adds later are trailers.
        self._headers = {
            lowered(name)
            if len(name) <= NAME_BYTES
            else name.decode("latin-1").lower(): text.decode("latin-1")
            for name, text in self._raw.items()
        }
        if self._method == "HEAD":  # the parser cannot be told that no body follows
            self._finish(reusable=False)

    def on_body(self, data: bytes) -> None:
        """Collect, within the bound."""
        self._size += len(data)
        if self._size > self._most:
            self._fail(ReplyLost("too_large", "the reply is larger than allowed"))
            raise ValueError("too large")
        if not self._body:
            self._body = data  # most replies come in one piece
            return
        if isinstance(self._body, bytes):
            # One buffer: kept one by one, chunks of two bytes would take sixty times their size.
            self._body = bytearray(self._body)
        self._body += data

    def on_message_complete(self) -> None:
        """Give the reply, or go on after a 1xx."""
        if self._status >= 200:
            parser = self._parser
            self._finish(reusable=parser is not None and parser.should_keep_alive())
            return
        self._interim += 1
        self._raw.clear()
        if self._interim > INTERIM:
            raise ValueError("too many interim replies")

    def _finish(self, *, reusable: bool) -> None:
        reply = self._reply
        if reply is None or reply.done():
            return
        self.reusable = reusable and self._open
        reply.set_result(Reply(self._status, self._headers, bytes(self._body)))
        self._body, self._headers = b"", {}  # an idle connection holds nothing of its last reply
        self._raw.clear()

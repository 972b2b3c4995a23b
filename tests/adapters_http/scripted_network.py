"""A loop in virtual time whose connections lead to servers that say what a script tells them.

No sockets: `create_connection` gives a transport that plays one script a connection. A turn of it
is played once a request is there. Waiting costs no time; waiting for ever is an error (`Hang`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import selectors
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

MARK = b"~"
"""Stands in scripts for a byte that tells after how many requests it was put on the wire."""
FIRST_MARK = 0xC0
MARKS = 32
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)

Step = bytes | float | str | tuple[Any, ...]
"""Bytes to send, seconds to wait, or `eof`, `reset`, `goodbye` (TLS's own end).

`("sealed", bytes)` goes on the wire beside TLS; `("early", bytes, count)` keeps the last bytes of its
record back until `("rest",)`.
"""
Turn = Iterable[Step]


class Hang(Exception):
    """Nothing will ever happen again, and somebody waits."""


@dataclass
class Script:
    """What one connection does: turns in order; `early` is said before any request."""

    turns: list[Turn] = field(default_factory=list)
    early: Turn = ()
    tls: ssl.SSLContext | None = None
    raw: bool = False
    """Whether the bytes go on the wire as they are, although TLS is spoken."""


class Instant(selectors.SelectSelector):
    """A selector that does not wait: it moves the clock on."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Hang
        # Two timers at the same instant must not take two rounds for ever.
        self.now += max(0.0, timeout)
        return super().select(0)


class ScriptedLoop(asyncio.SelectorEventLoop):
    """A loop of its own time, with a network of scripts: the n-th connection plays the n-th."""

    def __init__(self, scripts: Iterator[Script]) -> None:
        self._instant = Instant()
        super().__init__(self._instant)
        self.scripts = scripts
        self.lines: list[ScriptedLine] = []
        self.requests: list[bytes] = []
        self.complaints: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _loop, told: self.complaints.append(told))

    def time(self) -> float:
        return self._instant.now

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], *_: Any
    ) -> tuple[ScriptedLine, asyncio.Protocol]:
        script = next(self.scripts, None)
        if script is None:
            raise ConnectionRefusedError(111, "refused")
        protocol = factory()
        line = ScriptedLine(self, protocol, script)
        self.lines.append(line)
        protocol.connection_made(line)
        line.play(script.early)
        return line, protocol


class ScriptedLine(asyncio.Transport):
    """The client's end of a connection, and the server behind it."""

    def __init__(self, loop: ScriptedLoop, protocol: asyncio.Protocol, script: Script) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._script = script
        self._turns = iter(script.turns)
        self._steps: list[Iterator[Step]] = []
        self._pending = b""
        self._playing = self._closing = self._lost = False
        self.delivered = 0
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if script.tls is not None and not script.raw:
            self._tls = script.tls.wrap_bio(self._in, self._out, server_side=True)
        self._shaken = False
        self._rest = b""

    # --- the client's side ---------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 80) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._over, None)

    def write(self, data: Any) -> None:
        if self._closing:
            return
        if self._script.tls is None:
            self._hear(bytes(data))
        elif self._tls is not None:
            self._in.write(data)
            # The server is another process: it answers in a later round of the loop.
            self._loop.call_soon(self._unseal)

    # --- the server's side ---------------------------------------------------------------------

    def _unseal(self) -> None:
        tls = self._tls
        if tls is None or self._closing:
            return
        try:
            if not self._shaken:
                tls.do_handshake()
                self._shaken = True
            while plain := tls.read(65536):
                self._hear(plain)
        except ssl.SSLError:
            pass
        self._send(self._out.read())

    def _hear(self, data: bytes) -> None:
        """Note whole requests; each lets the next turn begin."""
        self._pending += data
        while (end := self._pending.find(b"\r\n\r\n")) >= 0:
            head = self._pending[:end]
            size = LENGTH.search(head)
            whole = end + 4 + (int(size[1]) if size else 0)
            if len(self._pending) < whole:
                return
            self._pending = self._pending[whole:]
            self._loop.requests.append(head)
            self.play(next(self._turns, ()))

    def play(self, turn: Turn) -> None:
        """Say this after what is being said."""
        self._steps.append(iter(turn))
        if not self._playing:
            self._playing = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        while self._steps and not self._closing:
            step = next(self._steps[0], None)
            if step is None:
                self._steps.pop(0)
                continue
            if isinstance(step, float):
                self._loop.call_later(step, self._next)
                return
            self._do(step)
            self._loop.call_soon(self._next)
            return
        self._playing = False

    def _do(self, step: bytes | str | tuple[Any, ...]) -> None:
        if isinstance(step, tuple):
            self._do_beside(step)
        elif isinstance(step, bytes):
            mark = bytes([FIRST_MARK + len(self._loop.requests) % MARKS])
            self._send(self._sealed(step.replace(MARK, mark)))
        else:
            self._end(step)

    def _do_beside(self, step: tuple[Any, ...]) -> None:
        """Write what an honest TLS library would not."""
        if step[0] == "sealed":
            self._send(step[1])
        elif step[0] == "early":
            record = self._sealed(step[1])
            self._rest = record[-step[2] :]
            self._send(record[: -step[2]])
        else:
            self._send(self._rest)

    def _sealed(self, data: bytes) -> bytes:
        if self._tls is None:
            return data
        if not self._shaken:
            return b""
        self._tls.write(data)
        return self._out.read()

    def _end(self, step: str) -> None:
        if step == "eof":
            keeps = self._protocol.eof_received()
            if not keeps:
                self.abort()
        elif step == "reset":
            self._closing = True
            self._over(ConnectionResetError(104, "reset"))
        elif step == "goodbye" and self._tls is not None:
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._send(self._out.read())

    def _send(self, data: bytes) -> None:
        if data and not self._closing:
            self.delivered += len(data)
            self._protocol.data_received(data)

    def _over(self, problem: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(problem)


def marks(data: bytes) -> set[int]:
    """Return after how many requests the marked bytes of this were put on the wire."""
    return {each - FIRST_MARK for each in data if FIRST_MARK <= each < FIRST_MARK + MARKS}


def play(
    scripts: Iterable[Script], client: Callable[[ScriptedLoop], Coroutine[Any, Any, None]]
) -> ScriptedLoop:
    """Run a client against these connections; Hang when it waits for ever."""
    loop = ScriptedLoop(iter(scripts))
    try:
        loop.run_until_complete(client(loop))
        # What was left behind must not wake anybody later.
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()
    return loop

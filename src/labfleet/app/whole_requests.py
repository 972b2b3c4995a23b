"""Answers a request of a direct route that came whole in one read, past ASGI.

ASGI costs more than such a request's decision: a cycle, a receive, two sends, a scope that is
copied. Only what needs nothing of it is taken here; all else, and all that is odd, goes on to
uvicorn's own protocol as if this one were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from labfleet.app.head_limits import BoundedHeads

Headers = list[tuple[bytes, bytes]]
MOST = 64 * 1024
_BROKEN = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
"""Bytes of a body that is taken here; decoding a larger one would hold up the loop."""


class Answers(Protocol):
    """The application, as far as it answers without ASGI."""

    @property
    def direct(self) -> Mapping[bytes, Any]:
        """Return what a POST to each path is answered by."""
        ...

    async def answer(
        self, direct: Any, headers: Headers, body: bytes
    ) -> tuple[int, Headers, bytes]:
        """Return status, headers and body of the reply."""
        ...


class _Exchange:
    """A request that is being answered, as uvicorn's protocol asks after its cycles."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self, nobody: _Nobody) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.message_event = nobody
        self.response_complete = False


class _Nobody:
    """Stands for the event that wakes a cycle: here nobody waits for one."""

    def set(self) -> None:
        """Wake nobody."""


_NOBODY = _Nobody()


class WholeRequests(BoundedHeads):
    """The protocol of a server; `answers` is its application, None where all goes through ASGI."""

    answers: ClassVar[Answers | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._direct: Any = None
        """What answers the request that is being read, if it came so far in one read."""
        self._body = b""

    def data_received(self, data: bytes) -> None:
        """Read on; hand a request to uvicorn whose end is not there yet."""
        super().data_received(data)
        if self._direct is None:
            return
        body, self._direct, self._body = self._body, None, b""
        if not self.transport.is_closing():
            super().on_headers_complete()
            if body:
                super().on_body(body)

    def on_headers_complete(self) -> None:
        """Take a request for a direct route, unless there is anything about it to think over."""
        found = self._found()
        if found is None:
            super().on_headers_complete()
            return
        self.head_ended()
        self._direct, self._body = found, b""

    def _found(self) -> Any:
        """Return what answers the request whose head was read; None leaves it to uvicorn."""
        answers, before = self.answers, self.cycle
        found = None if answers is None else answers.direct.get(self.url)
        if found is None or self.parser.get_method() != b"POST":
            return None
        given = dict(self.headers)
        length = given.get(b"content-length", b"")
        plain = (
            (before is None or before.response_complete)
            and len(given) == len(self.headers)
            and b"transfer-encoding" not in given
            and length.isdigit()
            and len(length) < 10  # with zeros in front it could be any number
            and 0 < int(length) <= MOST
            and not self.expect_100_continue
            and self.limit_concurrency is None
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        )
        return found if plain else None

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        if self._direct is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """Answer the request that is there whole now."""
        if self._direct is None:
            super().on_message_complete()
            return
        self.expect_head()
        direct, self._direct = self._direct, None
        self.cycle: Any = _Exchange(_NOBODY)
        task = self.loop.create_task(self._answer(direct, self.headers, self._body, self.cycle))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _answer(self, direct: Any, headers: Headers, body: bytes, mine: _Exchange) -> None:
        assert self.answers is not None  # noqa: S101 - it has found the route
        try:
            status, told, made = await self.answers.answer(direct, headers, body)
            if self.flow.write_paused and not mine.disconnected:
                await self.flow.drain()
        except BaseException as problem:
            self._broke(problem)
            if isinstance(problem, Exception):
                return
            raise
        if mine.disconnected or self.transport.is_closing():
            return
        lines = [STATUS_LINE[status]]
        for name, value in (*self.server_state.default_headers, *told):
            lines += (name, b": ", value, b"\r\n")
        lines += (b"\r\n" if mine.keep_alive else b"connection: close\r\n\r\n", made)
        self.transport.write(b"".join(lines))
        mine.response_complete = True
        if not mine.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _broke(self, problem: BaseException) -> None:
        """Say that an answer did not come, as uvicorn does: the server ends, or there is a defect."""
        if not self.transport.is_closing():
            self.transport.write(_BROKEN)
            self.transport.close()
        self.logger.error("no answer to a request", exc_info=problem)


def bounded(
    most: int, full: Callable[[], None], answers: Answers | None = None
) -> type[WholeRequests]:
    """Return the protocol for a server of at most so many connections; `full` is as BoundedHeads'."""
    given = {"most": most, "full": staticmethod(full), "answers": answers}
    return type("BoundedConnections", (WholeRequests,), given)

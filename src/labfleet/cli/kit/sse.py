"""Reading server-sent events from a byte stream; knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

LINE_LIMIT = 16 << 20
MESSAGE_LIMIT = 64 << 20


class Lines(Protocol):
    """A source of lines: an HTTP answer, or a file in tests."""

    def readline(self, limit: int = -1, /) -> bytes:
        """Return the next line with its end, or nothing at the end of the stream."""
        ...


class Message(NamedTuple):
    """One event: its type (`message` when unnamed), its id, its data."""

    type: str
    id: str | None
    data: str


def messages(source: Lines) -> Iterator[Message]:
    """Yield complete events, without comments and without a half event at the end.

    An id without data (a heartbeat) is yielded with empty data: it moves the cursor.

    OSError when a line or an event is longer than the bounds.
    """
    kind, data, size = "message", list[str](), 0
    last: str | None = None
    moved = False
    while line := source.readline(LINE_LIMIT):
        if len(line) >= LINE_LIMIT and not line.endswith(b"\n"):
            raise OSError("a line of the event stream is too long")
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data or moved:
                yield Message(kind, last, "\n".join(data))
            kind, data, size, moved = "message", [], 0, False
            continue
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            size += len(value)
            if size > MESSAGE_LIMIT:
                raise OSError("an event of the stream is too long")
            data.append(value)
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            last, moved = value, True

"""A port at which surely nobody listens, or that only who is told of it will bind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Give a TCP port that is ours meanwhile: bound and never listened on.

    A connection to it is refused. A server that sets SO_REUSEADDR, as all of ours and PostgreSQL
    do, may listen on it; the system gives it to nobody else.
    """
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", 0))
        yield int(made.getsockname()[1])

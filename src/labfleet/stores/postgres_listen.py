"""Hears PostgreSQL's NOTIFY in the event loop, so that watchers need not wait for their poll.

Losing it costs latency only. The socket is watched by the loop; connecting, which blocks, is
done in a spare lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import psycopg

from labfleet.kernel import errors
from labfleet.stores.postgres_links import Connection, connect

CHANNEL = "labfleet_log"
RETRY = 5.0

Spare = Callable[[Callable[[], None]], asyncio.Future[None]]


class Listener:
    """One listening connection and the loop that watches its socket."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None
        self._socket = -1
        self._wake: Callable[[int], None] | None = None
        self._spare: Spare | None = None
        self._retry: asyncio.TimerHandle | None = None

    def start(self, wake: Callable[[int], None], spare: Spare) -> None:
        """Begin, from the loop; `spare` runs blocking work."""
        self._wake, self._spare = wake, spare
        self._connect()

    def stop(self) -> None:
        """Stop listening; call from the loop."""
        self._wake = None
        if self._retry is not None:
            self._retry.cancel()
        self._drop()

    def _connect(self) -> None:
        if self._spare is not None and self._wake is not None:
            self._spare(self._open).add_done_callback(self._opened)

    def _open(self) -> None:
        connection = connect(self._url)
        connection.execute(f"LISTEN {CHANNEL}")
        self._connection = connection

    def _opened(self, opening: asyncio.Future[None]) -> None:
        if opening.cancelled() or self._wake is None:
            self._drop()
            return
        error = opening.exception()
        if error is not None:
            if not isinstance(error, errors.LabfleetError | psycopg.Error):
                raise error
            self._retry = asyncio.get_running_loop().call_later(RETRY, self._connect)
            return
        if self._connection is not None:
            self._socket = self._connection.pgconn.socket
            asyncio.get_running_loop().add_reader(self._socket, self._hear)

    def _hear(self) -> None:
        connection, wake = self._connection, self._wake
        if connection is None or wake is None:
            return
        try:
            connection.pgconn.consume_input()
            while (said := connection.pgconn.notifies()) is not None:
                wake(int(said.extra))
        except (psycopg.Error, ValueError):
            self._drop()
            self._retry = asyncio.get_running_loop().call_later(RETRY, self._connect)

    def _drop(self) -> None:
        if self._socket >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket = -1
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

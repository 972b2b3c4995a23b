"""Connections to PostgreSQL that reconnect; translates its errors to kernel errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo

from labfleet.kernel import errors
from labfleet.stores.database import UNSTORABLE

Connection = psycopg.Connection[tuple[Any, ...]]

# Used where the URL does not say otherwise. A dead network is noticed within 15 s.
DEFAULTS = {
    "application_name": "labfleet",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
# A writer that stalls inside its transaction is ended before those who wait for it give up.
TIME_OUTS = (
    "SET idle_in_transaction_session_timeout = '10s'",
    "SET lock_timeout = '20s'",
    "SET statement_timeout = '30s'",
)
_BUSY = {"55P03", "57014", "40001", "40P01"}
_AWAY = {"57P01", "57P02", "57P03", "57P05", "25P03"}


class Link:
    """One connection, made when needed and made again when it broke.

    `prepare` runs on each new connection before anybody uses it.
    """

    def __init__(self, url: str, prepare: Callable[[Connection], None] | None = None) -> None:
        self._url = url
        self._prepare = prepare
        self._connection: Connection | None = None

    def connected(self) -> Connection:
        """Return the connection; Unreachable when there is none to be had."""
        if self._connection is None or self._connection.closed:
            self._connection = None
            connection = connect(self._url)
            if self._prepare is not None:
                try:
                    with translated("open the store", connection):
                        self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
            self._connection = connection
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def connect(url: str) -> Connection:
    """Return a new connection with our time-outs, every statement its own transaction."""
    try:
        given = {name: str(value) for name, value in conninfo.conninfo_to_dict(url).items()}
    except psycopg.ProgrammingError:
        # Without the driver's message, which contains the URL and so a password.
        message = "the postgresql:// URL cannot be read; check its form and its % escapes"
        raise errors.Permanent(message, reason="UnknownStore") from None
    text = conninfo.make_conninfo("", **(DEFAULTS | given))
    where = f"PostgreSQL at {given.get('host', 'the local socket')}"
    try:
        connection = psycopg.connect(text, autocommit=True)
        for statement in TIME_OUTS:
            connection.execute(statement)
    except psycopg.Error as error:
        raise _no_connection(error, where) from error
    return connection


def _no_connection(error: psycopg.Error, where: str) -> errors.LabfleetError:
    text = " ".join(str(error).split())
    if (error.sqlstate or "").startswith("28") or "authentication failed" in text:
        return errors.Denied("the store refuses the credentials", inner=f"{where}: {text}")
    if error.sqlstate == "3D000" or ("database" in text and "does not exist" in text):
        message = "the store has no such database"
        return errors.Permanent(message, reason="NoSuchDatabase", inner=f"{where}: {text}")
    if error.sqlstate == "53300" or "too many clients" in text or "connection slots" in text:
        message = "the store takes no more connections"
        return errors.OutOfCapacity(message, inner=f"{where}: {text}")
    return errors.Unreachable("the store does not answer", inner=f"{where}: {text}")


@contextmanager
def translated(doing: str, connection: Connection, *, sent: bool = False) -> Iterator[None]:
    """Raise kernel errors in place of psycopg's. `sent`: a COMMIT was on its way."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, doing, connection, sent=sent) from error
    except (UnicodeError, OverflowError) as error:
        message = f"cannot {doing}: {UNSTORABLE}"
        raise errors.Invalid(message, reason="UnstorableValue", inner=str(error)) from error


def translate(
    error: psycopg.Error, doing: str, connection: Connection, *, sent: bool = False
) -> errors.LabfleetError:
    """Return the kernel error for what PostgreSQL, or the silence of it, says."""
    state = error.sqlstate or ""
    text = " ".join(str(error).split())
    if connection.closed or state in _AWAY or state.startswith("08"):
        if sent:
            message = f"cannot tell whether the {doing} happened: the store's connection broke"
            return errors.Ambiguous(message, inner=text)
        message = f"cannot {doing}: the connection to the store broke"
        return errors.Unreachable(message, inner=text)
    if state.startswith("53"):
        message = f"cannot {doing}: PostgreSQL is out of room; nothing was written"
        return errors.OutOfCapacity(message, inner=text)
    if state in _BUSY:
        message = f"cannot {doing}: the database stayed locked; nothing was written"
        return errors.Temporary(message, reason="StoreBusy", retry_after=1.0, inner=text)
    if state.startswith("22") or isinstance(error, psycopg.DataError):
        message = f"cannot {doing}: {UNSTORABLE}"
        return errors.Invalid(message, reason="UnstorableValue", inner=text)
    if state.startswith(("42501", "25006")):
        message = f"cannot {doing}: the store may not be written"
        return errors.Permanent(message, reason="StoreNotWritable", inner=text)
    return errors.Permanent(f"cannot {doing}: the store failed", reason="StoreFailed", inner=text)

"""Brings a PostgreSQL database to our schema, and begins a new epoch after a failover."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labfleet.stores.postgres_links import Connection
from labfleet.stores.statements import Migration, migrations, pending, statements

_LOCK = 0x1AB_F1EE7
_TABLE = (
    "CREATE TABLE IF NOT EXISTS migrations ("
    "number bigint PRIMARY KEY, name text NOT NULL, digest text NOT NULL)"
)


def begin_life(connection: Connection, new_epoch: Callable[[], str]) -> None:
    """Migrate; on a server whose timeline has moved since the last time, begin a new epoch.

    A standby that takes over may have lost the last commits, so cursors, versions and fencing
    tokens of before must not be believed any more.
    """
    sql = statements("postgres")
    with connection.transaction():
        migrate(connection)
        timeline, known = _one(connection, sql["timeline"])
        if known is None:
            connection.execute(sql["start_meta"], (new_epoch(), timeline))
            return
    if timeline != known:
        with connection.transaction():
            connection.execute(sql["lock"])
            if _one(connection, sql["timeline"])[1] == known:
                connection.execute(sql["new_epoch"], (new_epoch(), timeline))
                connection.execute(sql["new_epoch_leases"])


def _one(connection: Connection, statement: str) -> tuple[Any, ...]:
    row = connection.execute(statement).fetchone()
    return row or (None, None)


def migrate(connection: Connection, steps: Sequence[Migration] | None = None) -> None:
    """Apply what is pending, inside the caller's transaction; others wait meanwhile."""
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    # Asked first: the notice of IF NOT EXISTS, and a right to create that may be missing.
    if _one(connection, "SELECT to_regclass('migrations')")[0] is None:
        connection.execute(_TABLE)
    done = connection.execute("SELECT number, name, digest FROM migrations").fetchall()
    applied = {number: (name, digest) for number, name, digest in done}
    known = migrations("postgres") if steps is None else tuple(steps)
    for step in pending(known, applied):
        connection.execute(step.script)
        connection.execute(
            "INSERT INTO migrations (number, name, digest) VALUES (%s, %s, %s)",
            (step.number, step.name, step.digest),
        )

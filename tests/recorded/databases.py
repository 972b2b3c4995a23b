"""Databases as text and back: SQLite's own dump, and the same rows in PostgreSQL's schema.

The PostgreSQL schema is the recorded one too, as pg_dump wrote it, so that today's migrations
find what the recorded revision had made, never what they make themselves.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import psycopg
from postgres_server import PostgresServer, find_binaries
from psycopg import sql


def dumped(path: Path) -> str:
    """Return an SQLite file as SQL text."""
    with sqlite3.connect(path) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def load_sqlite(text: str, path: Path) -> str:
    """Make a file of SQL text; return its URL."""
    connection = sqlite3.connect(path)
    connection.executescript(text)
    connection.close()
    return f"sqlite:///{path}"


def postgres_schema(server: PostgresServer, url: str) -> str:
    """Return a database's schema and its migrations as SQL text, without comments."""
    binaries = find_binaries()
    assert binaries is not None
    parts = []
    for options in (["--schema-only"], ["--data-only", "--inserts", "--table=migrations"]):
        done = subprocess.run(
            [binaries / "pg_dump", "--no-owner", "--no-privileges", *options, url],
            check=True, capture_output=True, timeout=50, text=True,
        )  # fmt: skip
        parts += [line for line in done.stdout.splitlines()
                  if line.strip() and not line.startswith(("--", "\\", "SET ", "SELECT "))]  # fmt: skip
    del server
    return "\n".join(parts) + "\n"


def load_postgres(schema: str, text: str, url: str) -> None:
    """Fill an empty database with a recorded schema and the rows of an SQLite dump."""
    rows = sqlite3.connect(":memory:")
    rows.executescript(text)
    with psycopg.connect(url) as connection:
        connection.execute(schema.replace("public.", ""))  # type: ignore[arg-type]
        for (table,) in rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"):
            if table != "migrations":
                _copy(rows, connection, table)
        connection.execute(
            "UPDATE meta SET timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)"
        )
    rows.close()


def _copy(rows: sqlite3.Connection, connection: psycopg.Connection[Any], table: str) -> None:
    """Copy one table; what only PostgreSQL has (`timeline`) is empty until it is known."""
    found = rows.execute(f'SELECT * FROM "{table}"')
    names = [each[0] for each in found.description]
    extra = ["timeline"] if table == "meta" else []
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, [*names, *extra]))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in found:
            copy.write_row([*row, *("" for _ in extra)])


def tables(text: str) -> dict[str, int]:
    """Return how many rows each table of a dump has."""
    found: dict[str, int] = {}
    for name in re.findall(r'^INSERT INTO "?(\w+)"? VALUES', text, re.MULTILINE):
        found[name] = found.get(name, 0) + 1
    return found

"""What a database's driver says stays in the log: its words name hosts, files and SQL."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

from labfleet.stores import postgres_links, sqlite_files

SECRET = "at 10.0.0.7 in /srv/secret/labfleet.db"


class Link:
    """A connection as far as a translation looks at it."""

    closed = False


@pytest.mark.parametrize("code", [0, 5, 8, 10, 11, 13, 14, 23, 26, 1034])
def test_sqlite_s_words_stay_inside(code: int) -> None:
    """Whatever the code: the message is ours, and the log still has the driver's words."""
    problem = sqlite3.OperationalError(SECRET)
    problem.sqlite_errorcode = code
    told = sqlite_files.translate(problem, "commit")
    assert SECRET not in told.message
    assert code == sqlite3.SQLITE_FULL or SECRET in str(told)


@pytest.mark.parametrize(
    "state", ["", "08006", "53100", "53300", "55P03", "22003", "42501", "25006", "28P01", "57P01"]
)
def test_postgresql_s_words_stay_inside(state: str) -> None:
    """For each class of errors, of a statement and of a connection."""
    kind = psycopg.errors.lookup(state) if state else psycopg.OperationalError
    problem = kind(SECRET)
    for sent in (False, True):
        told = postgres_links.translate(problem, "commit", Link(), sent=sent)
        assert SECRET not in told.message
        assert SECRET in str(told)
    # private _no_connection: it is reached only by a server that refuses
    refused = postgres_links._no_connection(problem, "PostgreSQL at db.internal")
    assert SECRET not in refused.message
    assert "db.internal" not in refused.message
    assert SECRET in str(refused)

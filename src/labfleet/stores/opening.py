"""Opens a store by its URL, and restores one from a backup file.

`sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://:memory:`, `postgresql://...`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from labfleet.interfaces.store import Event, Store, StoreObserver
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.ids import IdSource
from labfleet.stores import sqlite, sqlite_files
from labfleet.stores.database import Database
from labfleet.stores.fleet_store import FleetStore, event_of
from labfleet.stores.runners import Runner
from labfleet.stores.statements import statements

RECORDED_PAGE = 1000
UNFINISHED = "restore-"
"""Begins the epoch of a store that a restore has filled and not ended yet: nobody may work on it."""


async def open_store(
    url: str,
    *,
    runner: Runner,
    ids: IdSource,
    clock: Clock,
    observer: StoreObserver | None = None,
    restoring: bool = False,
) -> Store:
    """Open, migrate and return the store behind a URL; once opened, it closes the runner.

    Permanent: a URL nobody knows, a newer schema ("SchemaTooNew"), no driver, a restore that did
    not come to its end; Temporary: the database does not answer. `observer` is told how each
    write ends; `restoring` opens a store that is being restored.
    """
    scheme, _, rest = url.partition("://")
    opened: Database
    if scheme == "sqlite":
        path = sqlite_path(rest)
        opened = await runner.write(
            lambda: sqlite.SqliteDatabase(path, epoch=new_epoch(ids), readers=runner.readers)
        )
    elif scheme in {"postgresql", "postgres"}:
        postgres = _driver("labfleet.stores.postgres")
        opened = await runner.write(
            lambda: postgres.PostgresDatabase(
                url, new_epoch=lambda: new_epoch(ids), readers=runner.readers
            )
        )
    else:
        raise errors.Permanent(_unknown(scheme), reason="UnknownStore")
    epoch, revision, _ = (await runner.write(lambda: opened.rows(opened.sql["head"])))[0]
    if epoch.startswith(UNFINISHED) and not restoring:
        await runner.write(opened.close)
        message = "a restore into this store was interrupted: remove the store, and restore again"
        raise errors.Permanent(message, reason="RestoreUnfinished")
    return FleetStore(opened, runner, clock, head=revision, observer=observer)


def check(url: str) -> None:
    """Raise Permanent when this installation can open no such store, before anything is started.

    It makes no connection: a missing file or server is noticed only when the store is opened.
    """
    scheme = url.partition("://")[0]
    if scheme in {"postgresql", "postgres"}:
        _driver("labfleet.stores.postgres")
    elif scheme != "sqlite":
        raise errors.Permanent(_unknown(scheme), reason="UnknownStore")


async def restore(
    backup: str,
    url: str,
    *,
    runner: Runner,
    ids: IdSource,
    first: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Fill an empty place with a backup, in a new epoch; return the bytes of the store file.

    Refuses to overwrite: the file must not exist, the database must be empty. `first` writes what
    must stand before anybody works on it: until it has ended, only it can open the store
    (`restoring`), so that a kill in between leaves none that acts.
    """
    scheme, _, rest = url.partition("://")
    filled, new = UNFINISHED + new_epoch(ids), new_epoch(ids)
    if scheme == "sqlite":
        path = sqlite_path(rest)
        size = await runner.write(lambda: sqlite_files.restore(backup, path, epoch=filled))
    elif scheme in {"postgresql", "postgres"}:
        dump = _driver("labfleet.stores.postgres_backup")
        size = await runner.write(lambda: dump.restore(backup, url, epoch=filled))
    else:
        raise errors.Permanent(_unknown(scheme), reason="UnknownStore")
    if first is not None:
        await first()
    if scheme == "sqlite":
        await runner.write(lambda: sqlite_files.begin_epoch(path, new))
    else:
        await runner.write(lambda: dump.begin_epoch(url, new))
    return size


def recorded(url: str) -> Iterator[Event]:
    """Yield every event that a store still has, oldest first, without changing anything.

    The store may be in use. Gone: there is no such file; Permanent: it is no store.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        sql = statements("sqlite")["events"]
        for row in sqlite_files.recorded(sqlite_path(rest), sql, 0, RECORDED_PAGE):
            yield event_of(row[3:])
    elif scheme in {"postgresql", "postgres"}:
        opened = _driver("labfleet.stores.postgres").PostgresDatabase(
            url, new_epoch=lambda: "unused", readers=1
        )
        try:
            after = 0
            while rows := [
                row for row in opened.rows(opened.sql["events"], (after, RECORDED_PAGE)) if row[3]
            ]:
                yield from (event_of(row[3:]) for row in rows)
                after = rows[-1][3]
        finally:
            opened.close()
    else:
        raise errors.Permanent(_unknown(scheme), reason="UnknownStore")


def kept(url: str) -> tuple[int, datetime | None]:
    """Return a store's horizon and the instant of its newest event; errors as of `recorded`.

    What lies behind the horizon may be compacted: of objects that live, the last event stays
    however old it is. No instant: nothing is recorded.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        sql = statements("sqlite")["events"]
        return _kept(lambda after: next(
            sqlite_files.recorded(sqlite_path(rest), sql, after, 1), None
        ))  # fmt: skip
    if scheme not in {"postgresql", "postgres"}:
        raise errors.Permanent(_unknown(scheme), reason="UnknownStore")
    opened = _driver("labfleet.stores.postgres").PostgresDatabase(
        url, new_epoch=lambda: "unused", readers=1
    )
    try:
        return _kept(lambda after: next(
            (row for row in opened.rows(opened.sql["events"], (after, 1)) if row[3]), None
        ))  # fmt: skip
    finally:
        opened.close()


def _kept(row_after: Callable[[int], tuple[Any, ...] | None]) -> tuple[int, datetime | None]:
    first = row_after(0)
    if first is None:
        return 0, None
    last = row_after(int(first[2]) - 1)
    return int(first[1]), event_of((first if last is None else last)[3:]).at


def new_epoch(ids: IdSource) -> str:
    """Return a new epoch name, short because it is part of every cursor."""
    return ids.uid().replace("-", "")[:12]


def _driver(module: str) -> Any:
    """Return a module that needs psycopg, loaded only by those who use PostgreSQL."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"PostgreSQL needs psycopg ({error}): pip install 'labfleet[postgres]'"
        raise errors.Permanent(message, reason="NoDriver") from error


def sqlite_path(rest: str) -> str:
    """Return the file of `sqlite://` + rest: one slash more than the path itself."""
    if rest in {":memory:", "/:memory:"}:
        return ":memory:"
    if not rest.startswith("/") or rest == "/":
        message = (
            "an SQLite URL is sqlite:///file.db, sqlite:////absolute/file.db or sqlite://:memory:"
        )
        raise errors.Permanent(message, reason="UnknownStore")
    return unquote(rest[1:])


def _unknown(scheme: str) -> str:
    return f"no store is known for {scheme[:40]!r}; write sqlite:///file.db or postgresql://..."

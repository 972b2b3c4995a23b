"""Translates SQLite's errors to kernel errors; backup and restore as files."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from labfleet.kernel import errors
from labfleet.stores.database import UNSTORABLE
from labfleet.stores.files import file_errors, publish, refuse_existing
from labfleet.stores.statements import migrations, pending, statements

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SHUT = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}


class translated:  # noqa: N801 - read as a verb; a class, because it is entered for every read
    """Raise kernel errors in place of sqlite3's, saying what was being done."""

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Translate what came."""
        if isinstance(error, sqlite3.Error):
            raise translate(error, self._doing) from error
        if isinstance(error, UnicodeError | OverflowError):
            message = f"cannot {self._doing}: {UNSTORABLE}"
            raise errors.Invalid(message, reason="UnstorableValue", inner=str(error)) from error


def translate(error: sqlite3.Error, doing: str) -> errors.LabfleetError:
    """Return the kernel error for what SQLite says."""
    extended = getattr(error, "sqlite_errorcode", None) or 0
    code, inner = extended & 0xFF, str(error)
    if code == sqlite3.SQLITE_FULL:
        return errors.OutOfCapacity(
            f"cannot {doing}: the disk (or the database's size limit) is full; "
            "nothing was written. Free some space and it goes on"
        )
    if code in _BUSY:
        message = f"cannot {doing}: the database stayed locked by another process"
        return errors.Temporary(message, reason="StoreBusy", retry_after=1.0, inner=inner)
    if code == sqlite3.SQLITE_IOERR:
        # After a failed fsync nobody can tell which frames of the log reached the disk.
        if extended in {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}:
            return errors.Ambiguous(f"cannot {doing}: the disk failed while syncing", inner=inner)
        message = f"cannot {doing}: the disk failed"
        return errors.Temporary(message, reason="DiskFailed", inner=inner)
    if code in _BROKEN:
        message = f"cannot {doing}: this is no sound labfleet store; restore a backup"
        return errors.Permanent(message, reason="StoreCorrupt", inner=inner)
    if code in _SHUT:
        message = f"cannot {doing}: check the store's path, its folder and their permissions"
        return errors.Permanent(message, reason="StoreNotWritable", inner=inner)
    return errors.Permanent(f"cannot {doing}: the store failed", reason="StoreFailed", inner=inner)


def copy(source: sqlite3.Connection, target: str) -> int:
    """Write a consistent copy of an open database to a new file; return its bytes.

    Written beside the target and linked into place when complete, so that nobody finds half
    a copy and an existing file is never replaced.
    """
    path = Path(target)
    refuse_existing(path)
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    with file_errors(f"write {target}"):
        try:
            with _new_file(partial) as connection:
                source.backup(connection)
            return publish(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def recorded(path: str, statement: str, after: int, limit: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a paged statement of a store file that others may be writing to.

    Opened read-only: nothing is migrated, and no file is made beside it. `statement` takes
    (after, limit) and gives the number to go on from in its fourth column. Temporary: a server
    opened the store while it was read.
    """
    file = Path(path).resolve()  # SQLite's log lies beside the file itself, not beside a link
    if not file.is_file():
        raise errors.Gone(f"there is no store file {path}", reason="NoSuchFile")
    # Without a log nobody has it open. SQLite would make one only to read along with others.
    logs = [file.with_name(f"{file.name}-{suffix}") for suffix in ("wal", "journal")]
    alone = not any(log.exists() for log in logs)
    flags = "mode=ro&immutable=1" if alone else "mode=ro"
    with translated(f"read {path}"):
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?{flags}", uri=True)
        try:
            _check(connection, path, quick=True)
            while True:
                rows = [row for row in connection.execute(statement, (after, limit))
                        if row[3] is not None]  # fmt: skip
                if alone and any(log.exists() for log in logs):
                    message = f"a server opened {path} while it was read; read it again"
                    raise errors.Temporary(message, reason="StoreBusy")
                yield from rows
                if len(rows) < limit:
                    return
                after = rows[-1][3]
        finally:
            connection.close()


def restore(backup: str, target: str, *, epoch: str) -> int:
    """Make a store file of a backup, in a new epoch; return its bytes. Refuses to overwrite."""
    source, path = Path(backup), Path(target)
    refuse_existing(path)
    for suffix in ("-wal", "-shm"):
        # A log left over from another database would be played into the restored one.
        refuse_existing(path.with_name(path.name + suffix))
    if not source.is_file():
        raise errors.Gone(f"there is no backup file {backup}", reason="NoSuchFile")
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    with file_errors(f"write {target}"), translated(f"restore {backup}"):
        try:
            _restore(source, partial, epoch)
            return publish(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def begin_epoch(path: str, epoch: str) -> None:
    """Begin a new epoch in a store file that nobody else has open."""
    with translated(f"restore into {path}"):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            _begin(connection, epoch)
        finally:
            connection.close()


def _begin(connection: sqlite3.Connection, epoch: str) -> None:
    sql = statements("sqlite")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(sql["new_epoch"], (epoch,))
    connection.execute(sql["new_epoch_leases"])
    connection.execute("COMMIT")


def _restore(source: Path, partial: Path, epoch: str) -> None:
    with _new_file(partial) as connection:
        opened = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
        try:
            opened.backup(connection)
        finally:
            opened.close()
        _check(connection, str(source))
        _begin(connection, epoch)


def _check(connection: sqlite3.Connection, name: str, *, quick: bool = False) -> None:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not {"meta", "migrations", "objects", "events"} <= tables:
        message = f"{name} is an SQLite file, but no backup of a labfleet store"
        raise errors.Permanent(message, reason="NoBackup")
    sound = "ok" if quick else connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if sound != "ok":
        message = f"{name} is damaged: {sound}"
        raise errors.Permanent(message, reason="StoreCorrupt")
    done = connection.execute("SELECT number, name, digest FROM migrations").fetchall()
    pending(migrations("sqlite"), {number: (text, digest) for number, text, digest in done})


@contextmanager
def _new_file(path: Path) -> Iterator[sqlite3.Connection]:
    path.touch(mode=0o600, exist_ok=False)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
        # One self-contained file: no log beside it.
        connection.execute("PRAGMA journal_mode=DELETE")
    finally:
        connection.close()

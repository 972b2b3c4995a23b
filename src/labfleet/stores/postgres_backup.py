"""Backup of a PostgreSQL store into one file of ours, and restore into an empty database.

JSON lines: a head with the schema, then `["table", [values]]` with bytes in base64, then a
foot with the number of rows, so that a cut-off file is noticed. Needs no program of
PostgreSQL's and reads on whatever version comes later.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from labfleet.kernel import errors
from labfleet.stores.files import file_errors, publish, refuse_existing
from labfleet.stores.postgres_links import Connection, connect, translated
from labfleet.stores.postgres_schema import migrate
from labfleet.stores.statements import migrations, pending, statements

FORMAT = "labfleet-backup"
LINE_LIMIT = 64 << 20
TABLES = {
    "meta": ("one", "epoch", "revision", "horizon", "timeline", "installation"),
    "objects": (
        "born", "kind", "namespace", "name", "uid", "labels", "created_at",
    ),
    "heads": ("born", "revision"),
    "labels": ("kind", "namespace", "name", "label", "value"),
    "events": (
        "revision", "kind", "namespace", "name", "uid", "type", "doc", "at",
        "actor", "request_id", "reason", "previous",
    ),
    "gone": ("kind", "namespace", "name", "revision"),
    "ports": ("worker", "transport", "number", "owner"),
    "ledger": ("owner", "version"),
    "leases": ("name", "holder", "token", "version"),
    "tokens": ("id", "hash", "role", "owner", "created", "expires", "revoked"),
    "replies": ("key", "digest", "reply", "until"),
    "series": ("kind", "uid", "step", "slot", "at", "data"),
    "samples": ("worker", "part", "at", "data"),
    "history": ("place", "kind", "uid", "namespace", "family", "owner", "kept_at", "doc"),
    "history_head": ("one", "rows", "place", "epoch"),
    "kept_labs": ("uid", "owner", "digest", "stored", "kept_at", "until"),
    "kept_contents": ("digest", "stored", "content"),
}  # fmt: skip
_EARLIER = {"series": {"worker"}}
"""Columns of backups of older schemas, which are restored in their own."""
_BYTES = {"doc", "reply", "content"}
_encode = msgspec.json.encode


class Head(msgspec.Struct):
    """The first line."""

    format: str
    version: int
    migrations: list[tuple[int, str, str]]
    tables: dict[str, list[str]]


def dump(url: str, target: str) -> int:
    """Write a consistent copy to a new file; return its bytes. Writers are not held up."""
    path = Path(target)
    refuse_existing(path)
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    connection = connect(url)
    doing = f"back up to {target}"
    with file_errors(doing), translated(doing, connection):
        try:
            with _created(partial) as file:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                _dump(connection, file)
                connection.execute("COMMIT")
            return publish(partial, path)
        finally:
            connection.close()
            partial.unlink(missing_ok=True)


def _created(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _dump(connection: Connection, file: BinaryIO) -> None:
    done = connection.execute("SELECT number, name, digest FROM migrations ORDER BY number")
    tables = {table: list(columns) for table, columns in TABLES.items()}
    head = Head(FORMAT, 1, [(row[0], row[1], row[2]) for row in done.fetchall()], tables)
    file.write(_encode(head) + b"\n")
    count = 0
    for table, columns in TABLES.items():
        with connection.cursor(name=f"dump_{table}") as cursor:
            cursor.itersize = 500
            for row in cursor.execute(f"SELECT {', '.join(columns)} FROM {table}"):
                file.write(_encode((table, row)) + b"\n")
                count += 1
    file.write(_encode({"rows": count}) + b"\n")


def restore(backup: str, url: str, *, epoch: str) -> int:
    """Fill an empty database from a backup, in a new epoch; return the bytes read.

    In one transaction, in the backup's own schema, which is then brought forward.
    """
    source = Path(backup)
    if not source.is_file():
        raise errors.Gone(f"there is no backup file {backup}", reason="NoSuchFile")
    connection = connect(url)
    try:
        with source.open("rb") as file, translated(f"restore {backup}", connection):
            head = _head(file, backup)
            with connection.transaction():
                _restore(connection, file, head, backup)
                _new_epoch(connection, epoch)
                migrate(connection)
            return file.tell()
    finally:
        connection.close()


def begin_epoch(url: str, epoch: str) -> None:
    """Begin a new epoch in a database that nobody else works on."""
    connection = connect(url)
    try:
        with translated("restore", connection), connection.transaction():
            _new_epoch(connection, epoch)
    finally:
        connection.close()


def _restore(connection: Connection, file: BinaryIO, head: Head, name: str) -> None:
    found = connection.execute("SELECT to_regclass('migrations')").fetchone()
    if found is None or found[0] is not None:
        message = "the database holds a store already and is not overwritten; name an empty one"
        raise errors.Permanent(message, reason="TargetExists")
    known = migrations("postgres")
    pending(known, {number: (text, digest) for number, text, digest in head.migrations})
    migrate(connection, [step for step in known if step.number <= head.migrations[-1][0]])
    lines = _lines(file, name)
    line = next(lines)
    count = 0
    while isinstance(line, list):
        table = line[0]
        if table not in head.tables:
            raise _damaged(name, f"it holds an unknown table {table!r}")
        columns = head.tables[table]
        coded = [place for place, column in enumerate(columns) if column in _BYTES]
        with connection.cursor() as cursor:
            text = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
            with cursor.copy(text) as copy:
                while isinstance(line, list) and line[0] == table:
                    row = line[1]
                    for place in coded:
                        row[place] = b64decode(row[place])
                    copy.write_row(row)
                    count += 1
                    line = next(lines)
    if line != {"rows": count}:
        raise _damaged(name, f"it says {line.get('rows')} rows and holds {count}")


def _new_epoch(connection: Connection, epoch: str) -> None:
    sql = statements("postgres")
    row = connection.execute(sql["timeline"]).fetchone()
    connection.execute(sql["new_epoch"], (epoch, row[0] if row else ""))
    connection.execute(sql["new_epoch_leases"])


def _head(file: BinaryIO, name: str) -> Head:
    try:
        head = msgspec.json.decode(file.readline(LINE_LIMIT), type=Head)
    except (msgspec.MsgspecError, UnicodeError) as error:
        message = f"{name} is no backup of a labfleet store on PostgreSQL"
        raise errors.Permanent(message, reason="NoBackup") from error
    ours = {table: {*columns, *_EARLIER.get(table, ())} for table, columns in TABLES.items()}
    fits = all(set(columns) <= ours.get(table, set()) for table, columns in head.tables.items())
    if head.format != FORMAT or head.version != 1 or not head.migrations or not fits:
        message = f"{name} is of another format than labfleet's first"
        raise errors.Permanent(message, reason="NoBackup")
    return head


def _lines(file: BinaryIO, name: str) -> Iterator[Any]:
    while line := file.readline(LINE_LIMIT):
        try:
            yield msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise _damaged(name, "a line cannot be read") from error
    raise _damaged(name, "its end is missing")


def _damaged(name: str, why: str) -> errors.Permanent:
    return errors.Permanent(f"{name} is damaged: {why}", reason="StoreCorrupt")

"""What is SQLite's own: full disk, locked file, migrations, other processes, the settings."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from store_places import CountedIds, commit, key, put, set_clock

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.stores import sqlite
from labfleet.stores.fleet_store import FleetStore
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Inline, Threads
from labfleet.stores.sqlite_files import translate
from labfleet.stores.statements import Migration, migrations, pending, schema


def opened(path: Path, *, patience: float = 15.0) -> tuple[FleetStore, sqlite.SqliteDatabase]:
    database = sqlite.SqliteDatabase(str(path), epoch="e1", readers=0, patience=patience)
    return FleetStore(database, Inline(), set_clock(), head=0), database


@pytest.mark.asyncio
async def test_who_is_woken_together_reads_a_page_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Feeds that ask for the same events at once share one read; a later one finds newer events."""
    store, database = opened(tmp_path / "store.db")
    await store.commit(commit(put("w1")))
    read, rows = [], database.rows
    monkeypatch.setattr(
        database,
        "rows",
        lambda statement, given=(): (read.append(given), rows(statement, given))[1],
    )
    begin = s.Cursor("e1", 0)
    first, second = await asyncio.gather(store.events(begin), store.events(begin))
    assert first is second
    assert len(read) == 1
    await store.commit(commit(put("w2")))
    assert len((await store.events(begin)).events) == 2
    assert len((await store.events(begin, limit=1)).events) == 1
    await store.close()


@pytest.mark.asyncio
async def test_full_disk(tmp_path: Path) -> None:
    """A full disk is OutOfCapacity, nothing is half done, and the store goes on with space."""
    store, database = opened(tmp_path / "store.db")
    await store.commit(commit(put("w1", bytes(1000))))
    # private _writer, _transaction: limits and pragmas of the connection that no setting reaches
    database._writer.execute("PRAGMA max_page_count=48")
    results = await asyncio.gather(
        *(store.commit(commit(put(f"big{n}", bytes(40_000)))) for n in range(9)),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, errors.OutOfCapacity)]
    assert refused
    assert "full" in refused[0].message
    done = [result for result in results if isinstance(result, s.Committed)]
    assert len(done) + len(refused) == 9
    page = await store.list("Worker")
    assert [item.revision for item in page.items] == [*list(range(2, 2 + len(done))), 1]
    assert (await store.head()).revision == 1 + len(done)
    await store.commit(commit(s.Delete(key("w1"))))
    database._writer.execute("PRAGMA max_page_count=100000")
    await store.commit(commit(put("big", bytes(40_000))))
    assert len(await store.events_of(key("big"))) == 1
    await store.close()


@pytest.mark.asyncio
async def test_locked_past_patience(tmp_path: Path) -> None:
    """A file that another process keeps locked is Temporary, and nothing happened."""
    store, _ = opened(tmp_path / "store.db", patience=0.02)
    blocker = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.Temporary) as caught:
        await store.commit(commit(put("w1")))
    assert caught.value.reason == "StoreBusy"
    assert await store.get(key("w1")) is None
    blocker.execute("ROLLBACK")
    await store.commit(commit(put("w1")))
    blocker.close()
    await store.close()


@pytest.mark.asyncio
async def test_locked_for_a_moment(tmp_path: Path) -> None:
    """A lock that goes away within the patience is never seen by a client."""
    url = f"sqlite:///{tmp_path}/store.db"
    store = await open_store(url, runner=Threads(), ids=CountedIds(), clock=set_clock())
    blocker = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.05, lambda: blocker.execute("ROLLBACK"))
    timer.start()
    await store.commit(commit(put("w1")))
    timer.join()
    assert await store.get(key("w1")) is not None
    blocker.close()
    await store.close()


@pytest.mark.asyncio
async def test_settings(tmp_path: Path) -> None:
    """The file is in WAL mode and every commit is synced."""
    store, database = opened(tmp_path / "store.db")
    assert database._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.close()


def _schema(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return sorted((kind, name, " ".join(text.split())) for kind, name, text in rows)


def test_migrations_make_the_schema() -> None:
    """All migrations from zero make exactly the schema file, and doing them again does nothing."""
    migrated, written = (sqlite3.connect(":memory:", isolation_level=None) for _ in range(2))
    sqlite.migrate(migrated)
    sqlite.migrate(migrated)
    written.executescript(schema("sqlite"))
    assert [row for row in _schema(migrated) if row[1] != "migrations"] == _schema(written)
    migrated.close()
    written.close()


def test_forward_step() -> None:
    """A store of the first schema is brought forward by the later steps alone."""
    first = migrations("sqlite")[0]
    second = Migration(2, "more", "d2", "CREATE TABLE more (x INTEGER);\nCREATE TABLE yet (y);")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    sqlite.migrate(connection, (first,))
    sqlite.migrate(connection, (first, second))
    assert connection.execute("SELECT number, name FROM migrations").fetchall() == [
        (1, "start"),
        (2, "more"),
    ]
    connection.close()


def test_failed_step(tmp_path: Path) -> None:
    """A step that fails in the middle leaves the store at the schema before it."""
    _, database = opened(tmp_path / "store.db")
    bad = Migration(900, "bad", "d2", "CREATE TABLE more (x);\nCREATE TABLE more (x);")
    with pytest.raises(sqlite3.Error), database._transaction():
        sqlite.migrate(database._writer, (*migrations("sqlite"), bad))
    tables = database._writer.execute("SELECT name FROM sqlite_master").fetchall()
    assert ("more",) not in tables
    database.close()


@pytest.mark.asyncio
async def test_newer_schema(tmp_path: Path) -> None:
    """An older program refuses a newer store and says what to do."""
    store, database = opened(tmp_path / "store.db")
    database._writer.execute("INSERT INTO migrations VALUES (9999, 'future', 'x')")
    await store.close()
    url = f"sqlite:///{tmp_path}/store.db"
    runner = Inline()
    with pytest.raises(errors.Permanent, match=r"schema 9999 .* newer labfleet") as caught:
        await open_store(url, runner=runner, ids=CountedIds(), clock=set_clock())
    assert caught.value.reason == "SchemaTooNew"


def test_altered_step() -> None:
    """A migration whose text changed after it was applied is noticed."""
    known = migrations("sqlite")
    assert pending(known, {}) == known
    with pytest.raises(errors.Permanent) as caught:
        pending(known, {1: ("start", "another")})
    assert caught.value.reason == "SchemaAltered"


@pytest.mark.asyncio
async def test_no_store(tmp_path: Path) -> None:
    """A file that is no database, and a folder that is not there, are refused in clear words."""
    (tmp_path / "text").write_text("this is not a database, it is a text\n" * 100)
    for path, reason in (("text", "StoreCorrupt"), ("no/where.db", "StoreNotWritable")):
        with pytest.raises(errors.Permanent) as caught:
            await open_store(
                f"sqlite:///{tmp_path}/{path}",
                runner=Inline(),
                ids=CountedIds(),
                clock=set_clock(),
            )
        assert caught.value.reason == reason


def test_failed_sync_is_ambiguous() -> None:
    """When the disk fails in a sync, nobody can say whether the commit will be there."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    assert isinstance(translate(error, "commit"), errors.Ambiguous)
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
    assert isinstance(translate(error, "read"), errors.Temporary)


WRITER = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from store_places import CountedIds, commit, put, set_clock
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Threads

async def main():
    store = await open_store(sys.argv[1], runner=Threads(), ids=CountedIds(), clock=set_clock())
    for n in range(10_000):
        await store.commit(commit(put("a", b"%d" % n), put("b", b"%d" % n)))
        print(n, flush=True)

asyncio.run(main())
"""


@pytest.mark.asyncio
async def test_killed_writer(tmp_path: Path) -> None:
    """After kill -9 of a writing process everything it was told of is there, and no half."""
    url = f"sqlite:///{tmp_path}/store.db"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, str(Path(__file__).parent)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    told = -1
    while told < 20:
        told = int(child.stdout.readline())
    child.kill()
    told = max([told, *map(int, child.stdout.read().split(b"\n")[:-1])])
    child.stdout.close()
    child.wait()
    store = await open_store(url, runner=Threads(), ids=CountedIds(), clock=set_clock())
    page = await store.list("Worker")
    numbers = {int(item.doc) for item in page.items}
    assert len(page.items) == 2
    assert len(numbers) == 1
    assert numbers.pop() >= told
    assert page.cursor.revision == max(item.revision for item in page.items)
    await store.close()


@pytest.mark.asyncio
async def test_a_removed_file_takes_no_more_writes(tmp_path: Path) -> None:
    """A store whose file was deleted or replaced refuses to acknowledge what would be lost."""
    path = tmp_path / "store.db"
    store, _ = opened(path)
    await store.commit(commit(put("w1")))
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(errors.Permanent, match="removed or replaced") as told:
        await store.commit(commit(put("w2")))
    assert told.value.reason == "StoreReplaced"
    path.write_bytes(kept)
    with pytest.raises(errors.Permanent):
        await store.acquire("lead", "a", seen=None)
    await store.close()

"""What is PostgreSQL's own: lost connections, a full disk, locks, migrations, failover, URLs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from held_port import held_port
from postgres_server import PostgresServer, find_binaries
from store_places import Place, commit, key, put

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.stores.postgres_schema import migrate
from labfleet.stores.statements import Migration, migrations, schema

pytestmark = [pytest.mark.asyncio, pytest.mark.real]


@pytest.fixture
def place(postgres_server: PostgresServer, tmp_path: Path) -> Place:
    """An empty schema."""
    return Place("postgres", postgres_server.new_place(), tmp_path, postgres_server.new_place)


@pytest_asyncio.fixture
async def store(place: Place) -> AsyncIterator[s.Store]:
    """A store on it."""
    async with place.opened() as opened:
        yield opened


def run(url: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


def trigger(url: str, action: str, *, when: str = "IMMEDIATE") -> None:
    """Let the server do something for each event whose document begins with 0xff."""
    run(
        url,
        f"CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action}; "
        "RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER act AFTER INSERT ON events "
        f"DEFERRABLE INITIALLY {when} FOR EACH ROW "
        "WHEN (substr(NEW.doc, 1, 1) = '\\xff') EXECUTE FUNCTION act()",
    )


KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'labfleet' AND datname = current_database()"
)


async def test_idle_connections_broken(place: Place, store: s.Store) -> None:
    """Connections that were cut while idle are made again, and no caller sees it."""
    await store.commit(commit(put("w1")))
    lease = await store.acquire("lead", "a", seen=None)
    for n in range(3):
        assert run(place.url, KILL)
        if n == 0:
            await store.commit(commit(put("w2")))
        elif n == 1:
            assert await store.renew(lease)
        assert await store.get(key("w2")) is not None
    await store.changed((await store.head()).revision, seconds=0.01)


async def test_notified(place: Place, store: s.Store) -> None:
    """A commit of another process wakes a watcher that does not poll."""
    # private _db: the connections are broken from inside, as a server would
    database: Any = store._db  # type: ignore[attr-defined]
    database.poll = None
    async with asyncio.timeout(10), place.opened() as other, asyncio.TaskGroup() as group:
        # private _listener, _socket: when the listener is connected again is not told outside
        while database._listener._socket < 0:
            await asyncio.sleep(0.01)
        waiting = group.create_task(store.changed(0, seconds=60))
        await asyncio.sleep(0)
        assert not waiting.done()
        await other.commit(commit(put("w1")))
    assert waiting.done()


async def test_cut_while_waiting_for_the_lock(place: Place, store: s.Store) -> None:
    """A commit that was cut before it was sent is done on a new connection."""
    with psycopg.connect(place.url) as blocker:
        blocker.execute("SELECT revision FROM meta FOR UPDATE")
        waiting = asyncio.ensure_future(store.commit(commit(put("w1"))))
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not run(place.url, waits):
            await asyncio.sleep(0.01)
        run(place.url, KILL)
    assert (await waiting).revision == 1


async def test_cut_in_the_commit(place: Place, store: s.Store) -> None:
    """A connection that breaks once COMMIT was sent makes the outcome Ambiguous; then it goes on."""
    await store.commit(commit(put("w1")))
    trigger(place.url, "PERFORM pg_terminate_backend(pg_backend_pid())", when="DEFERRED")
    with pytest.raises(errors.Ambiguous):
        await store.commit(commit(put("w2", b"\xff")))
    assert (await store.commit(commit(put("w3")))).revision == 2


async def test_full_disk(place: Place, store: s.Store) -> None:
    """A full disk is OutOfCapacity for the commit that meets it, and the store goes on."""
    trigger(place.url, "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'")
    results = await asyncio.gather(
        *(store.commit(commit(put(f"w{n}", b"\xff" if n == 1 else b""))) for n in range(3)),
        return_exceptions=True,
    )
    assert [type(each) for each in results] == [s.Committed, errors.OutOfCapacity, s.Committed]
    assert await store.get(key("w1")) is None
    assert (await store.head()).revision == 2


async def test_lock_past_patience(place: Place, store: s.Store) -> None:
    """A counter row that stays locked is Temporary and nothing happened."""
    database: Any = store._db  # type: ignore[attr-defined]
    # private _writer: a time-out of the database that no setting reaches
    database._writer.connected().execute("SET lock_timeout = '30ms'")
    with psycopg.connect(place.url) as blocker:
        blocker.execute("SELECT revision FROM meta FOR UPDATE")
        with pytest.raises(errors.Temporary) as caught:
            await store.commit(commit(put("w1")))
    assert caught.value.reason == "StoreBusy"
    assert (await store.commit(commit(put("w1")))).revision == 1


async def test_time_outs_are_set(store: s.Store) -> None:
    """No session of ours can hold a lock, a statement or a transaction open for ever."""
    database: Any = store._db  # type: ignore[attr-defined]
    for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        assert database.rows(f"SHOW {name}")[0][0] not in {"0", ""}


async def test_failover_begins_an_epoch(place: Place) -> None:
    """On a server of another timeline a new epoch begins, once, and old fences are void."""
    async with place.opened() as store:
        await store.commit(commit(put("w1")))
        lease = await store.acquire("lead", "a", seen=None)
        old = await store.head()
    run(place.url, "UPDATE meta SET timeline = '0000000F'")
    stores = await asyncio.gather(*(place.open() for _ in range(3)))
    heads = {await store.head() for store in stores}
    assert len(heads) == 1
    head = heads.pop()
    assert head.epoch != old.epoch
    assert head.revision == old.revision + 1_000_000
    with pytest.raises(errors.Fenced):
        await stores[0].renew(lease)
    with pytest.raises(errors.TooOld):
        await stores[0].events(old)
    assert (await stores[0].commit(commit(put("w2")))).revision == head.revision + 1
    await asyncio.gather(*(store.close() for store in stores))


async def test_server_crash(tmp_path: Path) -> None:
    """What was told as committed survives a crash of the server, and the store comes back."""
    if find_binaries() is None:
        pytest.skip("no PostgreSQL server binaries")
    with PostgresServer() as server:
        place = Place("postgres", server.new_place(), tmp_path, server.new_place)
        async with place.opened() as store:
            await store.commit(commit(put("w1")))
            server.stop("immediate")
            with pytest.raises((errors.Temporary, errors.Ambiguous)):
                await store.commit(commit(put("w2")))
            with pytest.raises(errors.Temporary):
                await store.get(key("w1"))
            server.start()
            assert await store.get(key("w1")) is not None
            assert (await store.commit(commit(put("w2")))).revision == 2


SHAPE = """
SELECT table_name, column_name, data_type, is_nullable, collation_name
FROM information_schema.columns
WHERE table_schema = 'public' AND table_name <> 'migrations' ORDER BY 1, 2
""", """
SELECT tablename, indexname, indexdef FROM pg_indexes
WHERE schemaname = 'public' AND tablename <> 'migrations' ORDER BY 1, 2
""", """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'migrations'
ORDER BY 1, 2
"""  # fmt: skip


async def test_migrations_make_the_schema(place: Place, postgres_server: PostgresServer) -> None:
    """All migrations from zero make exactly the schema file."""
    migrated, written = postgres_server.new_database(), postgres_server.new_database()
    async with place.opened(migrated):
        pass
    run(written, schema("postgres"))
    for question in SHAPE:
        found = run(migrated, question)
        assert found
        assert found == run(written, question)


async def test_forward_and_failed_steps(place: Place, store: s.Store) -> None:
    """A later step is applied once; one that fails leaves the schema before it."""
    good = Migration(900, "more", "d2", "CREATE TABLE more (x int);")
    bad = Migration(901, "bad", "d3", "CREATE TABLE yet (x int); CREATE TABLE yet (x int);")
    with psycopg.connect(place.url, autocommit=True) as connection:
        for _ in range(2):
            with connection.transaction():
                migrate(connection, (*migrations("postgres"), good))
        with pytest.raises(psycopg.Error), connection.transaction():
            migrate(connection, (*migrations("postgres"), good, bad))
    assert run(place.url, "SELECT max(number), to_regclass('yet') FROM migrations") == [(900, None)]


async def test_newer_schema(place: Place) -> None:
    """An older program refuses a newer store and says what to do."""
    async with place.opened():
        pass
    run(place.url, "INSERT INTO migrations VALUES (9999, 'future', 'x')")
    with pytest.raises(errors.Permanent, match=r"schema 9999 .* newer labfleet") as caught:
        await place.open()
    assert caught.value.reason == "SchemaTooNew"


async def test_refused_urls(place: Place, postgres_server: PostgresServer) -> None:
    """No server, no database and a broken URL each get their own words, without the password."""
    with held_port() as port, pytest.raises(errors.Unreachable, match="does not answer"):
        await place.open(f"postgresql://postgres:sesame@127.0.0.1:{port}/x")
    with pytest.raises(errors.Permanent) as caught:
        await place.open(f"postgresql://postgres@127.0.0.1:{postgres_server.port}/nowhere")
    assert caught.value.reason == "NoSuchDatabase"
    with pytest.raises(errors.Permanent, match="cannot be read") as broken:
        await place.open("postgresql://postgres:sesame@[::1/x")
    assert "sesame" not in str(broken.value)
    assert broken.value.__cause__ is None

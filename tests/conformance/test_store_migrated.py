"""What a store of an older schema holds after it was brought forward: nothing is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
import pytest
from store_places import Place, commit, key

from labfleet.interfaces import store as s
from labfleet.resources.history import Run, RunKind
from labfleet.resources.series import Owner
from labfleet.stores import postgres_schema, sqlite
from labfleet.stores.opening import restore
from labfleet.stores.runners import Threads
from labfleet.stores.statements import migrations

BEFORE_NAMESPACES = 2
BEFORE_SAMPLES = 3
BEFORE_HISTORY = 4
BEFORE_OWNERS = 5
MINUTE = 60_000_000
OBJECTS = (
    ("Worker", "default", "w1", "uid-w1"),
    ("Worker", "exam", "w2", "uid-w2"),
    ("Session", "default", "s1", "uid-s1"),
    ("Session", "exam", "s2", "uid-s2"),
)
PORTS = (("w1", 2000, "uid-s1"), ("w2", 2000, "uid-s2"), ("w1", 2001, "nobody"))
SERIES = ("w1", "w2", "gone")


@contextmanager
def _older(place: Place, steps: int = BEFORE_NAMESPACES) -> Iterator[Any]:
    """A raw connection to the place, at the schema of so many steps; committed at the end."""
    if place.flavour == "postgres":
        with psycopg.connect(place.url) as connection:
            postgres_schema.migrate(connection, migrations("postgres")[:steps])
            yield connection
        return
    connection = sqlite3.connect(place.url.removeprefix("sqlite:///"))
    sqlite.migrate(connection, migrations("sqlite")[:steps])
    yield connection
    connection.commit()
    connection.close()


@pytest.mark.asyncio
async def test_ports_and_series_find_their_namespace(shared_place: Place) -> None:
    """Rows that 9f921ab kept by bare names are found again by namespace and name."""
    with _older(shared_place) as connection:
        for born, (kind, space, name, uid) in enumerate(OBJECTS, 1):
            connection.execute(
                "INSERT INTO objects (born, kind, namespace, name, uid, labels, created_at) "
                f"VALUES ({born}, '{kind}', '{space}', '{name}', '{uid}', '{{}}', 0)"
            )
        for worker, number, owner in PORTS:
            connection.execute(
                "INSERT INTO ports (worker, transport, number, owner) "
                f"VALUES ('{worker}', 'tcp', {number}, '{owner}')"
            )
        for worker in SERIES:
            connection.execute(
                "INSERT INTO series (worker, step, slot, at, data) "
                f"VALUES ('{worker}', 60, 0, 0, '{{}}')"
            )
    async with shared_place.opened() as store:
        assert await store.ports() == (
            s.PortRow("default/w1", "tcp", 2000, "uid-s1"),
            s.PortRow("default/w1", "tcp", 2001, "nobody"),
            s.PortRow("exam/w2", "tcp", 2000, "uid-s2"),
        )
        w1, w2 = Owner("Worker", "uid-w1"), Owner("Worker", "uid-w2")
        assert await store.series_owners() == (w1, w2)
        begin = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
        assert [row.at for row in await store.series(w2, 60, begin)] == [begin]


@pytest.mark.asyncio
async def test_a_store_without_samples_gets_a_place_for_them(shared_place: Place) -> None:
    """It is empty, and the first measurement is kept there."""
    at = datetime.fromisoformat("2026-11-27T09:00:00+00:00")
    with _older(shared_place, BEFORE_SAMPLES):
        pass
    async with shared_place.opened() as store:
        assert await store.sample_times() == ()
        await store.put_samples([s.SampleRow("exam/w2", "cml", at, "1")])
        assert [each.worker for each in await store.sample_times()] == ["exam/w2"]


@pytest.mark.asyncio
async def test_a_store_without_a_history_begins_one(shared_place: Place) -> None:
    """The samples stay as they were, and the first run gets the first place."""
    at = datetime.fromisoformat("2026-11-27T09:00:00+00:00")
    with _older(shared_place, BEFORE_HISTORY) as connection:
        connection.execute(
            "INSERT INTO samples (worker, part, at, data) VALUES ('exam/w1', 'cml', 0, '1')"
        )
    run = Run(kind=RunKind.BOOT, uid="u", family="metal", ended_at=at)
    async with shared_place.opened() as store:
        assert await store.history(0) == ()
        await store.commit(commit(s.Teach(run)))
        assert [(kept.place, kept.run) for kept in await store.history(0)] == [(1, run)]
        assert [row.data for row in await store.samples(["exam/w1"])] == ["1"]


@pytest.mark.asyncio
async def test_series_find_the_worker_that_they_are_of(shared_place: Place) -> None:
    """A worker keeps its rows, but for those of one that had its name before it; nobody else has."""
    born = {"first": (1, 0), "again": (3, 2)}
    nothing = "''" if shared_place.flavour == "postgres" else "x''"
    with _older(shared_place, BEFORE_OWNERS) as connection:
        for name, (revision, previous) in born.items():
            connection.execute(
                "INSERT INTO objects (born, kind, namespace, name, uid, labels, created_at) VALUES "
                f"({revision}, 'Worker', 'exam', '{name}', 'uid-{name}', '{{}}', {5 * MINUTE})"
            )
            connection.execute(
                "INSERT INTO events (revision, kind, namespace, name, uid, type, doc, at, actor, "
                f"request_id, reason, previous) VALUES ({revision}, 'Worker', 'exam', '{name}', "
                f"'uid-{name}', 'ADDED', {nothing}, 0, '', '', '', {previous})"
            )
        for name in (*born, "gone"):
            for minute in range(8):
                connection.execute(
                    "INSERT INTO series (worker, step, slot, at, data) VALUES "
                    f"('exam/{name}', 60, {minute}, {minute * MINUTE}, 'as it was')"
                )
    begin = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    async with shared_place.opened() as store:
        first, again = Owner("Worker", "uid-first"), Owner("Worker", "uid-again")
        assert await store.series_owners() == (again, first)
        kept = await store.series(first, 60, begin)
        assert [row.at.minute for row in kept] == list(range(8))
        assert {row.data for row in kept} == {"as it was"}
        assert [row.at.minute for row in await store.series(again, 60, begin)] == [5, 6, 7]


@pytest.mark.asyncio
async def test_a_backup_keeps_namespaces_apart(shared_place: Place) -> None:
    """What has one name in two namespaces is restored as two, with its ports, numbers and events."""
    place, target = shared_place, str(shared_place.folder / "two.backup")
    keys = [key("w1", namespace=space) for space in ("default", "exam")]
    at = datetime.fromisoformat("2026-11-27T09:00:00+00:00")
    async with place.opened() as store:
        for each in keys:
            doc = each.path.encode()
            ports = s.TakePorts(each.path, each.namespace, (("tcp", 2000),))
            await store.commit(commit(s.Put(each, f"uid-{each.path}", doc), ports))
        owners = [Owner("Worker", f"uid-{each.path}") for each in keys]
        await store.merge_series([s.SeriesRow(each, 60, at, "{}") for each in owners])
        await store.backup(target)
    url, runner = place.empty(), Threads()
    await restore(target, url, runner=runner, ids=place.ids)
    async with place.opened(url) as store:
        for each in keys:
            found = await store.get(each)
            assert found is not None
            assert found.doc == each.path.encode()
            assert [row.owner for row in await store.ports(each.path)] == [each.namespace]
            owner = Owner("Worker", f"uid-{each.path}")
            assert [row.at for row in await store.series(owner, 60, at)] == [at]
            assert [event.key for event in await store.events_of(each)] == [each]
        listed = await store.list("Worker", namespace="exam")
        assert [each.key for each in listed.items] == keys[1:]

"""Databases of earlier revisions open with today's code and run to their end on both stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import databases
import pytest
import recording
import second_life
from postgres_server import PostgresServer, find_binaries
from receiver import DEAF, LISTENER

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.rehearsal.replicas.fleet_client import ADMIN
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources import kinds
from labfleet.resources.kinds import KINDS
from labfleet.resources.simulation import Simulation
from labfleet.resources.webhook import Webhook
from labfleet.resources.worker import Worker
from labfleet.service.core.roles import EARLIER
from labfleet.service.core.tokens import Tokens
from labfleet.service.reads import series
from labfleet.service.verbs import admission, objects
from labfleet.stores import opening
from labfleet.stores.postgres import PostgresDatabase
from labfleet.stores.sqlite import SqliteDatabase

FILES = sorted(recording.HERE.glob("*/seed*.json.xz"))


@cache
def recordings() -> dict[str, dict[str, Any]]:
    """Every recorded database by its name."""
    return {
        f"{path.parent.name}/{each['name']}": {**each, "schema": path.parent / "postgres.sql"}
        for path in FILES
        for each in recording.read(path)
    }


EFFECTS = {
    *(f"Session {each}" for each in ("import", "tag", "start", "stop", "wipe", "delete")),
    *(f"Worker {each}" for each in (
        "launch", "claim", "start", "stop", "terminate", "register", "renew", "deregister",
        "stop_labs", "telemetry",
    )),
}  # fmt: skip
"""Every call to the outside that is recorded before it is made."""
each_recording = pytest.mark.parametrize("name", sorted(recordings()))
pytestmark = pytest.mark.timeout(900)
"""A fleet's rest of life is some seconds of work; a busy machine takes its time."""


@contextmanager
def in_sqlite(recording: dict[str, Any], folder: Path) -> Iterator[tuple[SqliteDatabase, str]]:
    """A recording as an SQLite file, opened and migrated."""
    url = databases.load_sqlite(recording["sql"], folder / "recorded.db")
    opened = SqliteDatabase(str(folder / "recorded.db"), epoch="unused", readers=0)
    opened.rows("PRAGMA synchronous=OFF")  # the file need not survive the machine
    try:
        yield opened, url
    finally:
        opened.close()


@contextmanager
def in_postgres(
    recording: dict[str, Any], server: PostgresServer
) -> Iterator[tuple[PostgresDatabase, str]]:
    """A recording as a PostgreSQL database, opened and migrated."""
    url = server.new_database()
    databases.load_postgres(recording["schema"].read_text(), recording["sql"], url)
    opened = PostgresDatabase(url, new_epoch=lambda: "unused", readers=0)
    try:
        yield opened, url
    finally:
        opened.close()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A private PostgreSQL."""
    if find_binaries() is None:
        pytest.skip("no PostgreSQL server binaries in /usr/lib/postgresql")
    with PostgresServer() as made:
        yield made


def test_each_kind_of_effect_is_open_in_some_recording() -> None:
    """Together they hold what a successor may find: effects, rows of each table, roles, kinds."""
    shown = {word for each in recordings().values() for word in each["shows"]}
    assert {f"effect {each}" for each in EFFECTS} <= {word.partition(",")[0] for word in shown}
    rows = [databases.tables(each["sql"]) for each in recordings().values()]
    assert {"ports", "ledger", "leases", "tokens", "replies", "series", "gone", "labels"} <= {
        name for each in rows for name in each
    }
    assert {row["state"] for each in recordings().values() for row in each["tokens"]} == {
        "good", "revoked", "expired",
    }  # fmt: skip
    tagged = [thing for each in recordings().values() for thing in each["worlds"]["instances"]
              if "labfleet:owner" in thing["tags"]]  # fmt: skip
    assert len(tagged) > 20


@each_recording
def test_a_recorded_sqlite_database_runs_to_its_end(name: str, tmp_path: Path) -> None:
    """It opens, migrates, keeps its promises to users, and its fleet ends with nothing left."""
    with in_sqlite(recordings()[name], tmp_path) as (database, url):
        to_its_end(recordings()[name], database, url)


@pytest.mark.real
@each_recording
def test_a_recorded_postgres_database_runs_to_its_end(name: str, server: PostgresServer) -> None:
    """The same rows in the recorded PostgreSQL schema end the same way."""
    with in_postgres(recordings()[name], server) as (database, url):
        to_its_end(recordings()[name], database, url)


def to_its_end(recording: dict[str, Any], database: Any, url: str) -> None:
    """Play the rest of a recorded fleet's life, and judge what it left."""
    log = list(opening.recorded(url))
    present = second_life.present(log)
    hooks = {each.name: each for each in present if isinstance(each, Webhook)}

    async def story(life: second_life.Life) -> None:
        await life.resume()
        for name in kinds.KINDS:
            assert len(life.all(kinds.KINDS[name].type)) >= sum(
                each.kind == name for each in present
            )
        await tokens_hold(life, recording["tokens"])
        await replies_hold(life, recording["requests"])
        await series_are_read(life, recording["sql"])
        life.receiver.hears = True
        for number, definition in enumerate(("pod", "pair")):
            end = EPOCH + timedelta(seconds=life.stage.loop.time() + 3600)
            slot = {"zone": "UTC", "end": end.isoformat()}
            spec = {"definition": definition, "owner": second_life.NEW, "slot": slot}
            await life.ask(life.desk.create("Session", f"new-{number}", spec, f"new-{number}"))
        await life.cancel_long_ones()
        await life.until(life.sessions_left)
        await life.empty()
        await life.until(life.fleet_left)

    life = second_life.live(recording, database, log, story)
    ended = {key.name: each.status.phase for key, each in life.stage.invariants.sessions.items()}
    assert ended["new-0"] == ended["new-1"] == "COMPLETED"
    assert {each.status.phase for each in life.all(Simulation)} == {
        "COMPLETED",
        "DENIED",
        "EXPIRED",
    }
    webhooks_went_on(life, hooks, recording["received"], list(opening.recorded(url)))
    life.stage.invariants.replay()
    assert life.stage.invariants.found == []


async def tokens_hold(life: second_life.Life, rows: list[dict[str, Any]]) -> None:
    """A token of each role is whose it was; revoked and expired ones are refused."""
    assert {row["role"] for row in rows} == {"admin", "operator", "user", "internal"}
    store = life.stage.living()[0].around.store
    tokens = Tokens(store, life.stage.living()[0].around.clock, life.stage.living()[0].around.ids)
    for row in rows:
        if row["state"] == "good":
            found = await tokens.authenticate(row["text"])
            role = EARLIER.get(row["role"], row["role"])
            assert (found.role, found.owner) == (role, row["owner"])
        else:
            with pytest.raises(errors.Denied, match=row["state"]):
                await tokens.authenticate(row["text"])


async def replies_hold(life: second_life.Life, rows: list[dict[str, Any]]) -> None:
    """A request that is sent again under its key gets its old answer, and makes nothing."""
    for row in rows:
        if "spec" in row:
            # As it was sent: without a namespace, which is another request than one that names it.
            sent, key = {"metadata": {"name": row["name"]}, "spec": row["spec"]}, row["key"]
            made = await life.verb(
                lambda parts, sent=sent, key=key: objects.create(
                    parts, ADMIN, KINDS["Session"], sent, key=key
                )
            )
            assert made.metadata.uid == row["uid"]
        else:
            body, key = row["body"], row["key"]
            made = await life.verb(
                lambda parts, body=body, key=key: admission.request_run(
                    parts, ADMIN, body, key=key, namespace="default"
                )
            )
            assert made.name == row["name"]


async def series_are_read(life: second_life.Life, dump: str) -> None:
    """Every bucket of the finest ring of each worker is given out as a point."""
    rows = sqlite3.connect(":memory:")
    rows.executescript(dump)
    kept = dict(rows.execute(
        "SELECT worker, count(*) FROM series WHERE step = (SELECT min(step) FROM series)"
        " GROUP BY worker"
    ))  # fmt: skip
    rows.close()
    for worker in life.all(Worker):
        if worker.name in kept:
            name = worker.name
            read = await life.verb(
                lambda parts, name=name: series.read(
                    parts, ADMIN, Worker, name, "default", since="6h"
                )
            )
            points = {each.at for metric in read.metrics.values() for each in metric.points}
            assert kept[name] <= len(points) <= kept[name] + 2
            kept.pop(name)


def webhooks_went_on(
    life: second_life.Life,
    hooks: dict[str, Webhook],
    received: dict[str, list[str]],
    log: list[stores.Event],
) -> None:
    """Each event after a stored place was posted once and in order, none from before it."""
    made = {each.revision for each in log
            if each.key.kind == "Session" and each.type == "ADDED"}  # fmt: skip
    for name in (LISTENER, DEAF):
        got = [tuple(map(int, each.split(".")[1:])) for each in life.receiver.got[name]]
        assert got == sorted(set(got))
        stored = stores.Cursor.parse(hooks[name].status.cursor).revision
        assert stored < got[0][0]
        ever = {place for place, _ in got} | {int(each.split(".")[1]) for each in received[name]}
        since = next(each.revision for each in log if each.key == hooks[name].key)
        assert {place for place in made if place > since} <= ever
        now = next(each for each in life.all(Webhook) if each.name == name)
        assert now.status.failures == 0

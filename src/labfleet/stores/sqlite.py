"""SQLite behind the store: one writing connection, a few reading ones, WAL, full durability.

Several processes may use one file: writers queue on SQLite's own lock within `patience`, and
the rows kept between batches are dropped as soon as SQLite tells that another process has
written. A file on a network file system is not supported (WAL needs shared memory).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.stores import rules, sqlite_files
from labfleet.stores.database import Parameters, Rows, Run
from labfleet.stores.sqlite_files import translated
from labfleet.stores.statements import migrations, pending, statements

T = TypeVar("T")
PATIENCE = 15.0
OLDEST = (3, 37, 0)
KNOWN_LIMIT = 50_000
_encode = msgspec.json.encode


class _Transaction:
    """One transaction of the writing connection: entered for each write, so no generator."""

    __slots__ = ("_execute",)

    def __init__(self, writer: sqlite3.Connection) -> None:
        self._execute = writer.execute

    def __enter__(self) -> None:
        self._execute("BEGIN IMMEDIATE")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._execute("ROLLBACK")
            raise
        if error is not None:
            with suppress(sqlite3.Error):
                self._execute("ROLLBACK")


class SqliteDatabase:
    """One file (or memory), opened and migrated. `path` may be `:memory:`."""

    def __init__(
        self, path: str, *, epoch: str, readers: int = 3, patience: float = PATIENCE
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            message = f"SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed"
            raise errors.Permanent(message, reason="SqliteTooOld")
        memory = path == ":memory:"
        self.sql = statements("sqlite")
        self.poll = None if memory else 0.5
        self.shared = memory or readers == 0
        self.durable: Callable[[list[rules.EventRow]], None] | None = None
        self._path = path
        self._patience = patience
        self._known: dict[Key, rules.Row] = {}
        self._others = -1
        self._readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._file: tuple[int, int] | None = None
        with translated(f"open {path}"):
            self._writer = self._connect()
            try:
                self._prepare(epoch, memory=memory)
                self._file = None if memory else _identity(path)
                for _ in range(0 if self.shared else readers):
                    connection = self._connect()
                    connection.execute("PRAGMA query_only=ON")
                    self._readers.put(connection)
            except BaseException:
                self.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            connection.execute(f"PRAGMA busy_timeout={int(self._patience * 1000)}")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA temp_store=MEMORY")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _prepare(self, epoch: str, *, memory: bool) -> None:
        if not memory:
            mode = self._writer.execute("PRAGMA journal_mode").fetchone()[0]
            if mode != "wal":
                self._writer.execute("PRAGMA journal_mode=WAL")
            # A larger log before it is copied home: fewer fsyncs, bounded file.
            self._writer.execute("PRAGMA wal_autocheckpoint=4000")
            self._writer.execute("PRAGMA journal_size_limit=67108864")
        with self._transaction():
            migrate(self._writer)
            self._writer.execute(self.sql["start_meta"], (epoch,))

    def _transaction(self) -> _Transaction:
        """Hold the write lock; commit at the end, take all back on any error."""
        self._same_file()
        return _Transaction(self._writer)

    def _same_file(self) -> None:
        """Refuse to acknowledge writes into a file that was deleted or replaced."""
        if self._file is not None and _identity(self._path) != self._file:
            message = f"the store's file {self._path} was removed or replaced; restart the server"
            raise errors.Permanent(message, reason="StoreReplaced")

    def rows(self, statement: str, parameters: Parameters = ()) -> Rows:
        with translated("read"):
            if self.shared:
                return self._writer.execute(statement, parameters).fetchall()
            connection = self._readers.get()
            try:
                return connection.execute(statement, parameters).fetchall()
            finally:
                self._readers.put(connection)

    def write(self, work: Callable[[Run], T]) -> T:
        with translated("write"), self._transaction():
            return work(self._run)

    def _run(self, statement: str, parameters: Parameters) -> Rows:
        return self._writer.execute(statement, parameters).fetchall()

    def commit(self, commits: list[store.Commit]) -> list[rules.Outcome]:
        kept, self._known = self._known, {}
        with translated("commit"), self._transaction():
            needs = rules.needs(commits)
            state = self._load(needs, kept)
            plan = rules.settle(state, commits)
            if not plan.empty:
                self._save(plan)
        # Only now, for until it is committed it may be taken back; after a failure nothing is
        # kept, for not even SQLite knows what a failed sync has left.
        self._keep(kept, needs, state)
        if self.durable is not None:
            self.durable(plan.events)
        return plan.outcomes

    def _keep(self, kept: dict[Key, rules.Row], needs: rules.Needs, state: rules.State) -> None:
        if len(kept) > KNOWN_LIMIT:
            kept.clear()
        for key in needs.objects:
            if (row := state.objects.get(key)) is not None:
                kept[key] = row
            else:
                kept.pop(key, None)
        self._known = kept

    def _load(self, needs: rules.Needs, known: dict[Key, rules.Row]) -> rules.State:
        execute, sql = self._writer.execute, self.sql
        state = rules.State(execute(sql["lock"]).fetchone()[0])
        others = execute(sql["others"]).fetchone()[0]
        if others != self._others:
            self._others = others
            known.clear()
        missing = []
        for key in needs.objects:
            if (row := known.get(key)) is not None:
                state.objects[key] = row
            else:
                missing.append(key)
        if missing:
            found = execute(sql["load_objects"], _listed(missing))
            for kind, namespace, name, *columns in found:
                state.objects[Key(kind, namespace, name)] = rules.Row(*columns)
            for kind, namespace, name, revision in execute(sql["load_gone"], _listed(missing)):
                state.gone[Key(kind, namespace, name)] = revision
        if needs.documents:
            for kind, namespace, name, doc in execute(
                sql["load_documents"], _listed(needs.documents)
            ):
                state.documents[Key(kind, namespace, name)] = doc
        self._load_others(needs, state)
        return state

    def _load_others(self, needs: rules.Needs, state: rules.State) -> None:
        execute, sql = self._writer.execute, self.sql
        if needs.ledger:
            state.ledger.update(execute(sql["load_ledger"], _listed(needs.ledger)).fetchall())
        for name, wanted in (("load_ports", needs.ports), ("load_owned_ports", needs.owned_ports)):
            if wanted:
                for worker, transport, number, owner in execute(sql[name], _listed(wanted)):
                    state.ports.setdefault(worker, {})[transport, number] = owner
        if needs.leases:
            for name, holder, token in execute(sql["load_leases"], _listed(needs.leases)):
                state.leases[name] = (holder, token)
        if needs.replies:
            for name, *rest in execute(sql["load_replies"], _listed(needs.replies)):
                state.replies[name] = (rest[0], rest[1], rest[2])
        if needs.runs:
            end = execute(sql["history_end"]).fetchone()
            state.place = end[0] if end else 0
            for kind, uid, place in execute(sql["load_runs"], _listed(needs.runs)):
                state.runs[kind, uid] = place

    def _save(self, plan: rules.BatchPlan) -> None:
        many, sql = self._writer.executemany, self.sql
        many(sql["save_event"], plan.events)
        for name, rows in (
            ("move_head", plan.moved_heads),
            ("change_object", plan.changed),
            ("drop_object", plan.dropped),
            ("drop_head", plan.dropped),
            ("add_object", plan.added),
            ("add_head", plan.added_heads),
            ("save_gone", plan.gone),
            ("drop_label", plan.labels_dropped),
            ("save_label", plan.labels_saved),
            ("drop_port", plan.ports_dropped),
            ("save_port", plan.ports_saved),
            ("save_ledger", plan.ledger),
            ("save_reply", plan.replies),
            ("save_run", plan.runs),
        ):
            if rows:
                many(sql[name], rows)
        if plan.runs:
            self._writer.execute(sql["grow_history"], (len(plan.runs), plan.runs[-1][0]))
        self._writer.execute(sql["set_revision"], (plan.revision,))

    def listed(self, values: tuple[str, ...]) -> str:
        return str(_encode(values), "utf-8")

    def backup(self, target: str) -> int:
        with translated(f"back up to {target}"):
            if self._path == ":memory:":
                return sqlite_files.copy(self._writer, target)
            # A connection of its own: readers are not held up while the copy is written.
            connection = self._connect()
            try:
                return sqlite_files.copy(connection, target)
            finally:
                connection.close()

    def listen(self, wake: Callable[[int], None], spare: Callable[..., object]) -> None:
        """Others' writes are found by polling alone."""

    def mute(self) -> None:
        """Nothing was begun."""

    def close(self) -> None:
        while not self._readers.empty():
            self._readers.get().close()
        self._writer.close()


def _listed(values: Any) -> tuple[str]:
    return (str(_encode(list(values)), "utf-8"),)


def migrate(connection: sqlite3.Connection, steps: Any = None) -> None:
    """Bring the schema up to date inside the caller's transaction."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations ("
        "number INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL) STRICT"
    )
    done = connection.execute("SELECT number, name, digest FROM migrations").fetchall()
    applied = {number: (name, digest) for number, name, digest in done}
    for step in pending(steps or migrations("sqlite"), applied):
        # Not executescript: it would commit what is open.
        for statement in split(step.script):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO migrations (number, name, digest) VALUES (?, ?, ?)",
            (step.number, step.name, step.digest),
        )


def split(script: str) -> Iterator[str]:
    """Yield the single statements of a script."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


def _identity(path: str) -> tuple[int, int] | None:
    """Return what names the file itself, whatever its path; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once per batch, and a Path costs more than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino

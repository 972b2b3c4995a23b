"""PostgreSQL behind the store: the same batches, under the lock of one counter row.

Uses blocking psycopg, run in the runner's lanes like sqlite3: so both databases share one code
path, and a cancelled caller cannot interrupt a transaction. A batch takes two round trips: lock
and load, then save and commit. Many processes may write; give labfleet a database (or schema) of
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

import psycopg

from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.stores import postgres_backup, rules
from labfleet.stores.database import UNSTORABLE, Parameters, Rows, Run
from labfleet.stores.postgres_links import Connection, Link, translate, translated
from labfleet.stores.postgres_listen import Listener
from labfleet.stores.postgres_schema import begin_life
from labfleet.stores.statements import statements

T = TypeVar("T")


class PostgresDatabase:
    """A database, opened and migrated. `new_epoch` names the life after a failover."""

    def __init__(self, url: str, *, new_epoch: Callable[[], str], readers: int = 3) -> None:
        self.sql = statements("postgres")
        self.poll: float | None = 1.0
        self.shared = readers == 0
        self.durable: Callable[[list[rules.EventRow]], None] | None = None
        self._url = url
        self._writer = Link(url, lambda connection: begin_life(connection, new_epoch))
        self._listener = Listener(url)
        self._readers: SimpleQueue[Link] = SimpleQueue()
        for _ in range(max(readers, 1)):
            self._readers.put(Link(url))
        self._writer.connected()

    def rows(self, statement: str, parameters: Parameters = ()) -> Rows:
        link = self._readers.get()
        try:
            return _twice(link, lambda connection: _fetch(connection, statement, parameters))
        finally:
            self._readers.put(link)

    def write(self, work: Callable[[Run], T]) -> T:
        return _twice(self._writer, lambda connection: _transact(connection, work))

    def commit(self, commits: list[store.Commit]) -> list[rules.Outcome]:
        return _twice(self._writer, lambda connection: self._commit(connection, commits))

    def _commit(self, connection: Connection, commits: list[store.Commit]) -> list[rules.Outcome]:
        sent = False
        try:
            with connection.pipeline():
                connection.execute("BEGIN")
                plan = rules.settle(self._load(connection, rules.needs(commits)), commits)
                if plan.empty:
                    connection.execute("ROLLBACK")
                else:
                    self._save(connection, plan)
                    sent = True
                    connection.execute("COMMIT")
        except BaseException as error:
            _take_back(connection)
            if isinstance(error, psycopg.Error):
                raise translate(error, "commit", connection, sent=sent) from error
            if isinstance(error, UnicodeError | OverflowError):
                message = f"cannot commit: {UNSTORABLE}"
                raise errors.Invalid(message, reason="UnstorableValue", inner=str(error)) from error
            raise
        if self.durable is not None:
            self.durable(plan.events)
        return plan.outcomes

    def _load(self, connection: Connection, needs: rules.Needs) -> rules.State:
        asked: dict[str, psycopg.Cursor[tuple[Any, ...]]] = {}

        def ask(name: str, wanted: Iterable[Any], *, columns: bool = True) -> None:
            values = list(wanted)
            if values:
                parameters = _columns(values) if columns else [values]
                asked[name] = connection.execute(self.sql[name], parameters)

        head = connection.execute(self.sql["lock"])
        ask("load_documents", needs.documents)
        ask("load_objects", needs.objects)
        ask("load_gone", needs.objects)
        ask("load_ledger", needs.ledger, columns=False)
        ask("load_ports", needs.ports)
        ask("load_owned_ports", needs.owned_ports)
        ask("load_leases", needs.leases, columns=False)
        ask("load_replies", needs.replies, columns=False)
        ask("load_runs", needs.runs)
        if needs.runs:
            asked["history_end"] = connection.execute(self.sql["history_end"])
        row = head.fetchone()
        if row is None:
            raise errors.Permanent("the store has no meta row", reason="StoreCorrupt")
        return _state(row[0], {name: cursor.fetchall() for name, cursor in asked.items()})

    def _save(self, connection: Connection, plan: rules.BatchPlan) -> None:
        for name, rows in (
            ("move_head", plan.moved_heads),
            ("change_object", plan.changed),
            ("drop_object", plan.dropped),
            ("drop_head", plan.dropped),
            ("add_object", plan.added),
            ("add_head", plan.added_heads),
            ("save_gone", plan.gone),
            ("save_event", plan.events),
            ("drop_label", plan.labels_dropped),
            ("save_label", plan.labels_saved),
            ("drop_port", plan.ports_dropped),
            ("save_port", plan.ports_saved),
            ("save_ledger", plan.ledger),
            ("save_reply", plan.replies),
            ("save_run", plan.runs),
        ):
            if rows:
                connection.execute(self.sql[name], _columns(rows))
        if plan.runs:
            size = (len(plan.runs), plan.runs[-1][0])
            connection.execute(self.sql["grow_history"], size)
        if plan.events:
            connection.execute(self.sql["set_revision"], (plan.revision,))
            connection.execute(self.sql["announce"], (str(plan.revision),))

    def listed(self, values: tuple[str, ...]) -> list[str]:
        return list(values)

    def backup(self, target: str) -> int:
        return postgres_backup.dump(self._url, target)

    def listen(
        self,
        wake: Callable[[int], None],
        spare: Callable[[Callable[[], None]], asyncio.Future[None]],
    ) -> None:
        self._listener.start(wake, spare)

    def mute(self) -> None:
        self._listener.stop()

    def close(self) -> None:
        self._writer.close()
        while not self._readers.empty():
            self._readers.get().close()


def _state(revision: int, found: dict[str, Rows]) -> rules.State:
    state = rules.State(revision)
    state.objects = {Key(*row[:3]): rules.Row(*row[3:]) for row in found.get("load_objects", ())}
    for name, rows in (("load_documents", state.documents), ("load_gone", state.gone)):
        rows.update((Key(*row[:3]), row[3]) for row in found.get(name, ()))
    state.ledger.update((owner, version) for owner, version in found.get("load_ledger", ()))
    for name in ("load_ports", "load_owned_ports"):
        for worker, transport, number, owner in found.get(name, ()):
            state.ports.setdefault(worker, {})[transport, number] = owner
    state.leases = {row[0]: (row[1], row[2]) for row in found.get("load_leases", ())}
    state.replies = {row[0]: (row[1], row[2], row[3]) for row in found.get("load_replies", ())}
    state.runs = {(row[0], row[1]): row[2] for row in found.get("load_runs", ())}
    for row in found.get("history_end", ()):
        state.place = row[0]
    return state


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _twice(link: Link, work: Callable[[Connection], T]) -> T:
    """Do work on a connection; once more on a fresh one when the first turned out dead.

    Unreachable tells that nothing happened, so repeating is safe; Ambiguous is not repeated.
    """
    try:
        return work(link.connected())
    except errors.Unreachable:
        return work(link.connected())


def _fetch(connection: Connection, statement: str, parameters: Parameters) -> Rows:
    with translated("read", connection):
        return connection.execute(statement, parameters).fetchall()


def _transact(connection: Connection, work: Callable[[Run], T]) -> T:
    def run(statement: str, parameters: Parameters) -> Rows:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []

    try:
        with translated("write", connection):
            connection.execute("BEGIN")
            result = work(run)
    except BaseException:
        _take_back(connection)
        raise
    with translated("write", connection, sent=True):
        connection.execute("COMMIT")
    return result


def _take_back(connection: Connection) -> None:
    """End a failed transaction; a connection that cannot is given up."""
    if connection.closed:
        return
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        with suppress(psycopg.Error):
            connection.close()

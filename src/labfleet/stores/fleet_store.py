"""The `Store` of both databases: turns its methods into statements and rows into objects.

Holds no state but the newest revision it has seen, which only wakes watchers.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.history import KeptRun, RunKind
from labfleet.resources.meta import Key
from labfleet.resources.series import METRICS, Owner
from labfleet.stores import history, rules, samples, series
from labfleet.stores.database import Database, Rows, Run
from labfleet.stores.group_commit import GroupCommit, commit_each
from labfleet.stores.instants import from_micros, to_micros
from labfleet.stores.kept import KeptLabs
from labfleet.stores.recent_events import RecentEvents
from labfleet.stores.runners import Runner
from labfleet.stores.watchers import Watchers

T = TypeVar("T")
DELETE_BATCH = 1000


class FleetStore(KeptLabs):
    """A store on a database, with a runner for blocking work and the fleet's clock."""

    def __init__(
        self,
        database: Database,
        runner: Runner,
        clock: Clock,
        *,
        head: int,
        observer: store.StoreObserver | None = None,
    ) -> None:
        self._db = database
        self._sql = database.sql
        self._runner = runner
        self._clock = clock
        self._observer = observer
        self._watchers = Watchers(head)
        self._group = GroupCommit(self._start)
        self._closed = False
        self._pages: dict[tuple[store.Cursor, int], asyncio.Future[store.EventPage]] = {}
        self._recent = RecentEvents()
        self._epoch = ""
        self._page: tuple[tuple[store.Cursor, int, int], store.EventPage] | None = None
        database.durable = self._recent.add
        database.listen(self._watchers.advance, self._read)

    def _read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        self._check_open()
        return (self._runner.write if self._db.shared else self._runner.read)(work)

    def _start(
        self, commits: builtins.list[store.Commit]
    ) -> asyncio.Future[builtins.list[rules.Outcome]]:
        return self._runner.write(partial(commit_each, self._db.commit, commits))

    # --- objects and the log -------------------------------------------------------------

    async def commit(self, commit: store.Commit) -> store.Committed:
        rules.check_size(commit)
        committed = await self._observed(self._group.submit(commit))
        self._watchers.advance(committed.revision)
        return committed

    async def get(self, key: Key) -> store.Stored | None:
        rows = await self._rows("get", *key)
        return _stored(rows[0]) if rows else None

    async def list(
        self,
        kind: str,
        *,
        namespace: str | None = None,
        selectors: Sequence[store.Selector] = (),
        after: tuple[str, str] | None = None,
        limit: int = store.PAGE_LIMIT,
    ) -> store.Page:
        wanted = _limit(limit)
        filters, extra = self._filters(namespace, selectors)
        statement = self._sql["list"].replace("/*filters*/", filters)
        start = after or (namespace or "", "")
        parameters = (kind, *start, *extra, wanted + 1)
        return await self._read(lambda: _page(self._db.rows(statement, parameters), wanted))

    def _filters(
        self, namespace: str | None, selectors: Sequence[store.Selector]
    ) -> tuple[str, builtins.list[Any]]:
        texts: list[str] = []
        values: list[Any] = []
        if namespace is not None:
            texts.append(self._sql["filter_namespace"])
            values.append(namespace)
        names = {"=": "in", "in": "in", "!=": "not_in", "exists": "exists", "absent": "absent"}
        for selector in selectors:
            texts.append(self._sql[f"filter_{names[selector.op]}"])
            values.append(selector.label)
            if selector.op in {"=", "in", "!="}:
                values.append(self._db.listed(selector.values))
        return " ".join(texts), values

    async def head(self) -> store.Cursor:
        rows = await self._rows("head")
        epoch, revision, _ = rows[0]
        self._epoch = epoch
        self._watchers.advance(revision)
        return store.Cursor(epoch, revision)

    async def events(
        self, after: store.Cursor, *, limit: int = store.PAGE_LIMIT
    ) -> store.EventPage:
        wanted = _limit(limit)
        if (found := self._own_page(after, wanted)) is not None:
            return found
        reading = self._pages.get((after, wanted))
        if reading is None:
            parameters = (after.revision, wanted)
            reading = self._pages[after, wanted] = self._read(
                lambda: _event_page(self._db.rows(self._sql["events"], parameters), after, wanted)
            )
            # A commit wakes all feeds at once, and they ask for the same page: who asks in this
            # iteration of the loop knows of no newer event than the read will find.
            asyncio.get_running_loop().call_soon(self._pages.pop, (after, wanted), None)
        return await asyncio.shield(reading)

    def _own_page(self, after: store.Cursor, limit: int) -> store.EventPage | None:
        """Return the page of what this process has committed just now; None when it did not."""
        self._check_open()
        if after.epoch != self._epoch:
            return None
        asked = (after, limit, self._recent.newest)
        if self._page is not None and self._page[0] == asked:
            return self._page[1]  # a commit wakes all feeds at once, and they ask for the same
        events = self._recent.after(after.revision, limit)
        if not events:
            return None
        page = store.EventPage(events, store.Cursor(after.epoch, events[-1].revision))
        self._page = (asked, page)
        return page

    async def events_of(
        self, key: Key, *, before: int | None = None, limit: int = store.PAGE_LIMIT
    ) -> tuple[store.Event, ...]:
        start = 2**62 if before is None else before
        rows = await self._rows("events_of", *key, start, _limit(limit))
        return tuple(event_of(row) for row in rows)

    async def changed(self, after: int, *, seconds: float) -> None:
        await self._watchers.wait(after, seconds=seconds, poll=self._db.poll, look=self.head)

    async def ports(self, worker: str | None = None) -> tuple[store.PortRow, ...]:
        name, parameters = ("ports", ()) if worker is None else ("ports_of", (worker,))
        rows = await self._read(partial(self._db.rows, self._sql[name], parameters))
        return tuple(store.PortRow(*row) for row in rows)

    # --- leases, replies, tokens: no events ----------------------------------------------

    async def _write(self, work: Callable[[Run], T]) -> T:
        self._check_open()
        return await self._observed(self._runner.write(partial(self._db.write, work)))

    async def _observed(self, write: Awaitable[T]) -> T:
        """Return what the write returns, and tell the observer how it ended."""
        try:
            done = await write
        except errors.LabfleetError as error:
            if self._observer is not None:
                if _of_the_store(error):
                    self._observer.refused(error)
                else:
                    self._observer.wrote()
            raise
        if self._observer is not None:
            self._observer.wrote()
        return done

    async def acquire(self, name: str, holder: str, *, seen: int | None) -> store.Lease:
        return await self._write(partial(_acquire, self._sql, name, holder, seen))

    async def renew(self, lease: store.Lease) -> store.Lease:
        return await self._write(partial(_renew, self._sql, lease))

    async def release(self, lease: store.Lease) -> None:
        await self._write(partial(_release, self._sql, lease))

    async def lease(self, name: str) -> store.Lease | None:
        rows = await self._rows("lease", name)
        return store.Lease(*rows[0]) if rows else None

    async def reply(self, key: str) -> store.Reply | None:
        rows = await self._rows("reply", key, to_micros(self._clock.now()))
        return store.Reply(rows[0][0], bytes(rows[0][1])) if rows else None

    async def size(self) -> int:
        ((found,),) = await self._rows("store_bytes")
        return int(found)

    async def installation(self, fresh: str) -> str:
        await self._write(lambda run: run(self._sql["name_installation"], (fresh,)))
        rows = await self._rows("installation")
        return str(rows[0][0])

    async def put_token(self, row: store.TokenRow) -> None:
        parameters = (
            row.id,
            row.hash,
            row.role,
            row.owner,
            to_micros(row.created),
            None if row.expires is None else to_micros(row.expires),
            None if row.revoked is None else to_micros(row.revoked),
        )
        await self._write(lambda run: run(self._sql["put_token"], parameters))

    async def tokens(self) -> tuple[store.TokenRow, ...]:
        rows = await self._rows("tokens")
        return tuple(_token(row) for row in rows)

    # --- series and samples: no events either --------------------------------------------------------

    async def merge_series(self, rows: Sequence[store.SeriesRow]) -> None:
        series.check(rows)
        if rows:
            await self._write(partial(series.merge, self._sql, self._db.listed, rows))

    async def series(self, owner: Owner, step: int, since: datetime) -> tuple[store.SeriesRow, ...]:
        return series.read(await self._rows("series", *series.parameters(owner, step, since)))

    async def series_at(
        self, owners: Sequence[Owner], step: int, instants: Sequence[datetime]
    ) -> tuple[store.SeriesRow, ...]:
        places = series.places_at(self._db.listed, owners, step, instants)
        rows = await self._read(partial(self._db.rows, self._sql["load_series"], places))
        return series.read_at(rows, instants)

    async def series_owners(self) -> tuple[Owner, ...]:
        sql, found = self._sql["series_owners"], list[Owner]()
        for kind in METRICS:
            rows = await self._read(partial(self._db.rows, sql, (kind, kind)))
            found += [Owner(kind, row[0]) for row in rows]
        return tuple(found)

    async def drop_series(self, owners: Sequence[Owner]) -> int:
        return await self._write(partial(series.drop, self._sql, tuple(owners)))

    async def put_samples(self, rows: Sequence[store.SampleRow]) -> None:
        samples.check(rows)
        if rows:
            await self._write(partial(samples.save, self._sql, self._db.listed, rows))

    async def sample_times(self) -> tuple[store.SampleTime, ...]:
        return samples.read_times(await self._rows("sample_times"))

    async def samples(self, workers: Sequence[str]) -> tuple[store.SampleRow, ...]:
        return samples.read(await self._rows("samples", self._db.listed(tuple(workers))))

    async def drop_samples(self, workers: Sequence[str]) -> int:
        return await self._write(partial(samples.drop, self._sql, tuple(workers)))

    # --- the history of past runs; only commits append to it --------------------------------------------

    async def history(
        self,
        after: int,
        *,
        kind: RunKind | None = None,
        family: str | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        limit: int = store.PAGE_LIMIT,
    ) -> tuple[KeptRun, ...]:
        wanted = {"kind": kind, "family": family, "namespace": namespace, "owner": owner}
        asked = history.filtered(self._sql, "history", after, _limit(limit), **wanted)
        return history.read(await self._read(partial(self._db.rows, *asked)))

    async def newest_runs(
        self,
        *,
        kind: RunKind | None = None,
        family: str | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        before: int | None = None,
        limit: int = store.PAGE_LIMIT,
    ) -> tuple[KeptRun, ...]:
        wanted = {"kind": kind, "family": family, "namespace": namespace, "owner": owner}
        start = 2**62 if before is None else before
        asked = history.filtered(self._sql, "newest_runs", start, _limit(limit), **wanted)
        return history.read(await self._read(partial(self._db.rows, *asked)))

    async def history_size(self) -> store.HistorySize:
        return history.size(await self._rows("history_size"))

    async def drop_history(self, before: datetime, *, limit: int) -> int:
        return await self._write(partial(history.drop, self._sql, to_micros(before), _limit(limit)))

    async def _rows(self, name: str, *parameters: object) -> Rows:
        return await self._read(partial(self._db.rows, self._sql[name], parameters))

    async def _aside(self, work: Callable[[], bytes]) -> bytes:
        return await self._runner.read(work)

    # --- maintenance ----------------------------------------------------------------------

    async def compact(self, before: datetime, *, keep: int) -> int:
        limit = await self._write(
            partial(_move_horizon, self._sql, to_micros(before), max(keep, 0))
        )
        self._recent.forget()
        self._page = None
        dropped = 0
        replies = to_micros(self._clock.now())
        for name, bound in (
            ("drop_gone", limit),
            ("drop_events", limit),
            ("drop_replies", replies),
        ):
            while True:
                gone = await self._write(partial(_delete_batch, self._sql[name], bound))
                dropped += gone if name != "drop_gone" else 0
                if gone < DELETE_BATCH:
                    break
        return dropped

    async def backup(self, target: str) -> int:
        return await self._read(partial(self._db.backup, target))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._group.close()
        self._watchers.close()
        self._db.mute()
        await self._runner.write(self._db.close)
        self._runner.close()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.Temporary("the store is closed", reason="StoreClosed")


def _of_the_store(error: errors.LabfleetError) -> bool:
    """Tell whether a write failed because of the store, and not of what was to be written."""
    if (
        isinstance(error, errors.Invalid | errors.Throttled | errors.QuotaExceeded)
        or error.reason == "StoreClosed"
    ):
        return False
    return isinstance(error, errors.Temporary | errors.Permanent | errors.Ambiguous)


def _limit(limit: int) -> int:
    if not 1 <= limit <= store.PAGE_LIMIT:
        message = f"a page holds 1 to {store.PAGE_LIMIT} rows, not {limit}"
        raise errors.Invalid(message, reason="PageSize")
    return limit


def _delete_batch(statement: str, bound: int, run: Run) -> int:
    return len(run(statement, (bound, DELETE_BATCH)))


def _move_horizon(sql: dict[str, str], before: int, keep: int, run: Run) -> int:
    """Move the horizon to where the newest `keep` begin; return the first revision to stay.

    Finding that place walks over `keep` events while everybody who writes waits. There are
    never more events than revisions, so it is looked for only when a twentieth more may be
    there: a walk for many thousands of commits, and not one a minute.
    """
    run(sql["lock"], ())
    head, horizon = (int(number) for number in run(sql["head"], ())[0][1:])
    if head - horizon > keep + keep // 20:
        edge = run(sql["horizon_at"], (keep,))
        if edge:
            horizon = max(horizon, int(edge[0][0]))
            run(sql["move_horizon"], (horizon,))
    if not horizon:
        return 0
    young = run(sql["first_young"], (before,))
    return min(horizon + 1, young[0][0]) if young else horizon + 1


def _acquire(
    sql: dict[str, str], name: str, holder: str, seen: int | None, run: Run
) -> store.Lease:
    run(sql["lock"], ())
    rows = run(sql["lease"], (name,))
    if rows:
        _, owner, token, version = rows[0]
        if version != seen and (owner or seen is not None):
            message = (
                f"the lease {name} is held by {owner or 'nobody'}: expected version {seen}, "
                f"found {version}"
            )
            raise errors.Conflict(message, reason="LeaseMoved")
    elif seen is not None:
        message = f"the lease {name} is not there: expected version {seen}, found none"
        raise errors.Conflict(message, reason="LeaseMoved")
    else:
        token = version = 0
    lease = store.Lease(name, holder, token + 1, version + 1)
    run(sql["put_lease"], (lease.name, lease.holder, lease.token, lease.version))
    return lease


def _renew(sql: dict[str, str], lease: store.Lease, run: Run) -> store.Lease:
    # No lock: the row is the lock, and neither its holder nor its token changes here.
    moved = run(sql["renew_lease"], (lease.name, lease.holder, lease.token))
    if moved:
        return store.Lease(lease.name, lease.holder, lease.token, moved[0][0])
    rows = run(sql["lease"], (lease.name,))
    found = f"{rows[0][1] or 'nobody'} holds token {rows[0][2]}" if rows else "it is gone"
    raise errors.Fenced(f"the lease {lease.name} with token {lease.token} is lost: {found}")


def _release(sql: dict[str, str], lease: store.Lease, run: Run) -> None:
    run(sql["lock"], ())
    rows = run(sql["lease"], (lease.name,))
    if rows and rows[0][1:3] == (lease.holder, lease.token):
        run(sql["put_lease"], (lease.name, "", lease.token, rows[0][3] + 1))


def _stored(row: tuple[Any, ...]) -> store.Stored:
    kind, namespace, name, uid, revision, doc, labels, created_at = row
    return store.Stored(
        Key(kind, namespace, name),
        uid,
        revision,
        bytes(doc),
        rules.decode_labels(labels),
        from_micros(created_at),
    )


def _page(rows: Rows, limit: int) -> store.Page:
    epoch, head = rows[0][:2]
    found = [row for row in rows[:limit] if row[2] is not None]
    after = (found[-1][3], found[-1][4]) if len(rows) > limit else None
    items = tuple(_stored(row[2:]) for row in found)
    return store.Page(items, store.Cursor(epoch, head), after)


def event_of(row: tuple[Any, ...]) -> store.Event:
    """Return the event of a row of the statements `events` (from its revision on)."""
    revision, kind_of_event, kind, namespace, name, uid, doc, at, actor, request_id, reason = row
    return store.Event(
        revision,
        kind_of_event,
        Key(kind, namespace, name),
        uid,
        bytes(doc),
        from_micros(at),
        actor,
        request_id,
        reason,
    )


def _event_page(rows: Rows, after: store.Cursor, limit: int) -> store.EventPage:
    epoch, horizon, head = rows[0][:3]
    if after.epoch != epoch:
        message = f"cursor {after} is of another life of the store (now {epoch}): list again"
        raise errors.TooOld(message)
    if not horizon <= after.revision <= head:
        message = f"cursor {after} is outside what the log holds ({horizon} to {head}): list again"
        raise errors.TooOld(message)
    events = tuple(event_of(row[3:]) for row in rows if row[3] is not None)
    last = events[-1].revision if len(events) == limit else head
    return store.EventPage(events, store.Cursor(epoch, last))


def _token(row: tuple[Any, ...]) -> store.TokenRow:
    ident, digest, role, owner, created, expires, revoked = row
    return store.TokenRow(
        ident,
        digest,
        role,
        owner,
        from_micros(created),
        None if expires is None else from_micros(expires),
        None if revoked is None else from_micros(revoked),
    )

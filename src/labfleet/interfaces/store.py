"""The store: objects, the event log, ports, ledger rows, leases, tokens, replies.

There is one write: `commit`. It is atomic, and each object write appends its event in the same
transaction. Revisions are positive, growing, one per event; an object's version is the revision
of its last event. No event ever appears at a revision that a reader has already passed
(facts/performance.md#sequence-gaps: with a plain sequence on PostgreSQL readers miss 8-14 %).

Leases, tokens, remembered replies and series are not objects and append no event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from labfleet.resources.meta import Key

PAGE_LIMIT = 1000
COMMIT_LIMIT = 256
SERIES_LIMIT = 5000


class Cursor(NamedTuple):
    """A place in the log: the store's epoch and a revision. Text form `epoch.revision`."""

    epoch: str
    revision: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.revision}"

    @staticmethod
    def parse(text: str) -> Cursor:
        """Return the cursor of its text form; ValueError when it is none."""
        epoch, dot, number = text.rpartition(".")
        if not dot or not epoch or not number.isdecimal() or len(text) > 100:
            message = f"{text[:100]!r} is not a cursor (epoch.revision)"
            raise ValueError(message)
        return Cursor(epoch, int(number))


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored object: its serialised form and its version."""

    key: Key
    uid: str
    revision: int
    doc: bytes
    labels: dict[str, str]
    created_at: datetime


EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object: what it became (for DELETED: what it last was), who, why."""

    revision: int
    type: EventType
    key: Key
    uid: str
    doc: bytes
    at: datetime
    actor: str
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Who writes and why; recorded on every event of the commit. `at` is fleet time."""

    actor: str
    at: datetime
    request_id: str = ""
    reason: str = ""


# --- preconditions -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtRevision:
    """The object is at exactly this revision; 0 means that it does not exist."""

    key: Key
    revision: int


@dataclass(frozen=True, slots=True)
class LedgerUntouched:
    """This owner's ledger row was not touched after this revision.

    The revision is that of the snapshot the caller decided on, so a reservation that is not in
    the snapshot makes the commit fail.
    """

    owner: str
    since: int


Precondition = AtRevision | LedgerUntouched


# --- writes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Put:
    """Write an object; ADDED when it is new, else MODIFIED."""

    key: Key
    uid: str
    doc: bytes
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; the DELETED event has its last form. Conflict when there is no row."""

    key: Key


@dataclass(frozen=True, slots=True)
class TouchLedger:
    """Mark this owner's ledger row as changed by this commit, which must write an object."""

    owner: str


@dataclass(frozen=True, slots=True)
class TakePorts:
    """Give these (transport, number) of a worker (its `Key.path`) to an owner; all or a Conflict.

    A port that the same owner already holds is not a conflict.
    """

    worker: str
    owner: str
    ports: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class FreePorts:
    """Release every port that the owner holds on the worker; no error when none is held."""

    worker: str
    owner: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep the answer of a request under its idempotency key; a key in use is a Conflict.

    `digest` is of the request's body; `key` already carries who asked. Kept until `until`.
    """

    key: str
    digest: str
    reply: bytes
    until: datetime


Write = Put | Delete | TouchLedger | TakePorts | FreePorts | Remember


@dataclass(frozen=True, slots=True)
class Fence:
    """The lease under which the caller writes; refused when it is not the newest token."""

    lease: str
    token: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One all-or-nothing write, at most `COMMIT_LIMIT` writes and preconditions each."""

    cause: Cause
    writes: tuple[Write, ...]
    preconditions: tuple[Precondition, ...] = ()
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The revisions given to the commit's Put and Delete writes, in their order."""

    revisions: tuple[int, ...]
    revision: int


# --- reads -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector: equal, not equal, in, exists, absent; all must hold."""

    label: str
    op: Literal["=", "!=", "in", "exists", "absent"]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Objects in key order, the cursor of the list's state, the next page's start (None: end)."""

    items: tuple[Stored, ...]
    cursor: Cursor
    after: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in revision order after the asked cursor; `cursor` is where to go on from."""

    events: tuple[Event, ...]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class PortRow:
    """One port given out."""

    worker: str
    transport: str
    number: int
    owner: str


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease row. `version` changes on every renewal; readers measure its age themselves.

    An empty `holder` means released: the lease may be taken at once, and its token is void.
    """

    name: str
    holder: str
    token: int
    version: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A remembered answer."""

    digest: str
    reply: bytes


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One bucket of a worker's (`Key.path`) numbers: of `step` seconds, from `at` on.

    `data` is the packed form of `resources.series`, whose tiers say how many are kept.
    """

    worker: str
    step: int
    at: datetime
    data: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    """An API token: only its hash is kept. `expires` None means never."""

    id: str
    hash: str
    role: str
    owner: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None


class Store(Protocol):
    """The interface of both stores. Every method raises kernel errors only.

    Temporary: the store is busy, locked for too long or unreachable; nothing happened
    unless the error is Ambiguous. OutOfCapacity: disk full; nothing happened. Conflict,
    Fenced: a precondition or the fence did not hold; nothing happened.
    """

    async def commit(self, commit: Commit) -> Committed:
        """Do all of it durably, or raise and do nothing. Group commit inside."""
        ...

    async def get(self, key: Key) -> Stored | None:
        """Return one object, or None when there is none."""
        ...

    async def list(
        self,
        kind: str,
        *,
        namespace: str | None = None,
        selectors: Sequence[Selector] = (),
        after: tuple[str, str] | None = None,
        limit: int = PAGE_LIMIT,
    ) -> Page:
        """Return one page in (namespace, name) order, at one revision."""
        ...

    async def head(self) -> Cursor:
        """Return where the log ends."""
        ...

    async def events(self, after: Cursor, *, limit: int = PAGE_LIMIT) -> EventPage:
        """Return later events; TooOld for a cursor behind the horizon or of another epoch."""
        ...

    async def events_of(
        self, key: Key, *, before: int | None = None, limit: int = PAGE_LIMIT
    ) -> tuple[Event, ...]:
        """Return one object's events, newest first, for people; also those behind the horizon."""
        ...

    async def changed(self, after: int, *, seconds: float) -> None:
        """Return when the log may have grown past the revision, or after machine seconds."""
        ...

    async def ports(self, worker: str | None = None) -> tuple[PortRow, ...]:
        """Return the ports given out, of one worker (its `Key.path`) or of all."""
        ...

    async def acquire(self, name: str, holder: str, *, seen: int | None) -> Lease:
        """Take a lease and get the next fencing token.

        `seen` is the version that the caller has watched unchanged for the lease's length
        (its own clock), or None when it believes the row absent. Conflict when the row is
        at another version.
        """
        ...

    async def renew(self, lease: Lease) -> Lease:
        """Move the version of a lease that is still ours; Fenced when it is not."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the lease up so that a successor need not wait; no error when lost."""
        ...

    async def lease(self, name: str) -> Lease | None:
        """Return the lease's row, or None when it was never held."""
        ...

    async def reply(self, key: str) -> Reply | None:
        """Return the answer stored under an idempotency key."""
        ...

    async def installation(self, fresh: str) -> str:
        """Return this installation's identity, which is `fresh` if it had none yet.

        The owner tag of our machines: it outlives every process, moves with the store to
        another host and through backup and restore, and never changes.
        """
        ...

    async def put_token(self, row: TokenRow) -> None:
        """Insert or replace a token row by id."""
        ...

    async def tokens(self) -> tuple[TokenRow, ...]:
        """Return all token rows."""
        ...

    async def merge_series(self, rows: Sequence[SeriesRow]) -> None:
        """Merge buckets into the stored ones of the same instants, at most `SERIES_LIMIT`.

        A bucket written twice holds both measurements. A bucket replaces the one that is a
        whole ring older; if a newer one has its place already, it is silently dropped.
        """
        ...

    async def series(self, worker: str, step: int, since: datetime) -> tuple[SeriesRow, ...]:
        """Return a worker's buckets of this step that begin at `since` or later, oldest first."""
        ...

    async def series_workers(self) -> tuple[str, ...]:
        """Return the workers that have series, each as `Key.path`."""
        ...

    async def drop_series(self, workers: Sequence[str]) -> int:
        """Drop all buckets of these workers; return how many went."""
        ...

    async def compact(self, before: datetime, *, keep: int) -> int:
        """Move the horizon and drop old rows; return how many rows went.

        The horizon moves to the newest `keep` events: a watcher further behind lists again.
        Behind it events stay readable as history until they are older than `before`; an
        object's last event stays as long as the object. Expired replies go too.
        """
        ...

    async def backup(self, target: str) -> int:
        """Write a consistent copy to a file that must not exist; return bytes written."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then release files and connections."""
        ...

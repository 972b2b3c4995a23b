"""Objects and the one write: a commit of objects, ports, replies and past runs, or nothing.

Each object write appends its event in the same transaction. Revisions are positive, growing, one
per event; an object's version is the revision of its last event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from labfleet.interfaces.store.history import Teach
from labfleet.interfaces.store.leases import Fence
from labfleet.interfaces.store.log import PAGE_LIMIT, Cursor
from labfleet.interfaces.store.ports import FreePorts, TakePorts
from labfleet.interfaces.store.replies import Remember
from labfleet.resources.meta import Key

COMMIT_LIMIT = 1024
"""Enough for 500 seats of a group with the workers and pools that they take from."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored object: its serialised form and its version."""

    key: Key
    uid: str
    revision: int
    doc: bytes
    labels: dict[str, str]
    created_at: datetime


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


Write = Put | Delete | TouchLedger | TakePorts | FreePorts | Remember | Teach


@dataclass(frozen=True, slots=True)
class Commit:
    """One all-or-nothing write, at most `COMMIT_LIMIT` writes and preconditions each."""

    cause: Cause
    writes: tuple[Write, ...]
    preconditions: tuple[Precondition, ...] = ()
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The revisions given to the commit's Put and Delete writes, in their order.

    `taught` is how many of its runs the history did not have.
    """

    revisions: tuple[int, ...]
    revision: int
    taught: int = 0


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


class ObjectReader(Protocol):
    """Reads stored objects."""

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


class ObjectStore(ObjectReader, Protocol):
    """Reads stored objects and writes them."""

    async def commit(self, commit: Commit) -> Committed:
        """Do all of it durably, or raise and do nothing. Group commit inside."""
        ...

"""The store: objects, events, ports, ledger, leases, tokens, replies, samples, runs, kept labs.

There is one write of objects: `commit` (in `objects`). It is atomic, and each object write appends
its event in the same transaction. No event ever appears at a revision that a reader has already
passed (facts/performance.md#sequence-gaps: with a plain sequence on PostgreSQL readers miss 8-14 %).

Each file is one protocol as small as its users, with the values that it exchanges. Take the
smallest one that you use; only a composition root, which opens the store, holds the sum of them.
"""

from __future__ import annotations

from typing import Protocol

from labfleet.interfaces.store.history import (
    RUN_BYTES,
    HistorySize,
    HistoryStore,
    Teach,
)
from labfleet.interfaces.store.kept import (
    KeptBounds,
    KeptLab,
    KeptStore,
    NewKeptLab,
)
from labfleet.interfaces.store.leases import (
    Fence,
    Lease,
    LeaseStore,
)
from labfleet.interfaces.store.log import (
    PAGE_LIMIT,
    Cursor,
    Event,
    EventLog,
    EventPage,
    EventType,
)
from labfleet.interfaces.store.objects import (
    COMMIT_LIMIT,
    AtRevision,
    Cause,
    Commit,
    Committed,
    Delete,
    LedgerUntouched,
    ObjectReader,
    ObjectStore,
    Page,
    Precondition,
    Put,
    Selector,
    Stored,
    TouchLedger,
    Write,
)
from labfleet.interfaces.store.observing import (
    StoreObserver,
)
from labfleet.interfaces.store.ports import (
    FreePorts,
    PortRow,
    PortStore,
    TakePorts,
)
from labfleet.interfaces.store.replies import (
    Remember,
    Reply,
    ReplyStore,
)
from labfleet.interfaces.store.samples import (
    SAMPLES_LIMIT,
    SampleRow,
    SampleStore,
    SampleTime,
)
from labfleet.interfaces.store.series import (
    SERIES_LIMIT,
    SeriesRow,
    SeriesStore,
)
from labfleet.interfaces.store.tokens import (
    TokenRow,
    TokenStore,
)
from labfleet.interfaces.store.upkeep import (
    OpenedStore,
    UpkeepStore,
)

__all__ = [
    "COMMIT_LIMIT",
    "PAGE_LIMIT",
    "RUN_BYTES",
    "SAMPLES_LIMIT",
    "SERIES_LIMIT",
    "AtRevision",
    "Cause",
    "Commit",
    "Committed",
    "Cursor",
    "Delete",
    "Event",
    "EventLog",
    "EventPage",
    "EventType",
    "Fence",
    "FreePorts",
    "HistorySize",
    "HistoryStore",
    "KeptBounds",
    "KeptLab",
    "KeptStore",
    "Lease",
    "LeaseStore",
    "LedgerUntouched",
    "NewKeptLab",
    "ObjectReader",
    "ObjectStore",
    "OpenedStore",
    "Page",
    "PortRow",
    "PortStore",
    "Precondition",
    "Put",
    "Remember",
    "Reply",
    "ReplyStore",
    "SampleRow",
    "SampleStore",
    "SampleTime",
    "Selector",
    "SeriesRow",
    "SeriesStore",
    "Store",
    "StoreObserver",
    "Stored",
    "TakePorts",
    "Teach",
    "TokenRow",
    "TokenStore",
    "TouchLedger",
    "UpkeepStore",
    "Write",
]


class Store(
    ObjectStore,
    EventLog,
    PortStore,
    LeaseStore,
    ReplyStore,
    TokenStore,
    SeriesStore,
    SampleStore,
    HistoryStore,
    KeptStore,
    UpkeepStore,
    OpenedStore,
    Protocol,
):
    """The interface of both stores. Every method raises kernel errors only.

    Temporary: the store is busy, locked for too long or unreachable; nothing happened
    unless the error is Ambiguous. OutOfCapacity: disk full; nothing happened. Conflict,
    Fenced: a precondition or the fence did not hold; nothing happened.
    """

"""The names of the ledger's rows, built in one place for all that reserve something.

A commit that reserves something on a row carries `untouched(row, revision)` and `touch(row)`,
where `revision` is the cache's at the decision. Releasing a reservation needs neither.
"""

from __future__ import annotations

from labfleet.interfaces import store as stores
from labfleet.resources.meta import Key


def row(kind: str, name: str, namespace: str) -> str:
    """Return the ledger row of a worker or cluster (capacity), or of another referenced object."""
    return f"{kind.lower()}/{namespace}/{name}"


def of(key: Key) -> str:
    """Return the ledger row of an object."""
    return row(key.kind, key.name, key.namespace)


def claims(pool: Key) -> str:
    """Return the row of what a pool has promised, apart from the row of the pool itself."""
    return row("Claims", pool.name, pool.namespace)


def bound_claims(pool: Key) -> str:
    """Return the row of the claims that the scheduler takes as it binds: its own do not conflict."""
    return row("BoundClaims", pool.name, pool.namespace)


def untouched(owner: str, revision: int) -> stores.LedgerUntouched:
    """Return the precondition that nothing was reserved on the row after the revision."""
    return stores.LedgerUntouched(owner, revision)


def touch(owner: str) -> stores.TouchLedger:
    """Return the write that marks the row as changed, so that others notice the reservation."""
    return stores.TouchLedger(owner)

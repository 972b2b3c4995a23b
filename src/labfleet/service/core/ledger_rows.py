"""The names of the ledger's rows: one spelling for everybody who reserves something.

A commit that adds to what an owner holds carries `untouched(row, revision)` and `touch(row)`,
`revision` being the cache's when the decision was made. Giving back needs neither.
"""

from __future__ import annotations

from labfleet.interfaces import store as stores
from labfleet.resources.meta import Key


def row(kind: str, name: str, namespace: str = "default") -> str:
    """Return the ledger owner of a worker or cluster (capacity), or of anything referred to."""
    return f"{kind.lower()}/{namespace}/{name}"


def of(key: Key) -> str:
    """Return the ledger owner of an object."""
    return row(key.kind, key.name, key.namespace)


def untouched(owner: str, revision: int) -> stores.LedgerUntouched:
    """Return the precondition that nobody reserved on the owner after the revision."""
    return stores.LedgerUntouched(owner, revision)


def touch(owner: str) -> stores.TouchLedger:
    """Return the write that tells others that something was reserved on the owner."""
    return stores.TouchLedger(owner)

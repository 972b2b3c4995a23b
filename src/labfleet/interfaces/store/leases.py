"""Leases: who leads, and the fence under which a leader writes. They append no event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Fence:
    """The lease under which the caller writes; refused when it is not the newest token."""

    lease: str
    token: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease row. `version` changes on every renewal; readers measure its age themselves.

    An empty `holder` means released: the lease may be taken at once, and its token is void.
    """

    name: str
    holder: str
    token: int
    version: int


class LeaseStore(Protocol):
    """Gives named leases to one holder at a time."""

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

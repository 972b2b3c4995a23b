"""Care of a store: dropping what is old, and what only the process that opened it does."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class UpkeepStore(Protocol):
    """Drops what nobody needs any more."""

    async def compact(self, before: datetime, *, keep: int) -> int:
        """Move the horizon and drop old rows; return how many rows went.

        The horizon moves to the newest `keep` events: a watcher further behind lists again.
        Behind it events stay readable as history until they are older than `before`; an
        object's last event stays as long as the object. Expired replies go too.
        """
        ...


class OpenedStore(Protocol):
    """A store in the hands of the process that opened it."""

    async def installation(self, fresh: str) -> str:
        """Return this installation's identity, which is `fresh` if it had none yet.

        The owner tag of our machines: it outlives every process, moves with the store to
        another host and through backup and restore, and never changes.
        """
        ...

    async def size(self) -> int:
        """Return how many bytes the database takes on its disk, without what is not yet merged."""
        ...

    async def backup(self, target: str) -> int:
        """Write a consistent copy to a file that must not exist; return bytes written."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then release files and connections."""
        ...

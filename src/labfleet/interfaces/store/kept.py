"""Labs that were kept at the end of their session: texts with a bound, by whose session they were.

A content may hold passwords. It appends no event, stands in no object, and is given out by
`kept_content` alone; who may have it is judged above the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from labfleet.interfaces.store.log import PAGE_LIMIT


@dataclass(frozen=True, slots=True)
class KeptLab:
    """A kept lab without its content: the session's uid, whose it is, from when to when.

    `digest` is the SHA-256 of the content; labs of one content share it. `stored` is how many bytes
    the content takes in the store, where it is compressed.
    """

    uid: str
    owner: str
    digest: str
    stored: int
    kept_at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class NewKeptLab:
    """A lab to be kept: the uid of its session, whose it is, from when to when, and its text."""

    uid: str
    owner: str
    content: bytes = field(repr=False)
    kept_at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class KeptBounds:
    """How much may be kept: bytes of one content, and stored bytes of one owner and of all."""

    lab: int
    owner: int
    all: int


class KeptStore(Protocol):
    """Keeps one content for each uid; what is there already stays as it is."""

    async def keep_lab(self, lab: NewKeptLab, bounds: KeptBounds) -> KeptLab:
        """Keep a lab and return its row: the one that was there when its uid has one already.

        Invalid (KeptLabTooLarge) beyond the bound of one lab; QuotaExceeded (KeptOwnerFull,
        KeptStoreFull) when it does not fit beside what is kept. Nothing else is dropped for it.
        """
        ...

    async def kept_lab(self, uid: str) -> KeptLab | None:
        """Return the row of a uid; None when nothing is kept."""
        ...

    async def kept_labs(self, *, after: str = "", limit: int = PAGE_LIMIT) -> tuple[KeptLab, ...]:
        """Return rows in the order of their uids, from after one on."""
        ...

    async def kept_content(self, uid: str) -> bytes | None:
        """Return the content of a uid; None when nothing is kept."""
        ...

    async def drop_kept_lab(self, uid: str) -> bool:
        """Drop what is kept of a uid; a content goes with the last lab that has it."""
        ...

    async def drop_old_kept_labs(self, before: datetime, *, limit: int) -> int:
        """Drop at most so many labs that were to be kept until before an instant; return how many."""
        ...

"""Answers remembered under idempotency keys; a commit remembers one together with its writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep the answer of a request under its idempotency key; a key in use is a Conflict.

    `digest` is of the request's body; `key` already carries who asked. Kept until `until`.
    """

    key: str
    digest: str
    reply: bytes
    until: datetime


@dataclass(frozen=True, slots=True)
class Reply:
    """A remembered answer."""

    digest: str
    reply: bytes


class ReplyStore(Protocol):
    """Reads remembered answers."""

    async def reply(self, key: str) -> Reply | None:
        """Return the answer stored under an idempotency key."""
        ...

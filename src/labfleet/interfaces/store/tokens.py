"""API tokens, of which only hashes are kept. They append no event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


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


class TokenStore(Protocol):
    """Keeps token rows."""

    async def put_token(self, row: TokenRow) -> None:
        """Insert or replace a token row by id."""
        ...

    async def tokens(self) -> tuple[TokenRow, ...]:
        """Return all token rows."""
        ...

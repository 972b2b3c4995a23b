"""A receiver of webhooks in virtual time, which remembers what it has heard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from labfleet.interfaces.outside import Answered

LISTENER, DEAF = "listener", "deaf"
URLS = {LISTENER: "https://hooks.example.org/heard", DEAF: "https://hooks.example.org/deaf"}


@dataclass
class Receiver:
    """Takes what is posted to the listener; the deaf one answers 500 until it hears."""

    hears: bool = False
    got: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in URLS})

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        allow_private: bool,
    ) -> Answered:
        """Note the event's id, a moment later, and answer."""
        del body, seconds, allow_private
        await asyncio.sleep(0.05)
        name = next(name for name, known in URLS.items() if known == url)
        if name == DEAF and not self.hears:
            return Answered(500)
        self.got[name].append(headers["webhook-id"])
        return Answered(204)

    async def close(self) -> None:
        """Nothing is held."""

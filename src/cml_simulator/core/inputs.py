"""The core's inputs: a clock, random numbers, and the ids and time stamps made from them.

Nothing here reads a real clock or a real source of randomness.
"""

import hashlib
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

Clock = Callable[[], float]
"""Simulated seconds since 1970-01-01 UTC."""


class Rng(Protocol):
    """The part of `random.Random` that the core uses."""

    def random(self) -> float: ...

    def getrandbits(self, k: int, /) -> int: ...


def new_id(rng: Rng) -> str:
    """Return a lower-case version 4 UUID, as CML names everything."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


@lru_cache(maxsize=65536)
def share(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone, so that repeated reads agree."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def iso(at: float) -> str:
    """Return the stamp of labs, users and events: whole seconds with offset."""
    return datetime.fromtimestamp(int(at), UTC).isoformat()


@lru_cache(maxsize=4096)
def licence_stamp(at: float | None) -> str | None:
    """Return the stamp of licensing dates: no zone, a space in the middle."""
    if at is None:
        return None
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%d %H:%M:%S")

"""The core's inputs: random numbers, and the ids and time stamps made of them and of a time.

Nothing here reads a real clock or a real source of randomness.
"""

import hashlib
import json
import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

Json = dict[str, Any]
"""A JSON object. One that a store holds is never changed in place."""

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What generated names end in: no vowels, so that no word comes out."""


class Rng(Protocol):
    """The part of `random.Random` that the core uses."""

    def random(self) -> float: ...

    def getrandbits(self, k: int, /) -> int: ...


def new_uid(rng: Rng) -> str:
    """Return a version 4 UUID."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def suffix(rng: Rng, length: int = 5) -> str:
    """Return letters for a generated name."""
    return "".join(LETTERS[rng.getrandbits(16) % len(LETTERS)] for _ in range(length))


def digest(*parts: object, length: int = 10) -> str:
    """Return letters that depend on the parts alone, as a template's hash does."""
    raw = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return "".join(LETTERS[each % len(LETTERS)] for each in raw[:length])


@lru_cache(maxsize=65536)
def share(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone, so that repeated reads agree."""
    raw = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(raw[:6], "big") / 2**48


@lru_cache(maxsize=4096)
def _whole(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(at: float) -> str:
    """Return a time as metav1.Time: whole seconds of UTC."""
    return _whole(int(at))


def micro_stamp(at: float) -> str:
    """Return a time as metav1.MicroTime."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Return the seconds since 1970 of a stamp."""
    return datetime.fromisoformat(text).timestamp()


def copied(value: Any) -> Any:
    """Return a copy of a JSON value that may be changed."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [copied(each) for each in value]
    return value


def canonical(value: Any) -> str:
    """Return a JSON value as text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def pruned(value: Any) -> Any:
    """Return a JSON value without what says nothing: null, and what is empty."""
    if isinstance(value, dict):
        kept = {key: pruned(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, {}, [])}
    return [pruned(each) for each in value] if isinstance(value, list) else value

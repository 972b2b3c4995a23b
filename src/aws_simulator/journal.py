"""The journal of calls: bounded, in order, and the counters that outlive its bound."""

import collections
import dataclasses
import re
from typing import Any

INSTANCE_ID = re.compile(r"\bi-[0-9a-f]{8,17}\b")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One call or one deed of an outside hand; `result` holds instance ids of the reply."""

    number: int
    time: float
    source: str
    service: str
    action: str
    region: str
    account: str
    token: str
    ids: tuple[str, ...]
    result: tuple[str, ...]
    status: int
    error: str
    fault: str


@dataclasses.dataclass
class Journal:
    """Keeps the last `bound` entries and counts every call since the start or the reset."""

    bound: int = 10_000
    entries: collections.deque[Entry] = dataclasses.field(default_factory=collections.deque)
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    number: int = 0

    def add(self, **fields: Any) -> Entry:
        """Append an entry; the oldest one falls out beyond the bound."""
        self.number += 1
        entry = Entry(number=self.number, **fields)
        self.entries.append(entry)
        if len(self.entries) > self.bound:
            self.entries.popleft()
        if entry.source == "api":
            self.counts[entry.action] += 1
        return entry

    def after(self, number: int, limit: int) -> list[dict[str, Any]]:
        """Return up to `limit` entries that are newer than a number."""
        found = [entry for entry in self.entries if entry.number > number]
        return [dataclasses.asdict(entry) for entry in found[:limit]]

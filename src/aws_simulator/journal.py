"""The journal of calls: bounded, in order; its counters also count entries that were dropped."""

import collections
import copy
import dataclasses
import itertools
import re
from typing import Any

INSTANCE_ID = re.compile(r"\bi-[0-9a-f]{8,17}\b")
BOUND = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One call, or one act from outside the API.

    `ids` are the resources the call names, `result` the instance ids of the reply, `owners` the
    owner tag of each named resource when the call came (empty text: untagged or unknown), and
    `facts` what the linked CML simulator said of the named instances at that moment. `params` are
    the fields of a change, without user data.
    """

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
    key: str = ""
    narrowed: bool = True
    dry_run: bool = False
    owners: tuple[str, ...] = ()
    actor: str = ""
    params: dict[str, str] = dataclasses.field(default_factory=dict)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


Minutes = collections.Counter[tuple[str, str, str, bool, int]]


@dataclasses.dataclass
class Journal:
    """Keeps the last `bound` entries and counts every call since the start or the reset."""

    bound: int = BOUND
    entries: collections.deque[Entry] = dataclasses.field(default_factory=collections.deque)
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    minutes: Minutes = dataclasses.field(default_factory=collections.Counter)
    throttled: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    number: int = 0

    def __deepcopy__(self, _memo: dict[int, Any]) -> "Journal":
        """Copy for a snapshot; entries never change, so both copies share them."""
        copied = {
            field.name: copy.copy(getattr(self, field.name)) for field in dataclasses.fields(self)
        }
        return Journal(**copied)

    def add(self, **fields: Any) -> Entry:
        """Append an entry; the oldest one falls out beyond the bound."""
        self.number += 1
        entry = Entry(number=self.number, **fields)
        self.entries.append(entry)
        if len(self.entries) > self.bound:
            self.entries.popleft()
        if entry.source == "api":
            self.counts[entry.action] += 1
            minute = int(entry.time // 60)
            place = (entry.account, entry.region)
            self.minutes[*place, entry.action, entry.narrowed, minute] += 1
            if entry.error in ("RequestLimitExceeded", "EC2ThrottledException"):
                self.throttled[entry.action] += 1
        return entry

    def after(self, number: int, limit: int, **wanted: str) -> list[dict[str, Any]]:
        """Return up to `limit` entries newer than a number that equal every wanted field."""
        skip = max(0, number - self.entries[0].number + 1) if self.entries else 0
        newer = itertools.islice(self.entries, skip, None)
        fits = (
            entry
            for entry in newer
            if all(str(getattr(entry, name)) == value for name, value in wanted.items())
        )
        return [dataclasses.asdict(entry) for entry in itertools.islice(fits, limit)]

"""Which excuse for a promise that was not kept is true: what really went wrong, by the fault plan.

The product records a cause from a closed list. Each cause has here what must have happened in the
world for it: faults that struck something, or people who changed something. What befalls our own
processes and database excuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from labfleet.rehearsal.faults import FaultInjector
from labfleet.resources.session_conditions import SessionReason as R

BEFORE = timedelta(hours=3)
"""How long before a slot a fault may have begun or struck: a head start and the longest repair."""
PROVIDER = frozenset(
    {"no_stock", "quota_full", "ec2_down", "credentials_expired", "zone_down", "slow_metal"}
)
MACHINES = PROVIDER | {
    "instance_death", "boot_hangs", "check_impaired", "host_impaired", "event_scheduled",
    "console_stop", "console_start", "console_terminate", "cleaner", "tag_taken",
}  # fmt: skip
LICENCES = frozenset({"licence_unreachable", "licence_revoked", "cut_before_import"})
SERVERS = MACHINES | {"server_unreachable", "core_down", "cut_before_import"}
LABS = SERVERS | LICENCES | {"lab_deleted", "port_added"}
OUTSIDE = LABS

PROOFS: dict[str, tuple[frozenset[str], bool]] = {
    R.AUTOMATION_PAUSED: (MACHINES, True),  # a pool pauses itself when it loses machines
    R.LAB_FAILED: (LABS, False),
    R.MAXIMUM_LOWERED: (frozenset(), True),
    R.NO_MACHINE: (PROVIDER, False),
    R.NOT_LICENSED: (LICENCES, True),
    R.POOL_ENDED: (frozenset(), True),
    R.ROOM_HELD: (SERVERS, False),
    R.SERVER_SILENT: (SERVERS, False),
    R.TEMPLATE_MISSING: (frozenset(), True),
    R.WORKER_CLOSED: (frozenset(), True),
    R.WORKER_LOST: (MACHINES, True),
}
"""Cause -> the faults that prove it, and whether people may be the cause."""


@dataclass(slots=True)
class Excuses:
    """Knows when each kind of fault last struck; `patrol` is called every virtual minute."""

    injector: FaultInjector
    time: Callable[[], float]
    _seen: dict[str, int] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    def patrol(self) -> None:
        """Note which kinds have struck since the last call."""
        for word, many in self.injector.counts.items():
            if self._seen.get(word) != many:
                self._seen[word] = many
                self._last[word] = self.time()

    def struck(self, words: Iterable[str], begin: float) -> bool:
        """Tell whether a fault of these kinds struck something since, or went on until then."""
        self.patrol()
        for word in words:
            last = self._last.get(word)
            if last is None:
                continue
            if last >= begin:
                return True
            planned = (each for each in self.injector.plan.scheduled if each.word == word)
            if any(each.at <= self.time() and each.at + each.span >= begin for each in planned):
                return True
        return False

    def true(self, cause: str, begin: float, *, people: bool) -> bool:
        """Tell whether a recorded cause is true; `people`: somebody changed something meanwhile."""
        words, may_be_people = PROOFS.get(cause, (frozenset[str](), False))
        return (may_be_people and people) or self.struck(words, begin)

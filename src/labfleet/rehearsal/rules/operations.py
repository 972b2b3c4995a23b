"""The rule that nobody believes a call of another process undone while it may still be under way.

Judged by commits, in true time. A launch or an import whose effect one process saved may be
dropped, repeated or replaced by another process only when its outcome was found, or when the time
of the effect has passed since that commit, whatever the clocks of the two say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labfleet.interfaces import store
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.resources import refs
from labfleet.resources.meta import Effect
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker

LONG = frozenset({"launch", "import"})


@dataclass(frozen=True, slots=True)
class _Begun:
    """An effect as it was saved: by which process, when, and for a lab on which worker."""

    effect: Effect
    holder: str
    at: float
    host: str | None = None


@dataclass(slots=True)
class Operations:
    """Follows the open effects; `broken` gets the rule's name and what was seen.

    `workers` are the records by their labels.
    """

    broken: Callable[[str, str], None]
    shared: SharedDatabase
    now: Callable[[], float]
    workers: Mapping[str, Worker]
    _open: dict[str, _Begun] = field(default_factory=dict)

    def take(self, new: Worker | Session, fence: store.Fence | None) -> None:
        """Judge one commit."""
        key, effect = str(new.key), new.status.effect
        before = self._open.get(key)
        if before is not None and _same(before.effect, effect):
            return
        holder = "" if fence is None else self._holder(fence)
        if before is not None and holder != before.holder and not self._settled(before, new):
            passed = self.now() - before.at
            if passed < (before.effect.expires - before.effect.begun).total_seconds():
                told = f"{key}: {before.effect.kind} of {before.holder} is believed undone by "
                self.broken("operation", f"{told}{holder or 'nobody'} after {passed:.1f} s")
        self._open.pop(key, None)
        if effect is not None and effect.kind in LONG:
            named = refs.worker_of(new) if isinstance(new, Session) else None
            host = None if named is None else named.key.label
            self._open[key] = _Begun(effect, holder, self.now(), host)

    def under_way(self, process: str) -> bool:
        """Tell whether a launch or an import of this process is under way or without outcome."""
        return any(each.holder.partition("/")[0] == process for each in self._open.values())

    def _settled(self, before: _Begun, new: Worker | Session) -> bool:
        """Tell whether the outcome is found, or no machine is left on which it could appear."""
        if isinstance(new, Worker):
            return new.status.machine.id is not None
        host = self.workers.get(before.host or "")
        if host is None or host.status.machine.state != "running":
            return True
        return new.status.lab is not None and new.status.lab.id is not None

    def _holder(self, fence: store.Fence) -> str:
        inner = self.shared.inner
        rows = inner.rows(inner.sql["lease"], (fence.lease,))
        return str(rows[0][1]) if rows else ""


def _same(one: Effect, other: Effect | None) -> bool:
    return other is not None and (one.id, one.attempt) == (other.id, other.attempt)

"""The rules that hosts' wrong clocks end nobody's work early and date no commit wrongly.

The checker counts in the loop's time, which no fault sets. A jump that the product has to follow
(NTP's, up to five minutes) is smaller than the tolerance; one that it must not follow is larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.interfaces import store
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import PhaseReason

TOLERANCE = timedelta(seconds=600)
"""Clocks that jump by minutes add up, and a commit may wait in a paused process."""


@dataclass(slots=True)
class Timely:
    """Judges the time of ends and of commits; `broken` takes the rule's word and what was seen."""

    broken: Callable[[str, str], None]
    time: Callable[[], float]
    _began: dict[str, datetime] = field(default_factory=dict)
    _wrong: dict[str, float] = field(default_factory=dict)

    def commit(self, commit: store.Commit) -> None:
        """Look at the instant of a commit."""
        apart = commit.cause.at - self._now()
        if abs(apart) > TOLERANCE:
            self._wrong.setdefault(commit.cause.actor, apart.total_seconds() / 3600)

    def patrol(self) -> None:
        """Report wrong instants, after what they did to people's work."""
        for actor, hours in self._wrong.items():
            self.broken("instant", f"{actor} writes {hours:+.1f} h off the true time")
        self._wrong.clear()

    def session(self, old: Session | None, new: Session) -> None:
        """Judge an end that a session's time is the reason for, when it is decided."""
        uid, now = new.metadata.uid, self._now()
        was = SessionPhase.PENDING if old is None else old.status.phase
        phase = new.status.phase
        if phase is SessionPhase.RUNNING and was is not phase:
            self._began[uid] = now
        ended = phase is SessionPhase.COLLECTING and new.status.reason == PhaseReason.SLOT_ENDED
        if not ended or was is phase:
            return
        end = self._end(new)
        if end is not None and now < end - TOLERANCE:
            left = (end - now).total_seconds() / 60
            self.broken("early", f"{new.key} ends {left:.0f} min before its time is over")

    def gone(self, old: Session) -> None:
        """Forget a session whose record is gone."""
        self._began.pop(old.metadata.uid, None)

    def _end(self, session: Session) -> datetime | None:
        """Return when a session's time is truly over.

        Without a slot its time is a length that begins when it runs. The difference of the two
        recorded instants is that length, however wrong the clock was that wrote both.
        """
        slot, status = session.spec.slot, session.status
        if slot.end is not None or status.start is None or status.end is None:
            return slot.end
        began = slot.start or self._began.get(session.metadata.uid)
        return None if began is None else began + (status.end - status.start)

    def _now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.time())

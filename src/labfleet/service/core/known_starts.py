"""When waiting sessions start, as this process last worked it out, and how well that held.

Filled by `kinds.session_outlook`. Nothing of it is stored: another process works out the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from labfleet.resources.history import RunKind
from labfleet.resources.prediction import Achieved
from labfleet.resources.waiting import SessionOutlook

TOLD = 5000
"""Ranges that are kept until their session starts; the first one makes room."""
SURE = 20
"""Starts from which on what was achieved is told where it is less than what was stated."""
COUNTED = 2000
"""Starts after which earlier ones count half in what was achieved."""
RESOURCE = "start"
"""What `Achieved` calls the range of a session's start."""


@dataclass(frozen=True, slots=True)
class ToldRange:
    """The first range with a coverage that was worked out for a session."""

    earliest: datetime
    latest: datetime
    coverage: float


class KnownStarts:
    """The newest outlooks by session, whoever asks for them, and what became of the ranges."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, SessionOutlook]] = {}
        self._sent: dict[str, tuple[int, object]] = {}
        self._told: dict[str, ToldRange] = {}
        self._judged: dict[float, list[float]] = {}
        self.asked: set[str] = set()
        """Namespaces that somebody has looked at since this was last emptied."""
        self.watchers = 0
        """How many follow sessions as they change: then all namespaces are kept fresh."""
        self.keeper: object | None = None
        """What keeps this fresh; `kinds.session_outlook` sets and knows it."""
        self.end = 0
        """The number of the newest change of an outlook."""

    def of(self, namespace: str, uid: str) -> SessionOutlook | None:
        """Return the outlook of a session, and have those of its namespace kept fresh."""
        self.asked.add(namespace)
        return self._found.get(namespace, {}).get(uid)

    def share(self, stated: float) -> float:
        """Return which share of ranges will hold: the stated one, or the worse one that did."""
        judged, held = self._judged.get(stated, (0.0, 0.0))
        return stated if judged < SURE else min(stated, round(held / judged, 2))

    def put(
        self, namespace: str, found: dict[str, tuple[int, SessionOutlook]], stated: float
    ) -> bool:
        """Take in what was worked out of a namespace, by uid with the session's revision.

        `stated` is the coverage by which it was, whatever has been achieved. Return whether it says
        something else than before of one of them, or nothing more.
        """
        before, self._found[namespace] = self._found.get(namespace, {}), {}
        left = before.keys() - found.keys()
        for uid in left:
            self._sent.pop(uid, None)
        changed = bool(left)
        for uid, (revision, outlook) in found.items():
            self._found[namespace][uid] = outlook
            said = (revision, outlook.position, outlook.waiting, outlook.earliest, outlook.latest)
            known = self._sent.get(uid)
            if known is None or known[1] != said or uid not in before:
                self.end += 1
                self._sent[uid] = self.end, said
                changed = True
            self._tell(uid, outlook, stated)
        if not found:
            del self._found[namespace]
        return changed

    def since(self, number: int) -> list[str]:
        """Return the uids of which something else is said than when `end` was this number."""
        return [uid for uid, (at, _) in self._sent.items() if at > number]

    def _tell(self, uid: str, outlook: SessionOutlook, stated: float) -> None:
        early, late = outlook.earliest, outlook.latest
        if uid in self._told or early is None or late is None or outlook.coverage is None:
            return
        self._told[uid] = ToldRange(early, late, stated)
        if len(self._told) > TOLD:
            del self._told[next(iter(self._told))]

    def told(self, uid: str) -> ToldRange | None:
        """Return the range by which a session will be judged; None when it was told none."""
        return self._told.get(uid)

    def over(self, uid: str, at: datetime | None) -> None:
        """Judge a range by when its session started; None: it had not when its time was over."""
        told = self._told.pop(uid, None)
        if told is None:
            return
        counts = self._judged.setdefault(told.coverage, [0.0, 0.0])
        if counts[0] >= COUNTED:
            counts[:] = [each / 2 for each in counts]
        counts[0] += 1
        counts[1] += at is not None and told.earliest <= at <= told.latest

    def forget(self, uid: str) -> None:
        """Judge nothing of a session: somebody ended it before its time."""
        self._told.pop(uid, None)

    def achieved(self) -> tuple[Achieved, ...]:
        """Return by stated coverage which share of starts lay in the first range they were told."""
        return tuple(
            Achieved(
                kind=RunKind.SESSION,
                resource=RESOURCE,
                stated=stated,
                runs=int(judged),
                share=held / judged,
            )
            for stated, (judged, held) in sorted(self._judged.items())
        )

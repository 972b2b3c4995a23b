"""What struck which machine and when: why a leaked licence may be nobody's fault.

A strike is of one machine, of one zone or of the whole account (None). It excuses the leak of
that machine when it held at any instant between half an hour before the machine was on its way down
and the leak. Nothing excuses a whole seed. It judges nothing itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.rehearsal.worlds.ec2 import FakeInstance

BEFORE_SECONDS = 1800.0
"""How long what is over still counts: a boot or the deadline of a return fits into it."""


@dataclass(slots=True)
class RecordedFault:
    """One thing that went wrong: what, for whom (instance id, zone or None for all), when."""

    word: str
    who: str | None
    begin: float
    end: float = math.inf


@dataclass(slots=True)
class FaultRecord:
    """Keeps the strikes of a run. `judged` and `accepted` count the leaks that were looked at."""

    time: Callable[[], float]
    strikes: list[RecordedFault] = field(default_factory=list)
    judged: int = 0
    accepted: Counter[str] = field(default_factory=Counter)

    def begin(self, word: str, who: str | None) -> Callable[[], None]:
        """Note what holds from now; return what ends it."""
        strike = RecordedFault(word, who, self.time())
        self.strikes.append(strike)

        def end() -> None:
            strike.end = self.time()

        return end

    def once(self, word: str, who: str | None) -> None:
        """Note what happened in one instant."""
        self.begin(word, who)()

    def ever(self, word: str, who: str | None) -> None:
        """Note what is never made good: a machine that is lost stays lost."""
        self.begin(word, who)

    def of(self, vm: FakeInstance | None, since: float) -> str | None:
        """Return the word of what excuses a leak of this machine now; None when nothing does.

        `since` is when the way down began on which the leak was recorded, in virtual seconds.
        A server without a machine (None) is struck by what strikes all.
        """
        whom = {None} if vm is None else {vm.id, vm.zone, None}
        for strike in self.strikes:
            if strike.who in whom and strike.end >= since - BEFORE_SECONDS:
                self.accepted[strike.word] += 1
                return strike.word
        self.judged += 1
        return None

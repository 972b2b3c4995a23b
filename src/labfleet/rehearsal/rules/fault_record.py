"""Records which fault struck which machine and when, because a fault may excuse a leaked licence.

A fault strikes one machine, one zone or the whole account (None). It excuses the leak of a
machine when it held at any instant between half an hour before that machine began to go down
and the leak. No fault excuses all leaks of a seed. This module judges nothing itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.rehearsal.worlds.ec2 import FakeInstance

BEFORE_SECONDS = 1800.0
"""How long a fault that is over still counts: a boot or a licence return's deadline fits in."""


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
        """Note a fault that holds from now; return a function that ends it."""
        strike = RecordedFault(word, who, self.time())
        self.strikes.append(strike)

        def end() -> None:
            strike.end = self.time()

        return end

    def once(self, word: str, who: str | None) -> None:
        """Note what happened in one instant."""
        self.begin(word, who)()

    def ever(self, word: str, who: str | None) -> None:
        """Note a fault that never ends: a machine that is lost stays lost."""
        self.begin(word, who)

    def of(self, vm: FakeInstance | None, since: float) -> str | None:
        """Return the fault that excuses a leak of this machine now; None when there is none.

        `since` is when the shutdown began in which the leak was recorded, in virtual seconds.
        A server without a machine (None) is struck only by faults of the whole account.
        """
        whom = {None} if vm is None else {vm.id, vm.zone, None}
        for strike in self.strikes:
            if strike.who in whom and strike.end >= since - BEFORE_SECONDS:
                self.accepted[strike.word] += 1
                return strike.word
        self.judged += 1
        return None

"""The rules on machines that answer and can take no lab: CML's core down, a check of EC2's impaired.

No session is placed there once the worker's record has said so, or an hour has passed; while the
core is down, no fact that it cannot tell any more is shown as True. Begins and ends are those of
the faults, so the product's own records prove only that it noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labfleet.decisions.lifecycle.worker.phases import HOSTING
from labfleet.resources import conditions
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition

CORE, CHECK = "CML's core is down", "a check of EC2's is impaired"
STALE_SECONDS = 300.0
"""How long a process may still believe the record before: a stale cache, a pause."""
NOTICED_SECONDS = 3600.0
"""By when it must have been noticed: EC2 may refuse all calls for a quarter of an hour."""
RENEWED_SECONDS = 900.0
"""By when a fact that nothing renews must not be True: three looks, a new leader, a full disk."""
SHOWN_BY = {
    CORE: (WorkerCondition.CML_HEALTHY, WorkerCondition.CML_READY),
    CHECK: (WorkerCondition.INSTANCE_CHECKS_PASSED,),
}
"""What is the matter -> the conditions of which one is False once it was noticed."""
NOT_WITHOUT_CORE = (
    WorkerCondition.CML_HEALTHY,
    WorkerCondition.CML_READY,
    WorkerCondition.ACCEPTING_LABS,
    WorkerCondition.TELEMETRY_COMPLETE,
)


@dataclass(slots=True, eq=False)
class _Spell:
    """What holds on a machine: since when, and since when its worker's record says so."""

    word: str
    begun: float
    known: float | None = None


@dataclass(slots=True)
class Unfit:
    """Knows the unfit machines; `broken` takes the rule's word and what was seen."""

    broken: Callable[[str, str], None]
    time: Callable[[], float]
    _spells: dict[str, list[_Spell]] = field(default_factory=dict)

    def begin(self, machine: str, word: str) -> Callable[[], None]:
        """Note what holds on a machine from now; return a function that ends it."""
        spell = _Spell(word, self.time())
        self._spells.setdefault(machine, []).append(spell)

        def end() -> None:
            self._spells[machine].remove(spell)

        return end

    def holds(self, machine: str, word: str) -> bool:
        """Tell whether this holds on a machine now."""
        return any(each.word == word for each in self._spells.get(machine, ()))

    def known(self, machine: str, word: str) -> list[float]:
        """Return since when its worker's record says so, or should: an hour after it began."""
        return [
            each.begun + NOTICED_SECONDS if each.known is None else each.known
            for each in self._spells.get(machine, ())
            if each.word == word
        ]

    def any(self, word: str) -> bool:
        """Tell whether this holds on any machine now."""
        return any(self.holds(machine, word) for machine in self._spells)

    def shown(self, worker: Worker, word: str) -> bool:
        """Tell whether this holds on a worker's machine and its record says so."""
        facts = (conditions.find(worker.status.conditions, each) for each in SHOWN_BY[word])
        false = any(each is not None and each.status == "False" for each in facts)
        return false and self.holds(worker.status.machine.id or "", word)

    def worker(self, new: Worker) -> None:
        """Take a worker's new record: it may say for the first time what is the matter.

        A machine that is not up, or just came up, begins anew: nothing is known of this boot.
        """
        for spell in self._spells.get(new.status.machine.id or "", ()):
            if new.status.phase not in HOSTING or new.status.machine.state != "running":
                spell.begun, spell.known = self.time(), None
            elif spell.known is None and self.shown(new, spell.word):
                spell.known = self.time()

    def placed(self, session: Session, worker: Worker | None, how: str = "is placed") -> None:
        """Judge a placement, or the beginning of what was booked there, at its commit."""
        if worker is None:
            return
        now = self.time()
        for spell in self._spells.get(worker.status.machine.id or "", ()):
            limit = spell.begun + NOTICED_SECONDS
            if spell.known is not None:
                limit = min(limit, spell.known + STALE_SECONDS)
            if now > limit:
                minutes = (now - spell.begun) / 60
                told = f"{session.key} {how} on {worker.key}"
                self.broken("unfit", f"{told}: {spell.word} for {minutes:.0f} min")

    def patrol(self, workers: Iterable[Worker]) -> None:
        """Judge the facts shown of each server whose core is down."""
        for worker in workers if self._spells else ():
            if worker.status.phase not in HOSTING:
                continue
            for spell in self._spells.get(worker.status.machine.id or "", ()):
                if spell.word == CORE and self.time() - spell.begun > RENEWED_SECONDS:
                    self._shown(worker, (self.time() - spell.begun) / 60)

    def _shown(self, worker: Worker, minutes: float) -> None:
        true = [
            str(name)
            for name in NOT_WITHOUT_CORE
            if conditions.is_true(worker.status.conditions, name)
        ]
        if true:
            told = f"{worker.key} shows {', '.join(true)} True, its core is down {minutes:.0f} min"
            self.broken("not-renewed", told)

"""The rule that no machine is stopped or ended merely because an EC2 status check is impaired.

People are told of an impaired check before anything is done about it. A machine that was wanted
Ready all the time and goes down while its check is impaired counts as stopped because of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.rehearsal.worlds.ec2 import FakeInstance
from labfleet.resources.worker import Worker, WorkerPhase

CALL_SECONDS = 300.0
"""How long after a wish changed a call for the old one may still arrive, from a paused process."""
CHECKS = ("system_check", "instance_check")
_DOWN = frozenset({WorkerPhase.STOPPING, WorkerPhase.TERMINATING_EC2})


@dataclass(slots=True)
class Impairment:
    """Remembers which workers are wanted Ready since when.

    `held` counts who fails a check of a machine now, by its id and the check's name.
    """

    broken: Callable[[str, str], None]
    time: Callable[[], float]
    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    _wished: dict[str, float] = field(default_factory=dict)
    _entered: dict[str, float] = field(default_factory=dict)

    def worker(self, old: Worker | None, new: Worker) -> None:
        """Take a worker's new record."""
        if old is None or old.status.phase is not new.status.phase:
            self._entered[new.key.label] = self.time()
        if worker_phases.desire(new) != "Ready":
            self._wished.pop(new.key.label, None)
        else:
            self._wished.setdefault(new.key.label, self.time())

    def acted(self, what: str, vm: FakeInstance, worker: Worker | None) -> None:
        """Judge a stop or an end that was ours."""
        if worker is None or not any(self.held[vm.id, check] for check in CHECKS):
            return
        wished = self._wished.get(worker.key.label)
        begun = self.time() - CALL_SECONDS
        if worker.status.phase in _DOWN:
            begun = self._entered.get(worker.key.label, begun)
        if wished is not None and begun > wished:
            text = f"{what} {vm.id} of {worker.key}, wanted Ready, with an impaired check"
            self.broken("impaired", text)

"""The rules on a provider with no room or without an answer: what waits for it fails nobody early.

`limit`: no worker is given up before its machine had its whole time, counted in the world from the
call that got the machine; without one, time without room or without an answer does not count.
`cause`: a worker that has long waited for an EC2 that is down says so, shows no fact as true that
only EC2 tells, and raises no symptom of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labfleet.decisions.lifecycle.worker import phases
from labfleet.rehearsal.worlds.ec2 import Cloud
from labfleet.resources import conditions
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

DOWN = frozenset({"ec2_down"})
HOLDS = frozenset({"ec2_down", "credentials_expired", "no_stock", "quota_full"})
"""Faults of everything under which no launch gets on."""
TOLERANCE = 400.0
"""By how much two hosts' clocks, and two processes' looks, may differ together."""
NOTICED_SECONDS = 1500.0
"""By when it must be said: kills, paused leaders and a full disk come in between."""
SYMPTOMS = (WorkerCondition.LATE, WorkerCondition.PHASE_STUCK)


@dataclass(slots=True)
class _Spell:
    word: str
    begun: float
    ended: float | None = None


@dataclass(slots=True)
class Provider:
    """Knows when the account was dry or down; `broken` takes the rule's word and what was seen."""

    broken: Callable[[str, str], None]
    cloud: Cloud
    _spells: list[_Spell] = field(default_factory=list)
    _entered: dict[str, tuple[WorkerPhase, float]] = field(default_factory=dict)

    def begin(self, word: str) -> Callable[[], None]:
        """Note a fault of the whole account from now; return a function that ends it."""
        spell = _Spell(word, self.cloud.loop.time())
        self._spells.append(spell)

        def end() -> None:
            spell.ended = self.cloud.loop.time()

        return end

    def worker(self, old: Worker | None, new: Worker) -> None:
        """Take a worker's new record; judge it when it gives up a launch or a boot."""
        name, now = new.key.label, self.cloud.loop.time()
        phase, since = self._entered.get(name, (None, now))
        if new.status.phase is WorkerPhase.FAILED and phase is not WorkerPhase.FAILED and old:
            self._gave_up(old, new, since)
        if phase is not new.status.phase:
            self._entered[name] = (new.status.phase, now)

    def _gave_up(self, old: Worker, new: Worker, since: float) -> None:
        why = conditions.find(new.status.conditions, WorkerCondition.FAILED)
        machine, now = new.spec.machine, self.cloud.loop.time()
        late = {WorkerReason.LAUNCH_TIMEOUT, WorkerReason.BOOT_TIMEOUT}
        if machine is None or why is None or why.reason not in late:
            return
        if not isinstance(machine.provider, AwsSettings):
            return
        vm = self.cloud.vms.get(old.status.machine.id or "")
        if vm is None:
            had, limit = now - since - self._held(since, now), machine.limits.launch
        elif vm.state == "running":
            had, limit = now - vm.since, machine.limits.boot
        elif vm.state == "booting":
            had, limit = now - vm.launched, machine.limits.launch
        else:
            return
        if had < limit - TOLERANCE:
            told = f"{new.key} is given up ({why.reason}) after {had:.0f} of {limit} s"
            self.broken("limit", told)

    def _held(self, since: float, now: float) -> float:
        """Return for how many seconds since an instant nothing could be launched."""
        marks = sorted(
            (max(each.begun, since), min(each.ended or now, now))
            for each in self._spells
            if each.word in HOLDS and (each.ended or now) > since
        )
        held, until = 0.0, since
        for begun, ended in marks:
            held += max(0.0, ended - max(begun, until))
            until = max(until, ended)
        return held

    def patrol(self, workers: Iterable[Worker]) -> None:
        """Judge what workers say that have waited long for an EC2 that is down."""
        # When the plan is over no fault holds any more, whatever its span was to be.
        if self.cloud.injector.over:
            return
        down = [each.begun for each in self._spells if each.word in DOWN and each.ended is None]
        if not down:
            return
        for worker in workers:
            machine, status = worker.spec.machine, worker.status
            phase, since = self._entered.get(worker.key.label, (status.phase, 0.0))
            waits = self.cloud.loop.time() - max(since, *down[:1])
            ec2 = machine is not None and isinstance(machine.provider, AwsSettings)
            asks = phases.awaits_provider(status) and worker.spec.origin is None
            if ec2 and asks and phase is status.phase and waits > NOTICED_SECONDS:
                self._says(worker, waits / 60)

    def _says(self, worker: Worker, minutes: float) -> None:
        facts, told = worker.status.conditions, []
        if not phases.provider_trouble(worker) or "held up" not in worker.status.message:
            told.append("does not say so")
        if conditions.is_true(facts, WorkerCondition.MACHINE_PROVISIONED):
            told.append("shows MachineProvisioned True")
        told += [f"raises {each}" for each in SYMPTOMS if conditions.is_true(facts, each)]
        if told:
            words = f"{worker.key} is {worker.status.phase}, EC2 is down for {minutes:.0f} min"
            self.broken("cause", f"{words}: it {' and '.join(told)}")

"""The rules on sessions whose worker's CML does not answer: no time without an answer costs a start.

No start ends as too slow (`boot-limit`), and what was never imported does not stay (`unreached`),
while its server cannot be reached or its core is down. When that began and ended is the faults'
word; that nothing was imported, the journal's: no effect of an import was ever opened there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from labfleet.decisions.lifecycle.session import phases
from labfleet.rehearsal.rules.unfit import CORE, Unfit
from labfleet.rehearsal.worlds.ec2 import Cloud, FakeInstance
from labfleet.resources import refs
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.worker import Worker

SLACK_SECONDS = 300.0
"""How long after the last answer a decision on it may still be written: pauses, stale caches."""
UNREACHED_SECONDS = 2400.0
"""By when a worker must have been left: three looks, or a boot's limit, in spite of other faults."""
WAITING = frozenset({SessionPhase.INSTANTIATING, SessionPhase.STOPPING})


@dataclass(slots=True)
class _Stay:
    """A session on a worker, to which no import was sent there, in its phase since then."""

    session: Session
    phase: SessionPhase
    since: float
    imported: bool = False


@dataclass(slots=True)
class Silence:
    """Knows the silent machines; `at_placement` is told of each placement at its commit."""

    broken: Callable[[str, str], None]
    cloud: Cloud
    unfit: Unfit
    at_placement: list[Callable[[FakeInstance], None]] = field(default_factory=list)
    _spells: dict[str, list[tuple[str | None, float]]] = field(default_factory=dict)
    _stays: dict[str, _Stay] = field(default_factory=dict)

    def begin(self, vm: FakeInstance) -> Callable[[], None]:
        """Note that nobody reaches a machine at its present address; return what ends it."""
        spell = (vm.public_ip, self.cloud.loop.time())
        self._spells.setdefault(vm.id, []).append(spell)

        def end() -> None:
            self._spells[vm.id].remove(spell)

        return end

    def lasts(self, worker: Worker | None) -> float:
        """Return for how many seconds a worker's running server has not answered as it should."""
        vm = None if worker is None else self.cloud.vms.get(worker.status.machine.id or "")
        if vm is None or vm.state != "running":
            return 0.0
        begun = [at for address, at in self._spells.get(vm.id, ()) if address == vm.public_ip]
        core = self.unfit.known(vm.id, CORE)
        return max((self.cloud.loop.time() - at for at in (*begun, *core)), default=0.0)

    def session(self, new: Session, workers: Mapping[str, Worker]) -> None:
        """Take a session's new record."""
        uid, phase = new.metadata.uid, new.status.phase
        before, where = self._stays.get(uid), refs.worker_of(new)
        worker = None if where is None else workers.get(where.key.label)
        if phase not in phases.BOUND:
            self._stays.pop(uid, None)
            return
        if before is None:
            before = self._stays[uid] = _Stay(new, phase, self.cloud.loop.time())
            vm = None if worker is None else self.cloud.vms.get(worker.status.machine.id or "")
            if vm is not None:
                for tell in list(self.at_placement):
                    tell(vm)
        if phase is not before.phase:
            before.phase, before.since = phase, self.cloud.loop.time()
            late = phase is SessionPhase.STOPPING and new.status.reason == PhaseReason.BOOT_TIMEOUT
            lasts = self.lasts(worker)
            if late and lasts > SLACK_SECONDS:
                told = f"{new.key} took too long to boot, its server is silent for {lasts:.0f} s"
                self.broken("boot-limit", told)
        effect = new.status.effect
        before.session = new
        before.imported |= effect is not None and effect.kind == "import"

    def patrol(self, workers: Mapping[str, Worker]) -> None:
        """Judge who is still where nothing of theirs ever was, and nobody answers."""
        if not (any(self._spells.values()) or self.unfit.any(CORE)):
            return
        now = self.cloud.loop.time()
        for uid, stay in list(self._stays.items()):
            where = refs.worker_of(stay.session)
            if stay.imported or stay.phase not in WAITING or where is None:
                continue
            lasts = min(self.lasts(workers.get(where.key.label)), now - stay.since)
            if lasts > UNREACHED_SECONDS:
                told = f"{stay.session.key} is {stay.phase} on {where.key.label}"
                self.broken(
                    "unreached", f"{told}, silent for {lasts:.0f} s, and nothing of it there"
                )
                del self._stays[uid]

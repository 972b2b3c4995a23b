"""The rule that a finalizer is dropped only after what it waits for is gone: pools and servers.

`labfleet/pool-workers`: a deleted pool has no living worker. `labfleet/cml-server`: a server added
by address that is released has no lab of ours, and no licence that we registered without a leak
record. `truth` judges labs and machines of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from labfleet.rehearsal.rules.pauses import pool_label
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.resources import conditions, topology
from labfleet.resources.pool import FINALIZER_WORKERS, Pool
from labfleet.resources.worker import FINALIZER_SERVER, Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition


@dataclass(slots=True)
class Finalizers:
    """Hears of pools and workers as they are written and removed."""

    broken: Callable[[str, str], None]
    cml_servers: CmlServers
    _held: set[str] = field(default_factory=set)

    def pool(self, new: Pool, workers: Iterable[Worker]) -> None:
        """Take a pool's new record."""
        if FINALIZER_WORKERS in new.metadata.finalizers:
            self._held.add(new.key.label)
        elif new.key.label in self._held:
            self._held.discard(new.key.label)
            self.pool_gone(new.key.label, workers)

    def pool_gone(self, name: str, workers: Iterable[Worker]) -> None:
        """Judge a pool whose record or finalizer went."""
        for each in workers:
            if pool_label(each) == name and each.status.phase is not WorkerPhase.TERMINATED:
                told = f"pool {name} is gone, its {each.key} is {each.status.phase}"
                self.broken("pool-finalizer", told)

    def worker(self, old: Worker | None, new: Worker) -> None:
        """Judge a server at an address when its finalizer goes."""
        before = old is not None and FINALIZER_SERVER in old.metadata.finalizers
        if before and FINALIZER_SERVER not in new.metadata.finalizers:
            self._let_go(new)

    def worker_gone(self, old: Worker) -> None:
        """Judge a server at an address whose record went with its finalizer."""
        if FINALIZER_SERVER in old.metadata.finalizers:
            self._let_go(old)

    def _let_go(self, worker: Worker) -> None:
        origin = worker.spec.origin
        url = None if origin is None else origin.url
        server = self.cml_servers.fleet.at_address(urlsplit(url or "").hostname or "")
        if server is None:
            return
        for lab in server.labs.values():
            if topology.marker_of(lab.notes) is not None:
                told = f"{worker.key} is let go while our lab {lab.title} stands there"
                self.broken("server-finalizer", told)
                break
        leaked = conditions.find(worker.status.conditions, WorkerCondition.LICENCE_LEAKED)
        held = server.config.identity.product_uuid in self.cml_servers.fleet.cloud.held
        if held and worker.status.licence.leak is None and leaked is None:
            self.broken("server-finalizer", f"{worker.key} is let go with our licence")

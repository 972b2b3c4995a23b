"""Specs and steps that the tests of placement and of pools share."""

from __future__ import annotations

from typing import Any

from world import Process, World

from labfleet.decisions import port_numbers
from labfleet.resources.worker import Worker

HOME = port_numbers.home("default/ada", "default/two")
"""The first number of ada's labs of the definition two, while it is free."""


def big(cpu: int = 40) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": "1Gi", "storage": "1Gi", "nodes": 2, "labs": 1}}


async def ready(w: World, **how: Any) -> Process:
    process = await w.start(**how)
    await w.worker()
    await w.definition()
    await w.until(w.in_phase("w1", "READY"))
    return process


def touch(worker: Worker) -> Any:
    """Return the commit of somebody who reserves on a worker."""
    from labfleet.interfaces import store as stores
    from labfleet.resources import kinds
    from labfleet.service.core import ledger_rows

    put = stores.Put(worker.key, worker.metadata.uid, kinds.encode(worker), {})
    row = ledger_rows.touch(ledger_rows.of(worker.key))
    at = worker.status.phase_since
    assert at is not None
    return stores.Commit(stores.Cause("other", at), (put, row))

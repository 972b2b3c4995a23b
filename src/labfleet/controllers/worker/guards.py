"""Translates what a decision asks to hold until its commit into the store's preconditions."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.controllers.context import Context
from labfleet.decisions.lifecycle.worker.draft import Guard
from labfleet.interfaces import store as stores
from labfleet.resources import refs
from labfleet.resources.worker import Worker
from labfleet.service.core import ledger_rows


@dataclass(frozen=True, slots=True)
class Asked:
    """The preconditions and writes that go with a commit."""

    preconditions: tuple[stores.Precondition, ...] = ()
    writes: tuple[stores.Write, ...] = ()


def of(context: Context, worker: Worker, guard: Guard | None) -> Asked:
    """Return what the commit of a guarded step carries, as it holds in the cache now."""
    if guard is None:
        return Asked()
    unpaused = _unpaused(context, worker) if guard.unpaused else ()
    since = guard.unreserved_since
    if since is None:
        return Asked(unpaused)
    rows = _rows(worker)
    untouched = tuple(ledger_rows.untouched(row, since) for row in rows)
    return Asked((*untouched, *unpaused), tuple(ledger_rows.touch(row) for row in rows))


def _unpaused(context: Context, worker: Worker) -> tuple[stores.Precondition, ...]:
    """Return the preconditions of an automatic action: it was not paused meanwhile."""
    settings = context.settings.unchanged()
    pool = context.cache.find(refs.pool_of(worker))
    if pool is None:
        return (settings,)
    return settings, stores.AtRevision(pool.key, pool.revision)


def _rows(worker: Worker) -> tuple[str, ...]:
    """Return a stop's ledger rows: the worker's, and its pool's, which scaling uses too."""
    own, pool = ledger_rows.of(worker.key), refs.pool_of(worker)
    return (own,) if pool is None else (own, ledger_rows.of(pool.key))

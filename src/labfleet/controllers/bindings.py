"""Writes placements: those of one worker in one commit, the commits of many workers together.

A cycle of the scheduler decides many placements, then writes them. The store makes commits that
wait at the same time durable in one transaction, each with its own outcome: so a conflict on one
worker costs the others nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from labfleet.controllers.context import Context
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.quantity import count
from labfleet.resources.meta import Key
from labfleet.resources.session import Session
from labfleet.service.core import ledger_rows

Beside = tuple[tuple[stores.Precondition, ...], tuple[stores.Write, ...]]
TOGETHER = 250
"""Placements that wait to be written; with as many, they are."""
ON_ONE_WORKER = 50
"""Placements of one commit."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the placements: on which workers they hold, and at which revision."""

    revision: int = 0
    bound: dict[Key, int] = field(default_factory=dict)
    lost: tuple[Key, ...] = ()


class Bindings:
    """The placements of a cycle that are decided and not written yet, by worker."""

    def __init__(self, context: Context, actor: str) -> None:
        self._context = context
        self._actor = actor
        self._waiting: dict[Key, list[Session]] = {}
        self._beside: dict[Key, list[Beside]] = {}
        self._count = 0
        self.full = False

    def add(self, session: Session, worker: Key, beside: Beside = ((), ())) -> None:
        """Take a session as it is to be stored: with worker, reservation, ports and decision.

        `beside` are what else its commit asks for and writes.
        """
        self._beside.setdefault(worker, []).append(beside)
        waiting = self._waiting.setdefault(worker, [])
        waiting.append(session)
        self._count += 1
        self.full = self.full or self._count >= TOGETHER or len(waiting) >= ON_ONE_WORKER

    async def write(self, since: dict[Key, int], revision: int) -> Written:
        """Write all that wait; `since` or `revision` is what each worker's ledger was read at.

        A worker is lost when another writer was first, there or with one of its sessions. Any other
        error is raised once all have been tried.
        """
        waiting, self._waiting = self._waiting, {}
        beside, self._beside = self._beside, {}
        self._count, self.full = 0, False
        results = await asyncio.gather(
            *[
                self._save(worker, sessions, since.get(worker, revision), beside[worker])
                for worker, sessions in waiting.items()
            ],
            return_exceptions=True,
        )
        bound: dict[Key, int] = {}
        lost: list[Key] = []
        for worker, result in zip(waiting, results, strict=True):
            if isinstance(result, int):
                bound[worker] = result
            elif isinstance(result, errors.Conflict) and not isinstance(result, errors.Fenced):
                lost.append(worker)
            else:
                raise result
        return Written(max(bound.values(), default=0), bound, tuple(lost))

    async def _save(
        self, worker: Key, sessions: Sequence[Session], since: int, beside: Sequence[Beside]
    ) -> int:
        """Write the placements on one worker; return the revision."""
        row = ledger_rows.of(worker)
        first = sessions[0].status.decision
        reason = "" if first is None else first.message
        if len(sessions) > 1:
            reason = f"{count(len(sessions), 'session')} placed on {worker.name}"
        revision, _ = await self._context.objects.save(
            *sessions,
            cause=self._context.cause(self._actor, reason),
            preconditions=(
                ledger_rows.untouched(row, since),
                *dict.fromkeys(one for asked, _ in beside for one in asked),
            ),
            writes=(
                ledger_rows.touch(row),
                *dict.fromkeys(one for _, written in beside for one in written),
                *[
                    stores.TakePorts(
                        worker=worker.path,
                        owner=session.metadata.uid,
                        ports=tuple((port.transport, port.number) for port in session.status.ports),
                    )
                    for session in sessions
                ],
            ),
            fence=self._context.fence(),
        )
        return revision

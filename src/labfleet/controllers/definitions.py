"""Keeps the condition of definitions true: whether a worker of the track has what a lab names.

One round judges all definitions by what the cache has of workers, pools and images, and writes what
differs. It changes nothing else and starts nothing.
"""

from __future__ import annotations

from labfleet.controllers.context import Context
from labfleet.engine.controller import Again, Done
from labfleet.kernel import errors
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Key
from labfleet.service.kinds import catalogues, definition_rules

KEY = Key("Definition", "", "availability")
ACTOR = "scheduler"
EVERY = 60.0
WRITES = 200
"""Conditions written in one round; the rest follow in the next."""


class DefinitionController:
    """Judges definitions; runs under one key, so never twice at once."""

    def __init__(self, context: Context) -> None:
        self.context = context

    async def reconcile(self, key: Key) -> Done | Again:
        """Do one round."""
        del key
        now, written = self.context.clock.now(), 0
        judge = catalogues.Judge(self.context.cache)
        for each in self.context.cache.all(Definition):
            if each.deleting:
                continue
            fresh = definition_rules.with_availability(judge, each, now)
            if fresh.status == each.status:
                continue
            if written == WRITES:
                return Again(0.0)
            written += 1
            try:
                await self.context.write(fresh, actor=ACTOR, reason=_told(fresh))
            except errors.Fenced:
                raise
            except errors.Conflict:
                continue
        return Again(EVERY)


def _told(definition: Definition) -> str:
    return definition_rules.unavailable(definition) or "its node and image definitions were judged"

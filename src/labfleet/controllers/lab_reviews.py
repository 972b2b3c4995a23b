"""Keeps the condition NeedsReview of definitions, by what their past sessions used.

A family is looked at some seconds after sessions of it have ended, by one page of its history; only
the newest version that new sessions may use is judged. It changes no definition's amounts.
"""

from __future__ import annotations

from labfleet.controllers.context import Context
from labfleet.decisions import families, lab_bounds, lab_reviews
from labfleet.engine.controller import Done
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.definition import Definition, DefinitionCondition, family_of
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import family_use, indices
from labfleet.service.kinds.admitted import with_status

ACTOR = "scheduler"
GATHER_SECONDS = 30.0
"""How long ends of sessions are gathered before their family is looked at."""
ROUND_SECONDS = 7200.0
"""How often all families are looked at, in case an end was missed."""


def key_of(definition: Definition) -> Key:
    """Return the key under which a definition's family is looked at."""
    return Key("Family", definition.namespace, family_of(definition))


class LabReviews:
    """Judges families of definitions."""

    def __init__(self, context: Context, services: ServiceContext) -> None:
        self.context = context
        self.services = services

    def all(self) -> list[Key]:
        """Return the key of every family."""
        return [*dict.fromkeys(key_of(each) for each in self.context.cache.all(Definition))]

    def of_ended(self, old: Resource | None, new: Resource | None) -> Key | None:
        """Return the family that a session's change says something new of; None for most."""
        if not isinstance(new, Session) or new.status.phase not in TERMINAL:
            return None
        pin, was = new.status.definition, old if isinstance(old, Session) else None
        if pin is None or not new.status.measured or was is None or was.status.phase in TERMINAL:
            return None
        definition = self.context.cache.get(Definition, pin.name, new.namespace)
        return None if definition is None else key_of(definition)

    async def reconcile(self, key: Key) -> Done:
        """Judge the newest version of a family; the others' condition goes away."""
        cache = self.context.cache
        known = cache.by(indices.DEFINITIONS_OF_FAMILY, (key.namespace, key.name))
        newest = families.newest(known, key.name)
        for each in families.members(known, key.name):
            now = each.status.conditions
            if newest is not None and each.name == newest.name:
                now = await self._judged(each)
            else:
                now = conditions.drop(now, DefinitionCondition.NEEDS_REVIEW)
            if now != each.status.conditions:
                await self._write(with_status(each, conditions=now))
        return Done()

    async def _judged(self, definition: Definition) -> tuple[conditions.Condition, ...]:
        settings, known = self.context.settings.now().review, definition.status.conditions
        if not settings.enabled:
            return conditions.drop(known, DefinitionCondition.NEEDS_REVIEW)
        runs = await family_use.runs(self.services, definition)
        if len(runs) < settings.least_sessions:
            return conditions.drop(known, DefinitionCondition.NEEDS_REVIEW)
        found = lab_bounds.bounds(runs, await family_use.asked(self.services, definition))
        judged = lab_reviews.review(found, family_use.significant(settings))
        now, generation = self.context.clock.now(), definition.metadata.generation
        return lab_reviews.recorded(known, judged, now, generation)

    async def _write(self, definition: Definition) -> None:
        """Write it; who changed it meanwhile has woken its family again."""
        found = conditions.find(definition.status.conditions, DefinitionCondition.NEEDS_REVIEW)
        told = "a newer version is judged" if found is None else found.message
        try:
            await self.context.write(definition, actor=ACTOR, reason=told)
        except errors.Fenced:
            raise
        except errors.Conflict:
            return

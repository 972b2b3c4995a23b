"""Keeps the condition NeedsReview of definitions, by what their past sessions used.

A family is looked at some minutes after a session of it has ended, by one page of its history; only
the newest version that new sessions may use is judged. It changes no definition's amounts.
"""

from __future__ import annotations

from labfleet.controllers.context import Context
from labfleet.decisions import families, lab_bounds, lab_reviews
from labfleet.decisions.lab_reviews import Review
from labfleet.engine.controller import Again, Done
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.conditions import Condition
from labfleet.resources.definition import Definition, DefinitionCondition, family_of
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import family_use, indices
from labfleet.service.kinds.admitted import with_status

ACTOR = "scheduler"
GATHER_SECONDS = 300.0
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

    async def reconcile(self, key: Key) -> Done | Again:
        """Judge the newest version of a family; the others' condition goes away."""
        cache = self.context.cache
        known = cache.by(indices.DEFINITIONS_OF_FAMILY, (key.namespace, key.name))
        newest = families.newest(known, key.name)
        for each in families.members(known, key.name):
            judged = None
            if newest is not None and each.name == newest.name:
                judged = await self._judged(each)
            now, generation = self.context.clock.now(), each.metadata.generation
            facts = lab_reviews.recorded(each.status.conditions, judged, now, generation)
            if facts != each.status.conditions and not await self._written(each, facts):
                return Again(GATHER_SECONDS)
        return Done()

    async def _judged(self, definition: Definition) -> Review | None:
        """Return whether it needs a review; None while too little is known, or nobody asks."""
        settings = self.context.settings.now().review
        if not settings.enabled:
            return None
        runs = await family_use.runs(self.services, definition)
        if len(runs) < settings.least_sessions:
            return None
        found = lab_bounds.bounds(runs, await family_use.asked(self.services, definition))
        return lab_reviews.review(found, family_use.significant(settings))

    async def _written(self, old: Definition, facts: tuple[Condition, ...]) -> bool:
        """Write it; False when somebody else has changed it meanwhile."""
        found = conditions.find(facts, DefinitionCondition.NEEDS_REVIEW)
        told = "a newer version is judged" if found is None else found.message
        try:
            await self.context.write(with_status(old, conditions=facts), actor=ACTOR, reason=told)
        except errors.Fenced:
            raise
        except errors.Conflict:
            return False
        return True

"""What a definition should ask for, by what its past sessions used, and what would follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labfleet.decisions import families, lab_bounds, lab_reviews
from labfleet.decisions.lab_bounds import Asked
from labfleet.decisions.lab_reviews import Place
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.history import Run
from labfleet.resources.lab_bound import SIZED, LabBound
from labfleet.resources.lab_recommendation import LabRecommendation, SizeOption
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import family_use


@dataclass(frozen=True, slots=True)
class Known:
    """What a recommendation is made of: past sessions, what is asked, the bounds, pools, options."""

    runs: Sequence[Run]
    asked: Asked
    found: Mapping[str, LabBound]
    places: Sequence[Place]
    options: Sequence[SizeOption]


async def known(services: ServiceContext, definition: Definition, *, alone: bool = False) -> Known:
    """Return what is known of a definition's use, by one look at the history.

    `alone`: by sessions of this very version, and not by those of its family.
    """
    runs = await family_use.runs(services, definition, alone=alone)
    asked = await family_use.asked(services, definition)
    found = lab_bounds.bounds(runs, asked)
    places = family_use.places(services.cache, definition, services.prices)
    proposal = definition.status.proposal
    options = lab_reviews.options(
        runs, asked, found, places, None if proposal is None else proposal.amounts
    )
    return Known(runs, asked, found, places, options)


async def recommendation(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, alone: bool = False
) -> LabRecommendation:
    """Return what is recommended for a definition; Gone without one. `alone` as in `known`.

    It is about sessions of everybody, so it is for those who look after definitions.
    """
    access.demand(caller.principal, "recommend", "Definition")
    await services.fresh()
    definition = await lookup.found(services, caller, Definition, name, namespace)
    return of(services, definition, await known(services, definition, alone=alone))


def of(services: ServiceContext, definition: Definition, found: Known) -> LabRecommendation:
    """Return the recommendation that is made of what is known."""
    family = family_of(definition)
    newest = families.newest(family_use.versions(services.cache, definition), family)
    settings = services.settings.now().review
    judged = lab_reviews.review(found.found, family_use.significant(settings))
    return LabRecommendation(
        definition=definition.name,
        namespace=definition.namespace,
        family=family,
        version=definition.spec.version,
        newest=None if newest is None else newest.name,
        looked_at=len(found.runs),
        most=lab_bounds.LOOKED_AT,
        reviewed=judged.message,
        needs_review=judged.needed,
        dimensions=tuple(found.found[each] for each in SIZED),
        options=tuple(found.options),
        saving=lab_reviews.saving(found.runs, found.options, found.places),
        proposal=definition.status.proposal,
        applied=definition.status.applied,
    )

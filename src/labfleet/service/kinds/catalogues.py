"""Where a lab may run, and which node and image definitions were seen there: read from the cache.

One reading for those who make definitions, place sessions, size pools and tell people; the rules
are `decisions.catalogues`.
"""

from __future__ import annotations

from labfleet.decisions import catalogues, parking, placement
from labfleet.decisions.catalogues import Names, Place, Verdict
from labfleet.decisions.lifecycle.worker import phases
from labfleet.engine.cache import Cache
from labfleet.resources import image, refs
from labfleet.resources.definition import DefinitionStatus
from labfleet.resources.pool import Pool
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker
from labfleet.service.kinds import indices

LOOKED_AT = 20
"""Workers of a pool that are asked for their image, while the template's is not known."""


def of_worker(cache: Cache, worker: Worker) -> Names | None:
    """Return what servers of a worker's image have; None when none was seen."""
    named = image.of_worker(worker)
    return None if named is None else catalogues.has(cache.find(named))


def named_image(template: Template) -> str | None:
    """Return the image that a template names itself, None when the provider chooses it."""
    settings = template.spec.machine.provider
    return settings.ami_id if isinstance(settings, AwsSettings) else None


def image_of(template: Template) -> str | None:
    """Return the image of the next worker of a template, None when that is not known now."""
    named, status = named_image(template), template.status
    if named is not None:
        return named
    return status.image if status.observed_generation == template.metadata.generation else None


def of_pool(cache: Cache, pool: Pool, template: Template) -> Names | None:
    """Return what the next worker of a pool will have; None when its image was not seen.

    While nobody can say which image that will be, it is taken to be like the pool's workers of the
    same settings: else a pool would grow to its maximum for a lab that none of them can run.
    """
    named = image_of(template)
    if named is not None:
        return catalogues.has(cache.find(image.ref(named)))
    for each in cache.by(indices.WORKERS_OF_POOL, pool.key.path)[:LOOKED_AT]:
        known = of_worker(cache, each) if each.spec.machine == template.spec.machine else None
        if known is not None:
            return known
    return None


def version_of_pool(cache: Cache, pool: Pool, template: Template) -> str | None:
    """Return the CML version that the next worker of a pool will have; None when not known."""
    named = image_of(template)
    seen = None if named is None else cache.find(image.ref(named))
    if seen is not None and seen.status.version:
        return seen.status.version
    for each in () if named is not None else cache.by(indices.WORKERS_OF_POOL, pool.key.path):
        if each.spec.machine == template.spec.machine and each.status.cml.version:
            return each.status.cml.version
    return None


def shape_of(
    pool: Pool, template: Template | None, cache: Cache, *, stopped: bool = False
) -> placement.WorkerShape | None:
    """Return an empty worker of the pool's template; None when the template can make none.

    `stopped`: as it was while a template that is disabled now could.
    """
    if template is None or not (template.spec.enabled or stopped):
        return None
    has = of_pool(cache, pool, template)
    version = version_of_pool(cache, pool, template)
    return placement.shape(
        f"pool {pool.name}", pool.spec.track, template.spec.machine, has, version
    )


def places(cache: Cache, namespace: str, track: str | None) -> list[Place]:
    """Return where a lab of this track may run: workers that are up or coming, and pools."""
    found = [
        Place(f"worker {each.name}", of_worker(cache, each))
        for each in cache.by(indices.WORKERS_LIVING, True)
        if each.namespace == namespace and track in {None, each.spec.track}
        and (each.status.phase in phases.HOSTING | phases.BOOTING or parking.auto_stopped(each))
    ]  # fmt: skip
    for pool in cache.by(indices.POOLS_IN, namespace):
        template = cache.find(refs.template_of(pool))
        live = not pool.deleting and pool.spec.desired == "Ready"
        if live and track in {None, pool.spec.track} and template is not None:
            found.append(Place(f"pool {pool.name}", of_pool(cache, pool, template)))
    return found


class Judge:
    """Judges labs by one reading of the cache: for one cycle, in which it does not change."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._places: dict[tuple[str, str | None], list[Place]] = {}
        self._found: dict[tuple[Names, str, str | None], Verdict] = {}

    def of(self, status: DefinitionStatus, namespace: str, track: str | None) -> Verdict:
        """Return whether a definition's lab can run somewhere on this track, by what was seen."""
        wanted = catalogues.needs(status)
        asked = (wanted, namespace, track)
        if asked not in self._found:
            if asked[1:] not in self._places:
                self._places[asked[1:]] = places(self._cache, namespace, track)
            self._found[asked] = catalogues.verdict(wanted, self._places[asked[1:]])
        return self._found[asked]

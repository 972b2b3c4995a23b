"""What was learned of each family of runs: how many there are, what they used, how bounds held.

By the newest past runs of each kind and the simulations whose predictions are still known, so that
the work is bounded however long the history is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from labfleet.decisions import past_figures
from labfleet.decisions.past_figures import PastFigure
from labfleet.interfaces import store as stores
from labfleet.resources import history
from labfleet.resources.history import RESOURCES, Run, RunKind
from labfleet.resources.prediction import Forecast, Prediction
from labfleet.resources.simulation import Simulation
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import past_runs

JUDGED = 1000
"""Simulations that have ended, the newest, by which it is told how bounds of families held."""
FamilyName = tuple[RunKind, str, str]
"""Kind of run, namespace and family."""


@dataclass(frozen=True, slots=True)
class Held:
    """How the bounds of a family's runs held that were told before they ran.

    runs: Bounds of a resource that could be compared with what was used.
    within: How many of them held.
    stated: The least share of runs that they were to hold for; None before any was compared.
    width: By which factor bounds were above what was used, on the mean; None before any was.
    """

    runs: int = 0
    within: int = 0
    stated: float | None = None
    width: float | None = None


@dataclass(frozen=True, slots=True)
class FamilyLearned:
    """One family.

    kind: What ran.
    namespace: Namespace of its runs.
    family: Its name.
    runs: Its runs among those that were looked at.
    newest: When the newest of them ended.
    figures: What they used, by resource; what nobody measured is absent.
    held: How bounds held.
    """

    kind: RunKind
    namespace: str
    family: str
    runs: int
    newest: datetime
    figures: Mapping[str, PastFigure]
    held: Held


@dataclass(frozen=True, slots=True)
class Families:
    """The families, the one that ran last first; `looked_at` runs of each kind were read at most."""

    items: tuple[FamilyLearned, ...]
    looked_at: int


async def families(services: ServiceContext, caller: Caller) -> Families:
    """Return the families of which the caller may see runs; Denied who may read no simulation."""
    access.demand(caller.principal, "read", "Simulation")
    judged = _judged(services, caller)
    found: dict[FamilyName, list[Run]] = {}
    for kind in past_runs.visible(caller.principal):
        rows, _ = await past_runs.read(services, caller, kind=kind, limit=stores.PAGE_LIMIT)
        for kept in rows:
            run = kept.run
            found.setdefault((kind, run.namespace, run.family), []).append(run)
    items = [_family(name, runs, judged.get(name, [])) for name, runs in found.items()]
    items.sort(key=lambda each: each.newest, reverse=True)
    return Families(tuple(items), stores.PAGE_LIMIT)


def figures(runs: Sequence[Run]) -> dict[str, PastFigure]:
    """Return what runs used by resource, the newest first; what nobody measured is absent."""
    found = {}
    for name in RESOURCES:
        peaks = [peak for run in runs if (peak := history.used(run, name)) is not None]
        figure = past_figures.figure(peaks)
        if figure is not None:
            found[name] = figure
    return found


async def next_run(services: ServiceContext, caller: Caller, newest: Run) -> Prediction:
    """Return what a run like the newest one of its family would be expected to need now.

    Who sees only their own is told no names of the past runs behind it.
    """
    owner = access.only_owner(caller.principal, past_runs.OBJECTS[newest.kind])
    trust = services.settings.now().admission.trust_reports
    learner = await services.learning.current(trust_reports=trust)
    if newest.kind is RunKind.SIMULATION:
        await services.learning.read([(newest.namespace, newest.family, owner or "")])
    found = learner.predict(
        newest.kind, newest.namespace, newest.family, newest.parameters, owner=owner or ""
    )
    if owner is None:
        return found
    bare = [_without_names(each) for each in found.forecasts]
    return Prediction(family=found.family, forecasts=tuple(bare), version=found.version)


def _without_names(each: Forecast) -> Forecast:
    return Forecast(
        resource=each.resource, expected=each.expected, bound=each.bound, coverage=each.coverage,
        evidence=each.evidence, known=each.known, sentence=each.sentence,
    )  # fmt: skip


def _family(name: FamilyName, runs: Sequence[Run], judged: Sequence[Simulation]) -> FamilyLearned:
    kind, namespace, family = name
    return FamilyLearned(
        kind=kind,
        namespace=namespace,
        family=family,
        runs=len(runs),
        newest=max(run.ended_at for run in runs),
        figures=figures(runs),
        held=_held(judged),
    )


def _judged(services: ServiceContext, caller: Caller) -> dict[FamilyName, list[Simulation]]:
    """Return by family the newest simulations that ended and had a prediction."""
    found: dict[FamilyName, list[Simulation]] = {}
    index, cache, left = indices.SIMULATIONS_ENDED, services.cache, JUDGED
    for day in sorted(cache.values(index), reverse=True):
        for run in cache.by(index, day)[:left]:
            left -= 1
            told = run.status.prediction
            if told is not None and access.sees(caller.principal, run):
                name = (RunKind.SIMULATION, run.namespace, told.family)
                found.setdefault(name, []).append(run)
        if left <= 0:
            break
    return found


def _held(runs: Sequence[Simulation]) -> Held:
    pairs = [pair for run in runs for pair in compared(run)]
    if not pairs:
        return Held()
    widths = [each.bound / peak for each, peak in pairs if peak > 0]
    return Held(
        runs=len(pairs),
        within=sum(peak <= each.bound for each, peak in pairs),
        stated=min(each.coverage for each, _ in pairs),
        width=sum(widths) / len(widths) if widths else None,
    )


def compared(run: Simulation) -> Iterator[tuple[Forecast, float]]:
    """Yield each forecast of a run with the peak that was measured, or else reported, of it."""
    status = run.status
    for each in () if status.prediction is None else status.prediction.forecasts:
        if each.resource == "duration_seconds":
            peak = _lasted(run)
        else:
            peak = history.peak(status.used, each.resource)
            peak = history.peak(status.observed, each.resource) if peak is None else peak
        if peak is not None:
            yield each, peak


def _lasted(run: Simulation) -> float | None:
    """Return how long a run that ended by itself took; None for another."""
    status = run.status
    if status.started_at is None or status.completed_at is None or not status.reported:
        return None
    return (status.completed_at - status.started_at).total_seconds()

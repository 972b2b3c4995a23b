"""What a caller may see of a simulation: the past runs behind its prediction by name, or not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from labfleet.engine.cache import Cache
from labfleet.resources.prediction import Forecast
from labfleet.resources.simulation import Simulation
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.views import Sources


def sight(sources: Sources, principal: Principal) -> str:
    """Return whose names the caller sees: those of one owner, or all."""
    del sources
    owner = access.only_owner(principal, Simulation.__name__)
    return "all" if owner is None else f"owner {owner}"


def view(sources: Sources, principal: Principal) -> Callable[[Simulation], Simulation] | None:
    """Return what leaves the names of others' past runs out of evidence; None for who sees all.

    How many runs stand behind a forecast stays told. A run whose record is gone counts as another's:
    nobody can tell any more whose it was.
    """
    owner = access.only_owner(principal, Simulation.__name__)
    if owner is None:
        return None
    cache = sources.cache

    def show(run: Simulation) -> Simulation:
        prediction = run.status.prediction
        if prediction is None or not any(each.runs for each in prediction.forecasts):
            return run
        left = tuple(_own(cache, each, run.namespace, owner) for each in prediction.forecasts)
        shown = msgspec.structs.replace(prediction, forecasts=left)
        return msgspec.structs.replace(
            run, status=msgspec.structs.replace(run.status, prediction=shown)
        )

    return show


def _own(cache: Cache, forecast: Forecast, namespace: str, owner: str) -> Forecast:
    """Return a forecast with the names of this owner's runs alone."""
    found = ((name, cache.get(Simulation, name, namespace)) for name in forecast.runs)
    names = tuple(name for name, past in found if past is not None and past.spec.owner == owner)
    return msgspec.structs.replace(forecast, runs=names)

"""What a request needs: what its caller states, else what is predicted, else the default. Pure.

Unknown is never free: a dimension in which neither the caller, nor the history, nor the cluster's
defaults say anything counts for a share of the target.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import msgspec

from labfleet.decisions.admission.targets import targets
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import (
    KNOWN_DEFAULTS,
    OTHERS,
    UNKNOWN_PERCENT,
    ClusterSpec,
    DefaultCost,
)
from labfleet.resources.history import Parameter
from labfleet.resources.prediction import Prediction
from labfleet.resources.simulation import SimulationSpec, held_by

TARGETED = ("cpu_milli", "memory_mib", "network_kbps")
"""The dimensions of a cluster that every run uses, whether or not its caller speaks of them."""


FAR_LARGER = 1.5
"""A run is far larger than known ones when its size is more than so many times their largest."""
ENOUGH = 20
"""Runs of a family from which on a prediction may be below what a caller states."""


def stated(spec: SimulationSpec) -> dict[str, float]:
    """Return what the caller states, by resource."""
    found: dict[str, float] = {} if spec.cost is None else dict(spec.cost.stated)
    if spec.duration_seconds is not None:
        found["duration_seconds"] = spec.duration_seconds
    return found


def beyond(
    cluster: ClusterSpec,
    family: str,
    parameters: Mapping[str, object],
    largest: Callable[[str], float | None],
) -> bool:
    """Tell whether a run is far larger than any known one, by the number its default goes by.

    Runs of one size say nothing of a thousand times that; the default was made to.
    """
    for table in (cluster.defaults, KNOWN_DEFAULTS):
        default = table.get(family)
        if default is None:
            continue
        size = parameters.get(default.per) if default.per else None
        if not isinstance(size, int | float) or isinstance(size, bool):
            return False
        known = largest(default.per)
        return known is not None and size > FAR_LARGER * known
    return False


def judged(
    prediction: Prediction,
    cluster: ClusterSpec,
    said: Mapping[str, float],
    least: Amounts | None = None,
) -> Prediction:
    """Return the prediction without what it may not say.

    That are dimensions of which nobody knows what the cluster has, unless the caller speaks of
    them, and less than the caller states while few runs are known: one report of a tiny run would
    make the largest one nearly free. Nor less than `least`, where the caller states nothing.
    """
    floor = Amounts() if least is None else least
    left = tuple([
        each
        for each in prediction.forecasts
        if each.resource not in TARGETED
        or (each.resource in said and (each.known >= ENOUGH or each.bound >= said[each.resource]))
        or (
            each.resource not in said
            and getattr(cluster.capacity, each.resource)
            and each.bound >= getattr(floor, each.resource)
        )
    ])  # fmt: skip
    if len(left) == len(prediction.forecasts):
        return prediction
    return msgspec.structs.replace(prediction, forecasts=left)


def within(prediction: Prediction, target: Amounts) -> Prediction:
    """Return the prediction of a little known run with no amount above the whole target.

    Where the most likely peak fits. After one run of a family the bound of the next is several
    times what it used; above the target it would forbid all further ones, of which nothing would
    be learned, for ever. So such a run may start alone.
    """
    forecasts = []
    for each in prediction.forecasts:
        most = getattr(target, each.resource) if each.resource in TARGETED else 0
        highest = max(each.bound, each.spread[-1] if each.spread else 0.0)
        if each.known >= ENOUGH or not each.expected <= most < highest:
            forecasts.append(each)
            continue
        said = "; so few are known that it counts for no more than the cluster may be filled to."
        forecasts.append(
            msgspec.structs.replace(
                each,
                bound=min(each.bound, float(most)),
                spread=_capped(each.spread, most),
                later=tuple(
                    msgspec.structs.replace(one, spread=_capped(one.spread, most))
                    for one in each.later
                ),
                sentence=each.sentence.rstrip(".") + said if each.sentence else "",
            )
        )
    if all(new is old for new, old in zip(forecasts, prediction.forecasts, strict=True)):
        return prediction
    return msgspec.structs.replace(prediction, forecasts=tuple(forecasts))


def _capped(spread: tuple[float, ...], most: float) -> tuple[float, ...]:
    return tuple([min(amount, float(most)) for amount in spread])


def default_of(
    cluster: ClusterSpec, family: str, parameters: Mapping[str, Parameter]
) -> tuple[Amounts, str]:
    """Return what a run counts for of which nothing is known, and the sentence that says so."""
    for name, table in ((family, cluster.defaults), (family, KNOWN_DEFAULTS),
                        (OTHERS, cluster.defaults)):  # fmt: skip
        found = table.get(name)
        cost = None if found is None else _cost(found, parameters)
        if cost is not None:
            whose = "all families" if name == OTHERS else name
            known = _known(cost, cluster.capacity, targets(cluster))
            return known, f"no past run is like it: the default of {whose} counts"
    return (
        _known(Amounts(), cluster.capacity, targets(cluster)),
        f"no past run is like it: it counts for {UNKNOWN_PERCENT} % of the target",
    )


@functools.lru_cache(maxsize=256)
def _known(cost: Amounts, capacity: Amounts, target: Amounts) -> Amounts:
    """Return a default with a share of the target wherever it says nothing.

    Dimensions of which nobody knows what the cluster has have a target of 0, and count for nothing.
    """
    counts = {
        name: getattr(cost, name) or getattr(target, name) * UNKNOWN_PERCENT / 100
        for name in TARGETED
        if getattr(capacity, name)
    }
    made = held_by(counts)
    return msgspec.structs.replace(cost, **{name: getattr(made, name) for name in TARGETED})


def _cost(default: DefaultCost, parameters: Mapping[str, Parameter]) -> Amounts | None:
    """Return a family's default; None when it goes by a number that the request does not have."""
    if not default.per:
        return default.cost
    count = parameters.get(default.per)
    if not isinstance(count, int | float) or isinstance(count, bool) or count < 0:
        return default.cost if default.cost != Amounts() else None
    each = {name: getattr(default.each, name) * count for name in TARGETED}
    return default.cost + held_by(each)

"""What a request needs: what its caller states, else what is predicted, else the default. Pure.

Unknown is never free: a dimension in which neither the caller, nor the history, nor the cluster's
defaults say anything counts for a share of the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labfleet.decisions.admission import sums
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.cluster import (
    KNOWN_DEFAULTS,
    OTHERS,
    UNKNOWN_PERCENT,
    ClusterSpec,
    DefaultCost,
)
from labfleet.resources.history import Parameter
from labfleet.resources.prediction import Evidence, Prediction
from labfleet.resources.simulation import SimulationSpec, held_by

LEARNED = ("cpu_milli", "memory_mib", "network_kbps")
"""The dimensions of a cluster that every run uses, whether or not its caller speaks of them."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request counts for: bounds, spreads by dimension, seconds, sentences of evidence.

    `spreads` are those of `Forecast`; a dimension without one counts for its bound exactly.
    """

    bounds: Amounts
    spreads: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    seconds: int | None = None
    evidence: tuple[str, ...] = ()


def stated(spec: SimulationSpec) -> dict[str, float]:
    """Return what the caller states, by resource, for the learner."""
    found: dict[str, float] = {} if spec.cost is None else dict(spec.cost.stated)
    if spec.duration_seconds is not None:
        found["duration_seconds"] = spec.duration_seconds
    return found


def needs(
    spec: SimulationSpec,
    cluster: ClusterSpec,
    *,
    family: str,
    parameters: Mapping[str, Parameter],
    prediction: Prediction | None = None,
) -> Needs:
    """Return what the request counts for; `prediction` may be absent or lack resources."""
    said = {} if spec.cost is None else spec.cost.stated
    bounds: dict[str, float] = dict(said)
    spreads: dict[str, tuple[float, ...]] = {}
    evidence: list[str] = []
    fallback: Amounts | None = None
    for name in LEARNED:
        if not getattr(cluster.capacity, name) and name not in said:
            continue  # What the cluster has of it is not known, so it is not judged.
        forecast = None if prediction is None else prediction.of(name)
        if forecast is not None and (
            name not in said or forecast.evidence is not Evidence.DECLARED
        ):
            bounds[name] = forecast.bound
            spreads[name] = forecast.spread
            evidence.append(forecast.sentence)
        elif name not in said:
            if fallback is None:
                fallback, sentence = _default(cluster, family, parameters)
                evidence.append(sentence)
            bounds[name] = getattr(fallback, name)
    lasts = None if prediction is None else prediction.of("duration_seconds")
    seconds = spec.duration_seconds
    if seconds is None and lasts is not None:
        seconds = max(1, int(lasts.bound) + 1)
        evidence.append(lasts.sentence)
    return Needs(held_by(bounds), spreads, seconds, tuple(each for each in evidence if each))


def _default(
    cluster: ClusterSpec, family: str, parameters: Mapping[str, Parameter]
) -> tuple[Amounts, str]:
    """Return what a run of an unknown cost counts for, and the sentence that says so."""
    for name, table in ((family, cluster.defaults), (family, KNOWN_DEFAULTS),
                        (OTHERS, cluster.defaults)):  # fmt: skip
        found = table.get(name)
        cost = None if found is None else _cost(found, parameters)
        if cost is not None:
            whose = "all families" if name == OTHERS else name
            return cost, f"nothing is known of runs like it; the default of {whose} counts"
    target = sums.targets(cluster)
    share = {name: getattr(target, name) * UNKNOWN_PERCENT / 100 for name in LEARNED}
    return held_by(share), (
        f"nothing is known of runs like it; it counts for {UNKNOWN_PERCENT} % of the target"
    )


def _cost(default: DefaultCost, parameters: Mapping[str, Parameter]) -> Amounts | None:
    """Return a family's default; None when it goes by a number that the request does not have."""
    if not default.per:
        return default.cost
    count = parameters.get(default.per)
    if not isinstance(count, int | float) or isinstance(count, bool) or count < 0:
        return default.cost if any(vector(default.cost)) else None
    each = {name: getattr(default.each, name) * count for name in LEARNED}
    return default.cost + held_by(each)

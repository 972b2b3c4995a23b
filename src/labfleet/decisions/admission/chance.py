"""May a run start on a cluster now? The rules that read the resident load.

`chance` (the default) approves while the chance that any target is exceeded stays within
epsilon; `bounds` (strict) while the sum of bounds fits; `declared` while the sum of what was
declared fits, for when nothing is known or what is known is not to be trusted. Storage, nodes,
labs and ports are plain sums in each. Work per answer does not depend on how many runs live or
have lived.
"""

from __future__ import annotations

import functools
from datetime import datetime

import numpy as np

from labfleet.decisions import wording
from labfleet.decisions.admission.draws import DRAWS, TARGETED, Draws
from labfleet.decisions.admission.load import Load, Need, Vector
from labfleet.resources.amounts import DIMENSIONS, Amounts, Shortage, vector
from labfleet.resources.decision import Decision, Rule, Verdict

EPSILON = 0.002
"""How large the chance of exceeding a target may be, unless a cluster says otherwise."""

_NETWORK = "network_kbps"
_PLACES = tuple(DIMENSIONS.index(name) for name in TARGETED)
_ALL = tuple(range(len(DIMENSIONS)))
_PLAIN = tuple(place for place in _ALL if place not in _PLACES)
"""Places of the dimensions that are summed plainly by every rule."""
_WORDS = {
    "cpu_milli": "Cpu", "memory_mib": "Memory", "storage_mib": "Storage", "nodes": "Nodes",
    "labs": "Labs", "ports": "Ports", "network_kbps": "Network",
}  # fmt: skip
_KINDS = {
    Rule.CHANCE: "upper bound",
    Rule.BOUNDS: "upper bound",
    Rule.DECLARED: "declared",
}


def together(beside: Draws, drawn: Draws, target: Amounts) -> Draws:
    """Return the outcomes of a load with a run.

    Of a network of which nobody states what the cluster has, only what the run itself asks for
    counts: what is measured of all others is too much of nothing.
    """
    total = beside + drawn
    if not getattr(target, _NETWORK):
        total[TARGETED.index(_NETWORK)] = drawn[TARGETED.index(_NETWORK)]
    return total


def risk(total: Draws, target: Amounts) -> float:
    """Return the chance that outcomes, of a load with a run, exceed the target in any dimension."""
    return _count(total, target) / DRAWS


def fits(
    cost: Vector, held: Vector, total: Draws, *, target: Amounts, rule: Rule, epsilon: float
) -> bool:
    """Tell whether the rule lets a run in; `total` are the load's outcomes with the run's."""
    if _short(cost, held, target, rule):
        return False
    return rule is not Rule.CHANCE or risk(total, target) <= epsilon


def admit(
    wanted: Need,
    drawn: Draws,
    *,
    load: Load,
    cluster: str,
    target: Amounts,
    now: datetime,
    rule: Rule = Rule.CHANCE,
    epsilon: float = EPSILON,
    revision: int = 0,
) -> Decision:
    """Return approved iff the rule lets the run in beside the load, else denied.

    `drawn` are the run's outcomes, made once from its uid. A denial is NeverFits when the run
    would not be let in even alone, else it says what must be given back first.
    """
    cost = wanted.declared if rule is Rule.DECLARED else wanted.bounds
    short = _short(vector(cost), load.held(declared=rule is Rule.DECLARED), target, rule)
    chance = None
    if rule is Rule.CHANCE:
        total = together(load.drawn, drawn, target)
        chance = risk(total, target)
        if chance > epsilon:
            short = (*_lacking(total, cost, target, epsilon), *short)
    said = _odds(chance, epsilon)
    needs = f"needs {wording.amounts(cost)} ({_KINDS[rule]})"
    if not short:
        reason, message = "Fits", f"{needs}; {said}approved on {cluster}"
    elif alone := _alone(cost, drawn, target, rule, epsilon):
        lack = wording.short(alone)
        reason = "NeverFits"
        message = f"{needs}; {cluster} is short {lack} even when nothing runs on it"
    else:
        reason = "NoCapacityAvailable"
        lack = wording.short(short)
        message = f"{needs}; {said}{cluster} lets it in once {lack} more is free; ask again later"
    return Decision(
        outcome="denied" if short else "approved",
        reason=reason,
        message=message,
        at=now,
        revision=revision,
        requested=cost,
        chosen=None if short else cluster,
        candidates=(
            Verdict(
                name=cluster,
                fits=not short,
                reasons=tuple(f"Over{_WORDS[each.dimension]}Target" for each in short),
                shortages=short,
            ),
        ),
        evaluated=1,
        rejected_by_reason={reason: 1} if short else {},
        rule=rule.value,
        risk=chance,
        epsilon=epsilon if rule is Rule.CHANCE else None,
    )


def _odds(chance: float | None, epsilon: float) -> str:
    if chance is None:
        return ""
    within = "within" if chance <= epsilon else "above"
    return f"chance of exceeding a target {chance:.2%}, {within} {epsilon:.2%}; "


def _count(total: Draws, target: Amounts) -> int:
    """Return in how many outcomes any target is exceeded."""
    return int(np.count_nonzero(np.logical_or.reduce(total > _limits(target))))


@functools.lru_cache(maxsize=64)
def _limits(target: Amounts) -> Draws:
    found = vector(target)
    return np.array([[found[place]] for place in _PLACES], dtype=np.int64)


def _short(cost: Vector, held: Vector, target: Amounts, rule: Rule) -> tuple[Shortage, ...]:
    """Return where the plain sum exceeds the target; the chance rule draws the rest."""
    found = []
    limits = vector(target)
    for place in _PLAIN if rule is Rule.CHANCE else _ALL:
        want, have, most = cost[place], held[place], limits[place]
        # The rule is about the sum: above a target even a cost of 0 is denied. A network that
        # nobody states has none.
        known = place in _PLACES and (most or DIMENSIONS[place] != _NETWORK)
        if want + have > most and (want or known):
            found.append(Shortage(dimension=DIMENSIONS[place], wanted=want, free=most - have))
    return tuple(found)


def _lacking(total: Draws, cost: Amounts, target: Amounts, epsilon: float) -> tuple[Shortage, ...]:
    """Return how much must be free so that too many outcomes no longer exceed the target.

    With as much less in each named dimension the rule approves. `free` is what remains of
    `wanted`, the run's bound, after that lack.
    """
    spare = int(epsilon * DRAWS + 1e-9)
    over = total - _limits(target)
    if spare:
        # The outcomes that exceed by least must come within; the worst `spare` may stay above.
        worst = (over / np.maximum(1, _limits(target))).max(axis=0)
        over = over[:, np.argsort(worst, kind="stable")[: DRAWS - spare]]
    lacks = over.max(axis=1)
    found = []
    for name, lack in zip(TARGETED, lacks.tolist(), strict=True):
        if lack > 0:
            want = getattr(cost, name)
            found.append(Shortage(dimension=name, wanted=want, free=want - lack))
    return tuple(found)


def _alone(
    cost: Amounts, drawn: Draws, target: Amounts, rule: Rule, epsilon: float
) -> tuple[Shortage, ...]:
    """Return what the run lacks where nothing else runs."""
    nothing = (0,) * len(DIMENSIONS)
    short = _short(vector(cost), nothing, target, rule)
    if rule is Rule.CHANCE and risk(drawn, target) > epsilon:
        return (*_lacking(drawn, cost, target, epsilon), *short)
    return short

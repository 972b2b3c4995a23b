"""The room of a cluster as queueing asks for it, by the rule that its admission goes by.

Tried on and thrown away: starts that are considered are added to copies, never to the load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import add, sub

from labfleet.decisions.admission import chance
from labfleet.decisions.admission.draws import Draws, draws
from labfleet.decisions.admission.load import Load, Need, Vector
from labfleet.decisions.queueing.requests import Request
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.decision import Rule


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run takes: its outcomes, and its amounts by the rule."""

    drawn: Draws
    cost: Vector


def taken(uid: str, wanted: Need, rule: Rule) -> Taken:
    """Return what a waiting run would take by a rule."""
    cost = wanted.declared if rule is Rule.DECLARED else wanted.bounds
    return Taken(draws(uid, wanted.spreads), vector(cost))


class LoadRoom:
    """What is left beside a load, by its rule; `waiting` are the runs that may be asked about."""

    def __init__(
        self,
        load: Load,
        waiting: Mapping[str, Taken],
        *,
        target: Amounts,
        rule: Rule,
        epsilon: float,
    ) -> None:
        self._load = load
        self._waiting = waiting
        self._target = target
        self._rule = rule
        self._epsilon = epsilon
        self._drawn = load.drawn
        self._held = vector(load.declared if rule is Rule.DECLARED else load.bounds)

    def fits(self, request: Request) -> bool:
        """Tell whether the rule lets the request's run in beside what is counted."""
        asks = self._waiting[request.uid]
        return chance.fits(
            asks.cost,
            self._held,
            chance.together(self._drawn, asks.drawn, self._target),
            target=self._target,
            rule=self._rule,
            epsilon=self._epsilon,
        )

    def add(self, request: Request) -> None:
        """Count the request's run."""
        asks = self._waiting[request.uid]
        self._drawn = self._drawn + asks.drawn
        self._held = tuple(map(add, self._held, asks.cost))

    def remove(self, uid: str) -> None:
        """Count a run no longer; one that is not counted is ignored."""
        found = self._waiting.get(uid) or self._live(uid)
        if found is not None:
            self._drawn = self._drawn - found.drawn
            self._held = tuple(map(sub, self._held, found.cost))

    def copy(self) -> LoadRoom:
        """Return one to try something on; sums are never changed in place."""
        made = LoadRoom(
            self._load,
            self._waiting,
            target=self._target,
            rule=self._rule,
            epsilon=self._epsilon,
        )
        made._drawn, made._held = self._drawn, self._held
        return made

    def _live(self, uid: str) -> Taken | None:
        found = self._load.taken(uid)
        if found is None:
            return None
        drawn, bounds, declared = found
        return Taken(drawn, declared if self._rule is Rule.DECLARED else bounds)

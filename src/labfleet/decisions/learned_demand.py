"""With what a session is counted: what its definition declares, or what past labs of it used.

Pure. A bound takes what was declared too high off a worker's books. It never goes below what CML
itself reserves for the nodes (their ram, their CPUs times their limit): CML starts no node without
that, so a lab that is counted with less would hang in its queue. Nor below the declared disk: CML
reserves none, a disk fills up over a lab's life, and on a full one no lab starts. What the bound got
wrong is corrected while a lab lives: from then on it is counted with at least what was measured of
it, so its worker takes fewer labs, and the lab keeps what it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from labfleet.resources.amounts import Amounts, Claim, Reservation
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.history import peak
from labfleet.resources.lab_bound import HARD, SIZED, LabBound
from labfleet.resources.learned_demand import DemandRule, LearnedAmount, LearnedDemand
from labfleet.resources.pool import Pool
from labfleet.resources.prediction import Evidence
from labfleet.resources.session import Session

_FLOORS = {
    "cpu_milli": "as declared",
    "memory_mib": "as declared",
    "storage_mib": "as declared, since CML reserves no disk and labs fill it over time",
}


def rule_of(definition: Definition, pools: Iterable[Pool]) -> DemandRule:
    """Return by what a definition's sessions are counted; `pools` are those of the track.

    A definition's own word wins. Without one, every pool that may get the session has to say
    `bound`: it is counted once, before anybody knows which of them it will be.
    """
    if definition.spec.demand is not None:
        return definition.spec.demand
    said = {each.spec.demand for each in pools}
    return "bound" if said == {"bound"} else "declared"


def learned(
    definition: Definition, reserved: Amounts, bounds: Mapping[str, LabBound], now: datetime
) -> LearnedDemand:
    """Return what a session of a definition is counted with by bounds of past use.

    `reserved` is what its nodes reserve by themselves. Of nodes whose definition is not known here
    nobody knows that, so nothing is counted with less than is declared.
    """
    status = definition.status
    unknown = bool(status.unknown_definitions)
    found = tuple(
        _amount(
            name,
            declared=getattr(status.demand, name),
            least=getattr(reserved if name in HARD and not unknown else status.demand, name),
            reserved=getattr(reserved, name) if name in HARD else 0,
            bound=bounds.get(name),
        )
        for name in SIZED
    )
    counted = {each.dimension: each.counted for each in found}
    counted["nodes"] = max(status.demand.nodes, reserved.nodes)
    return LearnedDemand(
        amounts=msgspec.structs.replace(status.demand, **counted),
        family=family_of(definition),
        at=now,
        learned=found,
    )


def _amount(
    name: str, *, declared: int, least: int, reserved: int, bound: LabBound | None
) -> LearnedAmount:
    """Return one dimension, never less than `least` nor than what its nodes reserve."""
    least = max(least, reserved)
    known = None if bound is None else bound.bound
    counted = max(declared if known is None else known, least)
    said = "" if bound is None else bound.sentence
    if counted == known:
        first = "what past sessions stay within"
    else:
        first = _FLOORS[name] if counted == declared else "what its nodes reserve"
    return LearnedAmount(
        dimension=name,
        declared=declared,
        reserved=reserved,
        bound=known,
        counted=counted,
        coverage=None if known is None or bound is None else bound.coverage,
        sessions=0 if bound is None else bound.sessions,
        evidence=Evidence.DECLARED if bound is None or known is None else bound.evidence,
        sentence=f"{first}; {said}" if said else first,
    )


def held(session: Session) -> Reservation | None:
    """Return what a session holds on its worker, with at least what its lab was measured to use.

    Only where its amounts were learned: what is declared is counted as declared.
    """
    found = session.status.reservation
    if found is None or session.status.demand is None:
        return found
    amounts = _at_least_used(session, found.amounts)
    return found if amounts is found.amounts else msgspec.structs.replace(found, amounts=amounts)


def claimed(session: Session) -> Claim | None:
    """Return what is promised to a session, with at least what its lab was measured to use."""
    found = session.status.claim
    if found is None or session.status.demand is None or session.status.reservation is None:
        return found
    amounts = _at_least_used(session, found.amounts)
    return found if amounts is found.amounts else msgspec.structs.replace(found, amounts=amounts)


def _at_least_used(session: Session, amounts: Amounts) -> Amounts:
    """Return amounts raised to the peaks that were measured; the same object where none is above."""
    used = session.status.used
    above = {
        name: math.ceil(found)
        for name in SIZED
        if (found := peak(used, name)) is not None and found > getattr(amounts, name)
    }
    return msgspec.structs.replace(amounts, **above) if above else amounts

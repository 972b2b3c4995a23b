"""A load kept up decision by decision is the one made anew from records, whatever callers state."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import numpy as np
from admission_runs import NOW
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.decisions.admission.judge import Judge
from labfleet.decisions.prediction.learner import Learner
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.cluster import Cluster, ClusterSpec, DefaultCost
from labfleet.resources.decision import Rule
from labfleet.resources.history import KeptRun, Run, RunKind, Source, Use
from labfleet.resources.meta import Metadata
from labfleet.resources.simulation import (
    Cost,
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)

CLUSTER = Cluster(
    metadata=Metadata(name="c"),
    spec=ClusterSpec(
        capacity=Amounts(cpu_milli=64_000, memory_mib=262_144, storage_mib=100_000),
        defaults={"own": DefaultCost(cost=Amounts(cpu_milli=700, memory_mib=900))},
    ),
)
costs = st.one_of(
    st.none(),
    st.builds(
        Cost,
        cpu_milli=st.none() | st.integers(1, 9000),
        memory_mib=st.none() | st.integers(1, 9000),
        storage_mib=st.none() | st.integers(1, 900),
    ),
)
steps = st.lists(
    st.tuples(st.sampled_from(["own", "known", "new"]), costs, st.booleans()), max_size=8
)


def learner() -> Learner:
    """Knows two runs of the family `known`, of CPU alone."""
    found = Learner()
    for place in (1, 2):
        run = Run(
            kind=RunKind.SIMULATION, uid=f"u{place}", family="known", use={"cpu_milli": Use(peak=800)},
            duration_seconds=60.0, source=Source.MEASURED, ended_at=NOW,
        )  # fmt: skip
        found.learn(KeptRun(place=place, run=run))
    return found


def asked(
    judge: Judge, cluster: Cluster, number: int, family: str, cost: Cost | None
) -> Simulation:
    """Return the record of a run that was decided, as it is stored when it was approved."""
    spec = SimulationSpec(cluster="c", family=family, cost=cost)
    name = f"sim-{number}"
    found = judge.decide(
        spec, learner(), uid=name, cluster=cluster, live=(), now=NOW, revision=1, default_seconds=60
    )
    held = Reservation(
        holder=name, amounts=found.decision.requested, start=NOW, end=NOW + timedelta(minutes=1)
    )
    status = SimulationStatus(
        phase=SimulationPhase.APPROVED,
        decision=found.decision,
        prediction=found.prediction,
        reservation=held,
    )
    return Simulation(metadata=Metadata(name=name, uid=name), spec=spec, status=status)


@settings(max_examples=40)
@given(steps, st.sampled_from(Rule))
def test_what_is_declared_in_part_is_counted_alike_kept_up_and_made_anew(found, rule: Rule) -> None:
    """Sums of declared, of bounds and outcomes; a stated dimension counts as it is stated."""
    cluster = msgspec.structs.replace(
        CLUSTER, spec=msgspec.structs.replace(CLUSTER.spec, rule=rule)
    )
    kept, live = Judge(), {}
    load = kept.load(cluster, ())
    for number, (family, cost, ends) in enumerate(found):
        run = asked(kept, cluster, number, family, cost)
        kept.count(run)
        live[run.metadata.uid] = run
        if ends and len(live) > 1:
            gone = live.pop(next(iter(live)))
            kept.count(
                msgspec.structs.replace(
                    gone, status=msgspec.structs.replace(gone.status, reservation=None)
                )
            )
    anew = Judge().load(cluster, reversed(live.values()))
    assert (load.declared, load.bounds, len(load)) == (anew.declared, anew.bounds, len(anew))
    assert np.array_equal(load.drawn, anew.drawn)
    for name in ("cpu_milli", "storage_mib"):
        stated = [each.spec.cost and getattr(each.spec.cost, name) for each in live.values()]
        if None not in stated:
            assert getattr(load.declared, name) == sum(stated)

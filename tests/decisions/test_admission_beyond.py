"""Runs of one size say nothing of a far larger one: then the default counts that goes by its size."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from admission_runs import NOW

from labfleet.decisions.admission import needs
from labfleet.decisions.admission.judge import Judge, Judged
from labfleet.decisions.prediction.learner import Learner
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec, DefaultCost
from labfleet.resources.history import KeptRun, Run, RunKind, Source, Use
from labfleet.resources.meta import Metadata
from labfleet.resources.prediction import Evidence, Forecast, Prediction
from labfleet.resources.simulation import Cost, SimulationSpec

CLUSTER = Cluster(
    metadata=Metadata(name="c"),
    spec=ClusterSpec(
        capacity=Amounts(cpu_milli=24_000, memory_mib=98_304),
        defaults={"own": DefaultCost(per="size", each=Amounts(cpu_milli=500, memory_mib=600))},
    ),
)


def learned(family: str, *sizes: int, per: str = "nodecount") -> Learner:
    """Knows one measured run of each size, which used 100 mCPU and 100 MiB for each of it."""
    learner = Learner()
    for place, size in enumerate(sizes, 1):
        use = {"cpu_milli": Use(peak=100.0 * size), "memory_mib": Use(peak=100.0 * size)}
        run = Run(
            kind=RunKind.SIMULATION, uid=f"u{place}", name=f"r{place}", namespace="default",
            family=family, owner="", place="c", parameters={"chart": family, per: float(size)},
            allocation={}, use=use, duration_seconds=60.0, source=Source.MEASURED,
            started_at=NOW, ended_at=NOW + timedelta(minutes=1),
        )  # fmt: skip
        learner.learn(KeptRun(place=place, run=run))
    return learner


def judged(learner: Learner, family: str, cost: Cost | None = None, **params: object) -> Judged:
    spec = SimulationSpec(cluster="c", params={"chart": family, **params}, family=family, cost=cost)
    return Judge().decide(
        spec, learner, uid="new", cluster=CLUSTER, live=(), now=NOW, revision=1, default_seconds=60
    )


@pytest.mark.parametrize(("family", "per"), [("waku", "nodecount"), ("own", "size")])
def test_three_nodes_do_not_let_three_thousand_in(family: str, per: str) -> None:
    """The default of the family counts, and the evidence says so; one of like size is predicted."""
    learner = learned(family, 3, per=per)
    far = judged(learner, family, **{per: 3000})
    assert (far.decision.outcome, far.decision.reason) == ("denied", "NeverFits")
    assert far.decision.requested.cpu_milli == 1_500_000
    assert any(f"the default of {family} counts" in each for each in far.evidence)
    like = judged(learner, family, **{per: 4})
    assert like.decision.outcome == "approved"
    assert like.decision.requested.cpu_milli < 2000


@pytest.mark.parametrize("known", [1, 2, 5, 19])
def test_few_known_runs_do_not_forbid_the_next_one_for_ever(known: int) -> None:
    """What is likely to fit may start alone, and waits beside others; else nothing more is learned."""
    learner = learned("bench", *[90 + number % 3 for number in range(known)])
    alone = judged(learner, "bench", nodecount=92)
    assert alone.decision.outcome == "approved"
    assert alone.decision.requested.cpu_milli <= 19_200
    if known == 1:
        assert alone.decision.requested.cpu_milli == 19_200
        assert any("counts for no more than the cluster may be filled to" in each
                   for each in alone.evidence)  # fmt: skip
        larger = judged(learned("bench", 230), "bench", nodecount=230)
        assert larger.decision.reason == "NeverFits"


def test_enough_known_runs_are_believed_as_they_are() -> None:
    """From then on a bound above the target says what it says, and so does one of a sure peak."""
    forecast = Forecast(
        resource="cpu_milli", expected=10.0, bound=200.0, coverage=0.95, evidence=Evidence.EXACT,
        spread=(5.0,) * 20 + (300.0,), known=needs.ENOUGH,
    )  # fmt: skip
    target = Amounts(cpu_milli=100)
    many = Prediction(family="f", forecasts=(forecast,))
    assert needs.within(many, target) is many
    few = msgspec.structs.replace(many, forecasts=(msgspec.structs.replace(forecast, known=19),))
    [capped] = needs.within(few, target).forecasts
    assert (capped.expected, capped.bound, capped.spread[-1]) == (10.0, 100.0, 100.0)
    assert needs.within(few, Amounts(cpu_milli=9)) is few


def test_what_its_caller_states_counts_all_the_same() -> None:
    """Who knows better may say so."""
    told = judged(learned("waku", 3), "waku", Cost(cpu_milli=9000, memory_mib=900), nodecount=3000)
    assert told.decision.requested.cpu_milli == 9000
    assert told.decision.outcome == "approved"


def test_a_large_run_that_is_known_makes_large_runs_known() -> None:
    """From then on its like are predicted, below the default."""
    told = judged(learned("waku", 3, 100), "waku", nodecount=120)
    assert told.decision.requested.cpu_milli < 120 * 500


def test_a_number_that_is_no_size_is_left_alone() -> None:
    """Random seeds and numbers of issues grow without a meaning."""
    told = judged(learned("waku", 3), "waku", nodecount=3, seed=10**9)
    assert told.decision.outcome == "approved"
    other = judged(learned("nightly", 3, per="seed"), "nightly", seed=10**9)
    assert other.decision.outcome == "approved"

"""When a definition needs a review, what may be applied instead, and what follows of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import lab_reviews
from labfleet.decisions.lab_bounds import Asked
from labfleet.decisions.lab_reviews import Place, Significant
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import DefinitionCondition
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.lab_bound import LabBound

T0 = datetime(2026, 11, 30, 8, tzinfo=UTC)
FEW = LabBound(
    resource="", declared=0, sentence="4 of the 5 sessions that a bound needs were measured"
)


def found(**known: tuple[int, int | None]) -> dict[str, LabBound]:
    """Return bounds by dimension from (declared, bound); the others have none."""
    made = {}
    for name in ("cpu_milli", "memory_mib", "storage_mib"):
        declared, bound = known.get(name, (0, None))
        made[name] = LabBound(
            resource=name, declared=declared, bound=bound, sessions=9, sentence=FEW.sentence
        )
    return made


@pytest.mark.parametrize(
    ("memory", "cpu", "reason"),
    [
        ((4096, 1024), (2000, 2000), "AsksTooMuch"),
        ((1024, 4096), (2000, 2000), "AsksTooLittle"),
        ((4096, 1024), (500, 2000), "AsksTooLittle"),  # too little is graver
        ((1024, 769), (2000, 1751), "NearUse"),  # beyond 20 %, within 256 MiB
        ((10_000, 8_001), (10_000, 8_001), "NearUse"),  # beyond the amounts, within 20 %
        ((10_000, 7_999), (1, 1), "AsksTooMuch"),
        ((4096, 1024), (2000, None), "AsksTooMuch"),  # one dimension alone
    ],
)
def test_a_difference_counts_by_share_and_by_amount(
    memory: tuple[int, int], cpu: tuple[int, int | None], reason: str
) -> None:
    """It is significant when it is more than a fifth, and more than 256 MiB or 250 millicores."""
    judged = lab_reviews.review(found(memory_mib=memory, cpu_milli=cpu), Significant())
    assert (judged.reason, judged.needed) == (reason, reason != "NearUse")


def test_too_few_sessions_say_nothing_and_leave_no_condition() -> None:
    """What is not known is no verdict: nothing is recorded, and what was is taken back."""
    judged = lab_reviews.review(found(memory_mib=(4096, None)), Significant())
    assert (judged.needed, judged.reason) == (False, None)
    assert "4 of the 5" in judged.message
    raised = lab_reviews.review(found(memory_mib=(4096, 1024)), Significant())
    facts = lab_reviews.recorded((), raised, T0, 1)
    assert conditions.is_true(facts, DefinitionCondition.NEEDS_REVIEW)
    assert lab_reviews.recorded(facts, judged, T0, 1) == ()
    assert lab_reviews.recorded(facts, None, T0, 1) == ()


def test_a_bound_that_moves_a_little_is_not_written_anew() -> None:
    """Each session moves it; from a tenth on it is news."""
    facts: tuple[conditions.Condition, ...] = ()
    written = []
    for bound in (1000, 1050, 1090, 1101):
        judged = lab_reviews.review(found(memory_mib=(9000, bound)), Significant())
        now = lab_reviews.recorded(facts, judged, T0, 1)
        written.append(now != facts)
        facts = now
    assert written == [True, False, False, True]


def run(memory: float, hours: float = 1.0) -> Run:
    """Return a past session."""
    return Run(
        kind=RunKind.SESSION, uid=f"u{memory}", family="labs", ended_at=T0,
        use={"memory_mib": Use(peak=memory)}, duration_seconds=hours * 3600,
    )  # fmt: skip


def test_what_follows_of_each_option() -> None:
    """Sessions a worker, the price of each, and how many sessions would have exceeded it."""
    asked = Asked("labs", Amounts(memory_mib=4096, labs=1), Amounts(memory_mib=512, labs=1))
    bounds = found(memory_mib=(4096, 1024))
    places = [Place("exam", Amounts(memory_mib=16_384, labs=10), 4.0)]
    runs = [run(900), run(1100), run(5000, hours=2)]
    declared, bound = lab_reviews.options(runs, asked, bounds, places)
    assert (declared.value, bound.value) == ("declared", "bound")
    assert (declared.exceeded, bound.exceeded) == (1, 2)
    assert [each.pools[0].sessions_per_worker for each in (declared, bound)] == [4, 10]
    assert bound.pools[0].usd_per_session_hour == 0.4
    saved = lab_reviews.saving(runs, (declared, bound), places)
    assert saved is not None
    assert (saved.hours, saved.memory_gib_hours, saved.worker_hours) == (4.0, 12.0, 0.6)
    assert saved.usd == 2.4


def test_without_a_price_or_a_pool_nothing_is_said_to_cost_nothing() -> None:
    """What is not known is null and never 0."""
    asked = Asked("labs", Amounts(memory_mib=4096))
    bounds = found(memory_mib=(4096, 1024))
    for places in ([], [Place("exam", Amounts(memory_mib=16_384), None)]):
        made = lab_reviews.options([run(900)], asked, bounds, places)
        saved = lab_reviews.saving([run(900)], made, places)
        assert saved is not None
        assert saved.usd is None
        assert (saved.worker_hours is None) == (not places)


AMOUNT = st.integers(0, 10_000)


@given(AMOUNT, AMOUNT, AMOUNT, st.integers(1, 10_000))
def test_what_may_be_applied_fits_between_nodes_and_workers(
    wanted: int, reserved: int, most: int, declared: int
) -> None:
    """Less memory than the nodes reserve is refused, and more than any worker has, if it is a rise."""
    asked = Asked(
        "labs", Amounts(memory_mib=declared), Amounts(memory_mib=reserved), Amounts(memory_mib=most)
    )
    refusal = lab_reviews.refused(Amounts(memory_mib=wanted), asked)
    if wanted < reserved:
        assert refusal is not None
        assert refusal[0] == "BelowReserved"
    elif wanted > max(most, declared):
        assert refusal is not None
        assert refusal[0] == "AboveWorkers"
    else:
        assert refusal is None

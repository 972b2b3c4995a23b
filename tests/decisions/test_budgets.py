"""What a budget lets a pool start: told at 80 %, nothing further at all of it, never a guess."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.costs import budgets
from labfleet.decisions.costs.budgets import Spending, budget_bound
from labfleet.decisions.pool_view import PoolDecision
from labfleet.resources import conditions
from labfleet.resources.pool import PoolBudget, PoolPhase, PoolStatus, ScalingEvent
from labfleet.resources.pool_conditions import PoolCondition, PoolReason

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def spending(hour: str, month: str | None = "0", worker: str | None = "5") -> Spending:
    """Return what a pool costs, each worker five dollars an hour."""
    return Spending(
        Decimal(hour),
        None if month is None else Decimal(month),
        None if worker is None else Decimal(worker),
    )


def test_an_hourly_budget_lets_as_many_run_as_it_pays_for() -> None:
    """Of 22 dollars an hour four workers of five can run; with three of them there is one more."""
    found = budget_bound(PoolBudget(usd_per_hour=22), spending("15"))
    assert (found.room, found.workers, found.reason) == (1, 4, PoolReason.WITHIN_BUDGET)
    last = budget_bound(PoolBudget(usd_per_hour=22), spending("20"))
    assert (last.room, last.reason, last.reached) == (0, PoolReason.BUDGET_REACHED, True)


def test_people_are_told_from_four_fifths_on() -> None:
    """At 80 % of a month the reason says so, and workers are still started."""
    budget = PoolBudget(usd_per_month=1000)
    assert budget_bound(budget, spending("15", "799")).reason is PoolReason.WITHIN_BUDGET
    near = budget_bound(budget, spending("15", "800"))
    assert (near.reason, near.room) == (PoolReason.BUDGET_NEAR, None)
    assert "80 %" in near.told
    assert budget_bound(budget, spending("15", "1000")).room == 0


def test_an_unknown_price_starts_nothing_within_a_budget() -> None:
    """Unknown is not free: without a price, or with a month that has an unpriced part, none starts."""
    for told in (spending("5", worker=None), spending("5", month=None)):
        found = budget_bound(PoolBudget(usd_per_month=100), told)
        assert (found.room, found.reason) == (0, PoolReason.PRICE_UNKNOWN)
    assert "price unknown" in found.told


def test_a_month_that_is_unknown_takes_no_promise_of_later_ones() -> None:
    """What this month has cost bounds starts alone: places stay as many as an hour pays for."""
    unread = replace(spending("5"), unpriced="this month")
    for budget, workers in (
        (PoolBudget(usd_per_month=100), None),
        (PoolBudget(usd_per_month=100, usd_per_hour=22), 4),
    ):
        for told in (unread, spending("5", month=None)):
            found = budget_bound(budget, told)
            assert (found.room, found.workers) == (0, workers)
    assert budget_bound(budget, spending("5", worker=None)).workers == 0


@given(
    st.decimals(1, 500, places=2), st.decimals(0, 500, places=2), st.decimals("0.1", 50, places=2)
)
def test_what_is_started_never_passes_the_hour(most: Decimal, now: Decimal, each: Decimal) -> None:
    """Whatever runs, what may be started beside it stays within the bound, and one more would not."""
    found = budget_bound(PoolBudget(usd_per_hour=float(most)), Spending(now, Decimal(0), each))
    assert found.room is not None
    assert found.room == 0 or now + found.room * each <= most
    assert now + (found.room + 1) * each > most


def decision(**changes: object) -> PoolDecision:
    """Return a decision that starts one worker and makes two."""
    grown = tuple(
        ScalingEvent(at=NOW, kind="scale_up", reason="r", before=1, after=2, worker=name)
        for name in ("p1", "n1", "n2")
    )
    return PoolDecision(
        phase=PoolPhase.SCALING_UP, message="3 wait", create=("n1", "n2"), start=("p1",),
        created_workers=7, events=grown,
    )  # fmt: skip


def test_a_decision_is_cut_to_the_room_there_is() -> None:
    """A parked worker comes first; what is left out stands in no event, and the reason is told."""
    verdict = budget_bound(PoolBudget(usd_per_hour=20), spending("10"))
    cut = budgets.bounded(decision(), verdict, before=PoolPhase.READY, made=5)
    assert (cut.start, cut.create, cut.created_workers) == (("p1",), ("n1",), 7)
    assert [each.worker for each in cut.events] == ["p1", "n1"]
    assert cut.unmet is PoolReason.BUDGET_REACHED
    none = budget_bound(PoolBudget(usd_per_hour=20), spending("19"))
    held = budgets.bounded(decision(), none, before=PoolPhase.READY, made=5)
    assert (held.start, held.create, held.phase) == ((), (), PoolPhase.READY)
    assert (held.created_workers, held.events) == (5, ())
    assert "held by its budget" in held.message


def test_what_is_said_of_a_budget_ends_with_it() -> None:
    """Both facts are true at the bound, and false again once there is no budget."""
    reached = budget_bound(PoolBudget(usd_per_hour=20), spending("20"))
    status = budgets.noted(PoolStatus(), reached, NOW)
    assert conditions.is_true(status.conditions, PoolCondition.BUDGET_NEAR)
    assert conditions.is_true(status.conditions, PoolCondition.BUDGET_REACHED)
    assert status.budget_workers == 4
    after = budgets.noted(status, None, NOW)
    assert not conditions.is_true(after.conditions, PoolCondition.BUDGET_REACHED)
    assert after.budget_workers is None
    assert budgets.noted(PoolStatus(), None, NOW) == PoolStatus()

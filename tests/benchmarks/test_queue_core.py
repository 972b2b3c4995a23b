"""Kueue's test on the pure decision: a tenth of it packs as well as the work allows."""

from __future__ import annotations

import pytest
from benchmarks import queue_core

from labfleet.decisions.queueing import quotas


def test_a_tenth_of_the_test_keeps_the_quotas_busy() -> None:
    """1,500 workloads end within a tenth of the bound, the large ones wait least; work is bounded."""
    played = queue_core.play(10)
    assert {name: len(each) for name, each in played.waits.items()} == {
        "large": 150,
        "medium": 300,
        "small": 1050,
    }
    bound = queue_core.work_bound(10)
    assert bound <= played.seconds <= 1.1 * bound
    assert played.use_pct >= 90
    waits = [sum(played.waits[name]) / len(played.waits[name]) for name in queue_core.CLASSES]
    assert waits == sorted(waits, reverse=True)
    # Of each queue the three classes, and what starts at once.
    assert played.most_looked < 500


def test_it_measures_the_products_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the decision is worse, so is the figure: with twice the need it leaves more unused."""
    before, short = queue_core.play(10), quotas.Account.short
    monkeypatch.setattr(
        quotas.Account, "short", lambda self, need: short(self, tuple(2 * each for each in need))
    )
    worse = queue_core.play(10)
    assert worse.use_pct < before.use_pct - 5
    assert worse.seconds > before.seconds


def test_the_limit_keeps_the_quotas_too() -> None:
    """The least that is done for the same test ends about when the work does."""
    played = queue_core.bare(10)
    assert queue_core.work_bound(10) <= played.seconds <= 1.1 * queue_core.work_bound(10)
    assert played.use_pct >= 90

"""The autoscaling benchmark: its bound, what is paid for, and that it runs the product's decisions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from benchmarks import autoscaling, cluster_log, exam_day
from benchmarks.pool_days import Job, PoolDays

from labfleet.decisions import parking
from labfleet.decisions.pools import boot_odds, need, policies
from labfleet.resources.amounts import Amounts
from labfleet.resources.pool import Scaling, ScalingPolicy

WHOLE = Amounts(cpu_milli=64_000, memory_mib=1024, labs=1)
SIZE = cluster_log.WORKER


def job(submit: int, seconds: int = 3600, share: float = 1.0) -> Job:
    """A job of this share of a worker's CPUs."""
    amounts = Amounts(cpu_milli=int(64_000 * share), memory_mib=1024, labs=1)
    return Job(submit, seconds, seconds, amounts, (share, 0.002))


def figures(jobs, **rules) -> dict[str, float]:
    """What a pool with these rules makes of the jobs."""
    played = PoolDays(jobs, SIZE, Scaling(max_workers=1000, **rules)).play()
    return autoscaling.figures(played, cluster_log.bound(jobs))


def test_the_bound_is_of_whole_workers_and_of_the_larger_need():
    """Two halves at once are one worker, a half after them is one too: two hours in all."""
    jobs = [job(0, share=0.5), job(0, share=0.5), job(3600, share=0.5)]
    assert cluster_log.bound(jobs) == 2
    assert cluster_log.bound([job(0), job(0, share=0.01)]) == 2


def test_a_worker_is_paid_for_from_its_decision_to_its_end():
    """One hour of work: five minutes of boot and the job; nobody waits longer than boot and a tick."""
    found = PoolDays([job(0)], SIZE, Scaling(max_workers=9)).play()
    assert found.waits == [300]
    assert found.worker_hours == pytest.approx(1 + 300 / 3600, abs=0.02)
    assert figures([job(0)], min_workers=1)["p95_wait_s"] == 300


def test_spares_shorten_waits_and_cost_hours():
    """With a spare the second job finds a worker up, and the hours are more."""
    jobs = [job(0, 20_000), job(2000), job(9000)]
    bare, spared = figures(jobs), figures(jobs, spare_workers=1)
    assert spared["mean_wait_s"] < bare["mean_wait_s"]
    assert spared["worker_hours"] > bare["worker_hours"]


@pytest.mark.parametrize(
    ("where", "name", "broken", "moves"),
    [
        (need, "packed", lambda wanting, view, now: 0, "mean_wait_s"),
        (need, "packed", lambda wanting, view, now: len(wanting), "worker_hours"),
        (parking, "packed", lambda serving, waiting, *, now: (list(waiting), frozenset()),
         "worker_hours"),
    ],
)  # fmt: skip
def test_a_broken_decision_of_the_product_moves_the_figure(where, name, broken, moves, monkeypatch):
    """Without packing people wait; a worker for each, or none counted that boots, costs hours."""
    jobs = [job(0, 40_000, 0.3) for _ in range(12)]
    rules = {"spare_workers": 1} if name == "packed" and moves == "mean_wait_s" else {}
    sound = figures(jobs, **rules)
    monkeypatch.setattr(where, name, broken)
    assert figures(jobs, **rules)[moves] > sound[moves]


def test_an_exam_day_costs_little_and_learns_from_the_days_before():
    """On three days no session is late at less than 1.2 of the bound; never the same boots twice."""
    found = exam_day.days(3)
    assert (found["late_days"], found["bound_worker_hours"]) == (0, pytest.approx(60.8))
    assert 1 < found["ratio"] < 1.2


def test_an_exam_day_whose_odds_are_broken_is_late(monkeypatch):
    """Where each boot is taken to be up in time for sure, no worker makes up for one that failed."""
    monkeypatch.setattr(boot_odds.BootOdds, "up_within", lambda odds, seconds, age=0.0: 1.0)
    assert exam_day.days(3)["late_days"] == 3


def test_what_is_fixed_is_fixed_on_the_days_before():
    """Busy hours, a timetable for each hour and the peak, of other jobs than those that are judged."""
    found = autoscaling.fixed([job(3600 * 10), job(3600 * 10), job(3600 * 34), job(3600 * 3)])
    assert found["two_spares_at"][-1] == 10
    assert (found["timetable"][10], found["timetable"][20], found["peak"]) == (2, 0, 2)
    rules = autoscaling.policies(found)
    assert {each.policy for each in rules.values()} == set(ScalingPolicy) == set(policies.TABLE)
    assert timedelta(seconds=rules["NEED_BASED"].empty_seconds) == timedelta(minutes=10)

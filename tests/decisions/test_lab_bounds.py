"""What a lab should ask for, by what past sessions of its family used (facts/fleet-bugs.md#t25)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import lab_bounds
from labfleet.decisions.lab_bounds import Asked
from labfleet.resources.amounts import Amounts
from labfleet.resources.history import Run, RunKind, Source, Use
from labfleet.resources.lab_bound import LabBound
from labfleet.resources.prediction import Evidence

T0 = datetime(2026, 11, 30, 8, tzinfo=UTC)
DECLARED = Amounts(cpu_milli=8000, memory_mib=8192, storage_mib=40_000, labs=1, nodes=2)
PEAK = st.floats(1, 1e12, allow_nan=False)


def session(number: int, memory: float | None, **changes: Any) -> Run:
    """Return a past session whose memory had that peak; None: nobody measured it."""
    fields: dict[str, Any] = {
        "kind": RunKind.SESSION,
        "uid": f"u{number}",
        "family": "campus",
        "parameters": {"definition": "campus"},
        "allocation": {"memory_mib": 8192, "cpu_milli": 8000},
        "use": {} if memory is None else {"memory_mib": Use(peak=memory)},
        "ended_at": T0 + timedelta(hours=number),
    }
    return Run(**{**fields, **changes})


def memory(runs: list[Run], **changes: Any) -> LabBound:
    """Return what runs in the order of their ends say of memory."""
    asked = Asked(**{"name": "campus", "declared": DECLARED, **changes})
    return lab_bounds.bounds(runs[::-1], asked)["memory_mib"]


def test_too_few_sessions_give_no_bound() -> None:
    """Below the least number of sessions figures are told, and no bound (T25: one sample)."""
    found = memory([session(1, 1000.0)])
    assert found.bound is None
    assert (found.latest, found.max, found.sessions) == (1000.0, 1000.0, 1)
    assert "1 of the 5" in found.sentence


def test_few_sessions_state_what_few_can_state() -> None:
    """Five sessions state a coverage of 5 in 6, with a margin over the greatest of them."""
    found = memory([session(n, 1000.0 + n) for n in range(5)])
    assert found.bound == 1155
    assert found.coverage == 5 / 6
    assert found.evidence is Evidence.EXACT
    assert "95 can" not in found.sentence
    assert "from 19 on" in found.sentence


def test_many_sessions_state_what_was_asked() -> None:
    """From nineteen sessions on the asked coverage is stated, and how it held is told beside it."""
    found = memory([session(n, 1000.0 + n % 10) for n in range(200)])
    assert found.coverage == 0.95
    assert found.bound == 1009
    assert found.achieved is not None
    assert found.achieved >= 0.95
    assert found.exceeded == 0
    assert (found.p50, found.latest) == (1004.5, 1009.0)


def test_what_nodes_reserve_is_the_floor_of_memory() -> None:
    """Memory is never recommended below what the nodes' own ram reserves, and the sentence says so."""
    runs = [session(n, 500.0) for n in range(30)]
    found = memory(runs, reserved=Amounts(memory_mib=2048))
    assert found.bound == 2048
    assert "the nodes' own ram reserves 2048" in found.sentence


def test_what_was_achieved_is_judged_by_the_bounds_that_are_given() -> None:
    """Rising peaks pass the bound of those before them, unless the nodes' own ram is above all."""
    runs = [session(n, 500.0 + 200 * n) for n in range(30)]
    rising = memory(runs)
    assert rising.achieved is not None
    assert rising.achieved < 0.95
    assert memory(runs, reserved=Amounts(memory_mib=8192)).achieved == 1.0


def test_nothing_is_recommended_above_the_largest_worker() -> None:
    """A peak beyond any machine is lowered to the largest worker and said to be (T25: 100 T)."""
    runs = [session(n, 1e8) for n in range(8)]
    found = memory(runs, most=Amounts(memory_mib=65_536))
    assert found.bound == 65_536
    assert found.capped
    assert "largest worker" in found.sentence


def test_sessions_starved_of_memory_count() -> None:
    """Ten labs ended for want of memory are ten sessions that needed more (T25: all OOM)."""
    runs = [session(n, None, censored="OOMKilled") for n in range(10)]
    found = memory(runs)
    assert found.sessions == 10
    assert found.bound is not None
    assert found.bound >= 8192 * 1.2


@pytest.mark.parametrize("reason", ["NoRoom", "RoomHeld", "WorkerLost"])
def test_who_was_cut_off_for_another_reason_did_not_starve(reason: str) -> None:
    """Whatever letters its name has: nothing is known of what such a lab needed."""
    assert memory([session(n, None, censored=reason) for n in range(10)]).sessions == 0


def test_a_peak_of_nothing_was_not_measured() -> None:
    """A counter that read 0 says nothing of the lab (T25: counter reset)."""
    runs = [session(n, 0.0) for n in range(10)] + [session(20, 900.0)]
    assert memory(runs).sessions == 1


def test_a_session_that_was_cut_off_counts_only_by_what_is_new() -> None:
    """One cancelled early says nothing below what was known, and counts when it used more."""
    whole = [session(n, 1000.0) for n in range(6)]
    found = memory([*whole, session(7, 10.0, censored="CANCELLED")])
    assert (found.sessions, found.left_out, found.latest) == (6, 1, 1000.0)
    found = memory([*whole, session(7, 5000.0, censored="CANCELLED")])
    assert (found.sessions, found.left_out, found.max) == (7, 0, 5000.0)
    found = memory([session(7, 10.0, censored="CANCELLED")])
    assert (found.sessions, found.left_out) == (0, 1)
    assert found.sentence.startswith("no whole session was measured yet; 1 session cut off")


def test_what_a_caller_reports_of_its_own_run_does_not_count() -> None:
    """Only what was measured, or brought in by an operator, teaches what others get."""
    runs = [session(n, 1.0, source=Source.REPORTED) for n in range(10)]
    assert memory(runs).sessions == 0


def test_other_versions_are_weaker_evidence() -> None:
    """Sessions of other versions of the family alone are named as such."""
    assert (
        memory([session(n, 9.0) for n in range(9)], name="campus-v2").evidence is Evidence.CLOSEST
    )


@given(st.lists(PEAK, min_size=5, max_size=60), st.integers(0, 65_536), st.integers(1, 131_072))
def test_a_bound_holds_what_it_says(peaks: list[float], reserved: int, most: int) -> None:
    """A bound is never below the floor, nor above floor and largest worker, and counts what exceeds it."""
    runs = [session(n, each) for n, each in enumerate(peaks)]
    found = memory(runs, reserved=Amounts(memory_mib=reserved), most=Amounts(memory_mib=most))
    assert found.bound is not None
    assert max(reserved, 250) <= found.bound <= max(reserved, 250, most)
    assert found.exceeded == sum(each > found.bound for each in peaks)
    assert found.exceeded == 0 or found.capped or found.coverage >= 0.95


@given(st.lists(st.floats(300, 1e6), min_size=40, max_size=120))
def test_a_stated_share_stays_within(peaks: list[float]) -> None:
    """Without limits no more than the share that is not covered lies above the bound."""
    found = memory([session(n, each) for n, each in enumerate(peaks)])
    assert found.exceeded <= len(peaks) * (1 - found.coverage)


@given(st.lists(PEAK, min_size=5, max_size=30), st.integers(0, 10**6), st.booleans())
def test_no_bound_is_below_what_cml_reserves(peaks: list[float], least: int, large: bool) -> None:
    """Of CPU as of memory: a node waits without an end for what is not there (facts/cml.md#states)."""
    reserved = Amounts(cpu_milli=least, memory_mib=least)
    most = Amounts(cpu_milli=10**7, memory_mib=10**7) if large else None
    runs = [
        session(n, peak, use={"cpu_milli": Use(peak=peak), "memory_mib": Use(peak=peak)})
        for n, peak in enumerate(peaks)
    ]
    asked = Asked(name="campus", declared=DECLARED, reserved=reserved, most=most)
    found = lab_bounds.bounds(runs, asked)
    for name in ("cpu_milli", "memory_mib"):
        bound = found[name].bound
        assert bound is not None
        assert bound >= least

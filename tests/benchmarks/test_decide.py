"""What `decide` and `queue` measure is the product, and their load is what they say it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import queue
from benchmarks import runs_system as system
from benchmarks.polls import Child
from benchmarks.runs_client import ACTIVE, Load

BROKEN = """
import sys
from labfleet.app import main
from labfleet.decisions.admission import chance
chance.risk = lambda *given: 0.0
chance._alone = lambda *given: ()
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("how", "outcome"), [
    (system.PRODUCT, "denied"), (("-c", BROKEN), "approved"),
])  # fmt: skip
def test_the_product_decides(tmp_path: Path, how: tuple[str, ...], outcome: str) -> None:
    """In a cluster of hardly any size all is denied, unless the product's rule is broken.

    It starts a server each time, as the benchmark does: nothing less shows what is measured.
    """
    system.prepare(tmp_path / "data", 200, system.capacity(0.01))
    with system.product(tmp_path / "data", -1, how=how) as served:
        child = Child("runs_client", -1, served.port, 2, served.token, "runs")
        try:
            found = system.asks(child, decisions=6)
        finally:
            child.end()
        assert served.cpu() > 0
    assert found["outcomes"] == {outcome: 6}


def test_every_second_request_ends_the_oldest_run() -> None:
    """And no more than ACTIVE live, so that a cluster with room for as many denies half."""
    load = Load("runs", "token")
    load.live.extend((b"run-%d" % number, b"{}") for number in range(ACTIVE + 1))
    ended = load.completion()
    assert ended is not None
    assert b'"simulation_id":"run-0"' in ended
    assert load.completion() is None
    load.owed = 2
    ended = load.completion()
    assert ended is not None
    assert b'"simulation_id":"run-1"' in ended


def test_requests_state_no_cost() -> None:
    """Twenty charts with parameters that differ, and nothing of what a run will need."""
    load = Load("runs", "token")
    load.end, load.left = float("inf"), 1000
    bodies = []
    while (found := load.next()) is not None:
        bodies.append(json.loads(found[0].partition(b"\r\n\r\n")[2]))
    assert len({each["chart"] for each in bodies}) == 20
    assert len({json.dumps(each) for each in bodies}) > 900
    assert not any({"cost", "duration_seconds"} & set(each) for each in bodies)


def test_the_workloads_are_kueues() -> None:
    """15,000 of them, whose work fills all quotas for 66 s."""
    jobs = queue.jobs_of(5, 6, 1.0, objects=True)
    assert len(jobs) == 15_000
    assert len({each["queue"] for each in jobs}) == 30
    assert sum(each["units"] * each["seconds"] for each in jobs) / (30 * 20) == pytest.approx(66)

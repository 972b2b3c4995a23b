"""`ports`: how all workers' ports are used, and which of one are, by whom and why."""

from __future__ import annotations

import pytest

USE = {
    "first": 2000, "last": 7999, "tcp": {"used": 1, "held": 2, "free": 5997},
    "udp": {"used": 0, "held": 0, "free": 6000},
}  # fmt: skip
PORTS = [
    {"state": "used", "transport": "tcp", "first": 2000, "last": 2000, "name": "r1_serial",
     "session": "s-1", "owner": "kim", "since": "2026-11-27T11:00:00Z", "why": ""},
    {"state": "held", "transport": "tcp", "first": 5041, "last": 5042, "name": "", "session": "",
     "owner": "", "since": "2026-11-27T11:50:00Z", "why": "lab lab-9 names it"},
]  # fmt: skip


@pytest.fixture
def fleet(stub):
    """Two workers, of which one is over."""
    stub.put("Worker", "w-1", status={"phase": "ACTIVE", "ports": USE})
    stub.put("Worker", "w-2", status={"phase": "TERMINATED", "ports": None})
    stub.answers["GET /api/v1/workers/w-1/ports"] = (
        200, {"worker": "w-1", "use": USE, "ports": PORTS, "more": 3},
    )  # fmt: skip
    stub.answers["GET /api/v1/workers/w-2/ports"] = (
        200, {"worker": "w-2", "use": None, "ports": [], "more": 0},
    )  # fmt: skip
    return stub


def test_all_workers_that_have_ports_are_listed(run, fleet):
    """One row a worker with its range; one that is over has no ports and no row."""
    done = run("ports")
    assert done.code == 0
    assert done.out.splitlines()[1].split() == [
        "w-1", "2000-7999", "1", "2", "5997", "0", "0", "6000",
    ]  # fmt: skip
    assert "w-2" not in done.out
    assert run("ports", "-o", "json").json["items"][0]["use"] == USE


def test_one_workers_ports_say_whose_they_are_and_why(run, fleet):
    """A stretch is one row; what is not listed is said."""
    done = run("ports", "worker/w-1")
    assert done.code == 0
    used, held = done.out.splitlines()[1:]
    assert used.split()[:5] == ["tcp/2000", "used", "r1_serial", "s-1", "kim"]
    assert held.split()[:2] == ["tcp/5041-5042", "held"]
    assert "lab lab-9 names it" in held
    assert "2 held" in done.err
    assert "3 more are not listed" in done.err
    assert "is over" in run("ports", "w-2").err


def test_a_release_says_which_ports_and_why(run, fleet):
    """A number or a stretch, of one lab or any; without a reason nothing is sent."""
    fleet.answers["POST /api/v1/workers/w-1/ports/release"] = (200, {"worker": "w-1", "ports": []})
    done = run("ports", "w-1", "--release", "udp/5041-5042", "--lab", "lab-9", "-m", "it is off")
    assert (done.code, done.out) == (0, "worker/w-1: udp/5041-5042 may be given out\n")
    assert fleet.calls("POST")[-1].body == {
        "transport": "udp", "first": 5041, "last": 5042, "lab": "lab-9", "reason": "it is off",
    }  # fmt: skip
    assert run("ports", "w-1", "--release", "5041", "-m", "x").code == 0
    sent = fleet.calls("POST")
    assert sent[-1].body == {"transport": "tcp", "first": 5041, "lab": "", "reason": "x"}
    for wrong in (
        ["w-1", "--release", "5041"], ["w-1", "--release", "serial:1", "-m", "x"],
        ["--release", "5041", "-m", "x"], ["w-1", "-m", "x"],
    ):  # fmt: skip
        assert run("ports", *wrong).code == 2
    assert len(fleet.calls("POST")) == len(sent)

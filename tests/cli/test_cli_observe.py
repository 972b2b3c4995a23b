"""`observe`: asked for, waited for, and what was seen is said."""

from __future__ import annotations

import pytest

AT, BEFORE = "2026-11-27T12:00:00Z", "2026-11-27T11:00:00Z"
SEEN = {
    "observedAt": AT, "observer": "manual:ada", "totalCpuCores": 2.0, "totalMemoryMb": None,
    "actualNodeCount": 2, "gaps": [f"node {n}: memory unknown" for n in range(7)],
}  # fmt: skip


def lab(stub, *facts, handled=AT, **status):
    """A running session of whose lab a look is asked for."""
    made = stub.put(
        "Session", "s-1", spec={"definition": "two", "observeRequested": AT},
        status={"phase": "RUNNING", "conditions": list(facts), "observeHandled": handled, **status},
    )  # fmt: skip
    stub.answers["POST /api/v1/sessions/s-1/observe"] = (202, made)
    return stub


def fact(name, status, message=""):
    """A condition."""
    return {"type": name, "status": status, "reason": "x", "message": message}


def test_what_was_seen_is_said(run, stub):
    """Allocation, use, ports and gaps, a line each; unknown is never 0."""
    drift = fact("PortDrift", "True", "added PC_serial 5041")
    lab(stub, fact("Collected", "True"), drift, observedResources=SEEN,
        used={"memory_mib": {"peak": 512}}, observedPorts={"PC_serial": 5041})  # fmt: skip
    done = run("observe", "s-1")
    assert done.code == 0
    assert "Observed:   2026-11-27 12:00:00Z (" in done.out
    assert "Allocation: 2 cores\n" in done.out
    assert "Peak use:   512 MiB of memory\n" in done.out
    assert "Ports:      drift: added PC_serial 5041\n" in done.out
    assert "2 things more" in done.out
    assert stub.calls("POST")[-1].path == "/api/v1/sessions/s-1/observe"


def test_a_look_that_failed_says_why_and_what_was_known_stays(run, stub):
    """Exit 3 with the reason; ports that were never seen are unknown."""
    lab(stub, fact("Collected", "False", "CML gave no answer within 30 s"))
    done = run("observe", "session/s-1")
    assert done.code == 3
    assert "CML gave no answer within 30 s" in done.err
    assert "Ports:      unknown: not seen yet" in done.out


@pytest.mark.parametrize("handled", [None, BEFORE])
def test_a_look_that_does_not_come_is_a_timeout(run, stub, handled):
    """An answer to an earlier request is none to this one; --no-wait does not wait."""
    silent = fact("HostReachable", "Unknown", "CML on w-1 does not answer")
    lab(stub, silent, handled=handled)
    late = run("observe", "s-1", "--timeout", "3s")
    assert late.code == 8
    assert "does not answer" in late.err
    asked = run("observe", "s-1", "--no-wait")
    assert (asked.code, asked.out) == (0, "session/s-1: an observation is asked for\n")


def test_explain_shows_drift_while_there_is_some(run, stub):
    """A fact that is bad when True is told then, beside a decision too, and not when it is mended."""
    answer = {"kind": "Session", "name": "s-1", "namespace": "default", "phase": "RUNNING",
              "summary": "running", "decision": {"outcome": "assigned"}}  # fmt: skip
    for status in ("True", "False"):
        drift = fact("PortDrift", status, "added PC_serial 5041")
        facts = [drift, fact("PortsOpen", "True"), fact("HostReachable", "Unknown")]
        stub.answers["GET /api/v1/sessions/s-1/explain"] = (200, {**answer, "conditions": facts})
        told = run("explain", "session/s-1").out
        assert ("PortDrift=True (x): added PC_serial 5041" in told) == (status == "True")
        assert "PortsOpen" not in told
        assert "HostReachable=Unknown" in told

"""`explain`, `describe` and `events`: what people read."""

from __future__ import annotations

import pytest

DECISION = {
    "outcome": "waiting", "reason": "NoCapacity", "message": "best worker w-1 is short 4 CPU",
    "at": "2026-11-27T11:58:00Z", "requested": {"cpuMilli": 14000, "memoryMib": 53248, "ports": 6},
    "chosen": None, "evaluated": 9, "rejectedByReason": {"NoCapacity": 7, "NotReady": 2},
    "candidates": [
        {"name": "w-1", "fits": False, "reasons": ["NoCapacity"], "score": None, "shortages": [
            {"dimension": "cpu_milli", "wanted": 14000, "free": 10000},
            {"dimension": "nodes", "wanted": 20, "free": 5}]},
        {"name": "w-2", "fits": False, "reasons": ["NotReady"], "shortages": []},
    ],
}  # fmt: skip
EXPLANATION = {
    "summary": "no worker has room", "phase": "PENDING", "since": "2026-11-27T11:55:00Z",
    "conditions": [{"type": "Scheduled", "status": "False", "reason": "NoCapacity",
                    "message": "", "lastTransitionTime": "2026-11-27T11:55:00Z"}],
    "decision": DECISION, "waitingFor": ["capacity (NoCapacity)"],
    "nextDeadline": {"at": "2026-11-27T12:10:00Z", "what": "it expires"}, "next": ["..."],
}  # fmt: skip


@pytest.fixture
def waiting_session(stub):
    """A session that waits, with its explanation and its events."""
    stub.put("Session", "s-1", spec={"owner": "ada", "title": "a\x1b[1mb"}, status={
        "phase": "PENDING", "phaseSince": "2026-11-27T11:55:00Z", "decision": DECISION,
        "conditions": EXPLANATION["conditions"]})  # fmt: skip
    stub.answers["GET /api/v1/sessions/s-1/explain"] = (200, EXPLANATION)
    stub.answers["GET /api/v1/sessions/s-1/events"] = (200, {"items": [
        {"revision": 5, "type": "MODIFIED", "at": "2026-11-27T11:58:00Z", "actor": "scheduler",
         "reason": "NoCapacity", "requestId": "r-2", "phase": "PENDING", "message": "no room"},
        {"revision": 3, "type": "ADDED", "at": "2026-11-27T11:55:00Z", "actor": "ada",
         "reason": "", "requestId": "r-1", "phase": None, "message": ""}]})  # fmt: skip
    return stub


def test_explain_says_why_and_what_is_short(run, waiting_session):
    """Sentences first, then for each worker what is missing, wanted and free."""
    said = run("explain", "session/s-1").out
    assert "session/s-1: PENDING since 2026-11-27 11:55:00Z (5m ago)" in said
    assert "Why:       no worker has room" in said
    assert "waiting (NoCapacity)" in said
    assert "Needs:     14 CPU, 52GiB memory, 6 ports" in said
    assert "9 candidates; rejected: NoCapacity 7, NotReady 2" in said
    assert "4 CPU (wants 14 CPU, free 10 CPU)" in said
    assert "15 licensed nodes (wants 20 licensed nodes, free 5 licensed nodes)" in said
    assert "Waits for: capacity (NoCapacity)" in said
    assert "Next:      it expires at 2026-11-27 12:10:00Z (in 10m)" in said


def test_explain_for_programs_is_the_answer_itself(run, waiting_session):
    """With -o json the structured explanation is passed on unchanged."""
    assert run("explain", "s", "s-1", "-o", "json").json == EXPLANATION


def test_describe_shows_units_ages_and_conditions(run, waiting_session):
    """Everything about an object, readable, without control characters."""
    waiting_session.put("Worker", "w-1", status={
        "phase": "READY", "capacity": {"cpuMilli": 48000, "memoryMib": 192512}},
        spec={"machine": {"limits": {"boot": 1500}, "hourlyPriceUsd": 4.5}})  # fmt: skip
    said = run("describe", "worker/w-1", "--no-events").out
    assert "cpuMilli: 48 CPU" in said
    assert "memoryMib: 188GiB memory" in said
    assert "hourlyPriceUsd: 4.5 USD" in said
    said = run("describe", "session/s-1").out
    assert "Scheduled" in said
    assert "5m ago" in said
    assert "scheduler" in said
    assert "\x1b" not in said


def test_events_say_who_and_why(run, waiting_session):
    """Events are shown oldest first with actor and reason."""
    rows = run("events", "session/s-1", "--no-headers").out.splitlines()
    assert [row.split()[0] for row in rows] == ["3", "5"]
    assert "scheduler" in rows[1]
    assert "NoCapacity" in rows[1]
    assert len(run("events", "s/s-1", "-o", "json").json["items"]) == 2
    alone = run("events")
    assert (alone.code, "-w" in alone.err) == (2, True)

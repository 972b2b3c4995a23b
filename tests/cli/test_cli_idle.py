"""`explain --idle` and `idle enable|disable`."""

from __future__ import annotations

READING = {
    "worker": "w1",
    "verdict": "busy",
    "told": "it is kept: 2 nodes run on the server, ours or not",
    "since": "2026-11-27T11:30:00Z",
    "idleMinutes": 30.0,
    "timeoutMinutes": 60,
    "stopAt": "2026-11-27T12:30:00Z",
    "checkedAt": "2026-11-27T11:59:00Z",
    "signals": [
        {"name": "nodes", "verdict": "busy", "value": "2", "told": "2 nodes run",
         "at": "2026-11-27T11:59:30Z"},
        {"name": "snooze", "verdict": "held", "value": "5 min", "told": "started just now",
         "at": "2026-11-27T12:05:00Z"},
    ],
    "recent": [{"category": "start_lab", "user": "u-7", "at": "2026-11-27T11:30:00Z"}],
}  # fmt: skip


def test_explain_idle_shows_the_signals_and_what_keeps_the_worker(run, stub):
    """Verdict, reason, when it would be stopped, and the table with ages."""
    stub.answers["GET /api/v1/workers/w1/idle"] = (200, READING)
    said = run("explain", "worker", "w1", "--idle").out
    for part in ("worker/w1: busy", "2 nodes run on the server", "30 of 60 minutes", "Stop at:",
                 "SIGNAL", "start_lab by u-7"):  # fmt: skip
        assert part in said, part
    assert "30s" in next(line for line in said.splitlines() if line.startswith("nodes"))
    assert run("explain", "worker/w1", "--idle", "-o", "json").json == READING


def test_only_workers_are_idle(run):
    """Anything else is a usage error with an example."""
    done = run("explain", "pool/p1", "--idle")
    assert done.code == 2
    assert "only workers" in done.err


def test_the_switch_of_single_workers(run, stub):
    """One request for each, said in words."""
    for name in ("w1", "w2"):
        stub.put("Worker", name)
    assert "never stopped for idleness" in run("idle", "disable", "w1", "worker/w2").out
    assert [each.body for each in stub.calls("POST")] == [{"enabled": False}, {"enabled": False}]
    assert "may be stopped" in run("idle", "enable", "w1").out


def test_idle_alone_is_a_table_of_all_workers(run, stub):
    """Whether it is used, how long it was not, when it stops and what keeps it; programs get all."""
    items = [
        {**READING, "worker": "w1", "idleMinutes": 12.4, "keptBy": ["sessions"], "stopAt": None},
        {**READING, "worker": "w2", "verdict": "idle", "autoStopped": True, "keptBy": []},
    ]
    stub.answers["GET /api/v1/fleet/idle"] = (200, {"items": items})
    head, first, second = run("idle").out.splitlines()
    assert head.split() == ["WORKER", "VERDICT", "UNUSED", "STOP", "KEPT", "BY", "WHY"]
    assert "12 of " in first
    assert "sessions" in first
    assert second.split()[:2] == ["w2", "stopped"]
    assert run("idle", "-o", "json").json["items"][0]["worker"] == "w1"
    assert run("idle", "-q").out == "worker/w1\nworker/w2\n"
    stub.answers["GET /api/v1/fleet/idle"] = (200, {"items": items, "leftOut": 9000})
    assert "and 9000 more workers that are not listed" in run("idle").err
    stub.answers["GET /api/v1/fleet/idle"] = (200, {"items": []})
    assert "there is no worker" in run("idle").err

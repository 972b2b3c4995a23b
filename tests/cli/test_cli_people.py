"""`explain`, `describe` and `events`: what people read."""

from __future__ import annotations

import re

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
    assert "CPU: 48\n" in said
    assert "Memory: 188GiB\n" in said
    assert "Hourly price: 4.5 USD" in said
    assert "Boot: 1500 s (25m)" in said
    assert "cpuMilli" not in said
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


def test_describe_without_a_name_shows_every_object(run, stub):
    """`describe pools`, as the page offers it, shows all of them; -l chooses."""
    stub.put("Pool", "a", spec={"scaling": {"cooldownUpSeconds": 30}, "template": "metal"})
    stub.put("Pool", "b", labels={"x": "y"})
    done = run("describe", "pools", "--no-events")
    assert done.code == 0
    assert done.out.count("Kind:        Pool") == 2
    assert "Cooldown up: 30 s" in done.out
    assert len(run("describe", "pools", "-o", "json").json["items"]) == 2
    assert run("describe", "pools", "-l", "x=y").code == 0
    assert [each.query["labelSelector"] for each in stub.seen if "labelSelector" in each.query] == [
        "x=y"
    ]
    assert "No workers in namespace default." in run("describe", "workers").err
    assert run("describe", "pool/a", "-l", "x=y").code == 2


def test_describe_keeps_the_keys_of_peoples_data(run, stub):
    """Tags and labels are shown as they were written, fields of ours in words."""
    machine = {
        "provider": {"kind": "aws", "amiId": "ami-1", "tags": {"costCenter": "x1", "nameMib": "2"}}
    }
    stub.put("Template", "metal", spec={"machine": machine})
    said = run("describe", "template/metal", "--no-events").out
    assert "costCenter: x1" in said
    assert "nameMib: 2" in said
    assert "AMI ID: ami-1" in said
    assert not re.search(
        r"^ *[a-z]+[A-Z]\w*: ", said.replace("costCenter", "").replace("nameMib", ""), re.MULTILINE
    )


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("get", "session/no"), "See what there is: labfleet get sessions."),
        (("get", "session/no", "-n", "exam"), "labfleet get sessions -n exam."),
        (("explain", "worker/no"), "labfleet get workers."),
        (("cordon", "no"), "labfleet get workers."),
        (("cancel", "no"), "labfleet get sessions."),
    ],
)
def test_hints_name_the_object(run, stub, argv, hint):
    """No hint holds a place to fill in: the object is known."""
    done = run(*argv)
    assert done.code == 4
    assert hint in done.err
    assert not re.search(r"\b(KIND|NAME)\b", done.err)


def test_a_conflicts_hint_names_the_object(run, stub):
    """A refused verb and a taken name say which object to look at."""
    stub.put("Worker", "w-1")
    stub.faults = [(409, '{"reason": "HostsSessions", "detail": "it hosts sessions"}')]
    assert "labfleet describe worker/w-1 -n exam." in run("cordon", "w-1", "-n", "exam").err
    stub.faults = [(412, '{"reason": "Stale", "detail": "it changed"}')]
    assert "labfleet get worker/w-1 -o yaml" in run("cordon", "w-1").err


def told(number, **fields):
    """An event as the API gives it."""
    at = f"2026-11-27T11:{number:02}:00Z"
    return {"revision": number, "type": "MODIFIED", "at": at, "actor": "pools", "reason": "StatusChanged",
            "message": "1 ready", "requestId": "", "phase": "READY", "uid": "u-1", **fields}  # fmt: skip


def test_events_that_repeat_are_one_row(run, stub):
    """Ten times "1 ready" is one row with the count; what differs stays a row of its own."""
    items = [told(1, type="ADDED", reason="Created", message=""), *(told(n) for n in range(2, 12)),
             told(12, reason="CancelAsked", message="", actor="ada"), told(13, message="", phase="STOPPING"),
             told(14, message="", phase="STOPPING")]  # fmt: skip
    stub.answers["GET /api/v1/pools/p/events"] = (200, {"items": items[::-1]})
    rows = run("events", "pool/p", "--no-headers").out.splitlines()
    assert [row.split()[0] for row in rows] == ["1", "11", "12", "14"]
    assert "1 ready (10 times since 2026-11-27 11:02:00Z)" in rows[1]
    assert rows[2].split()[-2:] == ["CancelAsked", "-"]
    assert "(2 times" in rows[3]
    assert len(run("events", "pool/p", "--no-headers", "-o", "wide").out.splitlines()) == 14


def test_events_of_two_lives_of_a_name_are_told_apart(run, stub):
    """Between an object and the next one of its name stands a line."""
    items = [told(1, type="ADDED"), told(2, type="DELETED"), told(3, type="ADDED", uid="u-2")]
    stub.answers["GET /api/v1/pools/p/events"] = (200, {"items": items[::-1]})
    first, _, second = run("events", "pool/p").out.partition("Another object got its name then:")
    assert ("DELETED" in first, "DELETED" in second, "ADDED" in second) == (True, False, True)


def test_an_event_of_the_settings_has_its_word_and_its_values(run, stub):
    """Old and new values stand under MESSAGE, the word under REASON."""
    values = "idle.enabled: false -> true (save money)"
    stub.answers["GET /api/v1/settings/fleet/events"] = (
        200, {"items": [told(1, reason=f"Changed {values}", message=values)]},
    )  # fmt: skip
    (row,) = run("events", "settings/fleet", "--no-headers").out.splitlines()
    assert f"Changed  {values}" in re.sub("  +", "  ", row)

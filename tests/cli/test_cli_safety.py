"""Deletes, drains and other verbs: who is asked, what is sent, how often."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def fleet(stub):
    """A worker with somebody's running session, and an empty one."""
    stub.put("Worker", "w-1", spec={"pool": "eu"}, status={"phase": "ACTIVE"})
    stub.put("Worker", "w-2", status={"phase": "READY"})
    stub.put("Pool", "eu")
    stub.put(
        "Session", "s-1", spec={"owner": "ada"},
        status={"phase": "RUNNING", "worker": "w-1", "end": "2026-11-27T12:30:00Z"},
    )  # fmt: skip
    stub.put("Session", "s-2", spec={"owner": "bob"}, status={"phase": "PENDING"})
    return stub


DANGEROUS = [
    ["delete", "worker/w-1"], ["delete", "pool", "eu"], ["delete", "session/s-1"],
    ["cancel", "s-1"], ["drain", "w-1", "--force"],
]  # fmt: skip


@pytest.mark.parametrize("argv", DANGEROUS)
def test_without_a_terminal_people_are_never_cut_off(run, fleet, argv):
    """Not a tty and no --yes: exit 2, names whose lab it is, nothing sent, no hang."""
    done = run(*argv)
    assert done.code == 2
    assert "s-1 of ada until 2026-11-27 12:30:00Z (in 30m)" in done.err
    assert {each.method for each in fleet.seen} == {"GET"}


@pytest.mark.parametrize("argv", DANGEROUS)
def test_yes_goes_on(run, fleet, argv):
    """--yes answers the question."""
    assert run(*argv, "--yes").code == 0
    assert {each.method for each in fleet.seen} - {"GET"}


@pytest.mark.parametrize(("answer", "code", "sent"), [("y\n", 0, 1), ("n\n", 1, 0), ("\n", 1, 0)])
def test_on_a_terminal_a_person_is_asked(run, fleet, answer, code, sent):
    """Only a yes goes on; the question is on stderr."""
    done = run("delete", "session/s-1", tty=True, stdin=answer)
    assert done.code == code
    assert len(fleet.calls("DELETE")) == sent
    assert "Go on?" in done.err
    assert "Go on?" not in done.out


@pytest.mark.parametrize(
    "argv",
    [["delete", "worker/w-2"], ["delete", "session/s-2"], ["drain", "w-2"], ["cancel", "s-2"]],
)
def test_nobody_is_asked_when_nobody_is_there(run, fleet, argv):
    """Without connected people there is no question, on a terminal or not."""
    assert run(*argv).code == 0
    assert run(*argv, tty=True).code in {0, 4}


def test_deleting_many_needs_a_yes(run, fleet):
    """A selector or --all is never followed unasked."""
    assert run("delete", "workers", "--all").code == 2
    assert run("delete", "workers", "--all", "--dry-run", "client").out.count("dry run") == 2
    assert not fleet.calls("DELETE")
    assert run("delete", "workers", "--all", "--yes").code == 0
    assert len(fleet.calls("DELETE")) == 2


def test_absent_objects_are_4_or_ignored(run, fleet):
    """Deleting what is not there is 4, unless that is fine."""
    assert run("delete", "worker/w-9").code == 4
    assert run("delete", "worker/w-9", "--ignore-not-found").code == 0


def test_drain_says_by_when_and_why(run, fleet):
    """Deadline, reason and force are sent as the API wants them."""
    done = run("drain", "worker/w-2", "--deadline", "2h", "-m", "kernel update")
    assert done.out == "worker/w-2 draining\n"
    sent = fleet.calls("POST")[-1]
    assert sent.path == "/api/v1/workers/w-2/drain"
    assert sent.body == {
        "deadline": "2026-11-27T14:00:00.000Z", "reason": "kernel update", "force": False,
    }  # fmt: skip
    run("drain", "w-2", "--undo")
    assert fleet.seen[-1].path == "/api/v1/workers/w-2/cancel-drain"


def test_a_drain_is_extended_or_ended_now(run, fleet):
    """Extending sends an instant; --now drains first what nobody drained."""
    assert run("drain", "w-2", "--extend", "1h").out.startswith("worker/w-2 drains until ")
    assert fleet.calls("POST")[-1].body == {"deadline": "2026-11-27T13:00:00.000Z"}
    fleet.put("Worker", "w-2", status={"phase": "READY"})
    assert run("drain", "w-2", "--now", "--yes").code == 0
    last = [(each.path.rsplit("/", 1)[1], each.body) for each in fleet.calls("POST")[-2:]]
    assert last == [("drain", {"reason": ""}), ("change-drain", {"force": True})]
    assert run("drain", "w-2", "--now", "--undo").code == 2


def test_drains_are_waited_for_together_and_not_after_a_refusal(run, fleet):
    """All within one deadline; what was refused is not waited for, nor is the end of a drain."""
    drained = [{"type": "Drained", "status": "True"}]
    for name in ("w-1", "w-2"):
        fleet.put("Worker", name, status={"phase": "DRAINING", "conditions": drained})
    done = run("drain", "w-1", "w-2", "--wait", "--yes")
    assert (done.code, done.err.count("is drained.")) == (0, 2)
    assert run("drain", "w-1", "--extend", "1h", "--wait").err.count("is drained.") == 1
    assert run("drain", "w-1", "--undo", "--wait").code == 2
    for name in ("w-1", "w-2"):
        fleet.put("Worker", name, status={"phase": "DRAINING"})
    late = run("drain", "w-1", "w-2", "--wait", "--yes", "--timeout", "10m")
    assert (late.code, "within 10m" in late.err) == (8, True)
    problem = json.dumps({"title": "t", "detail": "no", "reason": "WorkerEnding"})
    fleet.answers["POST /api/v1/workers/w-1/drain"] = (409, json.loads(problem))
    refused = run("drain", "w-1", "--wait", "--yes")
    assert (refused.code, "is drained" in refused.err) == (5, False)


def test_a_worker_is_stopped_and_started(run, fleet):
    """Both say what the worker shall become."""
    assert run("stop", "w-2", "--yes").out == "worker/w-2 is to stop\n"
    assert run("start", "w-2").out == "worker/w-2 is to start\n"
    bodies = [(each.path, each.body) for each in fleet.calls("POST")[-2:]]
    path = "/api/v1/workers/w-2/desired"
    assert bodies == [(path, {"desired": "Stopped"}), (path, {"desired": "Ready"})]


def test_cordon_and_uncordon(run, fleet):
    """Both are verbs of a worker and of nothing else."""
    assert run("cordon", "w-1").out == "worker/w-1 cordoned\n"
    assert run("uncordon", "w-1", "-o", "json").json["metadata"]["name"] == "w-1"
    assert [each.path.rsplit("/", 1)[1] for each in fleet.calls("POST")] == ["cordon", "uncordon"]
    assert run("cordon", "session/s-1").code == 2


def test_extend_by_and_to(run, fleet):
    """An extension is a duration or an instant with a zone, and exactly one of them."""
    assert run("extend", "session/s-1", "--by", "30m").code == 0
    assert run("extend", "s-1", "--to", "2026-11-27T14:00:00+01:00").code == 0
    assert [each.body for each in fleet.calls("POST")] == [
        {"end": "2026-11-27T13:00:00.000Z"}, {"end": "2026-11-27T13:00:00.000Z"},
    ]  # fmt: skip
    assert run("extend", "s-1", "--to", "2026-11-27T14:00:00").code == 2
    assert run("extend", "s-1").code == 2
    assert run("extend", "s-1", "--by", "1m", "--to", "2026-11-27T14:00:00Z").code == 2


def test_a_retry_reuses_the_idempotency_key(run, fleet):
    """A lost reply and a gateway's 504 are repeated under one key; the next call has another."""
    fleet.faults = [None, (504, ""), "drop after", (503, "{}")]
    assert run("drain", "w-2", "--yes").code == 0
    keys = [each.headers["idempotency-key"] for each in fleet.calls("POST")]
    assert len(keys) == 4
    assert len(set(keys)) == 1
    run("cordon", "w-2")
    assert fleet.seen[-1].headers["idempotency-key"] != ""


def test_retries_are_bounded_and_only_for_lost_calls(run, fleet):
    """Four attempts at most, and a 500 or 409 is never repeated."""
    fleet.faults = [None, *[(503, "{}")] * 9]
    assert run("cordon", "w-1").code == 9
    assert len(fleet.calls("POST")) == 4
    fleet.faults = [None, (500, json.dumps({"detail": "no"}))]
    assert run("cordon", "w-1").code == 1
    assert len(fleet.calls("POST")) == 5


def test_the_token_is_sent_and_never_shown(run, stub):
    """Every call carries the bearer token; `run` checks that no output holds it."""
    stub.faults = [(401, json.dumps({"detail": "the token has expired"}))]
    done = run("get", "workers", "-o", "json")
    assert done.code == 6
    assert stub.seen[0].headers["authorization"].startswith("Bearer lf_stub_")


def test_tokens_are_made_listed_and_revoked(run, stub, tmp_path):
    """A new token is shown once on stdout, or written to a private file and not shown."""
    made = run("token", "create", "--role", "user", "--owner", "ada", "--expires", "30d")
    assert made.out == "lf_t1_shownonce\n"
    assert stub.seen[-1].body["expires"] == "2026-12-27T12:00:00.000Z"
    file = tmp_path / "token"
    kept = run("token", "create", "--role", "user", "--owner", "ada", "--write", str(file))
    assert "shownonce" not in kept.out + kept.err
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("lf_t1_shownonce\n", 0o600)
    assert run("token", "list").out.splitlines()[1].split()[:3] == ["t1", "user", "ada"]
    assert run("token", "revoke", "t1").out == "token/t1 revoked\n"


def test_cancelling_what_is_over_does_nothing_and_says_so(run, fleet):
    """A session that has ended is not cancelled: exit 5 with its phase, and nothing is sent."""
    fleet.put("Session", "s-3", status={"phase": "COMPLETED"})
    done = run("cancel", "s-3", "--yes")
    assert (done.code, done.out) == (5, "")
    assert "session/s-3 is over already (COMPLETED)" in done.err
    assert not fleet.calls("POST")
    mixed = run("cancel", "s-2", "s-3", "--yes")
    assert (mixed.code, mixed.out) == (5, "session/s-2 cancelled\n")
    fleet.put("Session", "s-4", spec={"cancel": {"by": "ada"}}, status={"phase": "STOPPING"})
    again = run("cancel", "s-4", "--yes")
    assert (again.code, "was cancelled before" in again.out) == (0, True)


def test_cancel_and_extend_name_the_session_that_was_looked_at(run, fleet):
    """Another session that gets the name meanwhile is neither ended nor prolonged."""
    run("cancel", "s-1", "--yes")
    run("extend", "s-1", "--by", "30m")
    assert [each.query["uid"] for each in fleet.calls("POST")] == ["uid-s-1", "uid-s-1"]


def exam(stub):
    """Three sessions of an exam: in use, waiting, over."""
    phases = {"e-1": "RUNNING", "e-2": "PENDING", "e-3": "EXPIRED"}
    for name, phase in phases.items():
        stub.put("Session", name, labels={"exam": "a"},
                 status={"phase": phase, "end": "2026-11-27T12:30:00Z"})  # fmt: skip
    stub.objects = {key: each for key, each in stub.objects.items() if key[1] in phases}
    return stub


def test_an_exam_is_cancelled_by_its_label(run, stub):
    """-l takes all that are not over, after one question that says how many people use."""
    exam(stub)
    asked = run("cancel", "-l", "exam=a")
    assert asked.code == 2
    assert "2 sessions would be cancelled, 1 of them used by people now." in asked.err
    assert not stub.calls("POST")
    assert stub.seen[-1].query["labelSelector"] == "exam=a"
    done = run("cancel", "-l", "exam=a", "--yes", "-m", "fire alarm")
    assert done.out == "session/e-1 cancelled\nsession/e-2 cancelled\n"
    assert {each.body["reason"] for each in stub.calls("POST")} == {"fire alarm"}
    assert len(run("cancel", "-l", "exam=a", "--yes", "-o", "json").json["items"]) == 2
    assert run("cancel").code == 2
    assert run("cancel", "e-1", "-l", "exam=a").code == 2


def retried(stub, name, attempt):
    """Let the server answer the retry of a session with this attempt."""
    made = {"kind": "Session", "metadata": {"name": attempt}, "status": {"phase": "PENDING"}}
    stub.answers[f"POST /api/v1/sessions/{name}/retry"] = (201, made)


def test_a_failed_session_is_tried_again_by_name(run, stub):
    """The new attempt is named, with slot and reason as given; a second time says that it was."""
    stub.put("Session", "s-1", status={"phase": "FAILED"})
    retried(stub, "s-1", "s-1-2")
    done = run("retry", "s-1", "--now", "-m", "mended")
    assert (done.code, done.out) == (0, "session/s-1 is tried again as session/s-1-2\n")
    sent = stub.calls("POST")[-1]
    assert sent.body == {"reason": "mended", "slot": {"start": None, "end": None}}
    assert sent.query["uid"] == "uid-s-1"
    assert run("retry", "s-1", "-q").out == "s-1-2\n"
    assert stub.calls("POST")[-1].body["slot"] is None
    link = {"name": "s-1-2", "uid": "u"}
    stub.put("Session", "s-1", status={"phase": "FAILED", "retriedAs": link})
    again = run("retry", "s-1")
    assert (again.code, "was tried again before, as session/s-1-2 (PENDING)" in again.out) == (
        0,
        True,
    )
    for wrong in (["--now", "--end", "2026-11-27T18:00:00Z"], ["--start", "soon"], ["-l", "a=b"]):
        assert run("retry", "s-1", *wrong).code == 2
    assert run("retry").code == 2


def test_a_dry_run_of_a_retry_tells_what_would_fail_again(run, stub):
    """What fits no worker that can exist is not only "tried again"."""
    stub.put("Session", "e-6", status={"phase": "FAILED", "reason": "NeverFits"})
    told = run("retry", "e-6", "--dry-run", "client").out
    assert (
        "would be tried again, and fail again unless its definition or a template changed" in told
    )


def test_the_failed_ones_of_an_exam_are_tried_again_by_its_label(run, stub):
    """-l takes what failed or expired and nobody tried again, after one question or a dry run."""
    exam(stub)
    link = {"name": "e-5-2", "uid": "u"}
    stub.put("Session", "e-4", labels={"exam": "a"}, status={"phase": "FAILED"})
    stub.put("Session", "e-5", labels={"exam": "a"}, status={"phase": "FAILED", "retriedAs": link})
    dry = run("retry", "-l", "exam=a", "--dry-run", "client")
    assert dry.out == (
        "session/e-3 would be tried again (dry run)\nsession/e-4 would be tried again (dry run)\n"
    )
    named = run("retry", "e-1", "e-5", "--dry-run", "client").out
    assert "e-1 is RUNNING and would be refused" in named
    assert "e-5 was tried again as session/e-5-2" in named
    asked = run("retry", "-l", "exam=a")
    assert (asked.code, "2 sessions would be tried again." in asked.err) == (2, True)
    assert not stub.calls("POST")
    problem = {"status": 409, "reason": "SlotOver", "detail": "its slot was over"}
    stub.answers["POST /api/v1/sessions/e-3/retry"] = (409, problem)
    retried(stub, "e-4", "e-4-2")
    done = run("retry", "-l", "exam=a", "--yes")
    assert done.code == 5
    assert done.out == "session/e-4 is tried again as session/e-4-2\n"
    assert "session/e-3: its slot was over" in done.err


def test_an_exam_is_prolonged_by_its_label(run, stub):
    """Each session gets the time from its own end; who is refused is named, the others are not."""
    exam(stub)
    stub.put("Session", "e-2", labels={"exam": "a"}, status={"phase": "PENDING"})
    assert run("extend", "-l", "exam=a", "--by", "15m").code == 2
    assert not stub.calls("POST")
    done = run("extend", "-l", "exam=a", "--by", "15m", "--yes")
    assert (done.code, done.out[:20]) == (5, "session/e-1 ends 202")
    assert "Error: session/e-2 has no end yet: its time counts from its start" in done.err
    assert [each.body for each in stub.calls("POST")] == [{"end": "2026-11-27T12:45:00.000Z"}]
    stub.objects.clear()
    assert run("extend", "-l", "exam=b", "--by", "15m", "--yes").code == 0


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-27T22:00:00+01:00", "2026-11-27T21:00:00.000Z"),
        ("90m", "2026-11-27T13:30:00.000Z"),
    ],
)
def test_a_drain_ends_at_an_instant_or_after_a_span(run, fleet, text, instant):
    """--deadline takes both, and says which when it understands neither."""
    assert run("drain", "w-2", "--deadline", text).code == 0
    assert fleet.calls("POST")[-1].body["deadline"] == instant
    wrong = run("drain", "w-2", "--deadline", "tomorrow")
    assert (wrong.code, "neither a duration nor an instant" in wrong.err) == (2, True)


def test_a_command_keeps_one_connection(run, fleet):
    """Calls of one command go over one connection; a server that closed it costs no attempt."""
    fleet.faults = [None, None, None, "drop", None]
    assert run("cordon", "w-1", "w-2").code == 0
    assert len(fleet.calls("POST")) == 3
    assert fleet.connections == 2

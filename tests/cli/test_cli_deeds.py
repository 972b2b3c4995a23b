"""What did not happen is not claimed; what cannot happen is refused before anybody is asked."""

from __future__ import annotations

import pytest

from labfleet.cli.kit import deeds

AGAIN = [
    (["cordon", "w-1"], "cordoned", "was cordoned already"),
    (["uncordon", "w-1"], "uncordoned", "was not cordoned"),
    (["start", "w-1"], "is to start", "is to run already"),
    (["stop", "w-1", "-y"], "is to stop", "is to stop already"),
    (["drain", "w-1", "--undo"], "no longer draining", "was not draining"),
    (["idle", "enable", "w-1"], "may be stopped when idle", "may be stopped when idle already"),
    (["idle", "disable", "w-1"], "is never stopped for idleness",
     "is never stopped for idleness already"),
]  # fmt: skip
OTHERWISE = {
    "cordon": {"cordoned": False}, "uncordon": {"cordoned": True}, "start": {"desired": "Stopped"},
    "stop": {"desired": "Ready"}, "drain": {"drain": {"deadline": "2026-11-27T13:00:00Z"}},
    "idle": {"idleDetection": None},
}  # fmt: skip


@pytest.mark.parametrize(("argv", "said", "already"), AGAIN)
def test_a_verb_that_changed_nothing_says_so(run, stub, argv, said, already):
    """The first time it is done, the second time nothing was changed; both are fine for scripts."""
    stub.put("Worker", "w-1", spec=OTHERWISE[argv[0]], status={"phase": "ACTIVE"})
    first, second = run(*argv), run(*argv)
    assert (first.code, first.out) == (0, f"worker/w-1 {said}\n")
    assert (second.code, second.out) == (0, f"worker/w-1 {already}; nothing was changed\n")
    assert run(*argv, "-q").out == "w-1\n"


def test_what_is_not_there_is_empty_and_a_status_is_no_deed():
    """Settings that were never made have nothing set; what the fleet does meanwhile does not count."""
    assert deeds.unchanged(None, {"spec": {"idle": {}}})
    assert deeds.unchanged({"spec": {}, "status": {"a": 1}}, {"spec": {}, "status": {"a": 2}})
    assert not deeds.unchanged({"spec": {}}, {"spec": {"cordoned": True}})
    assert not deeds.unchanged({"spec": {}}, None)


def test_a_token_is_revoked_once(run, stub):
    """The second time it was revoked already."""
    assert run("token", "revoke", "t1").out == "token/t1 revoked\n"
    gone = {"items": [{"id": "t1", "revoked": "2026-11-27T11:00:00Z"}]}
    stub.answers["GET /api/v1/tokens"] = (200, gone)
    said = "token/t1 was revoked already; nothing was changed\n"
    assert run("token", "revoke", "t1").out == said


def test_a_context_in_use_is_said_to_be(run):
    """`context use` of the one that is used."""
    run("context", "set", "lab", "--url", "http://127.0.0.1:1")
    assert (
        run("context", "use", "lab").out == "context lab is in use already; nothing was changed\n"
    )


@pytest.mark.parametrize("phase", ["FAILED", "CANCELLED", "COMPLETED", "EXPIRED"])
@pytest.mark.parametrize("how", [["--by", "30m"], ["--to", "2026-11-27T18:00:00Z"]])
def test_what_is_over_is_not_extended(run, stub, phase, how):
    """As with `cancel`: exit 5 with the phase, and nothing is sent; also without an end of its own."""
    stub.put("Session", "ghost", status={"phase": phase})
    done = run("extend", "ghost", *how)
    assert done.code == 5
    assert f"Error: session/ghost is over already ({phase}); nothing was changed\n" in done.err
    assert not stub.calls("POST")


def test_what_has_not_started_has_nothing_to_extend(run, stub):
    """Its time counts from its start; no instant is asked for, which would be refused too."""
    stub.put("Session", "pend", status={"phase": "PENDING"})
    done = run("extend", "pend", "--by", "30m")
    assert done.code == 5
    assert "Error: session/pend has no end yet: its time counts from its start" in done.err
    assert "nothing to extend yet" in done.err
    assert "--to" not in done.err


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("session/a has no end yet", "session/a has no end yet"),
        ("session 'a' is over already", "session 'a' is over already"),
        ("no room on w-1", "session/a: no room on w-1"),
    ],
)
def test_each_refusal_of_many_names_its_session_once(run, stub, detail, told):
    """The name is added where the refusal has none."""
    for name in ("a", "b"):
        stub.put("Session", name, status={"phase": "RUNNING", "end": "2026-11-27T12:30:00Z"})
    problem = {"status": 409, "reason": "X", "detail": detail}
    stub.answers["POST /api/v1/sessions/a/extend"] = (409, problem)
    done = run("extend", "a", "b", "--by", "30m")
    assert f"Error: {told}\n" in done.err


@pytest.mark.parametrize(
    "text",
    ["2026-11-27T18:00:00Z", "2026-11-27 18:00:00Z", "2026-11-27 18:00Z", "2026-11-27T19:00+01:00",
     "2026-11-27 18:00:00Z (in 6h)"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (["drain", "w-1", "-y", "--deadline"], "deadline"),
        (["extend", "s-1", "--to"], "end"),
        (["token", "create", "--role", "user", "--owner", "ada", "--expires"], "expires"),
        (["shorten", "s-1", "--to"], "end"),
        (["move", "s-1", "--to"], "start"),
        (["retry", "s-2", "--end"], "slot.end"),
        (["retry", "s-2", "--start"], "slot.start"),
    ],
)
def test_every_instant_is_read_as_it_is_printed(run, stub, argv, field, text):
    """What a table shows may be copied into any option that takes an instant."""
    _fleet(stub)
    assert run(*argv, text).code == 0
    sent = stub.calls("POST")[-1].body
    for step in field.split("."):
        sent = sent[step]
    assert sent == "2026-11-27T18:00:00.000Z"


PAST = [
    ["drain", "w-1", "--deadline", "2026-11-27T11:00:00Z"], ["drain", "w-1", "--deadline", "0s"],
    ["extend", "-l", "exam=a", "--to", "2026-11-27T11:00:00Z"],
    ["shorten", "-l", "exam=a", "--to", "2026-11-27T11:00:00Z"],
    ["move", "-l", "exam=a", "--to", "2026-11-27T11:00:00Z"],
    ["retry", "-l", "exam=a", "--end", "2026-11-27T11:00:00Z"],
    ["token", "create", "--role", "user", "--owner", "ada", "--expires", "2026-01-01T11:00:00Z"],
]  # fmt: skip


@pytest.mark.parametrize("argv", PAST)
def test_a_deadline_in_the_past_is_refused_before_anybody_is_asked(run, stub, argv):
    """On a terminal too: no question whose yes could not help."""
    _fleet(stub)
    done = run(*argv, tty=True, stdin="y\n")
    assert done.code == 2
    assert "is past" in done.err
    assert "Go on?" not in done.err
    assert not stub.calls("POST")


@pytest.mark.parametrize(
    "argv",
    [["drain", "w-1", "--deadline", "2026-11-27"], ["extend", "s-1", "--to", "tomorrow"],
     ["retry", "s-2", "--start", "2026-11-27T18:00:00"], ["top", "worker", "w-1", "--since", "x"],
     ["extend", "s-1", "--to", "2026-13-27T18:00:00Z"]],
)  # fmt: skip
def test_what_is_no_instant_gets_an_example(run, stub, argv):
    """The option and a form that works."""
    _fleet(stub)
    done = run(*argv)
    assert done.code == 2
    assert argv[-2] in done.err
    assert "2026-11-27T18:00:00Z" in done.err


def _fleet(stub):
    stub.put("Worker", "w-1", status={"phase": "ACTIVE"})
    stub.put("Session", "s-1", labels={"exam": "a"},
             status={"phase": "RUNNING", "worker": "w-1", "end": "2026-11-27T12:30:00Z"})  # fmt: skip
    stub.put("Session", "s-2", labels={"exam": "a"}, status={"phase": "FAILED"})
    made = {"kind": "Session", "metadata": {"name": "s-2-2"}, "status": {"phase": "PENDING"}}
    stub.answers["POST /api/v1/sessions/s-2/retry"] = (201, made)


@pytest.mark.parametrize("verb", [["cancel"], ["extend", "--by", "5m"], ["cordon"], ["drain"]])
def test_one_name_that_is_not_there_changes_nothing(run, stub, verb):
    """All names are looked at before the first is changed, and that is said."""
    kind = "Session" if verb[0] in {"cancel", "extend"} else "Worker"
    for name in ("a", "b"):
        stub.put(kind, name, status={"phase": "PENDING", "end": "2026-11-27T12:30:00Z"})
    done = run(*verb, "a", "b", "nope")
    assert done.code == 4
    assert f"{kind.lower()}/nope does not exist; nothing was changed" in done.err
    assert not stub.calls("POST")


def test_cancel_and_drain_may_be_tried_dry(run, stub):
    """Nothing is asked and nothing is sent; what would happen is said of each."""
    _fleet(stub)
    assert run("cancel", "s-1", "s-2", "--dry-run", "client").out == (
        "session/s-1 would be cancelled (dry run)\n"
        "session/s-2 is over already (FAILED) and would stay so (dry run)\n"
    )
    said = run("drain", "w-1", "--dry-run", "client").out
    assert said == "worker/w-1 would drain; people use 1 lab there now (dry run)\n"
    assert run("drain", "w-1", "--undo", "--dry-run", "client").out == (
        "worker/w-1 is not draining (dry run)\n"
    )
    assert not stub.calls("POST")


@pytest.mark.parametrize(
    ("argv", "instead"),
    [
        (["get", "session/a,session/b"], "Write session/a session/b."),
        (["get", "session/a,worker/b"], "Write session/a worker/b."),
        (["describe", "session/a,b"], "Write session/a session/b."),
        (["delete", "session", "a,b"], "Write session/a session/b."),
        (["cancel", "a,b"], "Write session/a session/b."),
    ],
)
def test_names_with_a_comma_get_the_form_that_is_meant(run, stub, argv, instead):
    """No object has such a name, so the server is not asked."""
    done = run(*argv)
    assert (done.code, stub.seen) == (2, [])
    assert instead in done.err


def test_a_span_beyond_any_calendar_is_told_as_such(run, stub):
    """It is a duration, only too long a one."""
    _fleet(stub)
    for argv in (["drain", "w-1", "--deadline"], ["top", "worker", "w-1", "--since"]):
        done = run(*argv, "99999999d")
        assert (done.code, "longer than a hundred years" in done.err) == (2, True)


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "start"])
def test_the_verbs_own_refusal_is_told_to_who_may_not_read(run, stub, verb):
    """Not that of the look before it, which nobody asked for."""
    denied = {"status": 403, "reason": "Forbidden"}
    stub.answers["GET /api/v1/workers/w-1"] = (403, {**denied, "detail": "may not read workers"})
    wish = "desired" if verb == "start" else verb
    told = {**denied, "detail": "may not drain workers"}
    stub.answers[f"POST /api/v1/workers/w-1/{wish}"] = (403, told)
    done = run(verb, "w-1")
    assert (done.code, "may not drain workers" in done.err) == (6, True)
    done_anyway = {"kind": "Worker", "metadata": {"name": "w-1"}, "spec": {}}
    stub.answers[f"POST /api/v1/workers/w-1/{wish}"] = (200, done_anyway)
    assert "nothing was changed" not in run(verb, "w-1").out

"""`wait` and `watch`: outcomes, resuming, and Ctrl-C that ends only the looking."""

from __future__ import annotations

import json

import pytest

from labfleet.cli.commands import waiting


def step(phase, **status):
    """Return a change of the session that the stub makes at the next look."""

    def change(stub):
        if phase is None:
            stub.objects.pop(("Session", "s-1"), None)
        else:
            stub.put("Session", "s-1", status={"phase": phase, **status})

    return change


def test_wait_ends_when_the_phase_is_there(run, stub):
    """Each new phase is told once, and the object is printed last with -o json."""
    stub.on_get = [step("PENDING"), step("PENDING"), step("INSTANTIATING"), step("READY")]
    done = run("wait", "session/s-1", "--for=phase=READY", "-o", "json")
    assert (done.code, done.json["status"]["phase"]) == (0, "READY")
    assert done.err.count("PENDING") == 1


def test_wait_says_each_new_place_of_what_waits(run, stub):
    """Place and range stand in the line; a range that only moves a little is not said again."""

    def waits(place: int, words: str):
        return step("PENDING", outlook={"position": place, "words": f"{place} of 3, {words}"})

    stub.on_get = [
        waits(2, "14:35-14:50Z (80 %)"),
        waits(2, "14:36-14:51Z (80 %)"),
        waits(1, "14:20-14:30Z (80 %)"),
        step("READY"),
    ]
    done = run("wait", "session/s-1", "--for=phase=READY")
    assert done.code == 0
    assert [line for line in done.err.splitlines() if "PENDING" in line] == [
        "session/s-1: PENDING, 2 of 3, 14:35-14:50Z (80 %)",
        "session/s-1: PENDING, 1 of 3, 14:20-14:30Z (80 %)",
    ]


def test_wait_for_a_condition(run, stub):
    """A condition is met when its status is the one that is wanted."""
    drained = {"type": "Drained", "status": "True"}
    stub.put("Worker", "w-1", status={"phase": "DRAINING", "conditions": [drained]})
    assert run("wait", "worker/w-1", "--for=condition=Drained").code == 0
    assert run("wait", "w/w-1", "--for", "condition=Drained=False", "--timeout", "1m").code == 8


def test_wait_gives_up_when_it_is_hopeless(run, stub):
    """A failed session never becomes ready: exit 3, with the reason."""
    stub.put("Session", "s-1", status={"phase": "FAILED", "message": "image is missing"})
    done = run("wait", "session/s-1", "--for=phase=READY")
    assert done.code == 3
    assert "image is missing" in done.err


def test_a_refused_session_is_7(run, stub):
    """What never fits is told apart from what failed."""
    stub.put("Session", "s-1", status={"phase": "FAILED", "decision": {"outcome": "refused"}})
    assert run("wait", "session/s-1", "--for=phase=READY").code == 7


def test_wait_times_out_with_8(run, stub):
    """The deadline is kept and the last state is told."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    done = run("wait", "session/s-1", "--for=phase=READY", "--timeout", "20m")
    assert done.code == 8
    assert "within 20m; it is PENDING" in done.err


def test_wait_for_what_is_not_there(run, stub):
    """Absent is 4 at the first look, 3 when it went while waiting, 0 for a delete."""
    assert run("wait", "session/s-1", "--for=phase=READY").code == 4
    assert run("wait", "session/s-1", "--for=delete").code == 0
    stub.on_get = [step("PENDING"), step(None)]
    assert run("wait", "session/s-1", "--for=phase=READY").code == 3


def test_wait_outlives_a_restart_of_the_server(run, stub):
    """No answer for a while is told once and waited out."""
    stub.put("Session", "s-1", status={"phase": "READY"})
    stub.faults = ["drop"] * 9
    done = run("wait", "session/s-1", "--for=phase=READY")
    assert done.code == 0
    assert done.err.count("still waiting") == 1


def test_ctrl_c_detaches(run, stub):
    """Ctrl-C ends the waiting with 130, says so, and sends nothing."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})

    def interrupt(_seconds):
        raise KeyboardInterrupt

    done = run("wait", "session/s-1", "--for=phase=READY", sleep=interrupt)
    assert done.code == 130
    assert "session/s-1 goes on" in done.err
    assert {each.method for each in stub.seen} == {"GET"}


def test_wait_without_a_wish_is_a_usage_error(run):
    """Nothing is waited for unless it is named."""
    assert run("wait", "session/s-1").code == 2
    assert run("wait", "session/s-1", "--for=phase=READY", "--timeout", "20").code == 2
    assert waiting.parse("condition=Ready=false").value == "False"


def event(revision, kind, name, phase, id_=None):
    """Return one change as the stream writes it."""
    metadata = {"name": name, "namespace": "default", "labels": {}}
    obj = {"kind": kind, "metadata": metadata, "status": {"phase": phase}}
    head = f"id: {id_ or f'e1.{revision}'}\nevent: MODIFIED\n"
    return f"{head}data: {json.dumps({'object': obj})}\n\n"


def lines(done):
    """Return the JSON lines of stdout."""
    return [json.loads(each) for each in done.out.splitlines()]


def test_watch_gives_the_snapshot_and_then_changes(run, stub):
    """The list comes first and each change after it, as JSON lines."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    stub.streams = [": hello\n\n" + event(12, "Session", "s-1", "READY")]
    done = run("watch", "sessions", "-o", "json")
    first, second = lines(done)
    assert (first["type"], len(first["items"])) == ("SNAPSHOT", 1)
    assert (second["type"], second["cursor"]) == ("MODIFIED", "e1.12")
    assert second["object"]["status"]["phase"] == "READY"
    assert done.code == 6  # the stub's play is over: denied is not retried for ever


def test_watch_resumes_where_it_was(run, stub):
    """After a lost connection the stream goes on behind the last event seen."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    half = "id: e1.13\nevent: MODIFIED\ndata: {"
    stub.streams = [
        event(12, "Session", "s-1", "READY") + half,
        event(13, "Session", "s-1", "RUNNING"),
    ]
    done = run("get", "sessions", "-w", "-o", "json")
    asked = [each.headers.get("last-event-id") for each in stub.seen if "events" in each.path]
    assert asked[:2] == ["e1.11", "e1.12"]
    assert [each["type"] for each in lines(done)] == ["SNAPSHOT", "MODIFIED", "MODIFIED"]


def test_watch_says_once_that_the_server_has_gone(run, stub):
    """A server that stops ends its streams in order: the silence after that is told, once."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    stub.streams = [": hello\n\n", "503", "503"]
    assert run("watch", "sessions").err.count("The stream broke") == 1


def test_watch_lists_again_after_resync(run, stub):
    """A cursor that the server no longer knows leads to a fresh list, marked RESYNC."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    stub.streams = ["event: resync\ndata: {}\n\n"]
    assert [each["type"] for each in lines(run("watch", "s", "-o", "json"))] == [
        "SNAPSHOT", "RESYNC",
    ]  # fmt: skip


def test_watch_shows_only_what_was_asked(run, stub):
    """Other kinds and other names of the stream are left out."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    stub.streams = [event(12, "Worker", "w-1", "READY") + event(13, "Session", "s-2", "READY")]
    done = run("watch", "session/s-1")
    assert "s-1" in done.out
    assert "s-2" not in done.out
    assert "w-1" not in done.out


def test_ctrl_c_ends_a_watch_with_130(run, stub):
    """A watch is ended by Ctrl-C without a trace."""
    stub.streams = [""]

    def interrupt(_seconds):
        raise KeyboardInterrupt

    done = run("watch", "sessions", "-o", "json", sleep=interrupt)
    assert done.code == 130
    assert "Traceback" not in done.err


@pytest.mark.parametrize("form", ["yaml", "csv", "jsonpath={.a}"])
def test_a_watch_has_few_formats(run, form):
    """What cannot be written line by line is refused at once."""
    assert run("watch", "sessions", "-o", form).code == 2


def test_wait_refuses_a_phase_that_never_comes(run, stub):
    """A misspelt phase is exit 2 with the phases there are, at once, not a time-out."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    done = run("wait", "session/s-1", "--for=phase=NOPE")
    assert done.code == 2
    assert "RUNNING" in done.err


def another(stub):
    """Give the session's name to another session, which is ready."""
    stub.put("Session", "s-1", status={"phase": "READY"})["metadata"]["uid"] = "uid-of-another"


def test_wait_follows_the_object_and_not_its_name(run, stub):
    """Another session of the name is nobody's success: exit 3, and it is said."""
    stub.on_get = [step("PENDING"), another]
    done = run("wait", "session/s-1", "--for=phase=READY")
    assert done.code == 3
    assert "Another object has its name now" in done.err
    stub.on_get = [step("PENDING", conditions=[]), another]
    assert run("wait", "session/s-1", "--for=condition=Ready").code == 3


def test_wait_for_delete_ends_when_the_name_has_another_object(run, stub):
    """What was waited for is gone, although a GET of the name finds something."""
    stub.on_get = [step("STOPPING"), another]
    done = run("wait", "session/s-1", "--for=delete", "--timeout", "1m")
    assert (done.code, "is gone" in done.err) == (0, True)


def test_delete_wait_means_the_object_that_was_deleted(run, stub):
    """A session of the same name made meanwhile does not keep it waiting, nor is it deleted."""
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    stub.on_get = [lambda _: None, another]
    assert run("delete", "session/s-1", "--wait", "--timeout", "1m").code == 0
    assert stub.calls("DELETE")[0].query["uid"] == "uid-s-1"
    assert ("Session", "s-1") in stub.objects


def test_which_of_several_are_meant_is_settled_at_the_start(run, stub):
    """While the first is waited for, the second may be deleted and made anew."""
    stub.put("Session", "s-0", status={"phase": "READY"})
    stub.put("Session", "s-1", status={"phase": "PENDING"})
    stub.on_get = [lambda _: None, lambda _: None, another]
    assert run("wait", "session/s-0", "session/s-1", "--for=phase=READY").code == 3


def test_apply_wait_follows_what_was_applied(run, stub):
    """The uid of the answer is the one that is waited for."""
    text = "kind: Session\nmetadata: {name: s-1}\nspec: {definition: lab}\n"
    stub.on_get = [another]
    assert run("apply", "-f", "-", "--wait", stdin=text).code == 3


def test_wait_for_create(run, stub):
    """An object that is not there yet is waited for, one that is there is enough."""
    stub.on_get = [step(None), step(None), step("PENDING")]
    done = run("wait", "session/s-1", "--for=create")
    assert (done.code, "session/s-1 is there." in done.err) == (0, True)
    assert run("wait", "session/s-1", "--for", "create").code == 0
    late = run("wait", "session/s-2", "--for=create", "--timeout", "1m")
    assert (late.code, "it does not exist" in late.err) == (8, True)


@pytest.mark.parametrize(("phase", "wish"), [("COMPLETED", "delete"), ("RUNNING", "delete")])
def test_what_was_not_deleted_in_time_is_said_so(run, stub, phase, wish):
    """A session that is over has reached its end; what did not come is its deletion."""
    stub.put("Session", "mine", status={"phase": phase})
    done = run("wait", "session/mine", "--for", wish, "--timeout", "2s")
    assert done.code == 8
    assert f"session/mine was not deleted within 2s; it is {phase}" in done.err


def test_what_was_not_created_in_time_is_said_so(run, stub):
    """The same of an object that never came."""
    done = run("wait", "session/mine", "--for", "create", "--timeout", "2s")
    assert (done.code, "session/mine was not created within 2s" in done.err) == (8, True)

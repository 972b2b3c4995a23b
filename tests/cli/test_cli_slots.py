"""shorten and move: what is sent, what is said, and which sessions are meant."""

from __future__ import annotations

import pytest


def exam(stub):
    """Three sessions of one exam: booked, running, over."""
    slot = {"start": "2026-11-27T14:00:00Z", "end": "2026-11-27T15:00:00Z"}
    stub.put("Session", "e-1", labels={"exam": "a"}, spec={"slot": slot},
             status={"phase": "PENDING", **slot})  # fmt: skip
    stub.put("Session", "e-2", labels={"exam": "a"},
             status={"phase": "RUNNING", "end": "2026-11-27T12:30:00Z"})  # fmt: skip
    stub.put("Session", "e-3", labels={"exam": "a"}, status={"phase": "FAILED"})


@pytest.mark.parametrize(
    ("argv", "sent"),
    [
        (["shorten", "e-1", "--by", "20m"], {"end": "2026-11-27T14:40:00.000Z"}),
        (["shorten", "e-1", "--to", "2026-11-27T15:30:00+01:00"], {"end": "2026-11-27T14:30:00.000Z"}),
        (["move", "e-1", "--later", "90m"], {"start": "2026-11-27T15:30:00.000Z"}),
        (["move", "e-1", "--earlier", "1h"], {"start": "2026-11-27T13:00:00.000Z"}),
        (["move", "e-1", "--to", "2026-11-28T09:00:00Z"], {"start": "2026-11-28T09:00:00.000Z"}),
    ],
)  # fmt: skip
def test_an_instant_is_sent_so_that_a_repeat_changes_nothing(run, stub, argv, sent):
    """A span counts from the session's own time; the server is told the instant."""
    exam(stub)
    done = run(*argv)
    assert (done.code, done.out[:15]) == (
        0,
        "session/e-1 end" if argv[0] == "shorten" else "session/e-1 sta",
    )
    call = stub.calls("POST")[-1]
    assert (call.path, call.body) == (f"/api/v1/sessions/e-1/{argv[0]}", sent)


@pytest.mark.parametrize(
    "argv",
    [["shorten", "e-1"], ["shorten", "e-1", "--by", "1m", "--to", "2026-11-28T09:00:00Z"],
     ["move", "e-1"], ["move", "e-1", "--later", "1m", "--earlier", "1m"], ["move", "--later", "1m"]],
)  # fmt: skip
def test_one_way_of_saying_it(run, stub, argv):
    """None or two ways are a usage error, and nothing is sent."""
    exam(stub)
    assert run(*argv).code == 2
    assert not stub.calls("POST")


def test_many_are_asked_about_and_refusals_named(run, stub):
    """By labels those that are over are left out; what has no time of its own is named."""
    exam(stub)
    assert run("move", "-l", "exam=a", "--later", "1h").code == 2
    assert not stub.calls("POST")
    done = run("move", "-l", "exam=a", "--later", "1h", "--yes")
    assert done.code == 5
    assert "Error: session/e-2 has no start yet" in done.err
    assert [each.path for each in stub.calls("POST")] == ["/api/v1/sessions/e-1/move"]
    assert run("shorten", "-l", "exam=b", "--by", "1m", "--yes").code == 0


@pytest.mark.parametrize("verb", [["shorten", "--by", "5m"], ["move", "--later", "5m"]])
def test_what_is_over_keeps_its_time(run, stub, verb):
    """Exit 5 with the phase, and nothing is sent."""
    exam(stub)
    done = run(*verb, "e-3")
    assert done.code == 5
    assert "session/e-3 is over already (FAILED); nothing was changed" in done.err
    assert not stub.calls("POST")


def test_checking_in_says_until_when_it_lasts(run, stub):
    """The person reads that it counted, and when the session ends."""
    exam(stub)
    done = run("check-in", "e-2")
    assert (done.code, done.out[:39]) == (0, "session/e-2 is checked in; it ends 2026")
    assert stub.calls("POST")[-1].path == "/api/v1/sessions/e-2/check-in"


@pytest.mark.parametrize(
    "selector", ["labfleet.dev/group=a", "labfleet.dev/group == a", "x,labfleet.dev/group=a"]
)
def test_a_session_with_a_groups_label_that_is_no_seat_is_left_alone(run, stub, selector):
    """An earlier release let anybody give their own session the label of somebody's group."""
    labels = {"labfleet.dev/group": "a"}
    slot = {"start": "2026-11-27T14:00:00Z", "end": "2026-11-27T15:00:00Z"}
    stub.put(
        "Session",
        "seat",
        labels=labels,
        status={"phase": "PENDING", **slot, "seat": {"group": "a"}},
    )
    stub.put("Session", "mine", labels=labels, status={"phase": "PENDING", **slot})
    assert run("extend", "-l", selector, "--by", "5m", "--yes").code == 0
    assert run("cancel", "-l", selector, "--yes").code == 0
    assert {each.path.split("/")[4] for each in stub.calls("POST")} == {"seat"}

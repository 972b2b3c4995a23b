"""`labs` and `ignore-lab`: what there is on a worker's server, and leaving a lab alone."""

from __future__ import annotations

import pytest

LAB = "287a63d9-37aa-41c9-aa57-16f7e8c15cfb"
ROW = {"id": LAB, "whose": "session", "session": "networks-2-s17", "title": "ada-1-287a63d9",
       "owner": "ada.lovelace@example.org", "state": "STARTED", "nodes": 3, "running": 2,
       "since": "2026-11-27T11:00:00Z", "why": "", "ignored": None}  # fmt: skip
OTHER = {**ROW, "id": "l2", "whose": "ignored", "session": "", "owner": "pr\x1bof", "title": "",
         "why": "ignored by op: a thesis"}  # fmt: skip


@pytest.fixture
def fleet(stub):
    """A worker with two labs, one with none, one not looked at, one without a lab of the caller."""
    for name, more in (
        ("w-1", {"count": 4, "more": 2, "labs": [ROW, OTHER], "seen": "2026-11-27T11:59:00Z"}),
        ("w-2", {"count": 0, "more": 0, "labs": [], "seen": None}),
        ("w-4", {"count": None, "more": 0, "labs": [], "seen": None}),
        ("w-3", {"count": None, "more": 0, "labs": None, "seen": None}),
    ):
        stub.answers[f"GET /api/v1/workers/{name}/labs"] = (200, {"worker": name, **more})
    return stub


def test_labs_are_listed_with_whose_they_are(run, fleet):
    """One row a lab; how old that is and what is not listed is said beside it."""
    done = run("labs", "worker/w-1")
    assert done.code == 0
    ours, other = done.out.splitlines()[1:]
    assert ours.split() == [LAB, "STARTED", "2/3", "session/networks-2-s17"]
    assert other.split()[3] == "ignored"
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "seen" in done.err
    assert "2 more are not listed" in done.err
    wide = run("labs", "w-1", "-o", "wide").out
    assert "a thesis" in wide
    assert "ada.lovelace@example.org" in wide
    assert "\x1b" not in wide
    table = run("labs", "w-1", "-o", "csv")
    assert f"{LAB},STARTED,2/3,session/networks-2-s17,{ROW['owner']},3600," in table.out
    assert "seen 1m ago" in table.err
    assert run("labs", "w-1", "-o", "json").json["labs"][0]["id"] == LAB


def test_none_and_unknown_are_told_apart(run, fleet):
    """An empty server says so, one that was not seen says that; to users theirs is all they hear of."""
    assert "no lab there has nodes" in run("labs", "w-2").err
    assert "were not seen" in run("labs", "w-3").err
    assert "no lab that you may see there has nodes" in run("labs", "w-4").err


def test_ignoring_needs_a_reason_and_is_taken_back_without(run, fleet):
    """Neither a missing reason nor one beside --undo sends anything."""
    path = f"/api/v1/workers/w-1/labs/{LAB}/ignore"
    fleet.answers[f"POST {path}"] = (200, {"worker": "w-1", "labs": []})
    fleet.answers[f"DELETE {path}"] = (200, {"worker": "w-1", "labs": []})
    assert run("ignore-lab", "w-1", LAB).code == 2
    assert run("ignore-lab", "w-1", LAB, "--undo", "-m", "x").code == 2
    assert f"lab {LAB} is left alone" in run("ignore-lab", "w-1", LAB, "-m", "a thesis").out
    assert "no longer ignored" in run("ignore-lab", "w-1", LAB, "--undo").out
    sent = [(each.method, each.body) for each in fleet.seen if each.path == path]
    assert sent == [("POST", {"reason": "a thesis"}), ("DELETE", None)]

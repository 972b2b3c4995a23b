"""`lab`: orders to start, stop, restart or wipe the lab of a session, and waiting for them."""

from __future__ import annotations

import pytest

PATH = "/api/v1/sessions/ada-1/lab"
ORDER = {"id": "o1", "verb": "restart", "node": "", "by": "ada"}


@pytest.fixture
def lab(stub):
    """A session whose order is taken, and of which a look tells how far it is."""
    made = stub.put("Session", "ada-1", spec={"labOrder": ORDER}, status={"phase": "RUNNING"})
    stub.answers[f"POST {PATH}"] = (202, made)
    return made["status"]


def test_an_order_names_the_lab_or_one_node(run, stub, lab):
    """What is sent is what was said; nothing is waited for unless that is asked."""
    done = run("lab", "restart", "session/ada-1", "--node", "r1")
    assert (done.code, done.out) == (0, "session/ada-1: restart of node r1 is ordered\n")
    assert stub.calls("POST")[-1].body == {"order": "restart", "node": "r1"}
    assert run("lab", "stop", "ada-1").code == 0
    assert stub.calls("POST")[-1].body == {"order": "stop", "node": ""}
    assert run("lab", "start", "worker/w-1").code == 2


def test_a_wipe_is_asked_for_before_it_is_sent(run, stub, lab):
    """Where nobody can answer, --yes says that the loss is meant; else nothing is sent."""
    refused = run("lab", "wipe", "ada-1")
    assert refused.code == 2
    assert "loses what was done in it" in refused.err
    assert stub.calls("POST") == []
    assert run("lab", "wipe", "ada-1", "--yes").code == 0
    assert stub.calls("POST")[-1].body == {"order": "wipe", "node": "", "confirm": True}


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [
        ("done", 0, "restart is done"),
        ("refused", 7, "no licence"),
        ("starting", 8, "it is starting"),
    ],
)
def test_waiting_ends_with_how_it_went(run, lab, state, code, said):
    """Done, refused with CML's words, or late with what it is at."""
    lab["labOrder"] = {"id": "o1", "state": state, "message": "no licence"}
    done = run("lab", "restart", "ada-1", "--wait", "--timeout", "3s")
    assert done.code == code
    assert said in done.out + done.err


def test_a_lab_of_no_session_is_named_with_its_worker(run, stub):
    """--lab says which; without it a worker takes no order."""
    made = stub.put("Worker", "w-1", spec={"labOrder": ORDER})
    made["status"]["labOrder"] = {"id": "o1", "state": "done"}
    stub.answers["POST /api/v1/workers/w-1/labs/lab-9/order"] = (202, made)
    done = run("lab", "stop", "w-1", "--lab", "lab-9", "--wait")
    assert (done.code, done.out) == (0, "worker/w-1: stop is done\n")
    assert "lab lab-9 on worker/w-1" in run("lab", "wipe", "worker/w-1", "--lab", "lab-9").err

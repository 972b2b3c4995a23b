"""The gate, piece by piece: what is said while a run waits, and what ends the waiting."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from api_stub import Stub
from desk import Desk

from labfleet.cli.kit import client, exits, gate, interruptions, processes, run_requests, settings

QUEUED = {"decision": "queued", "simulation_id": "sim-1", "record": "sim-1", "reasons": [],
          "message": "needs 4 CPU", "position": 3}  # fmt: skip
BEAT = {"simulation_id": "sim-1", "status": "running"}


@pytest.fixture
def door(stub: Stub, tmp_path: Path) -> tuple[gate.Gate, Desk, list[str]]:
    """A gate before the stub that queues every run, its desk, and what is said."""
    desk, said = Desk(), []
    standing = desk.environment(tmp_path)
    chosen = settings.resolve(standing, {"url": stub.url})
    stub.answers["POST /request_run"] = (200, QUEUED)
    stub.answers["POST /simulation_heartbeat"] = (200, BEAT)
    stub.answers["POST /simulation_complete"] = (200, {**BEAT, "status": "cancelled"})
    return gate.Gate(client.Client(chosen, standing), said.append), desk, said


def waits(stub: Stub, *phases: str, message: str = "needs 4 CPU") -> None:
    """Let the run have one phase after the other, at each look."""
    decision = {"message": message, "reason": "NoRoom", "candidates": []}
    stub.put("Simulation", "sim-1", status={"phase": "QUEUED", "decision": decision})
    stub.on_get = [
        lambda made, phase=phase: made.put(
            "Simulation", "sim-1", status={"phase": phase, "decision": decision}
        )
        for phase in phases
    ]


def test_the_position_is_said_and_news_while_it_waits(door, stub):
    """The place in the line when the reply has one, and each new sentence once."""
    gated, _, said = door
    waits(stub, "QUEUED", "QUEUED", "APPROVED", message="needs 2 CPU more")
    assert gated.enter({"queue": True}).id == "sim-1"
    assert said[0] == "sim-1 waits in the queue, position 3: needs 4 CPU"
    assert [each for each in said if "still waits" in each] == [
        "sim-1 still waits (0s): needs 2 CPU more"
    ]
    assert said[-1] == "sim-1 is approved after 2s"
    looks = [each for each in stub.seen if each.path == "/api/v1/simulations/sim-1"]
    assert [each.query["wait"] for each in looks] == ["30"] * 3


def test_that_it_still_waits_is_said_every_five_minutes(door, stub):
    """A silent hour would look like a hang."""
    gated, desk, said = door
    waits(stub, *["QUEUED"] * 700, "APPROVED")
    gated.enter({"queue": True})
    assert desk.elapsed == pytest.approx(700)
    assert [each.split(":")[0] for each in said if "still" in each] == [
        "sim-1 still waits (5m)", "sim-1 still waits (10m)"]  # fmt: skip


def test_a_server_that_restarts_loses_no_place_in_the_queue(door, stub):
    """No answer is said once and waited out."""
    gated, _, said = door
    waits(stub, "APPROVED")
    stub.faults = [None, *["drop"] * 9]
    assert gated.enter({"queue": True}).id == "sim-1"
    assert len([each for each in said if "no answer" in each]) == 1


def test_a_run_that_never_fits_is_denied_from_the_queue(door, stub):
    """The cluster shrank: the reason is the decision's."""
    gated, _, _ = door
    waits(stub, "DENIED", message="never fits")
    with pytest.raises(gate.Denied) as caught:
        gated.enter({"queue": True})
    assert (caught.value.reasons, caught.value.code) == (("NoRoom",), exits.REFUSED)


def test_nobody_waits_longer_than_told(door, stub):
    """After its time the request is withdrawn, also while nobody answers."""
    gated, desk, _ = door
    waits(stub)
    with pytest.raises(exits.Failure) as caught:
        gated.enter({"queue": True}, seconds=90)
    assert (caught.value.code, desk.elapsed) == (exits.TIMEOUT, 90)
    assert [each.body for each in stub.seen if each.path == "/simulation_complete"] == [
        {"simulation_id": "sim-1", "status": "cancelled"}]  # fmt: skip


def test_an_undecided_request_is_asked_again_under_its_key(door, stub):
    """503 without a decision: the same key finds the one answer."""
    gated, _, _ = door
    waits(stub, "APPROVED")
    stub.faults = [(503, '{"reason": "Undecided", "detail": "nobody decided"}')] * 5
    assert gated.enter({"queue": True}, key="k").id == "sim-1"
    keys = [each.headers["idempotency-key"] for each in stub.seen if each.path == "/request_run"]
    assert keys == ["k"] * 6


def test_what_is_no_decision_is_not_taken_for_one(door, stub):
    """Another program at the address approves nothing."""
    gated, _, _ = door
    stub.answers["POST /request_run"] = (200, {"hello": "world"})
    with pytest.raises(exits.Failure, match="a decision was expected"):
        gated.enter({})


@pytest.mark.parametrize(
    ("text", "value"),
    [("50", 50), ("-1.5", -1.5), ("1e3", 1000.0), ("true", True), ("false", False), ("True", "True"),
     ("007", "007"), ("", ""), ("NaN", "NaN"), ("1" * 30, "1" * 30), ("8Gi", "8Gi")],
)  # fmt: skip
def test_a_text_is_what_it_looks_like(text, value):
    """Numbers and truth values as JSON writes them, everything else is text."""
    found = run_requests.sighted(text)
    assert (found, type(found)) == (value, type(value))


# --- signals and programs --------------------------------------------------------------------


def test_signals_that_come_while_a_child_is_started_reach_it():
    """They are kept until there is somebody to hand them to, in order."""
    # Whoever runs the tests may have them ignored, as nohup does.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with interruptions.Interruptions() as signals:
            signals.keep()
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            got: list[int] = []
            signals.hand_on(got.append)
            signals.raise_again()
            with pytest.raises(interruptions.Interrupted, match="SIGINT") as caught:
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert sorted(got) == [signal.SIGHUP, signal.SIGTERM]
    assert (caught.value.code, signals.count) == (130, 3)


def test_a_signal_that_is_ignored_stays_ignored():
    """Under nohup the end of a terminal ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptions.Interruptions() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.count == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_look_tells_gone_from_no_answer():
    """An exit code is an answer; a missing program, a hanging one and a killed one are none."""
    real, env = processes.Processes(), dict(os.environ)
    assert real.look(["true"], env, 10) == 0
    assert real.look(["false"], env, 10) == 1
    assert real.look(["/nonexistent/look"], env, 10) is None
    assert real.look(["sleep", "30"], env, 0.05) is None
    assert real.look(["sh", "-c", "kill -9 $$"], env, 10) is None


def test_programs_are_found_along_the_path_that_they_get(tmp_path):
    """PATH is that of the command's own environment."""
    program = tmp_path / "lookout"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    real = processes.Processes()
    assert real.find("lookout", {"PATH": str(tmp_path)}) == str(program)
    assert real.find("lookout", {"PATH": "/nonexistent"}) is None
    assert real.find(sys.executable, {}) == sys.executable


def test_an_operator_ends_a_run_as_its_caller_would(run, stub):
    """Asked first, told of one that is over, and not mixed with sessions."""
    stub.put("Simulation", "sim-1", status={"phase": "RUNNING"})
    stub.put("Simulation", "sim-2", status={"phase": "COMPLETED"})
    stub.answers["POST /simulation_complete"] = (200, {**BEAT, "status": "cancelled"})
    assert run("cancel", "sim/sim-1").code == exits.USAGE
    assert not stub.calls("POST")
    tried = run("cancel", "sim/sim-1", "--dry-run", "client")
    assert tried.out == "simulation/sim-1 would be cancelled (dry run)\n"
    done = run("cancel", "sim/sim-2", "sim/sim-1", "--yes")
    assert (done.code, done.out) == (exits.CONFLICT, "simulation/sim-1 cancelled\n")
    assert "simulation/sim-2 is over already (COMPLETED); nothing was changed" in done.err
    assert [each.body for each in stub.calls("POST")] == [
        {"simulation_id": "sim-1", "status": "cancelled"}
    ]
    assert run("cancel", "sim/sim-1", "s-1", "--yes").code == exits.USAGE


def test_a_run_of_another_namespace_is_asked_waited_for_and_ended_there(run, stub, door):
    """Every call of the gate names it; a run of `default` names none."""
    waits(stub, "APPROVED")
    done = run("-n", "exam", "admit", "--cost", "cpu=1", "--queue", "--", "true")
    assert done.code == 0
    assert {each.path for each in stub.seen} == {
        "/request_run", "/api/v1/simulations/sim-1", "/simulation_heartbeat",
        "/simulation_complete",
    }  # fmt: skip
    assert {each.query.get("namespace") for each in stub.seen} == {"exam"}
    denied = {"decision": "denied", "record": "sim-9", "reasons": ["NeverFits"], "message": "no"}
    stub.answers["POST /request_run"] = (200, denied)
    told = run("-n", "exam", "admit", "--cost", "cpu=1", "--", "true").err
    assert "What would let it in: labfleet explain simulation/sim-9 -n exam." in told
    stub.answers["POST /request_run"] = (200, QUEUED)
    stub.seen.clear()
    waits(stub, "APPROVED")
    assert run("admit", "--cost", "cpu=1", "--queue", "--", "true").code == 0
    asked = stub.calls("POST")
    assert {each.query.get("namespace") for each in asked} == {None}

"""The pure state machine of one instance."""

import pytest

from aws_simulator.machine import IllegalStateError, Machine


def finish(machine, now):
    """Carry out everything that is due."""
    while (step := machine.advance(now)) is not None:
        if machine.calls and machine.calls[0] == step:
            machine.calls.pop(0)
        else:
            machine.enter(step, now)
    return machine.state


def test_a_pending_machine_runs_only_when_its_time_is_up():
    """A pending instance becomes running at its due time and not before."""
    machine = Machine(state="pending", since=0, due=480)
    assert finish(machine, 479.9) == "pending"
    assert finish(machine, 480) == "running"
    assert machine.running_since == 480


@pytest.mark.parametrize("state", ["stopping", "shutting-down", "terminated"])
def test_start_is_refused_in_illegal_states(state):
    """Start raises in every state but stopped, pending and running."""
    with pytest.raises(IllegalStateError):
        Machine(state=state, since=0, due=0).start(1, 1)


@pytest.mark.parametrize("state", ["pending", "shutting-down", "terminated"])
def test_stop_is_refused_in_illegal_states(state):
    """Stop raises while pending and after a termination."""
    with pytest.raises(IllegalStateError):
        Machine(state=state, since=0, due=0).stop(1, 1)


def test_terminate_is_idempotent_and_final():
    """A second termination changes nothing, and nothing follows terminated."""
    machine = Machine(state="running", since=0, due=0)
    assert machine.terminate(10, 30)
    assert not machine.terminate(20, 30)
    assert finish(machine, 39) == "shutting-down"
    assert finish(machine, 40) == "terminated"
    assert finish(machine, 1e9) == "terminated"


def test_a_forced_stop_ends_a_stuck_one():
    """A stop that never ends is ended by Force."""
    machine = Machine(state="running", since=0, due=0)
    machine.stop(0, float("inf"))
    assert finish(machine, 1e6) == "stopping"
    machine.stop(1e6, 1, force=True)
    assert finish(machine, 1e6) == "stopped"


def test_termination_cancels_a_boot_that_is_due():
    """An instance terminated while pending never boots its server."""
    machine = Machine(state="pending", since=0, due=5)
    assert machine.advance(5) == "boot"
    machine.terminate(6, 1)
    assert "boot" not in machine.calls


def test_a_busy_machine_is_left_alone():
    """While a call is open nothing else is started for the machine."""
    machine = Machine(state="pending", since=0, due=0, busy=True)
    assert machine.advance(100) is None

"""The world without moto: how due steps are taken while the world moves on."""

import contextlib
import types

from hypothesis import given, settings
from hypothesis import strategies as st

from aws_simulator.clock import ScaledClock
from aws_simulator.machine import IllegalStateError
from aws_simulator.world import World


class Link:
    """A CML link that lets something happen during a boot."""

    def __init__(self):
        self.calls = []
        self.during_boot = lambda: None

    def create(self, server, fields):
        """Create a server."""
        self.calls.append("create")
        return {}

    def call(self, server, verb):
        """Boot, stop or destroy it."""
        self.calls.append(verb)
        if verb == "boot":
            self.during_boot()
        return {"address": "127.9.9.9"} if verb == "boot" else {}


def world_with_one():
    """Return a world at a fixed real time, its link and the machine of its one instance."""
    link = Link()
    world = World(clock=ScaledClock(0.0, 1.0, real=lambda: 0.0), region="r", seed=1, cml=link)
    device = types.SimpleNamespace(volume_id="vol-1")
    instance = types.SimpleNamespace(
        id="i-1",
        instance_type="t3.nano",
        root_device_name="/dev/sda1",
        block_device_mapping={"/dev/sda1": device},
    )
    return world, link, world.launched(instance)


def test_an_instance_ended_during_its_boot_ends():
    """A termination that comes while the server boots is not overwritten by running."""
    world, link, machine = world_with_one()
    link.during_boot = lambda: machine.terminate(world.clock.now(), 10)
    world.clock.advance(31)
    world.settle()
    assert machine.state == "shutting-down"
    world.clock.advance(11)
    world.settle()
    assert machine.state == "terminated"
    assert link.calls == ["create", "boot", "stop", "destroy"]


def test_a_reset_during_a_step_is_survived():
    """A world that is emptied while a server boots goes on."""
    world, link, _ = world_with_one()
    link.during_boot = world.clear
    world.clock.advance(31)
    world.settle()
    assert world.machines == {}


def test_jitter_follows_the_seed():
    """Two worlds with one seed give one instance the same times."""

    def due():
        world, _, _ = world_with_one()
        world.config.merge({"jitter": 0.2})
        return world.lasts(types.SimpleNamespace(instance_type="m5zn.metal"), "pending")

    assert due() == due()
    assert 384 <= due() <= 576


SECONDS = st.floats(0, 900, allow_nan=False)
PLANS = st.lists(st.tuples(SECONDS, st.sampled_from(["start", "stop", "terminate"])), max_size=12)


def play(plan, steps):
    """Return the life of one instance under a plan, looked at after each step."""
    world = World(clock=ScaledClock(0.0, 1.0, real=lambda: 0.0), region="r", seed=1)
    instance = types.SimpleNamespace(id="i-1", instance_type="t3.nano")
    machine = world.launched(instance)
    length = {"start": "pending", "stop": "stopping", "terminate": "terminating"}

    def perform(deed):
        with contextlib.suppress(IllegalStateError):
            lasts = world.lasts(instance, length[deed.verb])
            getattr(machine, deed.verb)(world.clock.now(), lasts)

    world.perform = perform
    for at, verb in plan:
        world.plan(at, "i-1", verb, {})
    for step in [*steps, 2000 - sum(steps)]:
        world.clock.advance(step)
        world.settle()
    return machine.state, machine.since, machine.runs, machine.terminated_at


@settings(deadline=None)
@given(PLANS, st.lists(SECONDS, max_size=6).filter(lambda steps: sum(steps) < 2000))
def test_nobody_has_to_look(plan, steps):
    """A life is the same whether it is looked at often, seldom, or only at its end."""
    assert play(plan, steps) == play(plan, [])

"""Whatever people do in whatever order, capacity, states and indexes stay true."""

import contextlib
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from cml_simulator.core import builder, fleet, lifecycle, port_forwards, topology, world
from cml_simulator.core.errors import CmlError
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.model import State
from cml_simulator.core.profile import Machine, Profile

KINDS = ("alpine", "iosv", "nxosv9000", "unmanaged_switch", "external_connector")
VERBS = ("import", "start", "stop", "wipe", "delete", "outside", "tag", "power", "wait")


def one_lab(rng):
    nodes = [
        {
            "id": f"n{n}",
            "label": f"n{n}",
            "node_definition": rng.choice(KINDS),
            "x": 0,
            "y": 0,
            "tags": [f"serial:{5000 + rng.randrange(4)}"],
            "interfaces": [],
        }
        for n in range(rng.randrange(6))
    ]
    return topology.parse({"lab": {"version": "0.3.0"}, "nodes": nodes}, Profile())


def act(verb, box, server, rng, now):
    labs = list(server.labs.values())
    lab = rng.choice(labs) if labs else None
    if verb == "import":
        builder.import_topology(server, one_lab(rng), None, world.ADMIN_ID, now)
    elif verb == "power":
        fleet.stop(box, server, now)
        fleet.boot(box, server, now)
    elif lab is None:
        return
    elif verb == "start":
        lifecycle.start_lab(server, lab, now)
    elif verb == "stop":
        lifecycle.stop_lab(server, lab, now)
    elif verb == "wipe":
        lifecycle.wipe_lab(server, lab, now)
    elif verb == "delete":
        lifecycle.delete_lab(server, lab, now)
    elif verb == "outside":
        lifecycle.force_delete_lab(server, lab, now)
    elif verb == "tag" and lab.nodes:
        node = rng.choice(list(lab.nodes.values()))
        lifecycle.set_tags(server, node, ["vnc:6000"], now)


def check(server, now):
    world.settle(server, now)
    use = world.in_use(server)
    assert use.licensed <= server.licence.quota
    assert use.points <= 100 * server.config.machine.cpus
    assert use.ram <= server.config.machine.memory_bytes // world.MIB
    phases = {node.id: node.phase for node in server.nodes.values()}
    assert {k for k, p in phases.items() if p is State.STARTED} == server.active.keys()
    assert {k for k, p in phases.items() if p is State.QUEUED} == {n.id for n in server.queue}
    assert server.stopping.keys() <= server.active.keys()
    assert server.nodes.keys() == {n for lab in server.labs.values() for n in lab.nodes}
    ports, _ = port_forwards.open_ports(server, now)
    assert len({(p.transport, p.outer) for p in ports}) == len(ports)
    assert {p.node_id for p in ports} <= server.active.keys()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(VERBS), max_size=40), st.integers(0, 2**32))
def test_capacity_and_indexes_hold(verbs, seed):
    """No sequence of verbs overfills the host, loses a node or opens a port twice."""
    rng = random.Random(seed)
    box = Fleet(random.Random(seed), "pw")
    machine = Machine(cpus=3, memory_bytes=12 * 1024**3, boot_seconds=rng.choice([0, 30]))
    server = fleet.create(box, machine=machine)
    now = 1000.0
    fleet.boot(box, server, now)
    for verb in verbs:
        now += rng.choice([0, 0.5, 1, 3, 20, 500])
        with contextlib.suppress(CmlError):
            act(verb, box, server, rng, now)
        check(server, now)
    fleet.stop(box, server, now)
    assert not server.active
    assert not server.queue
    assert fleet.summary(box, now)["ports_open"] == 0

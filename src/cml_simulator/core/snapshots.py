"""A server's whole state, kept and brought back: labs, nodes, users, licence, definitions.

A snapshot has only what is on the disk. It does not have power, counters of requests, the journal,
fault rules, or the licence cloud's records: restoring leaves these as they are.
"""

import copy
from dataclasses import dataclass, field

from cml_simulator.core.model import State
from cml_simulator.core.server import Server
from cml_simulator.core.world import settle

KEPT = 20
OUTSIDE = ("config", "power", "tally", "journal", "faults", "news", "rng", "cloud")
"""Fields of a server that a snapshot leaves alone."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a server at a time."""

    id: str
    server_id: str
    at: float
    state: Server = field(repr=False)


def _copy(server: Server) -> Server:
    shared = {id(server.rng): server.rng, id(server.cloud): server.cloud}
    return copy.deepcopy(server, shared)


def take(server: Server, key: str, now: float) -> Snapshot:
    """Return a copy of a server as it is now."""
    settle(server, now)
    return Snapshot(key, server.id, now, _copy(server))


def restore(server: Server, snapshot: Snapshot, now: float) -> None:
    """Restore a server to a snapshot; nodes that ran then run now if the machine is on."""
    settle(server, now)
    fresh = _copy(snapshot.state)
    for name in Server.__slots__:
        if name not in OUTSIDE:
            setattr(server, name, getattr(fresh, name))
    server.revision += 1
    if not server.power.on:
        for node in [*server.active.values(), *server.queue]:
            node.phase = State.STOPPED if node.admitted or node.disk else State.DEFINED
            node.stop_due = None
        server.active.clear()
        server.queue.clear()
        server.stopping.clear()
    settle(server, now)

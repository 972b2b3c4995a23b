"""Many servers in one world: their addresses, the licence cloud, a summary of the real state."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cml_simulator.core import outside, port_forwards, snapshots, world
from cml_simulator.core.errors import CmlError, not_found, refused
from cml_simulator.core.faults import Fault
from cml_simulator.core.inputs import Rng, new_id
from cml_simulator.core.licensing import LicenceCloud
from cml_simulator.core.outside import Edit
from cml_simulator.core.ports import OpenPort
from cml_simulator.core.profile import Config, Identity, Machine, Profile, Rules
from cml_simulator.core.snapshots import Snapshot
from cml_simulator.core.world import BootStage, Server, boot_stage, settle

MAX_SERVERS = 2000
LISTENING = {BootStage.BAD_GATEWAY, BootStage.NOT_READY, BootStage.READY}


@dataclass(slots=True)
class Fleet:
    """Every server ever created here; destroyed ones stay as tombstones.

    `images` are image definitions that each new server has beside the stock's, as one uploads them:
    id -> node definition.
    """

    rng: Rng
    password: str = field(repr=False)
    port: int = 8443
    first_octet: int = 1
    fixed_address: str | None = None
    cloud: LicenceCloud = field(default_factory=LicenceCloud)
    servers: dict[str, Server] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    unbound: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    boots: int = 0
    images: dict[str, str] = field(default_factory=dict)

    def address_of(self, server: Server) -> str | None:
        """Return the present address; None while it is off."""
        return next((a for a, key in self.addresses.items() if key == server.id), None)

    def at_address(self, address: str) -> Server | None:
        """Return the server that answers at an address."""
        return self.servers.get(self.addresses.get(address, ""))


def loopback(first_octet: int, number: int) -> str:
    """Return the n-th address of 127/8, never 127.0.0.1; they do not repeat for 16 million."""
    high, low = divmod(number, 254)
    upper, middle = divmod(high, 256)
    second = 1 + (first_octet - 1 + upper) % 254
    return f"127.{second}.{middle}.{low + 1}"


def create(
    fleet: Fleet,
    *,
    server_id: str | None = None,
    product_uuid: str | None = None,
    machine: Machine | None = None,
    rules: Rules | None = None,
    profile: Profile | None = None,
    password: str | None = None,
) -> Server:
    """Add a switched-off server; the id must be new, product_uuid is its licence identity."""
    if server_id is not None and server_id in fleet.servers:
        raise CmlError(409, f"Server exists: {server_id}")
    if sum(not s.power.destroyed for s in fleet.servers.values()) >= MAX_SERVERS:
        raise refused(f"More than {MAX_SERVERS} servers.")
    identity = Identity(
        id=server_id or new_id(fleet.rng),
        product_uuid=product_uuid or new_id(fleet.rng),
        compute_id=new_id(fleet.rng),
    )
    config = Config(identity, machine or Machine(), rules or Rules(), profile or Profile())
    server = world.create_server(config, fleet.rng, fleet.cloud, password or fleet.password)
    server.definition_store.upload(fleet.images)
    fleet.servers[server.id] = server
    return server


def find(fleet: Fleet, server_id: str) -> Server:
    """Return a server, destroyed or not, or 404."""
    server = fleet.servers.get(server_id)
    if server is None:
        raise not_found("Server", server_id)
    return server


def boot(fleet: Fleet, server: Server, now: float) -> str:
    """Switch on and return the new address; a running server keeps the one it has."""
    if server.power.destroyed:
        raise CmlError(409, f"Server is destroyed: {server.id}")
    present = fleet.address_of(server)
    if present is not None:
        return present
    address = fleet.fixed_address or loopback(fleet.first_octet, fleet.boots)
    fleet.boots += 1
    fleet.addresses[address] = server.id
    world.power_on(server, now)
    return address


def stop(fleet: Fleet, server: Server, now: float) -> None:
    """Switch off; the address is gone for good."""
    address = fleet.address_of(server)
    if address is not None:
        world.power_off(server, now)
        del fleet.addresses[address]


def destroy(fleet: Fleet, server: Server, now: float) -> None:
    """Switch off and lose the disk; a licence that was not given back stays held."""
    stop(fleet, server, now)
    if server.power.destroyed:
        return
    server.power.destroyed = True
    server.tally.labs_destroyed += len(server.labs)
    for things in (server.labs, server.nodes, server.interfaces, server.links, server.users):
        things.clear()


def running(fleet: Fleet) -> Iterator[tuple[str, Server]]:
    """Yield address and server of everything that is on."""
    for address, key in list(fleet.addresses.items()):
        yield address, fleet.servers[key]


def listening(fleet: Fleet, now: float) -> dict[str, list[OpenPort]]:
    """Return which addresses answer on the API port now, with the lab ports open on each."""
    found: dict[str, list[OpenPort]] = {}
    for address, server in running(fleet):
        if boot_stage(server, now) in LISTENING:
            found[address] = port_forwards.open_ports(server, now)[0]
    return found


# ------------------------------------------------------------------ snapshots


def take_snapshot(fleet: Fleet, server: Server, now: float) -> Snapshot:
    """Keep a copy of a server; the oldest one of the fleet goes when there are too many."""
    kept = snapshots.take(server, new_id(fleet.rng), now)
    if len(fleet.snapshots) >= snapshots.KEPT:
        del fleet.snapshots[next(iter(fleet.snapshots))]
    fleet.snapshots[kept.id] = kept
    return kept


def restore_snapshot(fleet: Fleet, server: Server, key: str, now: float) -> None:
    """Put a server back to one of its snapshots."""
    kept = fleet.snapshots.get(key)
    if kept is None or kept.server_id != server.id:
        raise not_found("Snapshot", key)
    if server.power.destroyed:
        raise CmlError(409, f"Server is destroyed: {server.id}")
    snapshots.restore(server, kept, now)


# ------------------------------------------------------------------ edits from outside


def delete_lab(server: Server, lab_id: str, now: float) -> None:
    """Remove a lab as someone in the web interface would."""
    outside.act(server, Edit(action="delete_lab", lab_id=lab_id), now)


def add_tag(server: Server, node_id: str, tag: str, now: float) -> None:
    """Add a tag to a node as someone in the web interface would."""
    outside.act(server, Edit(action="add_tag", node_id=node_id, tag=tag), now)


# ------------------------------------------------------------------ the real state


def summary(fleet: Fleet, now: float) -> dict[str, Any]:
    """Return counts of all that is left over: the numbers by which a run is judged."""
    servers = list(fleet.servers.values())
    for server in servers:
        settle(server, now)
    alive = [s for s in servers if not s.power.destroyed]
    holders = {
        s.config.identity.product_uuid
        for s in alive
        if s.licence.stage in {"COMPLETED", "IN_PROGRESS"}
    }
    tallies = [s.tally for s in servers]
    return {
        "now": now,
        "servers": len(alive),
        "running": sum(s.power.on for s in alive),
        "destroyed": len(servers) - len(alive),
        "boots": fleet.boots,
        "labs_left": sum(len(s.labs) for s in alive),
        "labs_destroyed": sum(t.labs_destroyed for t in tallies),
        "labs_created": sum(t.labs_created for t in tallies),
        "labs_deleted": sum(t.labs_deleted for t in tallies),
        "import_count": sum(t.imports for t in tallies),
        "nodes_running": sum(len(s.active) for s in alive),
        "nodes_queued": sum(len(s.queue) for s in alive),
        "node_starts": sum(t.starts for t in tallies),
        "licences_held": len(fleet.cloud.held),
        "licences_leaked": len(fleet.cloud.held.keys() - holders),
        "ports_open": sum(len(ports) for ports in listening(fleet, now).values()),
        "port_conflicts": sum(t.conflicts for t in tallies),
        "ports_unbound": len(fleet.unbound),
        "requests": sum(t.requests for t in tallies),
    }


def server_view(fleet: Fleet, server: Server, now: float) -> dict[str, Any]:
    """Return a server's identity, size, power and counts."""
    settle(server, now)
    identity, machine = server.config.identity, server.config.machine
    stage = "destroyed" if server.power.destroyed else str(boot_stage(server, now))
    return {
        "id": server.id,
        "product_uuid": identity.product_uuid,
        "compute_id": identity.compute_id,
        "hostname": identity.hostname,
        "version": server.config.profile.version,
        "stage": stage,
        "running": server.power.on,
        "address": fleet.address_of(server),
        "port": fleet.port,
        "boots": server.power.boots,
        "boot_seconds": machine.boot_seconds,
        "cpus": machine.cpus,
        "memory_bytes": machine.memory_bytes,
        "disk_bytes": machine.disk_bytes,
        "labs": len(server.labs),
        "nodes": len(server.nodes),
        "nodes_running": len(server.active),
        "nodes_queued": len(server.queue),
        "registered": str(server.licence.stage),
        "authorized": server.licence.authorized,
        "node_quota": server.licence.quota,
        "licence_held": identity.product_uuid in fleet.cloud.held,
    }


def server_state(fleet: Fleet, server: Server, now: float) -> dict[str, Any]:
    """Return everything worth checking about a server: labs, nodes, ports, clashes, counters."""
    opened, clashes = port_forwards.open_ports(server, now)
    labs = [
        {
            "id": lab.id,
            "title": lab.title,
            "notes": lab.notes,
            "state": str(lab.state()),
            "nodes": [
                {
                    "id": node.id,
                    "label": node.label,
                    "node_definition": node.definition,
                    "state": str(node.state(now)),
                    "tags": node.tags,
                }
                for node in lab.nodes.values()
            ],
        }
        for lab in server.labs.values()
    ]
    return {
        **server_view(fleet, server, now),
        "lab_list": labs,
        "open_ports": [
            {"transport": p.transport, "port": p.outer, "kind": p.kind, "node_id": p.node_id}
            for p in opened
        ],
        "clashes_now": len(clashes),
        "clash_log": [
            {
                "at": c.at,
                "transport": c.transport,
                "port": c.outer,
                "winner": c.winner,
                "loser": c.loser,
            }
            for c in server.clashes
        ],
        "counters": {
            "imports": server.tally.imports,
            "labs_created": server.tally.labs_created,
            "labs_deleted": server.tally.labs_deleted,
            "starts": server.tally.starts,
            "conflicts": server.tally.conflicts,
            "requests": server.tally.requests,
        },
    }

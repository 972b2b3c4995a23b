"""The outside worlds of a rehearsal as plain values, and the same worlds made of them again.

What is written down is what a person could have looked up at that instant: machines with their
tags, servers with their labs, nodes and licences, what is attached to nothing. The names in the
files are this module's own, so that they outlive the names of classes and fields. Calls that
were under way are not there: their processes died with the recording, and whoever opens it has
to look up whether they arrived.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from cml_simulator.core import builder, fleet, topology
from cml_simulator.core import model as cml_model
from cml_simulator.core.export import download
from cml_simulator.core.inputs import Rng
from cml_simulator.core.licensing import Stage as Registration
from cml_simulator.core.profile import Machine as Hardware
from cml_simulator.core.server import ADMIN_ID, Server
from labfleet.interfaces.compute import LaunchRequest, Leftover
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.worlds.ec2 import FakeInstance
from labfleet.resources import spellings
from labfleet.resources.machine import ScheduledEvent
from labfleet.resources.providers.aws import AwsSettings

REST_SECONDS = 45.0
"""How long a change of a machine goes on that was under way when it was recorded."""


def described(stage: Stage) -> dict[str, Any]:
    """Return the truth of this instant as plain values."""
    cloud, cml, seen = stage.cloud, stage.cml_servers.fleet, stage.invariants
    return {
        "at": stage.loop.time(),
        "instances": [_instance(each) for each in cloud.vms.values()],
        "launchTokens": dict(cloud.tokens),
        "launchRequests": {key: _request(each) for key, each in cloud.bound.items()},
        "leftovers": [msgspec.to_builtins(each) for each in cloud.waste],
        "servers": [_server(each) for each in cml.servers.values()],
        "addresses": dict(cml.addresses),
        "boots": cml.boots,
        "licencesHeld": dict(cml.cloud.held),
        "ofOthers": sorted(seen.strangers),
        "adopted": sorted(seen.adopted),
        "kept": sorted(seen.spared),
        "licencesKnownLost": sorted(seen.leaks),
    }


def put_back(stage: Stage, worlds: dict[str, Any]) -> None:
    """Make the worlds of a stage that has just been set up what was recorded."""
    cloud, cml, seen = stage.cloud, stage.cml_servers.fleet, stage.invariants
    for row in worlds["servers"]:
        _put_server(stage, row)
    cml.addresses.update(worlds["addresses"])
    cml.boots = worlds["boots"]
    cml.cloud.held.update(worlds["licencesHeld"])
    for row in worlds["instances"]:
        cloud.put_back(_thing(row), REST_SECONDS)
    cloud.tokens.update(worlds["launchTokens"])
    cloud.bound.update({key: _asked(row) for key, row in worlds["launchRequests"].items()})
    cloud.waste = [msgspec.convert(row, Leftover) for row in worlds["leftovers"]]
    seen.strangers.update(worlds["ofOthers"])
    seen.adopted.update(worlds["adopted"])
    seen.spared.update(worlds["kept"])
    seen.leaks.update(worlds["licencesKnownLost"])


def heal(stage: Stage) -> None:
    """End what was wrong with machines, servers and the licence cloud when it was recorded."""
    for thing in stage.cloud.vms.values():
        thing.system_check = thing.instance_check = "ok"
        thing.events = ()
    for server in stage.cml_servers.fleet.servers.values():
        server.licence.reachable = server.licence.compliant = True
        server.revision += 1


# --- EC2 ----------------------------------------------------------------------------------


def _request(request: LaunchRequest) -> dict[str, Any]:
    return {
        "region": request.region,
        "token": request.token,
        "worker": request.worker,
        "workerUid": request.worker_uid,
        "attempt": request.attempt,
        "image": request.choice["image"],
        "type": request.choice["type"],
        "subnet": request.choice.get("subnet"),
        "pool": request.pool,
        "aws": msgspec.to_builtins(request.settings),
    }


def _asked(row: dict[str, Any]) -> LaunchRequest:
    return LaunchRequest(
        region=row["region"],
        token=row["token"],
        worker=row["worker"],
        worker_uid=row["workerUid"],
        attempt=row["attempt"],
        choice={key: row[key] for key in ("image", "type", "subnet") if row[key] is not None},
        pool=row["pool"],
        settings=msgspec.convert(row["aws"], AwsSettings),
    )


def _instance(thing: FakeInstance) -> dict[str, Any]:
    return {
        "id": thing.id,
        "state": thing.state,
        "before": thing.before,
        "since": thing.since,
        "tags": thing.tags,
        "request": _request(thing.request),
        "zone": thing.zone,
        "server": thing.server_id,
        "launched": thing.launched,
        "visible": thing.visible,
        "publicIp": thing.public_ip,
        "reason": thing.reason,
        "hangs": thing.hangs,
        "systemCheck": thing.system_check,
        "instanceCheck": thing.instance_check,
        "events": [msgspec.to_builtins(each) for each in thing.events],
        "console": thing.console,
    }


def _thing(row: dict[str, Any]) -> FakeInstance:
    return FakeInstance(
        id=row["id"],
        state=spellings.STATES.get(row["state"], row["state"]),
        before=row["before"],
        since=row["since"],
        tags=row["tags"],
        request=_asked(row["request"]),
        zone=row["zone"],
        server_id=row["server"],
        launched=row["launched"],
        visible=row["visible"],
        public_ip=row["publicIp"],
        reason=row["reason"],
        hangs=row["hangs"],
        system_check=row["systemCheck"],
        instance_check=row["instanceCheck"],
        events=tuple(msgspec.convert(each, ScheduledEvent) for each in row["events"]),
        console=row["console"],
    )


# --- CML ----------------------------------------------------------------------------------


def _server(server: Server) -> dict[str, Any]:
    identity, machine, power = server.config.identity, server.config.machine, server.power
    return {
        "id": server.id,
        "productUuid": identity.product_uuid,
        "computeId": identity.compute_id,
        "machine": [machine.cpus, machine.memory_bytes, machine.disk_bytes, machine.boot_seconds],
        "on": power.on,
        "switched": power.since,
        "readyAt": power.ready_at,
        "readySeen": power.ready_seen,
        "boots": power.boots,
        "destroyed": power.destroyed,
        "licence": _licence(server),
        "telemetryOn": server.opt_in,
        "telemetry": list(server.telemetry)[-50:],
        "labs": [_lab(lab) for lab in server.labs.values()],
        "queue": [node.id for node in server.queue],
    }


def _licence(server: Server) -> dict[str, Any]:
    licence = server.licence
    return {
        "product": licence.product,
        "registration": str(licence.stage),
        "tokenGood": licence.token_good,
        "expansion": licence.expansion,
        "due": licence.due,
        "attempted": licence.attempted,
        "registeredAt": licence.registered_at,
        "authorizedAt": licence.authorized_at,
        "renewedAt": licence.renewed_at,
        "nextTry": licence.next_try,
        "failure": licence.failure,
        "reachable": licence.reachable,
        "compliant": licence.compliant,
        "covered": licence.covered,
        "expired": licence.expired,
    }


def _put_server(stage: Stage, row: dict[str, Any]) -> None:
    cpus, memory, disk, boot = row["machine"]
    server = fleet.create(
        stage.cml_servers.fleet,
        server_id=row["id"],
        product_uuid=row["productUuid"],
        machine=Hardware(cpus=cpus, memory_bytes=memory, disk_bytes=disk, boot_seconds=boot),
    )
    identity = replace(server.config.identity, compute_id=row["computeId"])
    server.config = replace(server.config, identity=identity)
    power = server.power
    power.on, power.destroyed, power.boots = row["on"], row["destroyed"], row["boots"]
    power.since, power.ready_at, power.ready_seen = (
        row["switched"], row["readyAt"], row["readySeen"],
    )  # fmt: skip
    _put_licence(server, row["licence"])
    server.opt_in = row["telemetryOn"]
    server.telemetry.extend(row["telemetry"])
    for lab in row["labs"]:
        _put_lab(server, lab)
    server.queue = [server.nodes[name] for name in row["queue"]]
    server.revision += 1


def _put_licence(server: Server, row: dict[str, Any]) -> None:
    licence = server.licence
    licence.product, licence.stage = row["product"], Registration(row["registration"])
    licence.token_good, licence.expansion = row["tokenGood"], row["expansion"]
    licence.due, licence.attempted = row["due"], row["attempted"]
    licence.registered_at, licence.authorized_at = row["registeredAt"], row["authorizedAt"]
    licence.renewed_at, licence.next_try = row["renewedAt"], row["nextTry"]
    licence.failure, licence.reachable = row["failure"], row["reachable"]
    licence.compliant, licence.covered = row["compliant"], row["covered"]
    licence.expired = row["expired"]


def _lab(lab: cml_model.Lab) -> dict[str, Any]:
    return {
        "id": lab.id,
        "title": lab.title,
        "notes": lab.notes,
        "created": lab.created,
        "topology": download(lab),
        "nodes": [_node(node) for node in lab.nodes.values()],
        "links": [link.id for link in lab.links.values()],
    }


def _node(node: cml_model.Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "phase": str(node.phase),
        "disk": node.disk,
        "queuedAt": node.queued_at,
        "startedAt": node.started_at,
        "startingUntil": node.starting_until,
        "bootedAt": node.booted_at,
        "stopDue": node.stop_due,
        "vncKey": node.vnc_key,
        "consoleKeys": node.console_keys,
        "tags": node.tags,
        "interfaces": [
            {"id": each.id, "mac": each.mac, "learnedMac": each.learned_mac}
            for each in node.interfaces
        ],
    }


class _Ids:
    """Dice that give recorded ids first, in their order: an import draws each of them once."""

    def __init__(self, ids: list[str], after: Rng) -> None:
        self.left = [int(each.replace("-", ""), 16) for each in ids]
        self._after = after

    def getrandbits(self, bits: int, /) -> int:
        """Return the next id's bits; what nobody knows by its id (annotations) gets a new one."""
        return self.left.pop(0) if self.left else self._after.getrandbits(bits)

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._after.random()


def _put_lab(server: Server, row: dict[str, Any]) -> None:
    """Import the lab again under its old ids, then set what had become of its nodes."""
    ids = [row["id"]]
    for node in row["nodes"]:
        ids += [node["id"], *(each["id"] for each in node["interfaces"])]
    rng, server.rng = server.rng, _Ids([*ids, *row["links"]], server.rng)
    parsed = topology.parse(topology.load_text(row["topology"].encode()), server.config.profile)
    lab, _ = builder.import_topology(server, parsed, row["title"], ADMIN_ID, row["created"])
    assert not server.rng.left
    server.rng = rng
    lab.notes = row["notes"]
    assert (lab.id, [*lab.nodes]) == (row["id"], [each["id"] for each in row["nodes"]])
    for node, was in zip(lab.nodes.values(), row["nodes"], strict=True):
        _put_node(server, node, was)
    again = _lab(lab)
    # The drawing's annotations follow tags that somebody has changed since.
    assert {**again, "topology": ""} == {**row, "topology": ""}


def _put_node(server: Server, node: cml_model.Node, row: dict[str, Any]) -> None:
    node.phase, node.disk = cml_model.State(row["phase"]), row["disk"]
    node.queued_at, node.started_at = row["queuedAt"], row["startedAt"]
    node.starting_until, node.booted_at = row["startingUntil"], row["bootedAt"]
    node.stop_due, node.tags = row["stopDue"], row["tags"]
    node.vnc_key, node.console_keys = row["vncKey"], row["consoleKeys"]
    for interface, was in zip(node.interfaces, row["interfaces"], strict=True):
        interface.mac, interface.learned_mac = was["mac"], was["learnedMac"]
    if node.phase is cml_model.State.STARTED:
        server.active[node.id] = node
    if node.stop_due is not None:
        server.stopping[node.id] = node

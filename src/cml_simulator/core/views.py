"""Bodies of labs, nodes, interfaces, links and their events, in CML 2.9's shapes."""

from typing import Any

from cml_simulator.core import sharing
from cml_simulator.core.inputs import share
from cml_simulator.core.model import Interface, Lab, Link, Node, State, User
from cml_simulator.core.usage import GHOST
from cml_simulator.core.world import Server, lab_state

PROGRESS = {State.STARTING: "Booting", State.STARTED: "Booting", State.BOOTED: "Booted"}
WORDS = {"ADD": "CREATED", "REMOVE": "DELETED", "CHANGE": "MODIFIED", "STATE_CHANGED": "state"}
"""Event words of 2.10 for those of older releases."""


def lab_view(server: Server, lab: Lab, now: float, viewer: User | None = None) -> dict[str, Any]:
    """Return a lab's body as one user sees it (without one, as an admin does)."""
    owner, profile = server.users.get(lab.owner), server.config.profile
    body = {
        "id": lab.id,
        "created": server.stamp(lab.created),
        "modified": server.stamp(lab.modified),
        "lab_title": lab.title,
        "lab_description": lab.description,
        "lab_notes": lab.notes,
        "owner": lab.owner,
        "owner_username": owner.username if owner else "",
        "owner_fullname": owner.fullname if owner else "",
        "state": str(lab_state(server, lab, now)),
        "node_count": len(lab.nodes),
        "link_count": len(lab.links),
        "effective_permissions": sharing.permissions(server, lab, viewer),
    }
    if profile.group_lists:
        body["groups"] = sharing.old_groups(lab)
    if profile.lab_extras:
        body |= {"autostart": lab.autostart, "node_staging": lab.node_staging}
    return body


def main_configuration(node: Node) -> str | None:
    """Return the content of the main day-0 file."""
    return node.configuration[0]["content"] if node.configuration else None


def configuration(node: Node, *, exclude: bool | None, named: bool = False) -> Any:
    """Return nothing (True), every file (False, and always from 2.10) or the main file's text."""
    if exclude:
        return None
    return main_configuration(node) if exclude is None and not named else node.configuration


def consoles(node: Node) -> list[dict[str, Any]]:
    """Return the serial consoles of a deployed node."""
    return [
        {"console_key": key, "label": f"serial{line}", "device_number": line}
        for line, key in enumerate(node.console_keys)
    ]


def _deployed(server: Server, node: Node) -> dict[str, Any]:
    return {
        "compute_id": server.compute_id if node.disk else None,
        "resource_pool": node.pool,
        "vnc_key": node.vnc_key,
        "iol_app_id": None if node.kind.driver != "iol" or not node.disk else _iol_id(node),
        "serial_consoles": consoles(node),
    }


def _iol_id(node: Node) -> int:
    return 1 + int(share(node.id, "iol") * 510)


def node_view(
    server: Server,
    node: Node,
    now: float,
    *,
    operational: bool | None = None,
    exclude: bool | None = None,
) -> dict[str, Any]:
    """Return a node's body; top-level sizes are the overrides, `operational` the real ones."""
    state = node.state(now)
    body = {
        "id": node.id,
        "lab_id": node.lab_id,
        "label": node.label,
        "node_definition": node.definition,
        "x": node.x,
        "y": node.y,
        "image_definition": node.image,
        "ram": node.ram,
        "cpus": node.cpus,
        "cpu_limit": node.cpu_limit,
        "data_volume": node.data_volume,
        "boot_disk_size": node.boot_disk_size,
        "hide_links": node.hide_links,
        "parameters": node.parameters,
        "tags": node.tags,
        "state": str(state),
        "boot_progress": PROGRESS.get(state, "Not running"),
        "configuration": configuration(
            node, exclude=exclude, named=server.config.profile.named_files_only
        ),
        "pinned_compute_id": node.pinned_compute_id,
    }
    if operational is not False and server.config.profile.deployed_on_top:
        body |= _deployed(server, node)
    if server.config.profile.lab_extras:
        body["priority"] = node.priority
    if operational:
        body["operational"] = _operational(server, node)
    return body


def _operational(server: Server, node: Node) -> dict[str, Any] | None:
    if not node.disk:
        return None
    size = node.kind.disk if node.boot_disk_size is None else node.boot_disk_size
    return {
        "boot_disk_size": size,
        "cpu_limit": node.want_limit,
        "cpus": node.want_cpus,
        "data_volume": node.data_volume,
        "ram": node.want_ram,
        "image_definition": node.image or node.kind.image,
        **_deployed(server, node),
    }


def interface_state(node: Node, interface: Interface) -> State:
    """Return an interface's state word."""
    if node.admitted:
        return State.STARTED if interface.up else State.STOPPED
    return State.STOPPED if node.disk else State.DEFINED


def interface_view(node: Node, interface: Interface, *, operational: bool) -> dict[str, Any]:
    """Return an interface's body; there is no IP address in it."""
    body: dict[str, Any] = {
        "id": interface.id,
        "lab_id": node.lab_id,
        "node": node.id,
        "label": interface.label,
        "slot": interface.slot,
        "type": interface.kind,
        "mac_address": interface.mac,
        "is_connected": interface.link_id is not None,
        "state": str(interface_state(node, interface)),
    }
    if operational:
        mac = interface.learned_mac
        port = 40_000 + int(share(interface.id, "udp") * 20_000)
        body["operational"] = {
            "mac_address": mac,
            "device_name": f"nf{mac.replace(':', '')}" if mac and node.admitted else None,
            "src_udp_port": port if node.kind.driver == "iol" and node.admitted else None,
            "dst_udp_port": port + 1 if node.kind.driver == "iol" and node.admitted else None,
        }
    return body


def link_state(server: Server, link: Link) -> State:
    """Return STARTED only when both ends run."""
    ends = server.nodes[link.node_a], server.nodes[link.node_b]
    if all(end.admitted for end in ends):
        return State.STARTED if link.up else State.STOPPED
    return State.STOPPED if any(end.disk for end in ends) else State.DEFINED


def link_view(server: Server, link: Link) -> dict[str, Any]:
    """Return a link's body."""
    return {
        "id": link.id,
        "lab_id": link.lab_id,
        "label": link.label,
        "state": str(link_state(server, link)),
        "interface_a": link.a,
        "interface_b": link.b,
        "node_a": link.node_a,
        "node_b": link.node_b,
        "link_capture_key": _capture_key(server, link),
    }


def _capture_key(server: Server, link: Link) -> str:
    if server.config.profile.whole_links:
        return link.id
    return link.capture.key if link.capture is not None else ""


def element_states(server: Server, lab: Lab, now: float) -> dict[str, dict[str, str]]:
    """Return the states of everything in a lab."""
    ghosts = {GHOST: "STARTED"} if server.server_conditions.ghosts else {}
    states = {
        "nodes": {n.id: str(n.state(now)) for n in lab.nodes.values()},
        "interfaces": {
            i.id: str(interface_state(n, i)) for n in lab.nodes.values() for i in n.interfaces
        },
        "links": {k.id: str(link_state(server, k)) for k in lab.links.values()},
    }
    for kind in states.values():
        kind.update(ghosts)
    return states


def events_view(server: Server, lab: Lab, now: float) -> list[dict[str, Any]]:
    """Return the events up to now in the order of their time."""
    shown = sorted((e for e in lab.events if e["at"] <= now), key=lambda e: e["at"])
    return [event_view(server, event) for event in shown]


def event_view(server: Server, event: dict[str, Any]) -> dict[str, Any]:
    """Return one event in the words of the server's release."""
    body = {key: value for key, value in event.items() if key != "at"}
    body["timestamp"] = server.stamp(event["at"])
    if server.config.profile.event_words:
        body["event"] = WORDS[event["event"]]
        body["element_type"] = event["element_type"].title().replace("_", "")
    return body


def tile_view(server: Server, lab: Lab, topology: dict[str, Any], now: float) -> dict[str, Any]:
    """Return a lab's tile of the dashboard."""
    return {**lab_view(server, lab, now), "topology": topology}


def opt_in_word(server: Server, value: bool | None) -> bool | str | None:  # noqa: FBT001 - a value
    """Return a telemetry choice in the kind of the server's release."""
    kind = server.config.profile.opt_in
    if kind == "word":
        return {True: "accepted", False: "declined", None: "unset"}[value]
    return bool(value) if kind == "bool" else value


def user_view(server: Server, user: User) -> dict[str, Any]:
    """Return an account's body, without its password."""
    return {
        "id": user.id,
        "username": user.username,
        "fullname": user.fullname,
        "description": user.description,
        "email": user.email,
        "admin": user.admin,
        "groups": [group.id for group in server.groups.values() if user.id in group.members],
        "associations": sharing.of_subject(server, "users", user.id),
        "resource_pool": user.resource_pool,
        "opt_in": opt_in_word(server, user.opt_in),
        "tour_version": user.tour_version,
        "created": server.stamp(user.created),
        "modified": server.stamp(user.modified),
        "directory_dn": "",
        "labs": [lab.id for lab in server.labs.values() if lab.owner == user.id],
        "pubkey_info": user.pubkey,
    }

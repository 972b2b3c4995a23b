"""Nodes, interfaces and links: sections 2.5 and 2.6."""

from typing import Any

from cml_simulator.core import addresses, builder, fields, lifecycle, views
from cml_simulator.core.definitions import DEFINITIONS, IMAGES
from cml_simulator.core.errors import CmlError, not_found, refused
from cml_simulator.core.model import Interface, Link, Node, State
from cml_simulator.core.world import settle
from cml_simulator.routes.labs import lab_of
from cml_simulator.routes.web import NO_CONTENT, Call, Document, Reply, Route

SIZES = ("ram", "cpus", "cpu_limit", "data_volume", "boot_disk_size")
COMMON = (
    *SIZES,
    "label",
    "x",
    "y",
    "image_definition",
    "hide_links",
    "tags",
    "parameters",
    "configuration",
)
CREATE_KEYS = (*COMMON, "node_definition")
UPDATE_KEYS = (*COMMON, "pinned_compute_id")
FROZEN = (*SIZES, "image_definition", "parameters", "configuration", "pinned_compute_id")
"""What can change only while a node is DEFINED_ON_CORE."""


def node_of(call: Call) -> Node:
    """Return the node of the path, or 404."""
    lab = lab_of(call)
    node = lab.nodes.get(call.params["node_id"])
    if node is None:
        raise not_found("Node", call.params["node_id"])
    return node


def _view(call: Call, node: Node) -> dict[str, Any]:
    return views.node_view(
        call.server,
        node,
        call.now,
        operational=call.flag("operational", default=None),
        exclude=call.flag("exclude_configurations", default=None),
    )


def server_nodes(call: Call) -> Any:
    """Return every node of every lab that the caller may see."""
    return [
        _view(call, node)
        for node in call.server.nodes.values()
        if call.account.admin or call.server.labs[node.lab_id].owner == call.account.id
    ]


def list_nodes(call: Call) -> Any:
    """Return the ids of a lab's nodes, or with data their bodies."""
    nodes = lab_of(call).nodes
    return [_view(call, node) for node in nodes.values()] if call.flag("data") else list(nodes)


def create_node(call: Call) -> Any:
    """Add a node, on request with its default interfaces."""
    lab = lab_of(call)
    body = call.document(CREATE_KEYS, ("label", "node_definition", "x", "y"))
    kind = body.read.text(body.row, "node_definition", 250) or ""
    values = _values(body)
    body.done()
    if kind not in DEFINITIONS:
        raise refused(f"Node definition not found: {kind}")
    _check_image(values.get("image"))
    node = Node(call.server.new_id(), lab.id, values["label"], kind, values["x"], values["y"])
    _apply(node, values)
    builder.add_node(call.server, lab, node)
    if call.flag("populate_interfaces") and node.kind.ports:
        builder.fill_slots(call.server, node, node.kind.ports - 1)
    builder.refresh_smart_annotations(call.server, lab)
    lifecycle.touch(lab, call.now)
    return {"id": node.id}


def _values(body: Document) -> dict[str, Any]:
    row, read = body.row, body.read
    values: dict[str, Any] = {
        key: read.whole(row, key, *fields.LIMITS[key]) for key in SIZES if key in row
    }
    checked = fields.node_values({k: v for k, v in row.items() if k not in SIZES}, read)
    if "image_definition" in row:
        values["image"] = checked["image"]
    for key in ("hide_links", "parameters"):
        if key in row:
            values[key] = checked[key]
    if "label" in row:
        values["label"] = read.text(row, "label", 128, needed=True, least=1)
    for key in ("x", "y"):
        if key in row:
            values[key] = read.whole(row, key, -15_000, 15_000, needed=True)
    if "tags" in row:
        values["tags"] = fields.tags(row, read)
    if "configuration" in row:
        values["configuration"] = fields.configuration(row, read)
    if "pinned_compute_id" in row:
        values["pinned_compute_id"] = read.text(row, "pinned_compute_id", 64)
    return values


def _check_image(image: str | None) -> None:
    if image is not None and image not in IMAGES:
        raise refused(f"Image definition not found: {image}")


def _apply(node: Node, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if key == "configuration":
            node.configuration = builder.named_files(node, value)
        else:
            setattr(node, key, value)


def get_node(call: Call) -> Any:
    """Return a node."""
    return _view(call, node_of(call))


def patch_node(call: Call) -> Any:
    """Change a node; sizes, image and configuration only before its first start."""
    node = node_of(call)
    body = call.document(UPDATE_KEYS)
    values = _values(body)
    body.done()
    if node.phase is not State.DEFINED and any(key in body for key in FROZEN):
        raise refused(f"Node must be wiped before it can be changed: {node.id}")
    _check_image(values.get("image"))
    tags = values.pop("tags", None)
    _apply(node, values)
    if tags is not None:
        lifecycle.set_tags(call.server, node, tags, call.now)
    call.server.revision += 1
    lifecycle.touch(call.server.labs[node.lab_id], call.now)
    return node.id


def delete_node(call: Call) -> Reply:
    """Remove a stopped and wiped node."""
    lifecycle.delete_node(call.server, node_of(call), call.now)
    return NO_CONTENT


def start_node(call: Call) -> Reply:
    """Queue a node."""
    lifecycle.start_node(call.server, node_of(call), call.now)
    return NO_CONTENT


def stop_node(call: Call) -> Reply:
    """Stop a node."""
    lifecycle.stop_node(call.server, node_of(call), call.now)
    return NO_CONTENT


def wipe_node(call: Call) -> Reply:
    """Wipe a stopped node's disks."""
    lifecycle.wipe_node(call.server, node_of(call), call.now)
    return NO_CONTENT


def node_state(call: Call) -> Any:
    """Return a node's state and progress words."""
    state = node_of(call).state(call.now)
    return {"state": str(state), "progress": views.PROGRESS.get(state, "Not running")}


def node_converged(call: Call) -> Any:
    """Return whether a node is on its way."""
    return lifecycle.converged([node_of(call)], call.now)


def node_layer3(call: Call) -> Any:
    """Return a node's learnt addresses."""
    node = node_of(call)
    if node.definition == "external_connector":
        raise refused("External connectors have no layer 3 addresses.")
    found = addresses.layer3(call.server, lab_of(call), call.now)
    return found.get(node.id, {"name": node.label, "interfaces": {}})


def console_log(call: Call) -> Any:
    """Return a line about the console; contents are not simulated."""
    node = node_of(call)
    line = call.params["line"]
    if not line.isdigit() or int(line) >= node.kind.serial:
        raise not_found("Console", line)
    return f"{node.label} console {line}: {node.state(call.now)}\n"


def console_key(call: Call) -> Any:
    """Return the key of one serial line."""
    node = node_of(call)
    line = call.request.query.get("line", "0")
    if not line.isdigit() or int(line) >= len(node.console_keys):
        raise not_found("Console", line)
    return node.console_keys[int(line)]


def vnc_key(call: Call) -> Any:
    """Return the VNC key."""
    key = node_of(call).vnc_key
    if key is None:
        raise not_found("VNC", call.params["node_id"])
    return key


def node_interfaces(call: Call) -> Any:
    """Return the ids of a node's interfaces, or with data their bodies."""
    node = node_of(call)
    if not call.flag("data"):
        return [port.id for port in node.interfaces]
    operational = bool(call.flag("operational"))
    return [views.interface_view(node, p, operational=operational) for p in node.interfaces]


def _interface_of(call: Call) -> tuple[Node, Interface]:
    lab = lab_of(call)
    key = call.params["interface_id"]
    interface = call.server.interfaces.get(key)
    if interface is None or interface.node_id not in lab.nodes:
        raise not_found("Interface", key)
    return lab.nodes[interface.node_id], interface


def create_interfaces(call: Call) -> Any:
    """Add the next interface, or all up to a slot; not after the node has been started."""
    lab = lab_of(call)
    body = call.document(("node", "slot", "mac_address"), ("node",))
    key = body.read.text(body.row, "node", 64) or ""
    slot = body.read.whole(body.row, "slot", 0, 128)
    mac = body.read.mac(body.row, "mac_address")
    body.done()
    node = lab.nodes.get(key)
    if node is None:
        raise not_found("Node", key)
    if node.phase is not State.DEFINED:
        raise CmlError(404, f"Node interfaces are frozen until the node is wiped: {key}")
    made = builder.fill_slots(call.server, node, slot)
    if mac is not None:
        made[-1].mac = mac
    shown = [views.interface_view(node, port, operational=False) for port in made]
    return shown[0] if len(shown) == 1 else shown


def get_interface(call: Call) -> Any:
    """Return an interface."""
    node, interface = _interface_of(call)
    return views.interface_view(node, interface, operational=bool(call.flag("operational")))


def patch_interface(call: Call) -> Any:
    """Set a MAC address."""
    node, interface = _interface_of(call)
    body = call.document(("mac_address",))
    mac = body.read.mac(body.row, "mac_address")
    body.done()
    if node.phase is not State.DEFINED:
        raise refused(f"Node must be wiped before it can be changed: {node.id}")
    interface.mac = mac
    return views.interface_view(node, interface, operational=False)


def delete_interface(call: Call) -> Reply:
    """Remove an interface of a wiped node."""
    node, interface = _interface_of(call)
    if node.phase is not State.DEFINED:
        raise refused(f"Node must be wiped before it can be changed: {node.id}")
    builder.drop_interface(call.server, node, interface)
    return NO_CONTENT


def interface_state(call: Call) -> Any:
    """Return an interface's state."""
    node, interface = _interface_of(call)
    return {"label": interface.label, "state": str(views.interface_state(node, interface))}


def list_links(call: Call) -> Any:
    """Return the ids of a lab's links, or with data their bodies."""
    links = lab_of(call).links
    if not call.flag("data"):
        return list(links)
    return [views.link_view(call.server, link) for link in links.values()]


def create_link(call: Call) -> Any:
    """Connect two interfaces."""
    lab = lab_of(call)
    body = call.document(("src_int", "dst_int"), ("src_int", "dst_int"))
    keys = [body.read.text(body.row, name, 64) or "" for name in ("src_int", "dst_int")]
    body.done()
    ends = []
    for key in keys:
        interface = call.server.interfaces.get(key)
        if interface is None or interface.node_id not in lab.nodes:
            raise not_found("Interface", key)
        ends.append(interface)
    return {"id": builder.add_link(call.server, lab, ends[0], ends[1]).id}


def _link_of(call: Call) -> Link:
    link = lab_of(call).links.get(call.params["link_id"])
    if link is None:
        raise not_found("Link", call.params["link_id"])
    return link


def get_link(call: Call) -> Any:
    """Return a link."""
    return views.link_view(call.server, _link_of(call))


def delete_link(call: Call) -> Reply:
    """Remove a link."""
    builder.drop_link(call.server, lab_of(call), _link_of(call))
    return NO_CONTENT


def link_converged(call: Call) -> Any:
    """Return whether a link is on its way: with its nodes' admission it never is."""
    _link_of(call)
    return True


def _set_up(call: Call, target: Interface | Link, *, up: bool) -> Reply:
    settle(call.server, call.now)
    target.up = up
    call.server.revision += 1
    return NO_CONTENT


ROUTES = (
    Route("GET", "/nodes", server_nodes),
    *(
        Route(method, f"/labs/{{lab_id}}{path}", handler)
        for method, path, handler in (
            ("GET", "/nodes", list_nodes),
            ("POST", "/nodes", create_node),
            ("GET", "/nodes/{node_id}", get_node),
            ("PATCH", "/nodes/{node_id}", patch_node),
            ("DELETE", "/nodes/{node_id}", delete_node),
            ("PUT", "/nodes/{node_id}/state/start", start_node),
            ("PUT", "/nodes/{node_id}/state/stop", stop_node),
            ("PUT", "/nodes/{node_id}/wipe_disks", wipe_node),
            ("GET", "/nodes/{node_id}/state", node_state),
            ("GET", "/nodes/{node_id}/check_if_converged", node_converged),
            ("GET", "/nodes/{node_id}/layer3_addresses", node_layer3),
            ("GET", "/nodes/{node_id}/consoles/{line}/log", console_log),
            ("GET", "/nodes/{node_id}/keys/console", console_key),
            ("GET", "/nodes/{node_id}/keys/vnc", vnc_key),
            ("GET", "/nodes/{node_id}/interfaces", node_interfaces),
            ("POST", "/interfaces", create_interfaces),
            ("GET", "/interfaces/{interface_id}", get_interface),
            ("PATCH", "/interfaces/{interface_id}", patch_interface),
            ("DELETE", "/interfaces/{interface_id}", delete_interface),
            ("GET", "/interfaces/{interface_id}/state", interface_state),
            (
                "PUT",
                "/interfaces/{interface_id}/state/start",
                lambda call: _set_up(call, _interface_of(call)[1], up=True),
            ),
            (
                "PUT",
                "/interfaces/{interface_id}/state/stop",
                lambda call: _set_up(call, _interface_of(call)[1], up=False),
            ),
            ("GET", "/links", list_links),
            ("POST", "/links", create_link),
            ("GET", "/links/{link_id}", get_link),
            ("DELETE", "/links/{link_id}", delete_link),
            ("GET", "/links/{link_id}/check_if_converged", link_converged),
            (
                "PUT",
                "/links/{link_id}/state/start",
                lambda call: _set_up(call, _link_of(call), up=True),
            ),
            (
                "PUT",
                "/links/{link_id}/state/stop",
                lambda call: _set_up(call, _link_of(call), up=False),
            ),
        )
    ),
)

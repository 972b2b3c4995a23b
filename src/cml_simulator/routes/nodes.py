"""Nodes of a lab: making, changing, starting, stopping, wiping."""

from typing import Any

from cml_simulator.core import (
    addresses,
    builder,
    configurations,
    definition_store,
    fields,
    lifecycle,
    usage,
    views,
)
from cml_simulator.core.errors import CmlError, not_found, refused
from cml_simulator.core.model import Node, State
from cml_simulator.routes.labs import lab_of, visible_labs
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
NEW_KEYS = ("priority", "pyats")
"""What 2.10 adds to both."""
MOST_NODES = 5000
FROZEN = (*SIZES, "image_definition", "parameters", "configuration", "pinned_compute_id")
"""What can change only while a node is DEFINED_ON_CORE."""


def node_of(call: Call) -> Node:
    """Return the node of the path, or 404."""
    lab = lab_of(call)
    node = lab.nodes.get(call.params["node_id"])
    if node is None:
        key = call.params["node_id"]
        plain = call.request.method == "GET" and call.request.path.endswith(f"/{key}")
        raise CmlError(
            call.server.config.rules.missing_node_status if plain else 404, f"Node not found: {key}"
        )
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
        for lab in visible_labs(call, everything=True)
        for node in lab.nodes.values()
    ]


def list_nodes(call: Call) -> Any:
    """Return the ids of a lab's nodes, or with data their bodies."""
    nodes = lab_of(call).nodes
    return [_view(call, node) for node in nodes.values()] if call.flag("data") else list(nodes)


def create_node(call: Call) -> Any:
    """Add a node, on request with its default interfaces."""
    lab = lab_of(call)
    body = call.document(_keys(call, CREATE_KEYS), ("label", "node_definition", "x", "y"))
    kind = body.read.text(body.row, "node_definition", 250) or ""
    values = _values(body)
    body.done()
    if call.server.definition_store.kind(kind) is None:
        raise refused(f"Node definition not found: {kind}")
    if len(lab.nodes) >= MOST_NODES:
        raise refused(f"A lab takes {MOST_NODES} nodes.")
    _check_image(call, values.get("image"))
    node = Node(call.server.new_id(), lab.id, values["label"], kind, values["x"], values["y"])
    _apply(node, values)
    builder.fit_kind(call.server, node)
    builder.add_node(call.server, lab, node)
    if call.flag("populate_interfaces") and node.kind.ports:
        builder.fill_slots(call.server, node, node.kind.ports - 1)
    builder.refresh_smart_annotations(call.server, lab)
    lifecycle.changed(call.server, lab, ("NODE", node.id), "ADD", call.now)
    return {"id": node.id}


def _keys(call: Call, keys: tuple[str, ...]) -> tuple[str, ...]:
    return (*keys, *NEW_KEYS) if call.server.config.profile.lab_extras else keys


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
    if "priority" in row:
        values["priority"] = read.whole(row, "priority", 0, 10_000)
    return values


def _check_image(call: Call, image: str | None) -> None:
    if image is not None and call.server.definition_store.image(image) is None:
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
    body = call.document(_keys(call, UPDATE_KEYS))
    values = _values(body)
    body.done()
    if node.phase is not State.DEFINED and any(key in body for key in FROZEN):
        raise refused(f"Node must be wiped before it can be changed: {node.id}")
    _check_image(call, values.get("image"))
    pinned = values.get("pinned_compute_id")
    if pinned is not None and pinned != call.server.compute_id:
        raise refused(f"Compute host not found: {pinned}")
    tags = values.pop("tags", None)
    _apply(node, values)
    builder.fit_kind(call.server, node)
    if tags is not None:
        lifecycle.set_tags(call.server, node, tags, call.now)
    call.server.revision += 1
    lab = call.server.labs[node.lab_id]
    lifecycle.changed(call.server, lab, ("NODE", node.id), "CHANGE", call.now)
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
    return lifecycle.converged(call.server, [node_of(call)], call.now)


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
    if not _is_line(line, node.kind.serial):
        raise not_found("Console", line)
    lines = call.whole("lines", 0, 0, 1_000_000)
    text = [f"{node.label} console {line}: {node.state(call.now)}"]
    if node.admitted and call.now >= node.booted_at and not node.broken:
        text.append(f"{node.label} login:")
    return "\n".join(text[-lines:] if lines else text) + "\n"


def _is_line(text: str, count: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4 and int(text) < count


def extract_configuration(call: Call) -> Any:
    """Read the configuration out of a booted node."""
    node = node_of(call)
    configurations.extract(call.server, node, call.now)
    return views.main_configuration(node)


def clone_image(call: Call) -> Any:
    """Make an image definition of a stopped node's disk: 400 unless STOPPED, 409 without room."""
    node = node_of(call)
    if node.phase is not State.STOPPED or not node.kind.has_vm:
        raise refused(f"Node must be stopped before its image can be cloned: {node.id}")
    if usage.disk_overload(call.server, call.now):
        raise CmlError(409, "Not enough disk space to clone the image.")
    name = f"{node.definition}-clone-{call.server.new_id()[:8]}"
    row = {
        "id": name,
        "node_definition_id": node.definition,
        "label": f"{node.label} clone"[:250],
        "description": f"Cloned from node {node.label}",
        "disk_image": f"{name}.qcow2",
        "ram": node.ram,
        "cpus": node.cpus,
    }
    definition_store.put_image(call.server.definition_store, row, new=True)
    return definition_store.known_image(call.server.definition_store, name)


def console_key(call: Call) -> Any:
    """Return the key of one serial line."""
    node = node_of(call)
    line = call.request.query.get("line", "0")
    if not _is_line(line, len(node.console_keys)):
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


ROUTES = (
    Route("GET", "/nodes", server_nodes),
    *(
        Route(method, f"/labs/{{lab_id}}/nodes{path}", handler)
        for method, path, handler in (
            ("GET", "", list_nodes),
            ("POST", "", create_node),
            ("GET", "/{node_id}", get_node),
            ("PATCH", "/{node_id}", patch_node),
            ("DELETE", "/{node_id}", delete_node),
            ("PUT", "/{node_id}/state/start", start_node),
            ("PUT", "/{node_id}/state/stop", stop_node),
            ("PUT", "/{node_id}/wipe_disks", wipe_node),
            ("GET", "/{node_id}/state", node_state),
            ("GET", "/{node_id}/check_if_converged", node_converged),
            ("GET", "/{node_id}/layer3_addresses", node_layer3),
            ("PUT", "/{node_id}/extract_configuration", extract_configuration),
            ("GET", "/{node_id}/consoles/{line}/log", console_log),
            ("GET", "/{node_id}/keys/console", console_key),
            ("GET", "/{node_id}/keys/vnc", vnc_key),
            ("GET", "/{node_id}/interfaces", node_interfaces),
        )
    ),
    Route("PUT", "/labs/{lab_id}/nodes/{node_id}/clone_image", clone_image, first=9),
)

"""Labs: section 2.4. Import, life cycle, states, topology."""

from typing import Any

from cml_simulator.core import addresses, builder, export, lifecycle, topology, usage, views
from cml_simulator.core.errors import CmlError, not_found
from cml_simulator.core.model import Lab
from cml_simulator.routes.web import NO_CONTENT, Call, Reply, Route, decode_json

LAB_KEYS = ("title", "description", "notes", "owner", "groups", "associations")


def lab_of(call: Call) -> Lab:
    """Return the lab of the path: 404 if there is none, 403 if it is someone else's."""
    key = call.params["lab_id"]
    lab = call.server.labs.get(key)
    if lab is None:
        raise not_found("Lab", key)
    if not call.account.admin and lab.owner != call.account.id:
        raise CmlError(403, f"User does not have permission for lab: {key}")
    return lab


def list_labs(call: Call) -> Any:
    """Return the caller's labs, or all that the caller may view."""
    everything = bool(call.flag("show_all")) and call.account.admin
    labs = call.server.labs.values()
    return [lab.id for lab in labs if everything or lab.owner == call.account.id]


def create_lab(call: Call) -> Any:
    """Create an empty lab."""
    values = _lab_values(call)
    lab = builder.new_lab(call.server, call.account.id, call.now, values.get("title"))
    _set_lab(lab, values)
    return views.lab_view(call.server, lab)


def get_lab(call: Call) -> Any:
    """Return a lab."""
    return views.lab_view(call.server, lab_of(call))


def patch_lab(call: Call) -> Any:
    """Change title, description, notes or owner."""
    lab = lab_of(call)
    values = _lab_values(call)
    _set_lab(lab, values)
    lifecycle.touch(lab, call.now)
    return views.lab_view(call.server, lab)


def _lab_values(call: Call) -> dict[str, Any]:
    body = call.document(LAB_KEYS)
    read = body.read
    values = {
        "title": read.text(body.row, "title", 64, line=True, least=1),
        "description": read.text(body.row, "description", 4096),
        "notes": read.text(body.row, "notes", 32_768),
        "owner": read.text(body.row, "owner", 64),
    }
    if values["owner"] is not None and values["owner"] not in call.server.users:
        read.fail("owner", "value_error", f"User does not exist: {values['owner']}")
    body.done()
    return values


def _set_lab(lab: Lab, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if value is not None:
            setattr(lab, key, value)


def delete_lab(call: Call) -> Reply:
    """Remove a stopped and wiped lab."""
    lifecycle.delete_lab(call.server, lab_of(call), call.now)
    return NO_CONTENT


def start_lab(call: Call) -> Reply:
    """Queue the lab's nodes."""
    lifecycle.start_lab(call.server, lab_of(call), call.now)
    return NO_CONTENT


def stop_lab(call: Call) -> Reply:
    """Stop the lab's nodes."""
    lifecycle.stop_lab(call.server, lab_of(call), call.now)
    return NO_CONTENT


def wipe_lab(call: Call) -> Reply:
    """Wipe the lab's nodes."""
    lifecycle.wipe_lab(call.server, lab_of(call), call.now)
    return NO_CONTENT


def lab_state(call: Call) -> Any:
    """Return the lab's state word."""
    return str(lab_of(call).state())


def lab_converged(call: Call) -> Any:
    """Return whether nothing in the lab is on its way; does not block."""
    return lifecycle.converged(list(lab_of(call).nodes.values()), call.now)


def element_states(call: Call) -> Any:
    """Return the states of all elements."""
    return views.element_states(call.server, lab_of(call), call.now)


def lab_events(call: Call) -> Any:
    """Return the lab's events."""
    return views.events_view(lab_of(call), call.now)


def simulation_stats(call: Call) -> Any:
    """Return what running nodes and links use."""
    return usage.simulation_stats(call.server, lab_of(call), call.now)


def layer3(call: Call) -> Any:
    """Return the addresses learnt on NAT segments."""
    return addresses.layer3(call.server, lab_of(call), call.now)


def get_topology(call: Call) -> Any:
    """Return the topology as JSON."""
    exclude = call.flag("exclude_configurations", default=None)
    return export.topology(lab_of(call), exclude=exclude)


def download(call: Call) -> Reply:
    """Return the topology as a YAML file."""
    text = export.download(lab_of(call))
    return Reply(200, text.encode(), "application/x-yaml")


def import_lab(call: Call) -> Any:
    """Make a lab from YAML text (with or without a Content-Type) or a JSON object."""
    title = call.request.query.get("title")
    if title is not None:
        topology.check_title(title)
    kind = call.request.headers.get("content-type", "")
    body = call.request.body
    loaded = decode_json(body) if "json" in kind else topology.load_text(body)
    parsed = topology.parse(loaded, call.server.config.profile)
    lab, warnings = builder.import_topology(call.server, parsed, title, call.account.id, call.now)
    return {"id": lab.id, "warnings": warnings or None}


def tiles(call: Call) -> Any:
    """Return every lab of the dashboard with its topology."""
    everything = call.account.admin
    return {
        "lab_tiles": {
            lab.id: views.tile_view(call.server, lab, export.topology(lab, exclude=True))
            for lab in call.server.labs.values()
            if everything or lab.owner == call.account.id
        }
    }


def one_tile(call: Call) -> Any:
    """Return one lab of the dashboard."""
    lab = lab_of(call)
    return views.tile_view(call.server, lab, export.topology(lab, exclude=True))


def lab_pools(call: Call) -> Any:
    """Return the resource pools in use: none exist by default."""
    lab_of(call)
    return []


def lab_groups(call: Call) -> Any:
    """Return the groups a lab is shared with (deprecated)."""
    return lab_of(call).groups


def lab_associations(call: Call) -> Any:
    """Return whom a lab is shared with."""
    lab_of(call)
    return {"groups": [], "users": []}


def connector_mappings(call: Call) -> Any:
    """Return the connector mappings in use."""
    lab = lab_of(call)
    used = any(node.definition == "external_connector" for node in lab.nodes.values())
    return [{"key": "NAT", "device_name": "virbr0"}] if used else []


def find_label(call: Call) -> Any:
    """Return the node with a label."""
    for node in lab_of(call).nodes.values():
        if node.label == call.params["query"]:
            return views.node_view(call.server, node, call.now)
    raise not_found("Node", call.params["query"])


def find_tag(call: Call) -> Any:
    """Return every node with a tag."""
    return [
        views.node_view(call.server, node, call.now)
        for node in lab_of(call).nodes.values()
        if call.params["query"] in node.tags
    ]


ROUTES = (
    Route("GET", "/labs", list_labs),
    Route("POST", "/labs", create_lab),
    Route("POST", "/import", import_lab),
    Route("GET", "/populate_lab_tiles", tiles),
    Route("GET", "/labs/{lab_id}", get_lab),
    Route("PATCH", "/labs/{lab_id}", patch_lab),
    Route("DELETE", "/labs/{lab_id}", delete_lab),
    Route("PUT", "/labs/{lab_id}/start", start_lab),
    Route("PUT", "/labs/{lab_id}/stop", stop_lab),
    Route("PUT", "/labs/{lab_id}/wipe", wipe_lab),
    Route("GET", "/labs/{lab_id}/state", lab_state),
    Route("GET", "/labs/{lab_id}/check_if_converged", lab_converged),
    Route("GET", "/labs/{lab_id}/lab_element_state", element_states),
    Route("GET", "/labs/{lab_id}/events", lab_events),
    Route("GET", "/labs/{lab_id}/simulation_stats", simulation_stats),
    Route("GET", "/labs/{lab_id}/layer3_addresses", layer3),
    Route("GET", "/labs/{lab_id}/topology", get_topology),
    Route("GET", "/labs/{lab_id}/download", download),
    Route("GET", "/labs/{lab_id}/tile", one_tile),
    Route("GET", "/labs/{lab_id}/resource_pools", lab_pools),
    Route("GET", "/labs/{lab_id}/groups", lab_groups),
    Route("GET", "/labs/{lab_id}/associations", lab_associations),
    Route("GET", "/labs/{lab_id}/connector_mappings", connector_mappings),
    Route("GET", "/labs/{lab_id}/find/node/label/{query}", find_label),
    Route("GET", "/labs/{lab_id}/find_all/node/tag/{query}", find_tag),
)

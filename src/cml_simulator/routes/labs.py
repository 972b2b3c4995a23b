"""Labs: import, life cycle, states, topology."""

from typing import Any

import yaml

from cml_simulator.core import (
    addresses,
    builder,
    export,
    fields,
    lifecycle,
    pools,
    sharing,
    topology,
    usage,
    views,
    world,
)
from cml_simulator.core.errors import CmlError, Problem, invalid, not_found
from cml_simulator.core.model import Lab
from cml_simulator.routes.web import NO_CONTENT, Call, Reply, Route, decode_json, document

TEXT_KEYS = ("title", "description", "notes", "owner")
RUNS = ("start", "stop", "wipe", "wipe_disks")


def lab_of(call: Call, need: str | None = None) -> Lab:
    """Return the lab of the path: 404 if there is none, 403 if the caller may not do that.

    Reading needs lab_view; what starts and stops needs lab_exec; all other changes lab_edit.
    """
    key = call.params["lab_id"]
    lab = call.server.labs.get(key)
    if lab is None:
        raise not_found("Lab", key)
    if need is None:
        runs = call.request.path.rstrip("/").rsplit("/", 1)[-1] in RUNS
        need = "lab_view" if call.request.method == "GET" else "lab_exec" if runs else "lab_edit"
    if need not in sharing.permissions(call.server, lab, call.account):
        raise CmlError(403, f"User does not have permission for lab: {key}")
    return lab


def visible_labs(call: Call, *, everything: bool) -> list[Lab]:
    """Return the caller's own labs, or all that the caller may view."""
    user, server = call.account, call.server
    return [
        lab
        for lab in server.labs.values()
        if lab.owner == user.id or (everything and sharing.visible(server, lab, user))
    ]


def list_labs(call: Call) -> Any:
    """Return the caller's labs, or all that the caller may view."""
    return [lab.id for lab in visible_labs(call, everything=bool(call.flag("show_all")))]


def create_lab(call: Call) -> Any:
    """Create an empty lab."""
    values = _lab_values(call)
    lab = builder.new_lab(call.server, call.account.id, call.now, values.get("title"))
    _set_lab(call, lab, values)
    return views.lab_view(call.server, lab, call.now, call.account)


def get_lab(call: Call) -> Any:
    """Return a lab."""
    return views.lab_view(call.server, lab_of(call), call.now, call.account)


def patch_lab(call: Call) -> Any:
    """Change title, description, notes, owner or whom it is shared with."""
    lab = lab_of(call)
    values = _lab_values(call)
    if values["owner"] is not None or "associations" in values or "groups" in values:
        lab_of(call, "lab_admin")
    _set_lab(call, lab, values)
    lifecycle.changed(call.server, lab, ("LAB", lab.id), "CHANGE", call.now)
    world.tell(call.server, "modified", lab.id, {"title": lab.title}, call.now)
    return views.lab_view(call.server, lab, call.now, call.account)


def _lab_keys(call: Call) -> tuple[str, ...]:
    profile = call.server.config.profile
    return (
        *TEXT_KEYS,
        *(("groups",) if profile.group_lists else ()),
        *(("associations",) if profile.associations else ()),
        *(("autostart", "node_staging") if profile.lab_extras else ()),
    )


def _lab_values(call: Call) -> dict[str, Any]:
    body = call.document(_lab_keys(call))
    read = body.read
    values = {
        "title": read.text(body.row, "title", 64, line=True, least=1),
        "description": read.text(body.row, "description", 4096),
        "notes": read.text(body.row, "notes", 32_768),
        "owner": read.text(body.row, "owner", 64),
    }
    for key, kinds in (("autostart", fields.AUTOSTART), ("node_staging", fields.STAGING)):
        row = body.row.get(key)
        if row is not None and not fields.extra_fits(row, kinds):
            read.fail(key, "dict_type", f"Input should be an object of {', '.join(kinds)}")
        values[key] = row
    for key in ("groups", "associations"):
        if body.row.get(key) is not None:
            values[key] = body.row[key]
    if values["owner"] is not None and values["owner"] not in call.server.users:
        read.fail("owner", "value_error", f"User does not exist: {values['owner']}")
    body.done()
    return values


def _set_lab(call: Call, lab: Lab, values: dict[str, Any]) -> None:
    shares, groups = values.pop("associations", None), values.pop("groups", None)
    if groups is not None:
        sharing.set_old_groups(call.server, lab, groups)
    if shares is not None:
        sharing.set_associations(call.server, lab, shares)
    for key, value in values.items():
        if value is not None:
            setattr(lab, key, value)


def delete_lab(call: Call) -> Reply:
    """Remove a stopped and wiped lab."""
    lifecycle.delete_lab(call.server, lab_of(call, "lab_admin"), call.now)
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
    return str(world.lab_state(call.server, lab_of(call), call.now))


def lab_converged(call: Call) -> Any:
    """Return whether nothing in the lab is on its way; does not block."""
    nodes = list(lab_of(call).nodes.values())
    return lifecycle.converged(call.server, nodes, call.now)


def element_states(call: Call) -> Any:
    """Return the states of all elements."""
    return views.element_states(call.server, lab_of(call), call.now)


def lab_events(call: Call) -> Any:
    """Return the lab's events."""
    return views.events_view(call.server, lab_of(call), call.now)


def simulation_stats(call: Call) -> Any:
    """Return what running nodes and links use."""
    return usage.simulation_stats(call.server, lab_of(call), call.now)


def layer3(call: Call) -> Any:
    """Return the addresses learnt on NAT segments."""
    return addresses.layer3(call.server, lab_of(call), call.now)


def clear_layer3(call: Call) -> Reply:
    """Forget the learnt addresses (2.10); nodes that talk are learnt anew."""
    lab = lab_of(call)
    for node in lab.nodes.values():
        for port in node.interfaces:
            call.server.leases.pop(port.learned_mac or "", None)
    return NO_CONTENT


def get_topology(call: Call) -> Any:
    """Return the topology as JSON."""
    exclude = call.flag("exclude_configurations", default=None)
    return export.topology(call.server, lab_of(call), exclude=exclude)


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
    broken = call.server.config.rules.yaml_error_status
    loaded = decode_json(body) if "json" in kind else topology.load_text(body, broken)
    parsed = topology.parse(loaded, call.server.config.profile)
    lab, warnings = builder.import_topology(call.server, parsed, title, call.account.id, call.now)
    return {"id": lab.id, "warnings": warnings or None}


def tiles(call: Call) -> Any:
    """Return every lab of the dashboard with its topology."""
    return {"lab_tiles": {lab.id: _tile(call, lab) for lab in visible_labs(call, everything=True)}}


def _tile(call: Call, lab: Lab) -> dict[str, Any]:
    shown = export.topology(call.server, lab, exclude=True)
    return views.tile_view(call.server, lab, shown, call.now)


def one_tile(call: Call) -> Any:
    """Return one lab of the dashboard."""
    return _tile(call, lab_of(call))


def lab_pools(call: Call) -> Any:
    """Return the resource pools that the lab's nodes use."""
    return pools.of_lab(call.server, lab_of(call))


def lab_groups(call: Call) -> Any:
    """Return the groups a lab is shared with (deprecated)."""
    return sharing.old_groups(lab_of(call))


def put_lab_groups(call: Call) -> Any:
    """Replace the groups a lab is shared with (deprecated)."""
    lab = lab_of(call, "lab_admin")
    sharing.set_old_groups(call.server, lab, decode_json(call.request.body))
    return sharing.old_groups(lab)


def lab_associations(call: Call) -> Any:
    """Return whom a lab is shared with."""
    return sharing.associations(lab_of(call))


def patch_lab_associations(call: Call) -> Any:
    """Replace the users or the groups a lab is shared with."""
    lab = lab_of(call, "lab_admin")
    sharing.set_associations(call.server, lab, decode_json(call.request.body))
    return sharing.associations(lab)


def _mappings(call: Call, lab: Lab) -> list[dict[str, Any]]:
    found: dict[str, str | None] = {}
    for node in lab.nodes.values():
        if node.definition == "external_connector":
            key = addresses.connector_key(node)
            found[key] = addresses.bridge_of(call.server, lab, node)
    return [{"key": key, "device_name": name} for key, name in (found | lab.mappings).items()]


def connector_mappings(call: Call) -> Any:
    """Return which host bridge each connector key of the lab means."""
    return _mappings(call, lab_of(call))


def patch_connector_mappings(call: Call) -> Any:
    """Point connector keys at other bridges; not while a node with that key runs (409)."""
    lab = lab_of(call)
    rows = decode_json(call.request.body)
    if not isinstance(rows, list) or not rows or len(rows) > 100:
        raise invalid([Problem(("body",), "list_type", "Input should be a list of mappings")])
    devices = {bridge.device_name for bridge in call.server.connectors.values()}
    wanted = {}
    for index, row in enumerate(rows):
        body = document(row, ("key", "device_name"), ("key",))
        key = body.read.text(body.row, "key", 64, least=1) or ""
        name = body.read.text(body.row, "device_name", 64)
        if name is not None and name not in devices:
            body.read.fail("device_name", "value_error", f"No such bridge: {name} ({index})")
        body.done()
        wanted[key] = name
    for node in lab.nodes.values():
        bridging = node.definition == "external_connector" and node.admitted
        if bridging and addresses.connector_key(node) in wanted:
            raise CmlError(409, f"Connector mapping is used by a running node: {node.id}")
    lab.mappings |= wanted
    call.server.revision += 1
    return _mappings(call, lab)


def bootstrap(call: Call) -> Any:
    """Generate the day-0 configuration of every node that has none."""
    lab = lab_of(call)
    for node in lab.nodes.values():
        if node.kind.has_vm and not node.configuration:
            node.configuration = builder.named_files(node, f"hostname {node.label}\n")
    lifecycle.changed(call.server, lab, ("LAB", lab.id), "CHANGE", call.now)
    return NO_CONTENT


def build_configurations(call: Call) -> Any:
    """Generate day-0 configurations as 2.7 and 2.8 do: by a GET with the lab in the query."""
    call.params = {"lab_id": call.request.query.get("lab_id", "")}
    lab_of(call, "lab_edit")
    bootstrap(call)
    return "Configuration generated."


def find_label(call: Call) -> Any:
    """Return the node with a label, or null."""
    for node in lab_of(call).nodes.values():
        if node.label == call.params["query"]:
            return views.node_view(call.server, node, call.now)
    return None


def pyats_testbed(call: Call) -> Reply:
    """Return the testbed document of pyATS for the lab."""
    lab = lab_of(call)
    host = call.request.query.get("hostname", call.server.config.identity.hostname)
    devices = {
        node.label: {
            "os": node.definition,
            "type": node.kind.nature,
            "connections": {
                "defaults": {"class": "unicon.Unicon"},
                "a": {
                    "command": f"open /{lab.title}/{node.label}/0",
                    "protocol": "telnet",
                    "proxy": "terminal_server",
                },
            },
        }
        for node in lab.nodes.values()
        if node.kind.serial
    }
    server = {"os": "linux", "type": "linux", "connections": {"cli": {"ip": host, "port": 22}}}
    body = {"testbed": {"name": lab.title}, "devices": {"terminal_server": server, **devices}}
    text = yaml.safe_dump(body, sort_keys=False, allow_unicode=True)
    return Reply(200, text.encode(), "application/x-yaml")


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
    Route("DELETE", "/labs/{lab_id}/layer3_addresses", clear_layer3, first=10),
    Route("GET", "/labs/{lab_id}/topology", get_topology),
    Route("GET", "/labs/{lab_id}/download", download),
    Route("GET", "/labs/{lab_id}/tile", one_tile),
    Route("GET", "/labs/{lab_id}/resource_pools", lab_pools),
    Route("GET", "/labs/{lab_id}/groups", lab_groups, last=9),
    Route("PUT", "/labs/{lab_id}/groups", put_lab_groups, last=9),
    Route("GET", "/labs/{lab_id}/associations", lab_associations, first=8),
    Route("PATCH", "/labs/{lab_id}/associations", patch_lab_associations, first=8),
    Route("GET", "/labs/{lab_id}/connector_mappings", connector_mappings),
    Route("PATCH", "/labs/{lab_id}/connector_mappings", patch_connector_mappings),
    Route("PUT", "/labs/{lab_id}/bootstrap", bootstrap, first=9),
    Route("GET", "/build_configurations", build_configurations, last=8),
    Route("GET", "/populate_lab/{lab_id}", one_tile),
    Route("GET", "/labs/{lab_id}/pyats_testbed", pyats_testbed),
    Route("GET", "/labs/{lab_id}/find/node/label/{query}", find_label),
    Route("GET", "/labs/{lab_id}/find_all/node/tag/{query}", find_tag),
)

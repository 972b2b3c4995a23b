"""Makes lab objects: from a checked topology, or one by one as API calls ask for them."""

from typing import Any

from cml_simulator.core import definition_store as shelves
from cml_simulator.core.definitions import MAX_SLOT
from cml_simulator.core.errors import refused
from cml_simulator.core.inputs import iso
from cml_simulator.core.model import Interface, Lab, Link, Node
from cml_simulator.core.topology import NodeSpec, Topology
from cml_simulator.core.world import Server, note, tell


def new_lab(server: Server, owner: str, now: float, title: str | None = None) -> Lab:
    """Add an empty lab."""
    text = title or f"Lab at {iso(now)[:16].replace('T', ' ')}"
    lab = Lab(server.new_id(), text, "", "", owner, now, now, server.config.profile.schema)
    server.labs[lab.id] = lab
    server.tally.labs_created += 1
    server.revision += 1
    note(lab, "ADD", ("LAB", lab.id), now, {"title": text})
    tell(server, "created", lab.id, {"title": text}, now)
    return lab


def import_topology(
    server: Server, topology: Topology, title: str | None, owner: str, now: float
) -> tuple[Lab, list[str]]:
    """Add a lab with everything in the topology; return it with the warnings."""
    warnings = _check_definitions(server, topology)
    lab = new_lab(server, owner, now, title or topology.title)
    lab.description, lab.notes = topology.description, topology.notes
    lab.node_staging = topology.node_staging
    ends: dict[tuple[str, str], Interface] = {}
    for spec in topology.nodes:
        node = _node_from(server, lab, spec)
        for port in spec.interfaces:
            name = port.label or _label(node, port.slot, port.kind)
            slot = port.slot if port.kind == "physical" else None
            interface = Interface(server.new_id(), node.id, name, slot, port.kind, port.mac)
            add_interface(server, node, interface)
            ends[spec.id, port.id] = interface
    for link in topology.links:
        add_link(
            server,
            lab,
            ends[link.a],
            ends[link.b],
            label=link.label,
            conditioning=link.conditioning,
        )
    lab.annotations = [_with_id(server, row) for row in topology.annotations]
    lab.smart_annotations = [_with_id(server, row) for row in topology.smart_annotations]
    refresh_smart_annotations(server, lab)
    server.tally.imports += 1
    return lab, warnings


def _check_definitions(server: Server, topology: Topology) -> list[str]:
    names = {node.definition for node in topology.nodes}
    unknown = sorted(name for name in names if server.definition_store.kind(name) is None)
    if unknown and server.config.rules.unknown_definition == "refuse":
        raise refused(f"Lab import failed: Node definition not found: {', '.join(unknown)}")
    warnings = [f"Node definition not found: {name}" for name in unknown]
    for spec in topology.nodes:
        image = spec.values.get("image")
        if image is not None and server.definition_store.image(image) is None:
            warnings.append(
                f"Image definition not found: {image} (node {spec.label}); "
                "the default image is used instead."
            )
            spec.values["image"] = None
    return warnings


def _with_id(server: Server, row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "id": server.new_id()}


def _node_from(server: Server, lab: Lab, spec: NodeSpec) -> Node:
    node = Node(server.new_id(), lab.id, spec.label, spec.definition, spec.x, spec.y, **spec.values)
    node.tags = spec.tags
    fit_kind(server, node)
    node.configuration = named_files(node, spec.configuration)
    add_node(server, lab, node)
    return node


def fit_kind(server: Server, node: Node) -> None:
    """Give a node the sizes of its uploaded definition or its image; stock ones need nothing."""
    node.own_kind = shelves.sized(server.definition_store, node.definition, node.image)


def named_files(node: Node, value: list[dict[str, str]] | str | None) -> list[dict[str, str]]:
    """Return a configuration in the list form; a text becomes the definition's main file."""
    if value is None:
        return []
    if isinstance(value, str):
        return [{"name": node.kind.config_file, "content": value}]
    return [
        {"name": node.kind.config_file if f["name"] == "Main" else f["name"], **_rest(f)}
        for f in value
    ]


def _rest(entry: dict[str, str]) -> dict[str, str]:
    return {"content": entry["content"]}


def add_node(server: Server, lab: Lab, node: Node) -> None:
    """Put a node into its lab and the server's index."""
    lab.nodes[node.id] = node
    server.nodes[node.id] = node
    server.revision += 1


def add_interface(server: Server, node: Node, interface: Interface) -> None:
    """Put an interface onto its node and into the server's index."""
    node.interfaces.append(interface)
    server.interfaces[interface.id] = interface
    server.revision += 1


def _label(node: Node, slot: int | None, kind: str) -> str:
    if kind == "loopback":
        return "Loopback0"
    return node.kind.label(slot or 0)


def fill_slots(server: Server, node: Node, last: int | None) -> list[Interface]:
    """Create the interface of the next free slot, or of every free slot up to `last`."""
    taken = {i.slot for i in node.interfaces if i.slot is not None}
    if last is None:
        wanted = [next(n for n in range(MAX_SLOT + 2) if n not in taken)]
    else:
        wanted = [n for n in range(last + 1) if n not in taken]
    if not wanted:
        raise refused(f"Interface slot {last} is already in use.")
    if wanted[-1] > MAX_SLOT:
        raise refused(f"No free interface slot on node {node.label}.")
    made = []
    for slot in wanted:
        interface = Interface(server.new_id(), node.id, node.kind.label(slot), slot)
        add_interface(server, node, interface)
        made.append(interface)
    return made


def add_link(
    server: Server,
    lab: Lab,
    a: Interface,
    b: Interface,
    *,
    label: str | None = None,
    conditioning: dict[str, Any] | None = None,
) -> Link:
    """Connect two free interfaces of one lab."""
    if a is b:
        raise refused("A link needs two different interfaces.")
    if a.link_id or b.link_id:
        raise refused("Interface is already connected.")
    node_a, node_b = lab.nodes[a.node_id], lab.nodes[b.node_id]
    text = label or f"{node_a.label}-{a.label}<->{node_b.label}-{b.label}"
    link = Link(
        server.new_id(), lab.id, text, a.id, b.id, a.node_id, b.node_id, dict(conditioning or {})
    )
    lab.links[link.id] = link
    server.links[link.id] = link
    a.link_id = b.link_id = link.id
    server.revision += 1
    return link


def drop_link(server: Server, lab: Lab, link: Link) -> None:
    """Remove a link with its capture."""
    if link.capture is not None:
        server.captures.pop(link.capture.key, None)
    for key in (link.a, link.b):
        server.interfaces[key].link_id = None
    del lab.links[link.id], server.links[link.id]
    server.revision += 1


def drop_interface(server: Server, node: Node, interface: Interface) -> None:
    """Remove an interface with its link."""
    link = server.links.get(interface.link_id or "")
    if link is not None:
        drop_link(server, server.labs[node.lab_id], link)
    node.interfaces.remove(interface)
    del server.interfaces[interface.id]
    server.revision += 1


def drop_node(server: Server, lab: Lab, node: Node) -> None:
    """Remove a node with its interfaces and links."""
    for interface in list(node.interfaces):
        drop_interface(server, node, interface)
    del lab.nodes[node.id], server.nodes[node.id]
    server.revision += 1


def drop_lab(server: Server, lab: Lab) -> None:
    """Remove a lab with everything in it."""
    for node in list(lab.nodes.values()):
        drop_node(server, lab, node)
    del server.labs[lab.id]
    server.tally.labs_deleted += 1
    server.revision += 1


def refresh_smart_annotations(server: Server, lab: Lab) -> None:
    """Keep one smart annotation for each distinct tag, as the server does by itself (2.8+)."""
    if not server.config.profile.smart_annotations:
        lab.smart_annotations = []
        return
    tags = dict.fromkeys(tag for node in lab.nodes.values() for tag in node.tags)
    known = {row.get("tag"): row for row in lab.smart_annotations}
    lab.smart_annotations = [known.get(tag) or _box(server, tag) for tag in tags]


def _box(server: Server, tag: str) -> dict[str, Any]:
    return {
        "id": server.new_id(),
        "tag": tag,
        "is_on": True,
        "padding": 35,
        "label": tag,
        "tag_offset_x": 0,
        "tag_offset_y": 0,
        "tag_size": 14,
        "group_distance": 400,
        "thickness": 1,
        "border_style": "",
        "fill_color": "#C8E0F780",
        "border_color": "#00000080",
        "z_index": 0,
    }

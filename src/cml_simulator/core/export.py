"""Labs written out: the topology response, and the YAML text of /download."""

from typing import Any

import yaml

from cml_simulator.core import views
from cml_simulator.core.model import Lab, Node
from cml_simulator.core.server import Server

Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _sizes(node: Node) -> dict[str, Any]:
    return {
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
        **({} if node.priority is None else {"priority": node.priority}),
    }


def topology(server: Server, lab: Lab, *, exclude: bool | None = None) -> dict[str, Any]:
    """Return the topology response; `exclude` as in `views.configuration`."""
    profile = server.config.profile
    named = profile.named_files_only
    nodes = []
    for node in lab.nodes.values():
        body = {"id": node.id, **_sizes(node)}
        if not exclude:
            body["configuration"] = views.configuration(node, exclude=exclude, named=named)
        body["interfaces"] = [
            {
                "id": port.id,
                "label": port.label,
                "slot": port.slot,
                "type": port.kind,
                "mac_address": port.mac,
            }
            for port in node.interfaces
        ]
        nodes.append(body)
    links = [
        {
            "id": link.id,
            "interface_a": link.a,
            "interface_b": link.b,
            "node_a": link.node_a,
            "node_b": link.node_b,
            "label": link.label,
            "conditioning": link.conditioning,
        }
        for link in lab.links.values()
    ]
    body = {
        "lab": {
            "version": lab.version,
            "title": lab.title,
            "description": lab.description,
            "notes": lab.notes,
            "owner": lab.owner,
        },
        "nodes": nodes,
        "links": links,
        "annotations": lab.annotations,
        "smart_annotations": lab.smart_annotations,
    }
    if not profile.smart_annotations:
        del body["smart_annotations"]
    return body


def document(lab: Lab) -> dict[str, Any]:
    """Return a lab as a topology file with short ids."""
    node_ids = {node_id: f"n{n}" for n, node_id in enumerate(lab.nodes)}
    port_ids = {
        port.id: f"i{n}" for node in lab.nodes.values() for n, port in enumerate(node.interfaces)
    }
    nodes = [
        {
            "id": node_ids[node.id],
            **_sizes(node),
            "configuration": node.configuration,
            "interfaces": [
                {key: value for key, value in row.items() if value is not None}
                for row in _ports(node, port_ids)
            ],
        }
        for node in lab.nodes.values()
    ]
    links = [
        {
            "id": f"l{n}",
            "n1": node_ids[link.node_a],
            "i1": port_ids[link.a],
            "n2": node_ids[link.node_b],
            "i2": port_ids[link.b],
            "label": link.label,
            "conditioning": link.conditioning,
        }
        for n, link in enumerate(lab.links.values())
    ]
    return {
        "lab": {
            "title": lab.title,
            "description": lab.description,
            "notes": lab.notes,
            "version": lab.version,
            **({} if lab.node_staging is None else {"node_staging": lab.node_staging}),
        },
        "nodes": nodes,
        "links": links,
        "annotations": [_anonymous(row) for row in lab.annotations],
        "smart_annotations": [_anonymous(row) for row in lab.smart_annotations],
    }


def _ports(node: Node, port_ids: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "id": port_ids[port.id],
            "label": port.label,
            "slot": port.slot,
            "type": port.kind,
            "mac_address": port.mac,
        }
        for port in node.interfaces
    ]


def _anonymous(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "id"}


def download(lab: Lab) -> str:
    """Return the YAML text of a lab."""
    text: str = yaml.dump(document(lab), Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return text

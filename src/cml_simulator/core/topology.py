"""Topology files: text or JSON in, a checked `Topology` out; old schema versions are upgraded.

Problems are collected and answered as one 400. What is built from it: `builder`. What is written
out again: `export`. Rules: facts/cml.md#topology-file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from cml_simulator.core import fields
from cml_simulator.core.errors import CmlError, Problem, invalid, refused
from cml_simulator.core.profile import Profile

MAX_NODES = 5000

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class InterfaceSpec:
    """An interface of a file; `id` is unique within its node."""

    id: str
    label: str | None
    slot: int | None
    kind: str
    mac: str | None


@dataclass(slots=True)
class NodeSpec:
    """A node of a file: what its object takes over, and its interfaces."""

    id: str
    label: str
    definition: str
    x: int
    y: int
    values: dict[str, Any]
    configuration: list[dict[str, str]] | str | None
    tags: list[str]
    interfaces: list[InterfaceSpec]


@dataclass(slots=True)
class LinkSpec:
    """A link of a file, as (node, interface) pairs."""

    a: tuple[str, str]
    b: tuple[str, str]
    label: str | None
    conditioning: dict[str, Any]


@dataclass(slots=True)
class Topology:
    """A checked topology."""

    title: str | None
    description: str
    notes: str
    version: str
    nodes: list[NodeSpec] = field(default_factory=list)
    links: list[LinkSpec] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    smart_annotations: list[dict[str, Any]] = field(default_factory=list)
    node_staging: dict[str, Any] | None = None


def load_text(body: bytes, broken: int = 400) -> Any:
    """Parse YAML (JSON is YAML too); broken text is a refusal that names the place."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise refused(f"Lab import failed: the topology is not UTF-8: {error.reason}") from None
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - a safe loader, the C one if built
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = getattr(error, "problem", None) or type(error).__name__
        text = f"Lab import failed: invalid YAML{where}: {what}"
        raise CmlError(broken, text) from None


def parse(document: Any, profile: Profile) -> Topology:
    """Check a loaded document and return its topology, or raise one 400 with every problem."""
    if not isinstance(document, dict):
        raise refused("Lab import failed: the topology must be a mapping.")
    problems: list[Problem] = []
    lab = _lab_part(document)
    version = lab.get("version")
    if str(version) not in profile.schemas:
        raise refused(f"Lab import failed: unsupported topology schema version: {version}")
    read = fields.Reader(problems, ("body", "lab"), lenient=True)
    topology = Topology(
        title=read.text(lab, "title", 64, line=True, least=1),
        description=read.text(lab, "description", 4096) or "",
        notes=read.text(lab, "notes", 32_768) or "",
        version=str(version),
    )
    loose = _loose_interfaces(document)
    rows = _rows(document, "nodes", problems)
    if len(rows) > MAX_NODES:
        raise refused(f"Lab import failed: more than {MAX_NODES} nodes.")
    topology.nodes = [n for i, row in rows if (n := _node(row, i, loose, problems)) is not None]
    if profile.lab_extras:
        topology.node_staging = _staging(lab, read)
        for (index, row), spec in zip(rows, topology.nodes, strict=False):
            deeper = fields.Reader(problems, ("body", "nodes", index), lenient=True)
            spec.values["priority"] = deeper.whole(row, "priority", 0, 10_000)
    topology.links = [
        k for i, row in _rows(document, "links", problems) if (k := _link(row, i, problems))
    ]
    topology.annotations = list(_flat(document, "annotations", problems))
    topology.smart_annotations = list(_flat(document, "smart_annotations", problems))
    problems.extend(_duplicates(topology))
    problems.extend(_dangling(topology))
    if problems:
        raise invalid(problems)
    return topology


def _staging(lab: dict[str, Any], read: fields.Reader) -> dict[str, Any] | None:
    """Return how a lab of 2.10 starts in stages: three switches, of which any may be missing."""
    row = lab.get("node_staging")
    if row is not None and not fields.extra_fits(row, fields.STAGING):
        text = f"Input should be an object of {', '.join(fields.STAGING)}"
        read.fail("node_staging", "dict_type", text)
        return None
    return row


def _lab_part(document: dict[str, Any]) -> dict[str, Any]:
    lab = document.get("lab")
    if isinstance(lab, dict):
        return lab
    if lab is None and "lab_title" in document:
        old = {key: document.get(f"lab_{key}") for key in ("title", "description", "notes")}
        return {**old, "version": document.get("version", "0.0.5")}
    raise refused("Lab import failed: the topology has no lab section.")


def _rows(
    document: dict[str, Any], key: str, problems: list[Problem]
) -> list[tuple[int, dict[str, Any]]]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(Problem(("body", key), "list_type", "Input should be a valid list"))
        return []
    rows = []
    for index, row in enumerate(value):
        if isinstance(row, dict):
            rows.append((index, row))
        else:
            text = "Input should be a valid dictionary"
            problems.append(Problem(("body", key, index), "dict_type", text))
    return rows


def _loose_interfaces(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Return by node the interfaces that the oldest exports keep in a list of their own."""
    found: dict[str, list[Any]] = {}
    value = document.get("interfaces")
    for row in value if isinstance(value, list) else []:
        if isinstance(row, dict) and "node" in row:
            found.setdefault(str(row["node"]), []).append({**row, **row.get("data", {})})
    return found


def _node(
    row: dict[str, Any], index: int, loose: dict[str, list[Any]], problems: list[Problem]
) -> NodeSpec | None:
    before = len(problems)
    read = fields.Reader(problems, ("body", "nodes", index), lenient=True)
    row = {**row, **row["data"]} if isinstance(row.get("data"), dict) else row
    key = read.text(row, "id", 64, needed=True, least=1) or ""
    values = fields.node_values(row, read, upgrade=True)
    label = read.text(row, "label", 128, needed=True, least=1) or ""
    definition = read.text(row, "node_definition", 250, needed=True, least=1) or ""
    x = read.whole(row, "x", -15_000, 15_000, needed=True) or 0
    y = read.whole(row, "y", -15_000, 15_000, needed=True) or 0
    configuration = fields.configuration(row, read)
    tags = fields.tags(row, read)
    ports = row.get("interfaces")
    found = ports if isinstance(ports, list) else loose.get(key, [])
    interfaces = [_interface(port, read.deeper("interfaces", n)) for n, port in enumerate(found)]
    if len(problems) > before:
        return None
    return NodeSpec(key, label, definition, x, y, values, configuration, tags, interfaces)


def _interface(row: Any, read: fields.Reader) -> InterfaceSpec:
    if not isinstance(row, dict):
        read.fail("", "dict_type", "Input should be a valid dictionary")
        row = {}
    kind = row.get("type", "physical")
    if kind not in {"physical", "loopback"}:
        read.fail("type", "enum", "Input should be 'physical' or 'loopback'")
    return InterfaceSpec(
        id=read.text(row, "id", 64, needed=True, least=1) or "",
        label=read.text(row, "label", 128),
        slot=read.whole(row, "slot", 0, 128),
        kind=str(kind),
        mac=read.mac(row, "mac_address"),
    )


def _link(row: dict[str, Any], index: int, problems: list[Problem]) -> LinkSpec | None:
    before = len(problems)
    read = fields.Reader(problems, ("body", "links", index), lenient=True)
    ends = [read.text(row, name, 64, needed=True) or "" for name in ("n1", "i1", "n2", "i2")]
    label = read.text(row, "label", 256)
    conditioning = row.get("conditioning") or {}
    if not isinstance(conditioning, dict) or not fields.is_flat(conditioning):
        read.fail("conditioning", "dict_type", "Input should be a flat dictionary")
        return None
    if len(problems) > before:
        return None
    return LinkSpec((ends[0], ends[1]), (ends[2], ends[3]), label, conditioning)


def _flat(document: dict[str, Any], key: str, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    for index, row in _rows(document, key, problems):
        if fields.is_flat(row):
            yield row
        else:
            text = "Input should be a flat dictionary"
            problems.append(Problem(("body", key, index), "dict_type", text))


def _duplicates(topology: Topology) -> Iterator[Problem]:
    ids: set[str] = set()
    labels: set[str] = set()
    for index, node in enumerate(topology.nodes):
        where = ("body", "nodes", index)
        if node.id in ids:
            yield Problem((*where, "id"), "value_error", f"Duplicate node id: {node.id}")
        if node.label in labels:
            yield Problem((*where, "label"), "value_error", f"Duplicate label: {node.label}")
        if len({i.id for i in node.interfaces}) < len(node.interfaces):
            yield Problem((*where, "interfaces"), "value_error", "Duplicate interface id")
        ids.add(node.id)
        labels.add(node.label)


def _dangling(topology: Topology) -> Iterator[Problem]:
    known = {(node.id, port.id) for node in topology.nodes for port in node.interfaces}
    used: set[tuple[str, str]] = set()
    for index, link in enumerate(topology.links):
        where = ("body", "links", index)
        for end in (link.a, link.b):
            if end not in known:
                yield Problem(where, "value_error", f"Unknown node or interface: {'/'.join(end)}")
            elif end in used:
                yield Problem(where, "value_error", f"Interface has two links: {'/'.join(end)}")
            used.add(end)


def check_title(title: str) -> str:
    """Return a title given in a query; 1 to 64 characters in one line."""
    problems: list[Problem] = []
    fields.Reader(problems, ("query",)).text({"title": title}, "title", 64, line=True, least=1)
    if problems:
        raise invalid(problems)
    return title

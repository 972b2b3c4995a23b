"""What a CML server would refuse in a topology, found before a machine is paid for.

Asked once, when a definition is made; a stored topology is only read (`topology.parse`), so that
rules that are added here never take a definition away from its sessions. The rules are those of
CML's import (facts/cml.md#topology-file, #api-rules) that need no server. Whether a server has
the node and image definitions is no matter of the file: see `decisions.catalogues`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from labfleet.resources import topology, topology_places
from labfleet.resources.documents import Path
from labfleet.resources.topology import Reader, Topology, dotted

ID_LIMIT = 64
TAG_LIMIT = 64
LINK_LABEL_LIMIT = 256
DESCRIPTION_LIMIT = 4096
SLOT_LIMIT = 128
FILE_NAME_LIMIT = 64
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
# C0, DEL, C1, other line ends, what turns the direction of the text around it, and half characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SHOWN = 6

Ends = dict[str, dict[str, str]]
"""Node id -> id of each of its interfaces -> the interface's label."""


def check(text: str | bytes) -> Topology:
    """Return what the file says; errors.Invalid lists with its line all that CML would refuse."""
    reader = Reader(topology.read(text))
    made = reader.topology()
    if made is not None:
        rules = _Rules(reader, reader.document.value)
        rules.lab()
        rules.nodes()
        rules.links()
    if made is None or reader.problems:
        reader.refuse()
    return made


class _Rules:
    """Notes on a reader what breaks a rule; what the reader itself noted is not told again."""

    def __init__(self, reader: Reader, root: dict[str, Any]) -> None:
        self._reader = reader
        self._root = root
        self._names: dict[str, str] = {}
        self._by_label: dict[str, str] = {}
        self._ends: Ends = {}
        self._lines: dict[tuple[str, str], int] = {}

    def lab(self) -> None:
        """Check what is said of the lab itself, and its drawings."""
        words = self._root["lab"].get("description")
        if isinstance(words, str) and len(words) > DESCRIPTION_LIMIT:
            what = f"lab.description: {len(words)} characters, at most {DESCRIPTION_LIMIT}"
            self._wrong(("lab", "description"), what)
        for key in ("annotations", "smart_annotations"):
            for _ in self._mappings((key,), self._root.get(key)):
                pass

    # --- nodes and interfaces ----------------------------------------------------------------

    def nodes(self) -> None:
        """Check the nodes, and learn their interfaces."""
        loose = self._loose()
        listed = self._root.get("nodes")
        if not isinstance(listed, list) or len(listed) > topology.NODE_LIMIT:
            return
        for number, node in enumerate(listed):
            if isinstance(node, dict):
                self._node(("nodes", number), node, loose)

    def _loose(self) -> dict[str, list[tuple[Path, Any]]]:
        """Return node id -> its interfaces in the list that the oldest exports keep beside."""
        found: dict[str, list[tuple[Path, Any]]] = {}
        for path, each in self._mappings(("interfaces",), self._root.get("interfaces")):
            found.setdefault(str(each.get("node")), []).append((path, each))
        return found

    def _node(
        self, path: Path, node: dict[str, Any], loose: dict[str, list[tuple[Path, Any]]]
    ) -> None:
        identity, label = _identity(node.get("id")), node.get("label")
        name = f"node {_shown(label)}" if isinstance(label, str) else f"node {_shown(identity)}"
        for key in ("id", "label", "node_definition", "image_definition"):
            self._one_line((*path, key), node.get(key), f"{name}: {key}")
        for axis in ("x", "y"):
            self._number((*path, axis), node.get(axis), f"{name}: {axis}",
                         -topology_places.FAR, topology_places.FAR)  # fmt: skip
        limit = node.get("cpu_limit")
        if isinstance(limit, int | float) and 0 < limit < 20:
            what = f"{name}: cpu_limit: must be a whole number 20 to 100, or left out"
            self._wrong((*path, "cpu_limit"), what)
        self._tags((*path, "tags"), node.get("tags"), name)
        self._files((*path, "configuration"), node.get("configuration"), name)
        self._flat((*path, "parameters"), node.get("parameters"), f"{name}: parameters")
        own = node.get("interfaces")
        rows = loose.get(identity or "", [])
        if isinstance(own, list):
            rows = list(self._mappings((*path, "interfaces"), own, name))
        mine = self._interfaces(rows, name)
        if identity is not None:
            self._names.setdefault(identity, name)
            self._ends.setdefault(identity, mine)
            if isinstance(label, str):
                self._by_label.setdefault(label, identity)

    def _interfaces(self, rows: list[tuple[Path, Any]], name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for path, each in rows:
            identity = self._id(
                (*path, "id"), each.get("id"), f"{name}: {dotted(path[2:]) or dotted(path)}.id"
            )
            if identity is None:
                continue
            shown = f"{name}, interface {_shown(identity)}"
            if identity in found:
                self._wrong((*path, "id"), f"{shown}: this id is given twice")
            label = each.get("label")
            self._one_line((*path, "label"), label, f"{shown}: label", topology.LABEL_LIMIT)
            self._number((*path, "slot"), each.get("slot"), f"{shown}: slot", 0, SLOT_LIMIT)
            kind, mac = each.get("type", "physical"), each.get("mac_address")
            if kind not in ("physical", "loopback"):
                self._wrong((*path, "type"), f"{shown}: type: must be physical or loopback")
            if mac is not None and not (isinstance(mac, str) and _MAC.fullmatch(mac)):
                what = f"{shown}: mac_address: must be written like 52:54:00:12:ab:cd"
                self._wrong((*path, "mac_address"), what)
            found.setdefault(identity, label if isinstance(label, str) else "")
        return found

    def _tags(self, path: Path, value: Any, name: str) -> None:
        for number, tag in enumerate(value if isinstance(value, list) else ()):
            self._one_line((*path, number), tag, f"{name}: tag {number + 1}", TAG_LIMIT)

    def _files(self, path: Path, value: Any, name: str) -> None:
        """Check a configuration: a text, or files with name and content."""
        if value is None or isinstance(value, str):
            return
        files = [value] if isinstance(value, dict) else value
        if not isinstance(files, list):
            self._wrong(path, f"{name}: configuration: must be text, or a list of files")
            return
        for number, each in enumerate(files):
            where = path if isinstance(value, dict) else (*path, number)
            file = f"{name}: configuration file {number + 1}"
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                self._wrong(where, f"{file}: must be a mapping with name and content")
            elif len(each["name"]) > FILE_NAME_LIMIT:
                self._wrong(where, f"{file}: a name has at most {FILE_NAME_LIMIT} characters")
            elif not isinstance(each.get("content", ""), str | None):
                self._wrong(where, f"{file}: content must be text; quote it")

    # --- links -------------------------------------------------------------------------------

    def links(self) -> None:
        """Check that every link joins two interfaces that are there and free."""
        used: dict[tuple[str, str], Path] = {}
        for path, link in self._mappings(("links",), self._root.get("links")):
            self._one_line((*path, "label"), link.get("label"), f"{dotted(path)}.label",
                           LINK_LABEL_LIMIT)  # fmt: skip
            self._flat((*path, "conditioning"), link.get("conditioning"),
                       f"{dotted(path)}.conditioning")  # fmt: skip
            named = topology.link_ends(link)
            for node_key, port_key in (("n1", "i1"), ("n2", "i2")):
                end = self._end(path, named[node_key], named[port_key])
                if end is None:
                    continue
                where = (*path, named[port_key][0])
                if end in used:
                    self._second(where, path, end, used[end])
                used.setdefault(end, path)

    def _end(
        self, path: Path, node: tuple[str, Any], port: tuple[str, Any]
    ) -> tuple[str, str] | None:
        """Return one end of a link as (node id, interface id); None when there is no such."""
        node_path, port_path = (*path, node[0]), (*path, port[0])
        node_id = self._id(node_path, node[1], dotted(node_path))
        port_id = self._id(port_path, port[1], dotted(port_path))
        if node_id is None:
            return None
        if node_id not in self._ends:
            hint = self._by_label.get(node_id)
            known = f"; node {_shown(node_id)} has the id {_shown(hint)}" if hint else ""
            self._wrong(
                node_path, f"{dotted(node_path)}: no node has the id {_shown(node_id)}{known}"
            )
            return None
        if port_id is None:
            return None
        mine = self._ends[node_id]
        if port_id not in mine:
            lacks = f"{self._names[node_id]} has no interface {_shown(port_id)}"
            self._wrong(port_path, f"{dotted(port_path)}: {lacks}{_listed(mine)}")
            return None
        return node_id, port_id

    def _second(self, where: Path, path: Path, end: tuple[str, str], first: Path) -> None:
        node_id, port_id = end
        label = self._ends[node_id][port_id]
        port = _shown(port_id) + (f" ({label})" if label else "")
        joined = f"interface {port} of {self._names[node_id]}"
        if first == path:
            self._wrong(where, f"{dotted(where)}: the link joins {joined} to itself")
            return
        line = self._reader.document.line_of(first)
        told = f"{joined} has a link already, {dotted(first)} on line {line}"
        self._wrong(where, f"{dotted(where)}: {told}")

    # --- values ------------------------------------------------------------------------------

    def _wrong(self, path: Path, what: str) -> None:
        self._reader.wrong(path, what)

    def _mappings(
        self, path: Path, value: Any, name: str = ""
    ) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the mappings of a list with their paths; anything else is noted."""
        if value is None:
            return
        if not isinstance(value, list):
            if path not in (("links",), ("nodes",)):  # the reader has said so
                self._wrong(path, f"{dotted(path)}: must be a list")
            return
        for number, each in enumerate(value):
            if isinstance(each, dict):
                yield (*path, number), each
            else:
                where = (
                    f"{name}: {dotted((*path[2:], number))}" if name else dotted((*path, number))
                )
                self._wrong((*path, number), f"{where}: must be a mapping")

    def _id(self, path: Path, value: Any, where: str) -> str | None:
        """Return an id as text; what is none, missing or too long is noted."""
        found = _identity(value)
        if found is None:
            lacks = value is None or value == ""
            self._wrong(path, f"{where}: " + ("is missing" if lacks else "must be text; quote it"))
            return None
        self._one_line(path, found, where, ID_LIMIT)
        return found

    def _one_line(self, path: Path, value: Any, where: str, limit: int = 0) -> None:
        """Check a name: it stands on one line, on a terminal and in an address of CML."""
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return
        if not isinstance(value, str):
            if limit:  # else the reader has said so
                self._wrong(path, f"{where}: must be text; quote it")
            return
        found = _CONTROL.search(value)
        if found is not None:
            what = f"holds the control character U+{ord(found[0]):04X}; a name is one plain line"
            self._wrong(path, f"{where}: {what}")
        if limit and len(value) > limit:
            self._wrong(path, f"{where}: {len(value)} characters, at most {limit}")

    def _number(self, path: Path, value: Any, where: str, low: int, high: int) -> None:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if value is None or (whole and not isinstance(value, bool) and low <= value <= high):
            return
        self._wrong(path, f"{where}: must be a whole number {low} to {high}")

    def _flat(self, path: Path, value: Any, where: str) -> None:
        """Check a mapping of plain values, or nothing."""
        if not value and not isinstance(value, bool):
            return
        flat = isinstance(value, dict) and not any(
            isinstance(each, dict | list) for each in value.values()
        )
        if not flat:
            self._wrong(path, f"{where}: must be a mapping of plain values")


def _identity(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _shown(value: object) -> str:
    return repr(value)[:80]


def _listed(ports: dict[str, str]) -> str:
    """Return the interfaces that there are, for a person who looks for the right one."""
    if not ports:
        return "; it has none"
    known = [f"{each} ({label})" if label else each for each, label in list(ports.items())[:_SHOWN]]
    more = f" and {len(ports) - _SHOWN} more" if len(ports) > _SHOWN else ""
    return f"; it has {', '.join(known)}{more}"[:200]

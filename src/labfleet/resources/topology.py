"""CML topology files: what they ask for, and how one is made a session's own.

Pure reading of the text that `/import` takes (facts/cml.md#topology-file); tolerant of unknown
keys, as CML's schema grows, and strict about what the product relies on, so that every stored
topology stays readable. What a server would refuse besides is found by `topology_check`, once,
when a definition is made. It starts nothing and knows no node definition; `decisions.demand` turns
the records into amounts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from labfleet.kernel import errors
from labfleet.resources import documents, port_tags, topology_places

NODE_LIMIT = 2000
LABEL_LIMIT = 128
TITLE_LIMIT = 64
NOTES_LIMIT = 32768
# facts/cml.md#releases: schema versions of CML 2.0 to 2.10.
VERSIONS = (
    "0.0.1", "0.0.2", "0.0.3", "0.0.4", "0.0.5", "0.1.0",
    "0.2.0", "0.2.1", "0.2.2", "0.3.0", "0.3.1",
)  # fmt: skip
_LIMITS = documents.Limits(nodes=400_000)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
_MARKER = re.compile(r"labfleet: ([!-~]{1,200})\s*")
# What JSON may hold raw but YAML may not, or would fold into a space.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_PROBLEMS = 20
_NUMBERS = ("cpus", "ram", "cpu_limit", "data_volume", "boot_disk_size")
# The answer of `/labs/{id}/topology` names the ends of a link in another way than a file does.
_ENDS = {"n1": "node_a", "i1": "interface_a", "n2": "node_b", "i2": "interface_b"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node as the file says; None where the node definition's default holds.

    `ram` is MiB, `cpu_limit` a percentage of each CPU, the disks GiB.
    """

    id: str
    label: str
    node_definition: str
    image_definition: str | None = None
    cpus: int | None = None
    ram: int | None = None
    cpu_limit: int | None = None
    data_volume: int | None = None
    boot_disk_size: int | None = None
    tags: tuple[str, ...] = ()
    interfaces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One lab as its file says; `links` is their number, `unplaced` of nodes without x or y."""

    title: str
    description: str
    notes: str
    version: str
    nodes: tuple[Node, ...]
    links: int
    unplaced: int = 0


def parse(text: str | bytes) -> Topology:
    """Return what the file says; errors.Invalid lists each problem with its line."""
    reader = Reader(read(text))
    made = reader.topology()
    if made is None or reader.problems:
        reader.refuse()
    return made


def personalise(
    text: str,
    *,
    title: str,
    marker: str,
    tags: Mapping[str, tuple[str, ...]],
    values: Mapping[str, str] | None = None,
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> str:
    """Return the topology as YAML text with this title, marker, these port tags and values.

    `tags` is keyed by node label or node id; a node's own port tags are replaced, other tags
    kept. The marker becomes the first line of the notes. A node without x or y gets a place beside
    the others. The text is JSON, which is YAML: no scalar in it can be read in two ways.
    `values` stand where configurations of nodes write ${NAME}; other names are left as they are.
    `change` makes each node what it becomes, last. errors.Invalid when the file is not a topology
    or does not name a node of `tags`.
    """
    reader = Reader(read(text))
    topology = reader.topology()
    if topology is None or reader.problems:
        reader.refuse()
    known = {node.label for node in topology.nodes} | {node.id for node in topology.nodes}
    strange = sorted(set(tags) - known)
    if strange:
        message = f"no node {strange[0]!r} in the topology"
        raise errors.Invalid(message, reason="BadTopology")
    root = dict(reader.document.value)
    lab = dict(root["lab"])
    lab["title"] = one_line(title)[:TITLE_LIMIT].strip() or "lab"
    lab["notes"] = with_marker(topology.notes, marker)
    root["lab"] = lab
    placed = topology_places.with_places(root.get("nodes") or [])
    made = [_configured(_retag(_plain_numbers(each), tags), values or {}) for each in placed]
    root["nodes"] = made if change is None else [change(each) for each in made]
    root["links"] = [_as_in_files(link) for link in root.get("links") or []]
    body = msgspec.json.format(msgspec.json.encode(root), indent=1).decode()
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", body) + "\n"


def marker_of(notes: str) -> str | None:
    """Return the marker in the first line of a lab's notes, None when it is not ours."""
    first = notes.split("\n", 1)[0]
    found = _MARKER.fullmatch(first)
    return found[1] if found else None


def with_marker(notes: str, marker: str) -> str:
    """Return the notes with the marker as first line, in place of one that was there."""
    line = f"labfleet: {marker}"
    if _MARKER.fullmatch(line) is None:
        message = "a marker is 1-200 visible ASCII characters"
        raise errors.Invalid(message, reason="BadMarker")
    if marker_of(notes) is not None:
        notes = notes.partition("\n")[2]
    return f"{line}\n{notes}"[:NOTES_LIMIT] if notes else line


def one_line(text: str) -> str:
    """Return the text as CML wants a title: printable, one line, single spaces."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _retag(node: dict[str, Any], tags: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    given = tags.get(node["label"], tags.get(str(node["id"]), ()))
    old = node.get("tags") or []
    new = [tag for tag in old if not port_tags.is_port_tag(tag)]
    new.extend(given)
    if new == old:
        return node
    return {**node, "tags": new}


def _configured(node: dict[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return the node with values in its configuration, a text or files with name and content."""
    known = node.get("configuration")
    if not values or not known:
        return node

    def filled(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)

    if isinstance(known, list):
        files = [
            {**each, "content": filled(each.get("content"))} if isinstance(each, dict) else each
            for each in known
        ]
        return {**node, "configuration": files}
    return {**node, "configuration": filled(known)}


def _plain_numbers(node: dict[str, Any]) -> dict[str, Any]:
    """Return the node without its empty sizes: exports write "" where CML's import wants null."""
    empty = [key for key in _NUMBERS if node.get(key) == ""]
    return {**node, **dict.fromkeys(empty)} if empty else node


def _as_in_files(link: Any) -> Any:
    """Return the link with its ends named as `/import` wants them."""
    if not isinstance(link, dict) or any(end not in link for end in _ENDS.values()):
        return link
    named = {ours: link[theirs] for ours, theirs in _ENDS.items() if ours not in link}
    return {**{key: each for key, each in link.items() if key not in _ENDS.values()}, **named}


def link_ends(link: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return n1, i1, n2, i2 -> the key under which this link says it, and what it says."""
    theirs = all(end in link for end in _ENDS.values())
    return {
        ours: (ours, link.get(ours)) if ours in link or not theirs else (other, link[other])
        for ours, other in _ENDS.items()
    }


def read(text: str | bytes) -> documents.Document:
    """Return the one document of a topology's text; errors.Invalid when there is no such."""
    found = documents.read(text, name="topology", limits=_LIMITS)
    if len(found) != 1:
        message = f"topology: one document is expected, {len(found)} found"
        raise errors.Invalid(message, reason="BadTopology")
    return found[0]


class Reader:
    """Walks one document and gathers what is wrong with it."""

    def __init__(self, document: documents.Document) -> None:
        self.document = document
        self.problems: list[tuple[str, str]] = []

    def topology(self) -> Topology | None:
        """Return what could be read; None when it is no topology at all. See `problems`."""
        root = self.document.value
        if not isinstance(root, dict):
            self.wrong((), "a topology is a mapping with lab, nodes and links")
            return None
        lab = root.get("lab")
        if not isinstance(lab, dict):
            self.wrong(("lab",), "lab: is missing" if lab is None else "lab: must be a mapping")
            return None
        version = lab.get("version")
        if version not in VERSIONS:
            known = f"one of {VERSIONS[0]} to {VERSIONS[-1]}"
            lacks = version is None or version == ""
            what = f"is missing; write {known}" if lacks else f"{version!r:.60} is not {known}"
            self.wrong(("lab", "version"), f"lab.version: {what}")
        found = self.items(("nodes",), root.get("nodes"))
        return Topology(
            title=self.text(("lab", "title"), lab.get("title"), limit=1024),
            description=self.text(("lab", "description"), lab.get("description")),
            notes=self.text(("lab", "notes"), lab.get("notes")),
            version=str(version),
            nodes=self._nodes(found),
            links=len(self.items(("links",), root.get("links"))),
            unplaced=sum(
                topology_places.unplaced(each) for each in found if isinstance(each, dict)
            ),
        )

    def _nodes(self, items: list[Any]) -> tuple[Node, ...]:
        if len(items) > NODE_LIMIT:
            self.wrong(("nodes",), f"nodes: {len(items)} of them, at most {NODE_LIMIT}")
            return ()
        made = []
        labels: dict[str, int] = {}
        ids: dict[str, int] = {}
        for number, item in enumerate(items):
            path: documents.Path = ("nodes", number)
            if not isinstance(item, dict):
                self.wrong(path, f"nodes[{number}]: must be a mapping")
                continue
            node = self._node(path, item)
            for seen, value, word in ((labels, node.label, "label"), (ids, node.id, "id")):
                if value and value in seen:
                    first = self.document.line_of(("nodes", seen[value], word))
                    what = f"duplicate {word} {value[:80]!r}, first on line {first}"
                    self.wrong((*path, word), what)
                seen.setdefault(value, number)
            made.append(node)
        return tuple(made)

    def _node(self, path: documents.Path, item: dict[str, Any]) -> Node:
        def whole(key: str, low: int, high: int) -> int | None:
            return self.whole((*path, key), item.get(key), low, high)

        identity = item.get("id")
        if isinstance(identity, int) and not isinstance(identity, bool):
            identity = str(identity)
        image = item.get("image_definition")
        return Node(
            id=self.text((*path, "id"), identity, limit=64, required=True),
            label=self.text((*path, "label"), item.get("label"), limit=LABEL_LIMIT, required=True),
            node_definition=self.text(
                (*path, "node_definition"), item.get("node_definition"), limit=250, required=True
            ),
            image_definition=self.text((*path, "image_definition"), image, limit=250) or None,
            cpus=whole("cpus", 0, 128),
            ram=whole("ram", 0, 1048576),
            cpu_limit=whole("cpu_limit", 0, 100),
            data_volume=whole("data_volume", 0, 4096),
            boot_disk_size=whole("boot_disk_size", 0, 4096),
            tags=self._tags((*path, "tags"), item.get("tags")),
            interfaces=len(self.items((*path, "interfaces"), item.get("interfaces"))),
        )

    def _tags(self, path: documents.Path, value: Any) -> tuple[str, ...]:
        made = []
        for number, tag in enumerate(self.items(path, value)):
            if isinstance(tag, str):
                made.append(tag)
            else:
                self.wrong((*path, number), f"{dotted(path)}[{number}]: tags are text; quote it")
        return tuple(made)

    def text(
        self, path: documents.Path, value: Any, *, limit: int = 0, required: bool = False
    ) -> str:
        """Return a text; what is no text, too long or missing is noted."""
        if value is None or value == "":
            if required:
                self.wrong(path, f"{dotted(path)}: is missing")
            return ""
        if not isinstance(value, str):
            self.wrong(path, f"{dotted(path)}: must be text; quote it")
            return ""
        if limit and len(value) > limit:
            self.wrong(path, f"{dotted(path)}: {len(value)} characters, at most {limit}")
        return value

    def whole(self, path: documents.Path, value: Any, low: int, high: int) -> int | None:
        """Return a whole number, None for 0 and for nothing; another value is noted."""
        if value is None or value == "":
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(path, f"{dotted(path)}: must be a whole number {low} to {high}")
            return None
        return value or None

    def items(self, path: documents.Path, value: Any) -> list[Any]:
        """Return a list, an empty one for nothing; another value is noted."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.wrong(path, f"{dotted(path)}: must be a list")
            return []
        return value

    def wrong(self, path: documents.Path, what: str) -> None:
        """Note a mistake at a path of the document; beyond a bound they are only one more."""
        if len(self.problems) < _PROBLEMS:
            self.problems.append((f"line {self.document.line_of(path)}", what))

    def refuse(self) -> NoReturn:
        """Raise errors.Invalid with every problem that was noted."""
        where, what = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        message = f"topology, {where}: {what}{more}"
        raise errors.Invalid(message, reason="BadTopology", problems=tuple(self.problems))


def dotted(path: documents.Path) -> str:
    """Return a path as people write it: `nodes[2].label`."""
    made = ""
    for step in path:
        made += f"[{step}]" if isinstance(step, int) else f".{step}"
    return made.removeprefix(".")

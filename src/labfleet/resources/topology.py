"""CML topology files: what they ask for, and how one is made a session's own.

Pure reading of the text that `/import` takes (facts/cml.md#topology-file); tolerant of unknown
keys, as CML's schema grows, and strict about what the product relies on. It starts nothing and
knows no node definition; `decisions.demand` turns the records into amounts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from labfleet.kernel import errors
from labfleet.resources import documents, port_tags

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
_MARKER = re.compile(r"labfleet: ([!-~]{1,200})\s*")
# What JSON may hold raw but YAML may not, or would fold into a space.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_PROBLEMS = 20


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
    """One lab as its file says; `links` is their number."""

    title: str
    description: str
    notes: str
    version: str
    nodes: tuple[Node, ...]
    links: int


def parse(text: str | bytes) -> Topology:
    """Return what the file says; errors.Invalid lists each problem with its line."""
    return _Checker(_read(text)).topology()


def personalise(text: str, *, title: str, marker: str, tags: Mapping[str, tuple[str, ...]]) -> str:
    """Return the topology as YAML text with this title, marker and these port tags.

    `tags` is keyed by node label or node id; a node's own port tags are replaced, other tags
    kept. The marker becomes the first line of the notes. The text is JSON, which is YAML: no
    scalar in it can be read in two ways. errors.Invalid when the file is not a topology or
    does not name a node of `tags`.
    """
    document = _read(text)
    topology = _Checker(document).topology()
    known = {node.label for node in topology.nodes} | {node.id for node in topology.nodes}
    strange = sorted(set(tags) - known)
    if strange:
        message = f"no node {strange[0]!r} in the topology"
        raise errors.Invalid(message, reason="BadTopology")
    root = dict(document.value)
    lab = dict(root["lab"])
    lab["title"] = one_line(title)[:TITLE_LIMIT].strip() or "lab"
    lab["notes"] = with_marker(topology.notes, marker)
    root["lab"] = lab
    root["nodes"] = [_retag(node, tags) for node in root.get("nodes") or []]
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


def _read(text: str | bytes) -> documents.Document:
    found = documents.read(text, name="topology", limits=_LIMITS)
    if len(found) != 1:
        message = f"topology: one document is expected, {len(found)} found"
        raise errors.Invalid(message, reason="BadTopology")
    return found[0]


class _Checker:
    """Walks one document and gathers what is wrong with it."""

    def __init__(self, document: documents.Document) -> None:
        self._document = document
        self._problems: list[tuple[str, str]] = []

    def topology(self) -> Topology:
        root = self._document.value
        if not isinstance(root, dict):
            self._wrong((), "a topology is a mapping with lab, nodes and links")
            self._raise()
        lab = root.get("lab")
        if not isinstance(lab, dict):
            self._wrong(("lab",), "lab: is missing" if lab is None else "lab: must be a mapping")
            self._raise()
        version = lab.get("version")
        if version not in VERSIONS:
            known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
            self._wrong(("lab", "version"), f"lab.version: {version!r} is not one of {known}")
        made = Topology(
            title=self._text(("lab", "title"), lab.get("title"), limit=1024),
            description=self._text(("lab", "description"), lab.get("description")),
            notes=self._text(("lab", "notes"), lab.get("notes")),
            version=str(version),
            nodes=self._nodes(self._list(("nodes",), root.get("nodes"))),
            links=len(self._list(("links",), root.get("links"))),
        )
        if self._problems:
            self._raise()
        return made

    def _nodes(self, items: list[Any]) -> tuple[Node, ...]:
        if len(items) > NODE_LIMIT:
            self._wrong(("nodes",), f"nodes: {len(items)} of them, at most {NODE_LIMIT}")
            return ()
        made = []
        labels: dict[str, int] = {}
        ids: dict[str, int] = {}
        for number, item in enumerate(items):
            path: documents.Path = ("nodes", number)
            if not isinstance(item, dict):
                self._wrong(path, f"nodes[{number}]: must be a mapping")
                continue
            node = self._node(path, item)
            for seen, value, word in ((labels, node.label, "label"), (ids, node.id, "id")):
                if value and value in seen:
                    first = self._document.line_of(("nodes", seen[value], word))
                    what = f"duplicate {word} {value[:80]!r}, first on line {first}"
                    self._wrong((*path, word), what)
                seen.setdefault(value, number)
            made.append(node)
        return tuple(made)

    def _node(self, path: documents.Path, item: dict[str, Any]) -> Node:
        def whole(key: str, low: int, high: int) -> int | None:
            return self._whole((*path, key), item.get(key), low, high)

        identity = item.get("id")
        if isinstance(identity, int) and not isinstance(identity, bool):
            identity = str(identity)
        image = item.get("image_definition")
        return Node(
            id=self._text((*path, "id"), identity, limit=64, required=True),
            label=self._text((*path, "label"), item.get("label"), limit=LABEL_LIMIT, required=True),
            node_definition=self._text(
                (*path, "node_definition"), item.get("node_definition"), limit=250, required=True
            ),
            image_definition=self._text((*path, "image_definition"), image, limit=250) or None,
            cpus=whole("cpus", 0, 128),
            ram=whole("ram", 0, 1048576),
            cpu_limit=whole("cpu_limit", 0, 100),
            data_volume=whole("data_volume", 0, 4096),
            boot_disk_size=whole("boot_disk_size", 0, 4096),
            tags=self._tags((*path, "tags"), item.get("tags")),
            interfaces=len(self._list((*path, "interfaces"), item.get("interfaces"))),
        )

    def _tags(self, path: documents.Path, value: Any) -> tuple[str, ...]:
        made = []
        for number, tag in enumerate(self._list(path, value)):
            if isinstance(tag, str):
                made.append(tag)
            else:
                self._wrong((*path, number), f"{_dotted(path)}[{number}]: tags are text; quote it")
        return tuple(made)

    def _text(
        self, path: documents.Path, value: Any, *, limit: int = 0, required: bool = False
    ) -> str:
        if value is None or value == "":
            if required:
                self._wrong(path, f"{_dotted(path)}: is missing")
            return ""
        if not isinstance(value, str):
            self._wrong(path, f"{_dotted(path)}: must be text; quote it")
            return ""
        if limit and len(value) > limit:
            self._wrong(path, f"{_dotted(path)}: {len(value)} characters, at most {limit}")
        return value

    def _whole(self, path: documents.Path, value: Any, low: int, high: int) -> int | None:
        if value is None or value == "":
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self._wrong(path, f"{_dotted(path)}: must be a whole number {low} to {high}")
            return None
        return value or None

    def _list(self, path: documents.Path, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong(path, f"{_dotted(path)}: must be a list")
            return []
        return value

    def _wrong(self, path: documents.Path, what: str) -> None:
        if len(self._problems) < _PROBLEMS:
            self._problems.append((f"line {self._document.line_of(path)}", what))

    def _raise(self) -> NoReturn:
        where, what = self._problems[0]
        more = f" (and {len(self._problems) - 1} more)" if len(self._problems) > 1 else ""
        message = f"topology, {where}: {what}{more}"
        raise errors.Invalid(message, reason="BadTopology", problems=tuple(self._problems))


def _dotted(path: documents.Path) -> str:
    made = ""
    for step in path:
        made += f"[{step}]" if isinstance(step, int) else f".{step}"
    return made.removeprefix(".")

"""Reads CML's JSON tolerantly: all releases from 2.7 to 2.10 (facts/cml.md#releases).

Pure. Unknown keys are ignored, maps and arrays are both taken, effective values stand in
`operational` before the configured overrides. What is missing is None; what makes an answer
useless (no id, another type) is a Protocol error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labfleet.interfaces.lab_host import InterfaceState, Lab, NodeState
from labfleet.kernel import errors
from labfleet.resources.image import NAMES_KEPT, Catalogue
from labfleet.resources.lab_use import NodeFigures

# JSON gives these very types, so asking for the type itself is enough and cheapest: a poll of a
# fleet asks a hundred times for each worker.


def mapping(value: Any) -> dict[str, Any]:
    """Return the value when it is a map, else an empty one."""
    return value if type(value) is dict else {}


def text(value: Any) -> str | None:
    """Return non-empty text, else None: servers also write "" for nothing."""
    return value if type(value) is str and value else None


def number(value: Any) -> float | None:
    """Return a JSON number, else None."""
    kind = type(value)
    return float(value) if kind is float or kind is int else None


def integer(value: Any) -> int | None:
    """Return a JSON number as an integer (servers write bytes as floats), else None."""
    kind = type(value)
    if kind is int:
        return value  # type: ignore[no-any-return]
    return int(value) if kind is float else None


def flag(value: Any) -> bool | None:
    """Return a JSON boolean, else None."""
    return value if value is True or value is False else None


def first_integer(*values: Any) -> int | None:
    """Return the first that is a number."""
    return next((found for value in values if (found := integer(value)) is not None), None)


def items(value: Any, *, what: str) -> Iterator[dict[str, Any]]:
    """Yield the maps of an array, or of a map by id; Protocol when it is neither."""
    if isinstance(value, list):
        pairs: Iterator[tuple[Any, Any]] = ((None, item) for item in value)
    elif isinstance(value, dict):
        pairs = iter(value.items())
    else:
        raise errors.Protocol(f"{what}: neither a list nor a map")
    for key, item in pairs:
        if not isinstance(item, dict):
            raise errors.Protocol(f"{what}: an item is not a map")
        yield item if key is None or "id" in item else {"id": key, **item}


def identity(raw: dict[str, Any], *, what: str) -> str:
    """Return the item's id; Protocol when there is none."""
    found = text(raw.get("id")) or text(raw.get("node_id"))
    if found is None:
        raise errors.Protocol(f"{what}: an item without an id")
    return found


def ids(value: Any, *, what: str) -> tuple[str, ...]:
    """Return a list of ids; Protocol when it is something else."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise errors.Protocol(f"{what}: not a list of ids")
    return tuple(value)


def lab(value: Any) -> Lab:
    """Return a lab; responses say lab_title where requests say title."""
    raw = mapping(value)
    return Lab(
        id=identity(raw, what="lab"),
        title=text(raw.get("lab_title")) or text(raw.get("title")) or "",
        notes=text(raw.get("lab_notes")) or text(raw.get("notes")) or "",
        state=text(raw.get("state")) or "UNKNOWN",
        owner=text(raw.get("owner_username")) or "",
    )


def node(raw: dict[str, Any], lab_id: str | None = None) -> NodeState:
    """Return a node with effective values: operational, else override, else None."""
    live = mapping(raw.get("operational"))
    tags = raw.get("tags")
    return NodeState(
        id=identity(raw, what="node"),
        lab_id=text(raw.get("lab_id")) or lab_id or "",
        label=text(raw.get("label")) or "",
        definition=text(raw.get("node_definition")) or "",
        state=text(raw.get("state")) or "UNKNOWN",
        cpus=first_integer(live.get("cpus"), raw.get("cpus")),
        cpu_limit=first_integer(live.get("cpu_limit"), raw.get("cpu_limit")),
        ram_mib=first_integer(live.get("ram"), raw.get("ram")),
        tags=tuple(t for t in tags if isinstance(t, str)) if isinstance(tags, list) else (),
    )


def nodes(value: Any, lab_id: str | None = None) -> tuple[NodeState, ...]:
    """Return the nodes of an array or map."""
    return tuple(node(raw, lab_id) for raw in items(value, what="nodes"))


def interface(raw: dict[str, Any], node_id: str, state: str | None = None) -> InterfaceState:
    """Return an interface without addresses; the live MAC stands before the configured."""
    live = mapping(raw.get("operational"))
    return InterfaceState(
        id=identity(raw, what="interface"),
        node_id=text(raw.get("node")) or node_id,
        label=text(raw.get("label")) or "",
        slot=integer(raw.get("slot")),
        state=text(raw.get("state")) or state,
        mac_address=text(live.get("mac_address")) or text(raw.get("mac_address")),
    )


def addresses(value: Any) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    """Return interface id -> (MAC, learned IPv4) of layer3_addresses; lax, best effort."""
    found: dict[str, tuple[str | None, tuple[str, ...]]] = {}
    for entry in mapping(value).values():
        for mac, raw in mapping(mapping(entry).get("interfaces")).items():
            known = mapping(raw)
            key = text(known.get("id"))
            learned = known.get("ip4")
            if key is not None and isinstance(learned, list):
                found[key] = (text(mac), tuple(ip for ip in learned if isinstance(ip, str)))
    return found


def by_id(value: Any) -> dict[str, Any]:
    """Return a map by id of what the specification calls an array and servers send as a map."""
    if isinstance(value, list):
        return {key: item for item in value if (key := text(mapping(item).get("id")))}
    return mapping(value)


def simulation_stats(value: Any) -> dict[str, Any]:
    """Return nodes and links by id, nothing else changed."""
    raw = mapping(value)
    return {part: by_id(raw[part]) for part in ("nodes", "links") if part in raw}


_BYTES_FROM = 1 << 20
"""CML does not say in which unit it tells a node's memory and disk: no node has a TiB of either,
and none takes less than a MiB, so that what is from here on is bytes, and MiB below."""


def node_figures(value: Any) -> dict[str, NodeFigures]:
    """Return node id -> figures out of simulation_stats; Protocol when it is no such answer."""
    if not isinstance(value, dict):
        raise errors.Protocol("simulation_stats: no map")
    return {
        identifier: NodeFigures(
            cpu_percent=number(told.get("cpu_usage")),
            memory_mib=_mib(told.get("ram_usage")),
            storage_mib=_mib(told.get("disk_usage")),
        )
        for identifier, raw in by_id(value.get("nodes")).items()
        if (told := mapping(raw)).get("is_running") is not False
    }


def _mib(value: Any) -> float | None:
    found = number(value)
    return found if found is None or found < _BYTES_FROM else found / _BYTES_FROM


def queue(value: Any) -> dict[str, str]:
    """Return node id -> what it waits for; 2.9 and 2.10 spell an item differently."""
    waiting: dict[str, str] = {}
    for raw in items(value, what="node_launch_queue"):
        needs = mapping(raw.get("resource_requirements")) or raw
        parts = [
            f"{amount:g} {unit}"
            for key, unit in (("cpus", "vCPU"), ("cpu_limit", "% of each"), ("ram", "MiB"))
            if (amount := number(needs.get(key))) is not None
        ]
        label = text(raw.get("label")) or text(raw.get("node_definition"))
        start = f"{label} is in the launch queue" if label else "in the launch queue"
        identifier = text(raw.get("node_id")) or identity(raw, what="node_launch_queue")
        waiting[identifier] = f"{start}, needs {', '.join(parts)}" if parts else start
    return waiting


def catalogue(value: Any) -> Catalogue:
    """Return the ids of node definitions and of the image definitions that they list."""
    nodes, images = set[str](), set[str]()
    for raw in items(value, what="simplified_node_definitions"):
        nodes.add(_definition(raw))
        listed = raw.get("image_definitions")
        for each in listed if isinstance(listed, list) else ():
            images.add(_definition(each if isinstance(each, dict) else {"id": each}))
    if len(nodes) + len(images) > NAMES_KEPT:
        raise errors.Protocol(f"{len(nodes) + len(images)} node and image definitions are too many")
    return Catalogue(node_definitions=tuple(sorted(nodes)), image_definitions=tuple(sorted(images)))


def _definition(raw: dict[str, Any]) -> str:
    """Return an id; facts/cml.md#api-rules bounds its length, and a longer one is nobody's."""
    found = text(raw.get("id"))
    if found is None or len(found) > 250:
        raise errors.Protocol("simplified_node_definitions: an entry without a usable id")
    return found

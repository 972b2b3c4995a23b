"""The tab of a definition that draws its lab, with the same as tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from labfleet.kernel.quantity import count
from labfleet.resources import topology_map
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Resource
from labfleet.resources.topology_map import TopologyMap
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web import topology_picture
from labfleet.web.addresses import changed
from labfleet.web.part_of_rows import PartOfRows, part
from labfleet.web.topology_picture import DRAWN, LINKS, Picture
from labfleet.web.view import Asked, Tab

KINDS = 8
"""Node definitions that are counted in a sentence, the most frequent ones."""
KEPT = 4
"""Labs that a process keeps as they were read, for whoever looks next or pages on."""


@dataclass(frozen=True, slots=True)
class TopologyPanel:
    """The tab: its sentences, the drawing (None where none is made), and the two tables.

    `sizes` lead to the drawing in its own size, or as wide as the page (`fits`).
    """

    said: tuple[str, ...]
    picture: Picture | None
    sizes: tuple[Tab, Tab]
    fits: bool
    nodes: PartOfRows[tuple[str, ...]]
    links: PartOfRows[tuple[str, ...]]


async def panel(
    services: ServiceContext, _caller: Caller, obj: Resource, asked: Asked
) -> TopologyPanel:
    """Return the tab of a definition; a large topology is read aside from the loop."""
    assert isinstance(obj, Definition)  # noqa: S101 - the table of tabs says so
    text = obj.spec.topology
    found, drawn = await services.aside.run(len(text), lambda: _made(text))
    nodes = [(each.label, each.definition, f"{each.x:.0f}, {each.y:.0f}") for each in found.nodes]
    links = [
        (found.nodes[each.first].label, each.first_end, found.nodes[each.second].label,
         each.second_end)
        for each in found.links
    ]  # fmt: skip
    fits = asked.last("size") == "page"
    sizes = (
        Tab("Its own size", changed(asked, size=None) if fits else ""),
        Tab("As wide as the page", "" if fits else changed(asked, size="page")),
    )
    return TopologyPanel(
        _said(found), drawn, sizes, fits, part(nodes, asked, "nodes"), part(links, asked, "links")
    )


@lru_cache(maxsize=KEPT)
def _made(text: str) -> tuple[TopologyMap, Picture | None]:
    found = topology_map.read(text)
    return found, topology_picture.picture(found)


def _said(found: TopologyMap) -> tuple[str, ...]:
    told = [f"{count(len(found.nodes), 'node')}, {count(len(found.links), 'link')}"]
    kinds = Counter(each.definition or "no node definition" for each in found.nodes)
    if len(kinds) > 1:
        named = [f"{kind} {number}" for kind, number in kinds.most_common(KINDS)]
        more = [f"{count(len(kinds) - KINDS, 'further kind')}"] if len(kinds) > KINDS else []
        told.append(", ".join(named + more))
    if found.placed == "layers":
        told.append("The file places no node: they stand in layers, by their links")
    if found.placed == "partly":
        told.append("Nodes that the file does not place stand below the others, as after an import")
    if len(found.nodes) > DRAWN:
        told.append(f"A lab of more than {DRAWN} nodes is not drawn")
    elif len(found.links) > LINKS:
        told.append(f"{LINKS} of the links are drawn")
    if found.left_out:
        told.append(f"{count(found.left_out, 'drawing')} of the file not shown")
    return tuple(told)

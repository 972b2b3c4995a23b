"""Topologies that CML's import takes, drawn by hypothesis, as the plain values of their files."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

DEFINITIONS = ("alpine", "iosv", "nxosv9000", "external_connector", "unmanaged_switch", "my-own")
_LETTERS = st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"))
names = st.text(_LETTERS, min_size=1, max_size=20)
ids = st.one_of(st.from_regex(r"[a-z][0-9]{1,3}", fullmatch=True), st.integers(0, 10**6), names)


def _unique(values: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, max_size=most, unique_by=str)


@st.composite
def topologies(draw: st.DrawFn) -> dict[str, Any]:
    """Return a lab of up to six nodes, each interface with at most one link."""
    node_ids = draw(_unique(ids, 6))
    labels = draw(st.lists(names, min_size=len(node_ids), max_size=len(node_ids), unique=True))
    nodes = [draw(_node(*pair)) for pair in zip(node_ids, labels, strict=True)]
    ends = [(node["id"], port["id"]) for node in nodes for port in node.get("interfaces") or ()]
    free = draw(st.permutations(ends))
    count = draw(st.integers(0, len(free) // 2))
    links = [
        {"id": f"l{number}", "n1": one[0], "i1": one[1], "n2": two[0], "i2": two[1],
         **draw(st.sampled_from([{}, {"label": "a<->b", "conditioning": {}}]))}
        for number, (one, two) in enumerate(zip(free[:count], free[count : 2 * count], strict=True))
    ]  # fmt: skip
    lab = {"version": draw(st.sampled_from(["0.0.3", "0.2.2", "0.3.0", "0.3.1"]))}
    lab |= draw(st.fixed_dictionaries({}, optional={"title": names, "notes": st.text(max_size=40)}))
    return {"lab": lab, "nodes": nodes, "links": links}


@st.composite
def _node(draw: st.DrawFn, identity: Any, label: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": identity, "label": label, "node_definition": draw(st.sampled_from(DEFINITIONS)),
    }  # fmt: skip
    place = st.integers(-15_000, 15_000)
    files = st.fixed_dictionaries({"name": names, "content": st.text(max_size=30)})
    made |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "x": place,
                "y": place,
                "ram": st.sampled_from([None, 0, 512, ""]),
                "cpu_limit": st.sampled_from([None, 20, 100]),
                "image_definition": st.sampled_from([None, "", "alpine-base-3-21-3"]),
                "tags": st.lists(st.sampled_from(["core", "serial:5041", "pat:tcp:2022:22"])),
                "parameters": st.sampled_from([{}, {"smbios": "x"}]),
                "configuration": st.one_of(st.text(max_size=30), st.lists(files, max_size=2)),
            },
        )
    )
    ports = draw(_unique(ids, 4))
    if ports or draw(st.booleans()):
        made["interfaces"] = [draw(_interface(each, slot)) for slot, each in enumerate(ports)]
    return made


def _interface(identity: Any, slot: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"id": st.just(identity)},
        optional={
            "label": st.just(f"eth{slot}"),
            "slot": st.sampled_from([None, slot]),
            "type": st.sampled_from(["physical", "loopback"]),
            "mac_address": st.sampled_from([None, "52:54:00:12:ab:CD"]),
        },
    )

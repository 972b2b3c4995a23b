"""Runs cml-mcp's tools against a server, in process; exit 0 or 1.

Usage: CML_URL=... CML_USERNAME=... CML_PASSWORD=... CML_VERIFY_SSL=false python run_cml_mcp.py.
Prints one JSON line for each tool. Needs cml-mcp 0.32.2 and Python 3.12, nothing of Labfleet.
"""

import asyncio
import base64
import contextlib
import json
import logging
import sys
from importlib import metadata

from cml_mcp.server import server_mcp
from fastmcp import Client

VERSION = metadata.version("cml-mcp")
DRAWING = {"color": "#FFFFFFFF", "border_color": "#808080FF", "thickness": 1, "z_index": 0}
OUT = sys.stdout


def topology(title):
    """Return a lab of a host behind NAT, as JSON."""
    return {
        "lab": {"title": title, "description": "", "notes": "", "version": "0.3.0"},
        "nodes": [
            {
                "id": "n0",
                "label": "PC",
                "node_definition": "alpine",
                "x": 0,
                "y": 0,
                "tags": ["serial:5041"],
                "configuration": [{"name": "node.cfg", "content": "hostname PC\n"}],
                "interfaces": [{"id": "i0", "label": "eth0", "slot": 0, "type": "physical"}],
            },
            {
                "id": "n1",
                "label": "NET",
                "node_definition": "external_connector",
                "x": 100,
                "y": 0,
                "configuration": [{"name": "default", "content": "NAT"}],
                "interfaces": [{"id": "i0", "label": "port", "slot": 0, "type": "physical"}],
            },
        ],
        "links": [{"id": "l0", "n1": "n0", "i1": "i0", "n2": "n1", "i2": "i0", "label": "wire"}],
    }


class Tools:
    """Calls tools and keeps what passed."""

    def __init__(self, client):
        self.client = client
        self.bad = 0

    async def __call__(self, tool, broken=None, **arguments):
        """Call a tool, print how it went, return its data (None if it failed).

        `broken` is the error of a tool that cannot work whatever the server does.
        """
        said = {"client": f"cml-mcp {VERSION}", "calls": tool}
        data = None
        try:
            result = await self.client.call_tool(tool, arguments)
            data = result.structured_content
            if isinstance(data, dict) and set(data) == {"result"}:
                data = data["result"]
        except Exception as error:
            if broken is not None and broken in str(error):
                print(json.dumps({**said, "broken": broken, "ok": True}), file=OUT, flush=True)
                return None
            self.bad += 1
            said["error"] = f"{type(error).__name__}: {error}"[:600]
        print(json.dumps({**said, "ok": "error" not in said}), file=OUT, flush=True)
        return data


async def look(call):
    """Read the server's own pages."""
    assert (await call("get_cml_information"))["ready"]
    assert (await call("get_cml_status"))["valid"]
    assert (await call("get_cml_statistics"))["computes"]
    assert (await call("get_cml_licensing_details"))["udi"]
    assert await call("get_cml_users")
    assert await call("get_cml_groups") == []
    assert any(d["id"] == "iosv" for d in await call("get_cml_node_definitions"))
    await call("get_node_definition_detail", definition_id="alpine")


async def people(call, lab):
    """Make people, share a lab with them, and remove them."""
    user = await call("create_cml_user", username="eve", password="secret-1", fullname="Eve")
    group = await call("create_cml_group", name="crew", members=[user])
    groups = [{"id": group, "permissions": ["LAB_VIEW"]}]
    # 0.32.2 takes the text of a pattern for a pattern and fails before it sends anything.
    await call("set_cml_lab_permissions", broken="no attribute 'match'", lab_id=lab, groups=groups)
    await call("delete_cml_group", group_id=group)
    await call("delete_cml_user", user_id=user)


async def draw(call, lab):
    """Draw, list and erase."""
    at = {"lab_id": lab, "x1": 0, "y1": 0, **DRAWING}
    box = {**at, "x2": 10, "y2": 10, "border_style": "dotted"}
    words = {"text_content": "hi", "text_font": "monospace", "text_size": 12, "text_unit": "pt"}
    bold = {"text_bold": False, "text_italic": False, "rotation": 0, "border_style": "solid"}
    await call("add_text_annotation", **at, **words, **bold)
    await call("add_rectangle_annotation", **box, rotation=0, border_radius=0)
    await call("add_ellipse_annotation", **box, rotation=0)
    await call("add_line_annotation", **box, line_start=None, line_end="arrow")
    drawn = await call("get_annotations_for_cml_lab", lab_id=lab)
    assert len(drawn) == 4
    await call("delete_annotation_from_lab", lab_id=lab, annotation_id=drawn[0]["id"])


async def by_hand(call):
    """Make a lab piece by piece, run it, and take it down."""
    lab = await call("create_empty_lab", title="by mcp", description="d")
    await call("modify_cml_lab", lab_id=lab, title="by mcp 2", notes="n")
    nodes = [
        await call("add_node_to_cml_lab", lab_id=lab, node_definition="iosv", label=name, x=0, y=0)
        for name in ("a", "b")
    ]
    ends = []
    for node in nodes:
        await call("add_interface_to_node", lab_id=lab, node=node)
        ports = await call("get_interfaces_for_node", lab_id=lab, node_id=node)
        ends.append(ports[-1]["id"])
    await call("configure_cml_node", lab_id=lab, node_id=nodes[0], config="hostname a")
    await call("connect_two_nodes", lab_id=lab, src_int=ends[0], dst_int=ends[1])
    link = (await call("get_all_links_for_lab", lab_id=lab))[0]["id"]
    await call("apply_link_conditioning", lab_id=lab, link_id=link, latency=50, enabled=True)
    await call("start_cml_lab", lab_id=lab, wait_for_convergence=True)
    await call("get_nodes_for_cml_lab", lab_id=lab)
    await call("get_console_log", lab_id=lab, node_id=nodes[0])
    at = {"lab_id": lab, "link_id": link}
    await call("start_packet_capture", **at, maxpackets=5)
    await asyncio.sleep(0.3)
    await call("check_packet_capture_status", **at)
    assert await call("get_captured_packet_overview", **at)
    data = base64.b64decode(await call("get_packet_capture_data", **at))
    assert data[:4] == b"\xd4\xc3\xb2\xa1"
    await call("stop_packet_capture", **at)
    await call("stop_cml_link", **at)
    await call("start_cml_link", **at)
    await call("stop_cml_node", lab_id=lab, node_id=nodes[0])
    await asyncio.sleep(0.3)
    await call("wipe_cml_node", lab_id=lab, node_id=nodes[0])
    await call("start_cml_node", lab_id=lab, node_id=nodes[0], wait_for_convergence=True)
    await people(call, lab)
    await draw(call, lab)
    await call("stop_cml_lab", lab_id=lab)
    await asyncio.sleep(0.3)
    await call("wipe_cml_lab", lab_id=lab)
    await call("delete_cml_node", lab_id=lab, node_id=nodes[0])
    await call("delete_cml_lab", lab_id=lab)


async def whole(call):
    """Import, clone, export and delete a lab."""
    lab = await call("create_full_lab_topology", topology=topology("imported"))
    found = await call("get_cml_lab_by_title", title="imported")
    assert found["id"] == lab
    text = await call("download_lab_topology", lab_id=lab)
    assert "hostname PC" in text
    clone = await call("clone_cml_lab", lab_id=lab, new_title="copy")
    assert {one["id"] for one in await call("get_cml_labs")} >= {lab, clone}
    for each in (lab, clone):
        await call("delete_cml_lab", lab_id=each)


async def main():
    """Run everything; return whether all passed."""
    async with Client(server_mcp) as client:
        call = Tools(client)
        for part in (look, by_hand, whole):
            try:
                await part(call)
            except Exception as error:
                call.bad += 1
                print(json.dumps({"part": part.__name__, "error": repr(error)[:300], "ok": False}))
        return call.bad == 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(sys.stderr):
        fine = asyncio.run(main())
    raise SystemExit(0 if fine else 1)

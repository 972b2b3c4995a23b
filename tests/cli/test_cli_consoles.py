"""`consoles`: one row for each way to a node."""

from __future__ import annotations


def test_each_way_to_a_node_is_a_row(run, stub):
    """A node without any is told as well; the page of the lab stands beside the table."""
    port = {"name": "r1_serial", "node": "r1", "kind": "serial", "url": "telnet://192.0.2.7:2043"}
    nodes = [
        {"node": "r1", "ports": [port], "cmlConsole": "/mine/r1/0", "off": False},
        {"node": "r2", "ports": [], "cmlConsole": None, "off": True},
    ]
    stub.answers["GET /api/v1/sessions/mine/consoles"] = (
        200, {"session": "mine", "nodes": nodes, "labUrl": "https://192.0.2.7/lab/1",
              "labUser": {"name": "student"}, "message": ""},
    )  # fmt: skip
    done = run("consoles", "session/mine")
    rows = [each.split() for each in done.out.splitlines()[1:]]
    assert rows == [
        ["r1", "serial", "r1_serial", "telnet://192.0.2.7:2043"], ["r1", "cml", "-", "/mine/r1/0"],
        ["r2", "(off)", "-", "-", "-"],
    ]  # fmt: skip
    assert "https://192.0.2.7/lab/1, as student" in done.err
    assert run("consoles", "mine", "-o", "json").json["nodes"][0]["node"] == "r1"

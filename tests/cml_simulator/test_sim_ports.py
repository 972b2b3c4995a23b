"""PATty: tags become ports of the server."""

import pytest

from cml_simulator.core import port_forwards
from cml_simulator.core.ports import request_of


@pytest.mark.parametrize(
    ("tag", "want"),
    [
        ("serial:5041", ("serial", "tcp", 5041, 0)),
        ("serial:5041:1", ("serial", "tcp", 5041, 1)),
        ("vnc:5044", ("vnc", "tcp", 5044, 0)),
        ("pat:2022:22", ("pat", "tcp", 2022, 22)),
        ("pat:tcp:2022:22", ("pat", "tcp", 2022, 22)),
        ("pat:udp:5000:161", ("pat", "udp", 5000, 161)),
        ("pat:2022:0", None),
        ("pat:2022", None),
        ("serial:", None),
        ("serial:abc", None),
        ("serial:80", None),
        ("serial:8000", None),
        ("serial:65536", None),
        ("SERIAL:5041", None),
        (" serial:5041", None),
        ("ansible:a=b", None),
        ("vnc:5044:1", None),
    ],
)
def test_tags(tag, want):
    """Only well-formed tags inside the range ask for a port."""
    wish = request_of(tag, 2000, 7999)
    found = wish and (wish.kind, wish.transport, wish.outer, wish.inner)
    assert found == want


def start(box, text):
    lab = box.import_text(text)["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    return lab


def opened(box):
    return {(p.transport, p.outer) for p in port_forwards.open_ports(box.server, box.now)[0]}


def test_ports_open_at_the_next_poll_and_close_with_the_node(box, topo):
    """A mapping appears up to one poll after the node runs and vanishes when it stops."""
    box.clock.forward(1)
    lab = start(box, topo({"id": "a", "tags": ["serial:5041", "vnc:5044", "serial:5050:7"]}))
    assert opened(box) == set()
    box.clock.forward(5)
    assert opened(box) == {("tcp", 5041), ("tcp", 5044)}
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(3)
    assert opened(box) == set()


def test_pat_waits_for_an_address(box, topo):
    """PAT needs an address on the NAT bridge; a node without one never gets its port."""
    text = topo(
        {"id": "net", "kind": "external_connector"},
        {"id": "in", "tags": ["pat:2022:22", "pat:udp:2022:53"]},
        {"id": "out", "tags": ["pat:2023:22"]},
        links=[("net", "in")],
    )
    start(box, text)
    box.clock.forward(6)
    assert opened(box) == set()
    box.clock.forward(60)
    assert opened(box) == {("tcp", 2022), ("udp", 2022)}


def test_first_come_wins_and_clashes_are_logged(box, topo):
    """Two nodes with one outer port: the earlier has it, the later is in the log."""
    start(box, topo({"id": "a", "tags": ["serial:5041"]}))
    box.clock.forward(10)
    second = start(box, topo({"id": "b", "tags": ["serial:5041", "vnc:5042"]}))
    box.clock.forward(10)
    ports, clashes = port_forwards.open_ports(box.server, box.now)
    loser = box.get(f"/labs/{second}/nodes")[0]
    assert {p.outer for p in ports} == {5041, 5042}
    assert [c.loser for c in clashes] == [loser]
    assert box.control("GET", "/summary")["port_conflicts"] == 1
    log = box.control("GET", f"/servers/{box.server.id}")["clash_log"]
    assert (log[0]["port"], log[0]["loser"]) == (5041, loser)


def test_loser_takes_over(box, topo):
    """When the winner stops, the port goes to the one that waited."""
    first = start(box, topo({"id": "a", "tags": ["serial:5041"]}))
    start(box, topo({"id": "b", "tags": ["serial:5041"]}))
    box.clock.forward(10)
    box.ask("PUT", f"/labs/{first}/stop", want=204)
    box.clock.forward(3)
    assert opened(box) == {("tcp", 5041)}


def test_tag_added_from_outside_opens_a_port(box, topo):
    """A tag that someone adds to a running node is drift that a manager can see."""
    lab = start(box, topo({"id": "a"}))
    node = box.get(f"/labs/{lab}/nodes")[0]
    box.clock.forward(100.5)
    edit = {"action": "add_tag", "node_id": node, "tag": "serial:6000"}
    box.control("POST", f"/servers/{box.server.id}/outside", edit)
    assert opened(box) == set()
    box.clock.forward(5)
    assert opened(box) == {("tcp", 6000)}
    assert box.get(f"/labs/{lab}/nodes/{node}")["tags"] == ["serial:6000"]


def test_ports_close_with_the_power(box, topo):
    """A stopped server has no ports, and its nodes come back STOPPED."""
    lab = start(box, topo({"id": "a", "tags": ["serial:5041"]}))
    box.clock.forward(10)
    assert box.control("GET", "/summary")["ports_open"] == 1
    box.control("POST", f"/servers/{box.server.id}/stop")
    assert box.control("GET", "/summary")["ports_open"] == 0
    box.control("POST", f"/servers/{box.server.id}/boot")
    box.login()
    assert box.get(f"/labs/{lab}/state") == "STOPPED"

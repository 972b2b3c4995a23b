"""Each row of facts/cml.md#open-questions is a rule, and each value behaves as it says.

The numbered cases are rows of facts/cml-issues.md.
"""

import json

import pytest

from cml_simulator.core.profile import Rules
from cml_simulator.shell.main import Options, rules_of


def lab_of(box, text, start=True):
    lab = box.import_text(text)["id"]
    if start:
        box.ask("PUT", f"/labs/{lab}/start", want=204)
    return lab


def states(box, lab):
    return sorted(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())


@pytest.mark.parametrize("status", [400, 403, 409])
def test_row_1_too_early(make_box, topo, status):
    """Deleting or wiping too early has the chosen status and a sentence."""
    box = make_box(rules=Rules(refusal_status=status))
    lab = lab_of(box, topo({"id": "a"}))
    for method, path in (("PUT", "/wipe"), ("DELETE", "")):
        found, text = box.refusal(method, f"/labs/{lab}{path}")
        assert found == status
        assert "must be" in text


@pytest.mark.parametrize("counted", [False, True])
def test_row_2_connectors(make_box, topo, counted):
    """Connectors and switches count toward licence and running nodes, or not."""
    box = make_box(rules=Rules(vmless_licensed=counted, vmless_running=counted))
    kinds = [{"id": f"s{n}", "kind": "unmanaged_switch"} for n in range(4)]
    lab = lab_of(box, topo({"id": "a"}, {"id": "b"}, *kinds))
    assert states(box, lab).count("QUEUED") == (1 if counted else 0)
    info = box.get("/system_stats")["computes"][box.server.compute_id]["stats"]["dominfo"]
    assert info["running_nodes"] == (5 if counted else 2)


def test_row_3_words(make_box):
    """Status words and product names are spelled as told."""
    words = {"NOT_REGISTERED": "UNREGISTERED", "INIT": "EVAL", "CML_Free": "CML_Trial"}
    status = make_box(rules=Rules(words=words)).get("/licensing")
    assert status["registration"]["status"] == "UNREGISTERED"
    assert status["authorization"]["status"] == "EVAL"
    assert status["product_license"]["active"] == "CML_Trial"


@pytest.mark.parametrize("status", [400, 403])
def test_row_3_licence_refusal(make_box, topo, status):
    """The refusal of a start over the licence is a 400, or the 403 of old versions (F14)."""
    box = make_box(rules=Rules(over_licence="refuse", over_licence_status=status))
    lab = lab_of(box, topo(*({"id": f"n{n}"} for n in range(6))), start=False)
    found, text = box.refusal("PUT", f"/labs/{lab}/start")
    assert found == status
    assert "failed to license" in text


def test_row_4_units(make_box, topo):
    """Node figures in percent of a core and MiB, or of all vCPUs and bytes."""
    seen = []
    for rules in (Rules(), Rules(cpu_usage="share", usage_unit="bytes")):
        box = make_box(rules=rules)
        lab = lab_of(box, topo({"id": "a", "cpus": 4}))
        seen.append(next(iter(box.get(f"/labs/{lab}/simulation_stats")["nodes"].values())))
    assert seen[0]["cpu_usage"] == pytest.approx(4 * seen[1]["cpu_usage"])
    assert seen[0]["ram_usage"] * 1024 * 1024 == seen[1]["ram_usage"]
    assert seen[0]["disk_usage"] * 1024 * 1024 == seen[1]["disk_usage"]


def test_row_5_session_length(make_box):
    """The default session length is a rule."""
    assert make_box(rules=Rules(session_seconds=28_800)).get("/web_session_timeout") == 28_800


@pytest.mark.parametrize("kept", [False, True])
def test_row_6_power_cycle(make_box, topo, kept):
    """A power cycle stops nodes and kills tokens, or does neither."""
    rules = Rules(power_off_nodes="running" if kept else "stopped", tokens_survive=kept)
    box = make_box(rules=rules)
    lab = lab_of(box, topo({"id": "a"}))
    box.control("POST", f"/servers/{box.server.id}/stop")
    box.control("POST", f"/servers/{box.server.id}/boot")
    assert (box.send("GET", "/authok").status == 200) is kept
    if not kept:
        box.login()
    assert states(box, lab) == (["STARTED"] if kept else ["STOPPED"])


def test_row_7_boot_times(make_box, topo):
    """Boot durations can be set for each definition."""
    box = make_box(rules=Rules(boot_seconds={"iosv": 1000.0}))
    lab = lab_of(box, topo({"id": "a", "kind": "iosv"}))
    box.clock.forward(850)
    assert states(box, lab) == ["STARTED"]
    box.clock.forward(300)
    assert states(box, lab) == ["BOOTED"]


@pytest.mark.parametrize("status", [400, 404])
def test_row_8_missing_node(make_box, status):
    """A GET of a missing node is 404, or 400 as the document says; the text stays the same."""
    box = make_box(rules=Rules(missing_node_status=status))
    lab = box.ask("POST", "/labs", {})["id"]
    found, text = box.refusal("GET", f"/labs/{lab}/nodes/x")
    assert (found, text) == (status, "Node not found: x")
    assert box.refusal("DELETE", f"/labs/{lab}/nodes/x")[0] == 404


@pytest.mark.parametrize(
    ("rule", "status", "found"),
    [
        ("queue", 204, ["QUEUED"] + ["STARTED"] * 5),
        ("refuse", 400, ["DEFINED_ON_CORE"] * 6),
        ("leave", 204, ["DEFINED_ON_CORE"] + ["STARTED"] * 5),
    ],
)
def test_row_9_start_over_the_licence(make_box, topo, rule, status, found):
    """Nodes over the licence wait, make the whole start a 400, or are left as they were."""
    box = make_box(rules=Rules(over_licence=rule))
    lab = lab_of(box, topo(*({"id": f"n{n}"} for n in range(6))), start=False)
    assert box.send("PUT", f"/labs/{lab}/start").status == status
    assert states(box, lab) == found


@pytest.mark.parametrize(("rule", "winner"), [("started", "first"), ("last", "second")])
def test_row_10_one_poll_sees_two_claims(make_box, topo, rule, winner):
    """Two nodes that ask for one port within one poll: the first or the last started has it."""
    box = make_box(rules=Rules(patty_ties=rule, patty_poll=60))
    labs = {}
    box.clock.forward(1)
    for name in ("first", "second"):
        labs[name] = lab_of(box, topo({"id": name, "tags": ["serial:5041"]}))
        box.clock.forward(1)
    box.clock.forward(100)
    ports = box.control("GET", f"/servers/{box.server.id}")["open_ports"]
    owner = box.server.nodes[ports[0]["node_id"]].lab_id
    assert (len(ports), owner) == (1, labs[winner])


def test_rules_change_while_it_runs(box):
    """PATCH of the rules changes some and keeps the rest; unknown ones are refused."""
    path = f"/servers/{box.server.id}/rules"
    changed = box.control("PATCH", path, {"refusal_status": 409, "words": {"INIT": "EVAL"}})
    assert changed["refusal_status"] == 409
    assert box.get("/licensing")["authorization"]["status"] == "EVAL"
    assert box.control("GET", path)["refusal_status"] == 409
    box.control("PATCH", path, {"refusal_status": 418}, want=400)
    box.control("PATCH", path, {"nonsense": 1}, want=400)


def test_rules_of_the_command_line():
    """--rule takes JSON or text; what does not fit is wrong usage."""
    found = rules_of(Options(rule=("refusal_status=409", "over_licence=leave", 'silent=["iosv"]')))
    assert (found.refusal_status, found.over_licence, found.silent) == (409, "leave", ("iosv",))
    for bad in ("x=1", "refusal_status=1"):
        with pytest.raises(Exception, match=r"rule|Invalid"):
            rules_of(Options(rule=(bad,)))


def test_weather_is_listed_and_cleared(box):
    """Everything that is wrong is listed in one place and cleared at once."""
    path = f"/servers/{box.server.id}/weather"
    box.control("PATCH", path, {"disk_full": True, "orphans": 2})
    assert json.loads(json.dumps(box.control("GET", path)))["orphans"] == 2
    assert box.control("DELETE", path)["disk_full"] is False
    box.control("PATCH", path, {"hail": True}, want=400)

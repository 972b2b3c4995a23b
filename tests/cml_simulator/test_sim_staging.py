"""Staged starts of 2.10: stages by priority, what waits for what, and what ends a staged start."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cml_simulator.core import stream
from cml_simulator.core.model import State
from cml_simulator.core.profile import Rules, release

NEW = release("2.10")
BOOT = {"alpine": 20}


@pytest.fixture
def staged(make_box, topo):
    """Return a maker of a server and its lab, imported with switches and node priorities."""

    def make(*priorities, rules=None, profile=NEW, **switches):
        box = make_box(profile=profile, rules=rules or Rules(boot_seconds=BOOT, stop_seconds=0))
        nodes = [
            {"id": f"n{number}", **({} if priority is None else {"priority": priority})}
            for number, priority in enumerate(priorities)
        ]
        staging = {"enabled": True, **switches}
        text = json.loads(topo(*nodes, version=profile.schema))
        text["lab"]["node_staging"] = staging
        lab = box.ask("POST", "/import", text)["id"]
        return box, lab

    return make


def states(box, lab):
    """Return each node's state by label."""
    rows = box.get(f"/labs/{lab}/nodes", query={"data": "true"})
    return {row["label"]: row["state"] for row in rows}


def start(box, lab):
    box.ask("PUT", f"/labs/{lab}/start", want=204)


def test_a_stage_begins_when_the_one_before_has_booted(staged):
    """The highest priority first, equal ones together, those without priority last."""
    box, lab = staged(5, 9, 9, None)
    start(box, lab)
    found = states(box, lab)
    assert [found[f"n{n}"] for n in range(4)] == ["QUEUED", "STARTING", "STARTING", "QUEUED"]
    assert box.get(f"/labs/{lab}/check_if_converged") is False
    box.clock.forward(24)
    found = states(box, lab)
    assert [found[f"n{n}"] for n in range(4)] == ["STARTED", "BOOTED", "BOOTED", "QUEUED"]
    box.clock.forward(100)
    assert set(states(box, lab).values()) == {"BOOTED"}
    booted = [e for e in box.get(f"/labs/{lab}/events") if e["data"].get("state") == "BOOTED"]
    ids = {row["id"]: row["label"] for row in box.get(f"/labs/{lab}/nodes", query={"data": "1"})}
    order = [ids[event["element_id"]] for event in booted]
    assert set(order[:2]) == {"n1", "n2"}
    assert order[2:] == ["n0", "n3"]


def test_the_queue_names_what_a_node_waits_for(staged):
    """node_launch_queue has the nodes of the stage before as dependencies."""
    box, lab = staged(2, 1)
    start(box, lab)
    ids = {row["label"]: row["id"] for row in box.get(f"/labs/{lab}/nodes", query={"data": "1"})}
    (row,) = box.get("/diagnostics/node_launch_queue")
    assert (row["node_id"], row["dependencies"]) == (ids["n1"], [ids["n0"]])
    (reason,) = box.control("GET", f"/servers/{box.server.id}/queue")
    assert reason["reason"] == "an earlier stage is not up: n0"


def test_without_start_remaining_nodes_without_priority_stay_off(staged):
    """They are not queued; they can be started alone."""
    box, lab = staged(1, None, start_remaining=False)
    start(box, lab)
    box.clock.forward(60)
    assert states(box, lab) == {"n0": "BOOTED", "n1": "DEFINED_ON_CORE"}
    assert box.get(f"/labs/{lab}/check_if_converged") is True


@pytest.mark.parametrize("abort", [False, True])
def test_a_failed_stage_ends_the_start_only_when_told_so(staged, abort):
    """A node stopped before it was up: later stages go on, or are all given up."""
    box, lab = staged(3, 2, 1, abort_on_failure=abort)
    start(box, lab)
    first = next(n for n in box.server.nodes.values() if n.label == "n0")
    box.ask("PUT", f"/labs/{lab}/nodes/{first.id}/state/stop", want=204)
    box.clock.forward(100)
    rest = {"n1": "DEFINED_ON_CORE", "n2": "DEFINED_ON_CORE"}
    if not abort:
        rest = {"n1": "BOOTED", "n2": "BOOTED"}
    assert states(box, lab) == {"n0": "STOPPED", **rest}


@pytest.mark.parametrize(("profile", "switches"), [(NEW, {"enabled": False}), (release("2.9"), {})])
def test_other_labs_and_releases_start_at_once(staged, profile, switches):
    """Without the switch, and before 2.10, which takes no notice of it, all nodes start."""
    box, lab = staged(2, 1, profile=profile, **switches)
    start(box, lab)
    assert State.QUEUED not in states(box, lab).values()


def test_by_rule_a_stage_begins_when_the_one_before_has_started(staged):
    """Open question 12: then no stage waits for a boot."""
    box, lab = staged(2, 1, None, rules=Rules(boot_seconds=BOOT, staging="started"))
    start(box, lab)
    assert set(states(box, lab).values()) == {"STARTING"}


def test_staging_is_exported_as_it_was_imported(staged):
    """A download carries the switches and priorities of 2.10, and imports again."""
    box, lab = staged(7, None, start_remaining=False)
    text = box.send("GET", f"/labs/{lab}/download").body.decode()
    again = box.import_text(text)["id"]
    assert box.get(f"/labs/{again}")["node_staging"] == {"enabled": True, "start_remaining": False}
    assert [node.priority for node in box.server.labs[again].nodes.values()] == [7, None]
    bad = text.replace("enabled: true", "enabled: 7")
    assert box.send("POST", "/import", raw=bad.encode()).status == 400


def test_a_power_cycle_in_the_middle_leaves_nothing_waiting(staged):
    """After it the lab can be started anew, in its stages."""
    box, lab = staged(2, 1)
    start(box, lab)
    box.control("POST", f"/servers/{box.server.id}/stop", want=200)
    box.control("POST", f"/servers/{box.server.id}/boot", want=200)
    box.login()
    start(box, lab)
    box.clock.forward(100)
    assert set(states(box, lab).values()) == {"BOOTED"}


def stage(node):
    return -1 if node.priority is None else node.priority


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=5), st.data())
def test_every_staged_start_ends(make_box, topo, priorities, data):
    """Whatever is stopped on the way, in the end nothing waits, and no stage overtook another."""
    box = make_box(profile=NEW, rules=Rules(boot_seconds=BOOT, stop_seconds=1))
    nodes = [
        {"id": f"n{number}", **({} if priority is None else {"priority": priority})}
        for number, priority in enumerate(priorities)
    ]
    text = json.loads(topo(*nodes, version="0.3.1"))
    abort = data.draw(st.booleans())
    text["lab"]["node_staging"] = {"enabled": True, "abort_on_failure": abort}
    lab = box.server.labs[box.ask("POST", "/import", text)["id"]]
    start(box, lab.id)
    stopped = data.draw(st.sets(st.sampled_from(list(lab.nodes)), max_size=2))
    for node_id in sorted(stopped):
        box.clock.forward(data.draw(st.sampled_from([0, 5, 30])))
        box.ask("PUT", f"/labs/{lab.id}/nodes/{node_id}/state/stop", want=204)
    box.clock.forward(500)
    box.get(f"/labs/{lab.id}")
    assert not box.server.queue
    began = {n.id: n.started_at for n in lab.nodes.values() if n.admitted}
    for node_id in began:
        for other_id in began:
            one, other = lab.nodes[node_id], lab.nodes[other_id]
            if stage(one) > stage(other) and not stopped:
                assert one.booted_at <= other.started_at
    if not stopped:
        assert len(began) == len(priorities)


@pytest.mark.parametrize("form", ["lab", "none"])
def test_events_of_a_whole_lab_name_an_element_or_not(make_box, topo, form):
    """Open question 11: by rule only the creation names the lab as its element."""
    box = make_box(rules=Rules(lab_event_element=form))
    since = box.now - 1
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PATCH", f"/labs/{lab}", {"title": "new"})
    box.ask("DELETE", f"/labs/{lab}", want=204)
    admin = next(iter(box.server.users.values()))
    told = [
        (message["event"], message.get("element_type"), message.get("element_id"))
        for message in stream.since(box.server, admin, since, box.now)
        if message["event_type"] == "lab_event"
    ]
    named = ("Lab", lab) if form == "lab" else (None, None)
    assert told == [("created", "Lab", lab), ("modified", *named), ("deleted", *named)]

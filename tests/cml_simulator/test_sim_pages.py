"""The rest of the API: sharing, drawings, links, captures, notices, bridges, people, keys, samples."""

import json
from dataclasses import replace

import pytest

from cml_simulator.core.outside import PERSON, Edit, act
from cml_simulator.core.server import ADMIN_ID
from cml_simulator.core.world import set_rules

PAIR = ({"id": "a"}, {"id": "b"})


@pytest.fixture
def lab(box, topo) -> str:
    """Return a lab of two linked hosts."""
    return box.import_text(topo(*PAIR, links=[("a", "b")]))["id"]


def one(box, kind):
    return next(iter(getattr(box.server, kind)))


def person(box, name):
    return box.ask("POST", "/users", {"username": name, "password": "p"}, want=201)["id"]


def test_rights_by_sharing(box, lab):
    """View reads, exec starts, edit changes, admin shares and deletes; nothing without a share."""
    user = person(box, "u")
    group = box.ask("POST", "/groups", {"name": "g", "members": [user]}, want=201)["id"]
    path = f"/labs/{lab}"

    def tries(*permissions):
        box.login()
        share = {"groups": [{"id": group, "permissions": list(permissions)}]}
        box.ask("PATCH", f"{path}/associations", share)
        box.login("u", "p")
        return [
            box.send(method, f"{path}{rest}", body).status
            for method, rest, body in (
                ("GET", "/topology", None),
                ("PUT", "/stop", None),
                ("PATCH", "", {"notes": "n"}),
                ("PATCH", "/associations", {"users": []}),
            )
        ]

    assert tries() == [403, 403, 403, 403]
    assert box.get("/labs", query={"show_all": "true"}) == []
    assert tries("lab_view") == [200, 403, 403, 403]
    assert box.get("/labs", query={"show_all": "true"}) == [lab]
    assert box.get("/labs") == []
    assert box.get(path)["effective_permissions"] == ["lab_view"]
    assert tries("lab_exec") == [200, 204, 403, 403]
    assert tries("lab_edit") == [200, 403, 200, 403]
    assert tries("lab_admin") == [200, 403, 403, 200]
    box.login()
    assert box.get(f"/groups/{group}/labs") == [lab]
    assert box.get(f"/groups/{group}/members") == [user]
    assert box.get(f"/users/{user}/groups") == [group]


def test_both_forms_of_sharing_agree(box, lab):
    """The deprecated list of groups and the associations show the same shares."""
    group = box.ask("POST", "/groups", {"name": "g"}, want=201)["id"]
    box.ask("PUT", f"/labs/{lab}/groups", [{"id": group, "permission": "read_write"}])
    shared = box.get(f"/labs/{lab}/associations")["groups"]
    assert shared == [{"id": group, "permissions": ["lab_view", "lab_edit", "lab_exec"]}]
    box.ask("PATCH", f"/labs/{lab}/associations", {"groups": [{"id": group, "permissions": []}]})
    assert box.get(f"/labs/{lab}/groups") == []
    bad = [{"id": group, "permission": "all"}], [{"id": "x", "permission": "read_only"}], {}, [1]
    for value in bad:
        assert box.refusal("PUT", f"/labs/{lab}/groups", value)[0] == 400
    box.ask("PATCH", f"/groups/{group}", {"labs": [{"id": lab, "permission": "read_only"}]})
    assert box.get(f"/groups/{group}")["associations"][0]["permissions"] == ["lab_view"]
    box.ask("DELETE", f"/groups/{group}", want=204)
    assert box.get(f"/labs/{lab}/associations") == {"groups": [], "users": []}


def test_drawings(box, lab):
    """Each type has its keys and defaults; a type cannot change; coordinates have bounds."""
    path = f"/labs/{lab}/annotations"
    for kind in ("text", "rectangle", "ellipse", "line"):
        made = box.ask("POST", path, {"type": kind, "x1": 1.5})
        assert (made["type"], made["x1"]) == (kind, 1.5)
        assert box.get(f"{path}/{made['id']}") == made
        assert box.refusal("PATCH", f"{path}/{made['id']}", {"type": "other"})[0] == 400
    assert len(box.get(path)) == 4
    assert box.get(f"/labs/{lab}/topology")["annotations"] == box.get(path)
    changed = box.ask("PATCH", f"{path}/{made['id']}", {"border_style": "4,2"})
    assert changed["border_style"] == "4,2"
    for bad in ({}, {"type": "star"}, {"type": "text", "x1": 15_001}, {"type": "text", "x2": 1}):
        assert box.refusal("POST", path, bad)[0] == 400
    box.ask("DELETE", f"{path}/{made['id']}", want=204)
    assert box.refusal("GET", f"{path}/{made['id']}")[0] == 404


def test_smart_annotations_follow_tags(box, lab):
    """The server makes one for each tag; people only change its looks."""
    node = one(box, "nodes")
    box.ask("PATCH", f"/labs/{lab}/nodes/{node}", {"tags": ["red", "blue"]})
    path = f"/labs/{lab}/smart_annotations"
    rows = box.get(path)
    assert [row["tag"] for row in rows] == ["red", "blue"]
    box.ask("PATCH", f"{path}/{rows[0]['id']}", {"padding": 50, "is_on": False})
    box.ask("PATCH", f"/labs/{lab}/nodes/{node}", {"tags": ["red"]})
    assert [(row["padding"], row["is_on"]) for row in box.get(path)] == [(50, False)]
    assert box.refusal("POST", path, {})[0] == 405


def test_conditioning(box, lab):
    """Absent is {}, patches add up, bounds hold, off is not applied, delete clears."""
    path = f"/labs/{lab}/links/{one(box, 'links')}/condition"
    assert box.get(path) == {}
    box.ask("PATCH", path, {"latency": 20})
    shown = box.ask("PATCH", path, {"loss": 0.5})
    assert (shown["latency"], shown["loss"], shown["enabled"]) == (20, 0.5, True)
    assert shown["operational"] == {"latency": 20, "loss": 0.5}
    assert box.ask("PATCH", path, {"enabled": False})["operational"] is None
    assert box.get(f"/labs/{lab}/topology")["links"][0]["conditioning"]["latency"] == 20
    for bad in ({"loss": 101}, {"latency": -1}, {"speed": 1}, {"bandwidth": "x"}):
        assert box.refusal("PATCH", path, bad)[0] == 400
    box.ask("DELETE", path, want=204)
    assert box.get(path) == {}


def test_captures(box, lab):
    """A capture needs a running link and a bound, counts packets up to it, and leaves a file."""
    link = one(box, "links")
    path = f"/labs/{lab}/links/{link}/capture"
    assert box.get(f"{path}/status") == {}
    assert box.refusal("PUT", f"{path}/start", {"maxpackets": 3})[0] == 400
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    assert box.refusal("PUT", f"{path}/start", {})[0] == 400
    box.ask("PUT", f"{path}/start", {"maxpackets": 3, "encap": "ethernet"})
    assert box.refusal("PUT", f"{path}/start", {"maxtime": 3})[0] == 409
    box.clock.forward(60)
    assert box.get(f"{path}/status")["packetscaptured"] == 3
    key = box.get(f"{path}/key")
    assert box.get(f"/labs/{lab}/links/{link}")["link_capture_key"] == key
    assert [row["no"] for row in box.get(f"/pcap/{key}/packets")] == ["1", "2", "3"]
    assert box.get(f"/pcap/{key}/packet/3")
    assert box.refusal("GET", f"/pcap/{key}/packet/4")[0] == 404
    data = box.send("GET", f"/pcap/{key}").body
    assert data[:4] == b"\xd4\xc3\xb2\xa1"
    assert (len(data) - 24) % 3 == 0
    box.ask("PUT", f"{path}/stop", want=204)
    box.ask("PUT", f"{path}/start", {"maxtime": 10})
    assert box.refusal("GET", f"/pcap/{key}")[0] == 404
    box.clock.forward(5)
    box.ask("PUT", f"{path}/stop", want=204)
    before = box.get(f"{path}/status")["packetscaptured"]
    box.clock.forward(100)
    assert box.get(f"{path}/status")["packetscaptured"] == before


def test_links_and_interfaces_up_and_down(box, lab):
    """A stopped link or interface of running nodes says STOPPED, and STARTED again."""
    link, port = one(box, "links"), one(box, "interfaces")
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    for path in (f"/labs/{lab}/links/{link}", f"/labs/{lab}/interfaces/{port}"):
        for verb, word in (("stop", "STOPPED"), ("start", "STARTED")):
            box.ask("PUT", f"{path}/state/{verb}", want=204)
            assert box.get(f"{path}/state")["state"] == word


def test_notices(box):
    """Notices: levels, groups, acknowledging; people see the enabled ones."""
    user = person(box, "u")
    group = box.ask("POST", "/groups", {"name": "g"}, want=201)["id"]
    body = {"level": "INFO", "label": "l", "content": "c", "enabled": True, "groups": [group]}
    key = box.ask("POST", "/system/notices", body)["id"]
    box.ask("POST", "/system/notices", {"level": "ERROR", "label": "hidden"})
    path = f"/system/notices/{key}"
    assert box.ask("PATCH", path, {"del_groups": [group]})["groups"] == []
    for bad in ({"level": "LOUD"}, {"groups": ["x"]}, {"enabled": 1}, {"acknowledged": 1}):
        assert box.refusal("PATCH", path, bad)[0] == 400
    box.login("u", "p")
    assert [row["id"] for row in box.get("/system/notices")] == [key]
    assert box.ask("PATCH", path, {"acknowledged": {user: True}})["acknowledged"] == {user: True}
    assert box.refusal("PATCH", path, {"label": "x"})[0] == 403
    box.login()
    box.ask("DELETE", path, want=204)
    assert box.refusal("GET", path)[0] == 404


def test_bridges(box):
    """External connectors are listed, synced, changed and forgotten."""
    rows = box.get("/system/external_connectors")
    assert [row["device_name"] for row in rows] == ["virbr0", "bridge0"]
    assert box.ask("PUT", "/system/external_connectors", {"push_configured_state": True}) == rows
    path = f"/system/external_connectors/{rows[0]['id']}"
    assert box.ask("PATCH", path, {"label": "Out", "tags": ["o"]})["label"] == "Out"
    assert box.refusal("PATCH", path, {"tags": "o"})[0] == 400
    box.ask("DELETE", path, want=204)
    assert box.refusal("GET", path)[0] == 404


def test_new_hosts(box):
    """New compute hosts are READY or REGISTERED, nothing else."""
    path = "/system/compute_hosts/configuration"
    assert box.get(path) == {"admission_state": "READY"}
    assert (
        box.ask("PATCH", path, {"admission_state": "REGISTERED"})["admission_state"] == "REGISTERED"
    )
    assert box.refusal("PATCH", path, {"admission_state": "ONLINE"})[0] == 400


def test_accounts(box):
    """Names are unique; people change themselves but not their rights; owners of labs stay."""
    user = person(box, "u")
    assert box.refusal("POST", "/users", {"username": "u", "password": "p"})[0] == 400
    box.login("u", "p")
    path = f"/users/{user}"
    assert box.ask("PATCH", path, {"fullname": "U"})["fullname"] == "U"
    assert box.refusal("PATCH", path, {"admin": True})[0] == 403
    change = {"password": {"old_password": "no", "new_password": "q"}}
    assert box.refusal("PATCH", path, change)[0] == 403
    change["password"]["old_password"] = "p"
    box.ask("PATCH", path, change)
    box.login("u", "q")
    lab = box.ask("POST", "/labs", {})["id"]
    box.login()
    assert box.refusal("DELETE", path)[0] == 400
    box.ask("PATCH", f"/labs/{lab}", {"owner": box.get("/users/admin/id")})
    box.ask("DELETE", path, want=204)
    assert box.refusal("GET", path) == (404, f"User does not exist: {user}")


def test_keys_of_running_nodes(box, lab):
    """Console and VNC keys of running nodes, one's own or all that one may see."""
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    consoles, screens = box.get("/keys/console"), box.get("/keys/vnc")
    assert {row["label"] for row in consoles.values()} == {"a", "b"}
    assert {row["driver"] for row in screens.values()} == {"KVM"}
    person(box, "u")
    box.login("u", "p")
    assert box.get("/keys/console", query={"show_all": "true"}) == {}


def test_extract_and_bootstrap(box, lab):
    """Extraction needs a booted node; bootstrap writes what is not there."""
    node = one(box, "nodes")
    path = f"/labs/{lab}/nodes/{node}"
    assert box.refusal("PUT", f"{path}/extract_configuration")[0] == 400
    box.ask("PUT", f"/labs/{lab}/bootstrap", want=204)
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(100)
    assert box.ask("PUT", f"{path}/extract_configuration").startswith("hostname ")
    assert "login:" in box.get(f"{path}/consoles/0/log")
    assert box.get(f"{path}/consoles/0/log", query={"lines": "1"}).count("\n") == 1


def test_what_is_typed_into_a_node_is_in_the_lab_once_it_is_extracted(box, lab):
    """Until then the lab has what it had; a wipe loses what nobody extracted."""
    node = one(box, "nodes")
    path = f"/labs/{lab}/nodes/{node}"
    typed = {"action": "configure", "node_id": node, "text": "hostname typed\n"}
    place = f"/servers/{box.server.id}/outside"
    box.control("POST", place, typed, want=400)
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(100)
    box.control("POST", place, typed)
    assert b"typed" not in box.send("GET", f"/labs/{lab}/download").body
    assert box.ask("PUT", f"{path}/extract_configuration") == "hostname typed\n"
    assert b"hostname typed" in box.send("GET", f"/labs/{lab}/download").body
    box.control("POST", place, {**typed, "text": "hostname lost\n"})
    for verb in ("stop", "wipe", "start"):
        box.ask("PUT", f"/labs/{lab}/{verb}", want=204)
        box.clock.forward(100)
    assert box.ask("PUT", f"{path}/extract_configuration") == "hostname typed\n"


def test_samples_and_sources(box):
    """A sample becomes a lab; sources of samples are kept and fetched from nowhere."""
    assert "Two hosts" in box.get("/sample/labs")
    lab = box.ask("PUT", "/sample/labs/Two hosts")
    assert box.get(f"/labs/{lab}")["link_count"] == 1
    assert box.refusal("PUT", "/sample/labs/none")[0] == 404
    repo = box.ask("POST", "/lab_repos", {"url": "https://example.net/x.git", "name": "x"})
    assert box.ask("PUT", "/lab_repos/refresh") == {"x": {"status": "Success"}}
    box.ask("DELETE", f"/lab_repos/{repo['id']}", want=204)
    assert box.get("/lab_repos") == []


def test_telemetry_and_feedback(box, lab):
    """Events tell of logins, labs and starts unless declined; feedback is taken (201)."""
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    kinds = {event["category"] for event in box.get("/telemetry/events")}
    assert kinds == {"user_activity", "import_lab", "start_lab"}
    box.ask("PUT", "/telemetry", {"opt_in": False})
    count = len(box.get("/telemetry/events"))
    box.login()
    assert len(box.get("/telemetry/events")) == count
    assert box.send("POST", "/feedback", {"score": 5}).status == 201


def test_events_name_the_deed_and_who_did_it(box, lab):
    """Each deed of a person is on record with the user's id; looking is no deed."""
    box.server.telemetry.clear()
    node = one(box, "nodes")
    path = f"/labs/{lab}/nodes/{node}/state"
    for verb, where in (("PUT", f"{path}/start"), ("PUT", f"{path}/stop"), ("GET", f"/labs/{lab}")):
        box.send(verb, where)
    box.clock.forward(60)
    for verb, where in (("PUT", f"/labs/{lab}/stop"), ("PUT", f"/labs/{lab}/wipe")):
        box.ask(verb, where, want=204)
    box.send("GET", f"/labs/{lab}/download")
    box.ask("DELETE", f"/labs/{lab}", want=204)
    told = box.get("/telemetry/events")
    assert [each["category"] for each in told] == [
        "start_node", "stop_node", "stop_lab", "wipe_lab", "export_lab", "delete_lab",
    ]  # fmt: skip
    assert {each["data"]["user_id"] for each in told} == {ADMIN_ID}
    assert told[0]["data"]["node_id"] == node


@pytest.mark.parametrize(
    ("form", "stamp"),
    [
        ("offset", "2027-01-15T08:00:00+00:00"),
        ("zulu", "2027-01-15T08:00:00.000000Z"),
        ("plain", "2027-01-15 08:00:00"),
        ("seconds", 1_800_000_000.0),
    ],
)
def test_event_stamps_come_in_the_form_of_the_rule(box, form, stamp):
    """Releases and exporters differ; a manager has to read all four."""
    set_rules(box.server, replace(box.server.config.rules, telemetry_stamp=form))
    act(box.server, Edit(action="use"), 1_800_000_000.0)
    assert box.get("/telemetry/events")[-1]["timestamp"] == stamp


def test_what_others_do_is_on_record_until_it_is_wiped(box, lab):
    """A deed from outside carries another user than CML's administrator, or the one named."""
    act(box.server, Edit(action="start_lab", lab_id=lab), box.now)
    act(box.server, Edit(action="use", text="import_lab", tag="u-7"), box.now)
    told = [(e["category"], e["data"]["user_id"]) for e in box.get("/telemetry/events")[-2:]]
    assert told == [("start_lab", PERSON), ("import_lab", "u-7")]
    act(box.server, Edit(action="clear_telemetry"), box.now)
    assert box.get("/telemetry/events") == []


def test_login_settings_keep_no_secret(box):
    """Settings of a directory are taken, its passwords are not shown, and it cannot be reached."""
    body = {"method": "ldap", "manager_password": "s3cret", "verify_tls": True}
    shown = box.ask("PUT", "/system/auth/config", body)
    assert shown == {"method": "ldap", "verify_tls": True}
    assert "s3cret" not in json.dumps(box.get("/system/auth/config"))
    assert box.refusal("POST", "/system/auth/test", {})[0] == 400
    assert box.get("/system/auth/groups") == []
    box.ask("PUT", "/system/auth/refresh", want=204)


def test_pools_need_a_product_for_many(box):
    """Pools exist only with Enterprise or Education."""
    assert box.get("/resource_pools") == []
    assert box.refusal("POST", "/resource_pools", {"label": "p"})[0] == 400
    box.license()
    pool = box.ask("POST", "/resource_pools", {"label": "p", "ram": 1024})
    assert box.get(f"/resource_pool_usage/{pool['id']}")["limit"]["ram"] == 1024
    assert box.get("/resource_pools") == [pool["id"]]
    for bad in ({"licenses": 321}, {"cpus": -1}, {"users": ["x"]}, {"size": 1}):
        assert box.refusal("PATCH", f"/resource_pools/{pool['id']}", bad)[0] == 400
    box.ask("DELETE", f"/resource_pools/{pool['id']}", want=204)
    assert box.refusal("GET", f"/resource_pools/{pool['id']}")[0] == 404


def test_definitions_are_locked_and_in_use(box, lab):
    """Stock definitions are locked; what a node uses cannot go; files are kept by name."""
    assert box.refusal("DELETE", "/node_definitions/iosv")[0] == 403
    assert box.refusal("DELETE", "/image_definitions/alpine-base-3-21-3")[0] == 403
    box.ask("PUT", "/node_definitions/alpine/read_only", False)
    assert box.refusal("DELETE", "/node_definitions/alpine")[0] == 400
    box.ask("PUT", "/node_definitions/iosv/read_only", False)
    box.ask("DELETE", "/node_definitions/iosv", want=204)
    assert box.refusal("GET", "/node_definitions/iosv")[0] == 404
    head = {"x-original-file-name": "d.qcow2"}
    box.ask("POST", "/images/upload", raw=b"x" * 9, headers=head)
    assert box.get("/list_image_definition_drop_folder") == ["d.qcow2"]
    box.ask("DELETE", "/images/manage/d.qcow2")
    assert box.refusal("DELETE", "/images/manage/d.qcow2")[0] == 404
    assert box.get("/node_definition_schema")["type"] == "object"
    assert box.get("/image_definition_schema")["additionalProperties"] is False
    assert box.send("POST", "/node_definitions", raw=b"x" * 100_001).status == 413

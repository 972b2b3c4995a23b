"""Whatever anybody sends to any route of any release, the simulator answers in CML's form, no 500."""

import copy
import json
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cml_simulator.core import fleet as fleets
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.profile import RELEASES, Rules, release
from cml_simulator.core.server_conditions import ServerConditions
from cml_simulator.core.world import set_conditions
from cml_simulator.routes import control, dispatch
from cml_simulator.routes.web import Request

START = 1_800_000_000.0
SMALL = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TOPOLOGY = {
    "lab": {"title": "t", "version": "0.2.2"},
    "nodes": [
        {
            "id": f"n{n}",
            "label": f"n{n}",
            "node_definition": kind,
            "x": 0,
            "y": 0,
            "tags": ["serial:5041"],
            "interfaces": [{"id": "i0", "slot": 0, "type": "physical"}],
        }
        for n, kind in enumerate(("alpine", "external_connector"))
    ],
    "links": [{"id": "l0", "n1": "n0", "i1": "i0", "n2": "n1", "i2": "i0"}],
    "annotations": [{"type": "text", "x1": 0, "y1": 0, "text_content": "x"}],
}


class Stage:
    """A server of a release with something in it, and its known names."""

    def __init__(self, minor):
        self.fleet = Fleet(random.Random(minor), "pw")
        rules = Rules(unknown_definition="warn")
        self.server = fleets.create(self.fleet, profile=release(f"2.{minor}"), rules=rules)
        fleets.boot(self.fleet, self.server, START)
        self.minor, self.now = minor, START
        self.token = json.loads(
            self.send("POST", "/authenticate", {"username": "admin", "password": "pw"}).body
        )
        lab = json.loads(self.send("POST", "/import", TOPOLOGY).body)["id"]
        self.send("PUT", "/licensing/product_license", "CML_Enterprise")
        self.send("POST", "/users", {"username": "u", "password": "p"})
        self.send("POST", "/groups", {"name": "g"})
        self.send("POST", "/resource_pools", {"label": "p", "licenses": 1})
        self.send("POST", "/system/notices", {"level": "INFO", "label": "n"})
        self.send("PUT", f"/labs/{lab}/start")
        self.now += 100
        link = next(iter(self.server.links))
        self.send("PUT", f"/labs/{lab}/links/{link}/capture/start", {"maxpackets": 5})
        self.kept = copy.deepcopy(self.fleet), self.now

    def send(self, method, path, body=None, raw=None, query=None, kind="application/json"):
        head = {"content-type": kind} if kind else {}
        if hasattr(self, "token"):
            head["authorization"] = f"Bearer {self.token}"
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        request = Request(method, f"/api/v0{path}", query or {}, head, data)
        return dispatch.answer(self.server, request, self.now)

    def reset(self):
        # The clock and the chance too: what is drawn depends on what is there.
        fleet, self.now = self.kept
        self.fleet = copy.deepcopy(fleet)
        self.server = self.fleet.servers[self.server.id]

    def names(self):
        s = self.server
        return {
            "lab_id": list(s.labs),
            "node_id": list(s.nodes),
            "interface_id": list(s.interfaces),
            "link_id": list(s.links),
            "user_id": [*s.users, "admin"],
            "group_id": [*s.groups, "g"],
            "pool_id": list(s.pools),
            "notice_id": list(s.notices),
            "compute_id": [s.compute_id],
            "connector_id": list(s.connectors),
            "definition_id": ["alpine", "iosv"],
            "image_id": ["alpine-base-3-21-3"],
            "category": ["licensing", "labs", "computes"],
            "key": list(s.captures),
            "line": ["0", "1"],
            "number": ["1"],
            "seconds": ["60"],
            "title": ["Two hosts"],
            "annotation_id": [row["id"] for lab in s.labs.values() for row in lab.annotations],
        }


STAGES = {}


def stage(minor) -> Stage:
    if minor not in STAGES:
        STAGES[minor] = Stage(minor)
    return STAGES[minor]


KEYS = st.sampled_from(
    [
        "id",
        "title",
        "description",
        "notes",
        "owner",
        "groups",
        "associations",
        "users",
        "username",
        "password",
        "admin",
        "members",
        "name",
        "label",
        "tags",
        "x",
        "y",
        "node",
        "slot",
        "mac_address",
        "ram",
        "cpus",
        "cpu_limit",
        "configuration",
        "node_definition",
        "image_definition",
        "parameters",
        "src_int",
        "dst_int",
        "bandwidth",
        "latency",
        "loss",
        "enabled",
        "token",
        "reregister",
        "ssms",
        "proxy",
        "count",
        "opt_in",
        "maintenance_mode",
        "notice",
        "level",
        "content",
        "admission_state",
        "type",
        "x1",
        "color",
        "text_content",
        "maxpackets",
        "maxtime",
        "bpfilter",
        "encap",
        "licenses",
        "shared",
        "template",
        "permissions",
        "permission",
        "key",
        "device_name",
        "read_only",
        "lab",
        "nodes",
        "links",
        "version",
        "interfaces",
        "general",
        "device",
        "sim",
        "boot",
        "priority",
        "linux_native",
        "physical",
        "serial_ports",
        "timeout",
        "autostart",
        "node_staging",
        "node_definition_id",
        "url",
        "method",
        "verify_tls",
        "acknowledged",
        "add_groups",
        "resource_pool",
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["alpine", "READY", "text", "INFO", "0.3.0", "lab_view", "CML_Enterprise"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=15,
)
BODIES = st.one_of(
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40),
    st.text(max_size=40).map(lambda text: text.encode(errors="surrogatepass")),
    st.sampled_from(
        [b"", b"{", b"- [", b"a: &a [*a]", b"<topology/>", b"2020-01-01", b"? [a]\n: b"]
    ),
)
KINDS = st.sampled_from(["application/json", "application/x-yaml", "", "text/xml"])


def check(reply, what):
    assert reply.status in {200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 413}, what
    if reply.status >= 400:
        found = json.loads(reply.body)
        assert found.keys() == {"code", "description"}, what
        assert found["code"] == reply.status, what


@SMALL
@given(st.data())
@pytest.mark.parametrize("minor", RELEASES)
def test_no_route_breaks(minor, data):
    """Every route of every release takes any body, query and name without a 500."""
    here = stage(minor)
    here.reset()
    for _ in range(6):
        route = data.draw(st.sampled_from(dispatch.TABLES[minor].routes))
        known = here.names()
        path = "/".join(
            data.draw(
                st.sampled_from(known.get(part[1:-1]) or ["x"]) | st.text(max_size=6)
            ).replace("/", "-")
            if part.startswith("{")
            else part
            for part in route.template.split("/")
        )
        query = data.draw(
            st.dictionaries(
                st.sampled_from(["data", "operational", "exclude_configurations", "lines", "line"])
                | st.sampled_from(["title", "show_all", "hostname", "lab_id", "json"]),
                st.sampled_from(["true", "false", "", "1", "x", "-1", "9" * 30]),
                max_size=3,
            )
        )
        raw, kind = data.draw(BODIES), data.draw(KINDS)
        here.now += data.draw(st.sampled_from([0, 0, 1, 30, 4000]))
        reply = here.send(route.method, path, raw=raw, query=query, kind=kind)
        check(reply, (route.method, path, query, raw, kind, reply.body[:300]))


@SMALL
@given(VALUES, st.sampled_from(["application/json", ""]))
def test_no_topology_breaks(value, kind):
    """An import of nearly right documents is a lab or a 400, and what came in can be read again."""
    here = stage(9)
    here.reset()
    for place in ("lab", "nodes", "links", "annotations"):
        document = {**TOPOLOGY, place: value}
        reply = here.send("POST", "/import", document, kind=kind)
        check(reply, (document, reply.body[:300]))
        if reply.status == 200:
            lab = json.loads(reply.body)["id"]
            for path in ("topology", "download", "lab_element_state", "events"):
                assert here.send("GET", f"/labs/{lab}/{path}").status == 200, (document, path)


@SMALL
@given(st.data())
def test_every_page_reads_in_any_weather(data):
    """No mix of conditions and rules makes a GET fail with a 500."""
    minor = data.draw(st.sampled_from(list(RELEASES)))
    here = stage(minor)
    here.reset()
    server_conditions = ServerConditions(
        ready=data.draw(st.sampled_from([None, False])),
        core_connected=data.draw(st.booleans()),
        compute_missing=data.draw(st.booleans()),
        compute_lost=data.draw(st.booleans()),
        null_health=data.draw(st.booleans()),
        orphans=data.draw(st.integers(0, 100)),
        disk_full=data.draw(st.booleans()),
        clock_skew=data.draw(st.sampled_from([0.0, 1e6, -1e6])),
        ghosts=data.draw(st.booleans()),
        compliant=data.draw(st.booleans()),
    )
    set_conditions(here.server, server_conditions, here.now)
    # A skewed clock ages the token; what is asked here is how pages look.
    set_conditions(here.server, replace(server_conditions, clock_skew=0.0), here.now)
    for route in dispatch.TABLES[minor].routes:
        if route.method == "GET":
            names = here.names()
            parts = [
                (names.get(part[1:-1]) or ["x"])[0] if part.startswith("{") else part
                for part in route.template.split("/")
            ]
            reply = here.send("GET", "/".join(parts))
            check(reply, (route.template, reply.body[:300]))
    set_conditions(here.server, ServerConditions(), here.now)


@SMALL
@given(st.sampled_from(control.TABLE.routes), VALUES)
def test_the_control_face_does_not_break(route, value):
    """Bad bodies of `/_control` are 4xx."""
    here = stage(9)
    here.reset()
    path = route.template.replace("{server_id}", here.server.id).replace("{snapshot_id}", "x")
    if path.endswith(("/destroy", "/stop")):
        return
    data = json.dumps(value).encode()
    reply = control.answer(
        here.fleet, Request(route.method, f"/_control{path}", body=data), here.now
    )
    assert reply.status in {200, 201, 400, 404, 409}, (path, value, reply.body[:200])

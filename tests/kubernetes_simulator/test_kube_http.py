"""The API's edges: who may, discovery, forms, bodies, faults, bounds, and the control route."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_cluster import cluster_of, opened, pod

from kubernetes_simulator.core.faults import KINDS
from kubernetes_simulator.routes import dispatch, protobuf
from kubernetes_simulator.routes.objects import Stream
from kubernetes_simulator.routes.tables import human
from kubernetes_simulator.routes.web import Reply, Request, decoded

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize("token", ["", "wrong"])
def test_who_is_not_known_is_refused(cluster, token):
    """No token and a wrong one are 401; health, version and exporters need none."""
    cluster.token = token
    assert cluster.ask("GET", PODS, want=401)["reason"] == "Unauthorized"
    for path in ("/healthz", "/readyz", "/livez", "/version", "/metrics/cadvisor"):
        assert cluster.send("GET", path).status == 200


def test_a_rotated_token_is_refused_and_its_successor_taken(cluster):
    """After a rotation the old token is 401 and the new one may do the same."""
    fresh = cluster.control("POST", "tokens/rotate", {"token": cluster.token})["token"]
    cluster.ask("GET", PODS, want=401)
    cluster.token = fresh
    cluster.get(PODS)


def test_a_token_ends_at_its_time(cluster):
    """A token with seconds is 401 once they are over."""
    cluster.token = cluster.control("POST", "tokens", {"seconds": 60}, want=201)["token"]
    cluster.get(PODS)
    cluster.pass_time(61)
    cluster.ask("GET", PODS, want=401)


def test_a_rule_bounds_what_a_token_may(cluster):
    """A reader may not write, and a token of a namespace sees no other."""
    cluster.token = cluster.control(
        "POST", "tokens", {"reads_only": True, "user": "eve"}, want=201
    )["token"]
    cluster.get(PODS)
    told = cluster.ask("POST", PODS, pod("a"), want=403)
    assert told["reason"] == "Forbidden"
    assert 'User "eve" cannot create resource "pods"' in told["message"]
    cluster.token = cluster.control("POST", "tokens", {"namespace": "default"}, want=201)["token"]
    cluster.make(PODS, pod("a"))
    cluster.ask("GET", "/api/v1/namespaces/kube-system/pods", want=403)
    cluster.ask("GET", "/api/v1/nodes", want=403)
    asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": "nodes"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert cluster.make(path, asked)["status"]["allowed"] is False


def test_no_token_is_shown_anywhere(cluster):
    """Neither the summary nor a token's own record says a token again."""
    fresh = cluster.control("POST", "tokens", {"token": "very-secret"}, want=201)["token"]
    assert fresh == "very-secret"
    assert "very-secret" not in repr(cluster.world.access)
    assert "very-secret" not in json.dumps(cluster.control("GET", "summary"))


def test_what_there_is_is_told_in_both_forms(cluster):
    """The plain and the aggregated discovery name the same resources."""
    plain = {}
    for each in cluster.get("/apis")["groups"]:
        version = each["preferredVersion"]["groupVersion"]
        rows = cluster.get(f"/apis/{version}")["resources"]
        plain[each["name"]] = {row["name"] for row in rows if "/" not in row["name"]}
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    reply = cluster.send("GET", "/apis", accept=accept)
    assert "as=APIGroupDiscoveryList" in reply.content_type
    whole = {each["metadata"]["name"]: {row["resource"] for row in each["versions"][0]["resources"]}
             for each in json.loads(reply.body)["items"]}  # fmt: skip
    assert whole == plain
    assert plain["batch"] == {"jobs"}


def test_every_resource_that_is_told_is_served(cluster):
    """Each listable resource of discovery lists, and each kind has its OpenAPI path with a patch."""
    for path in ("api/v1", *(f"apis/{each['preferredVersion']['groupVersion']}"
                             for each in cluster.get("/apis")["groups"])):  # fmt: skip
        document = cluster.get(f"/openapi/v3/{path}")
        for row in cluster.get(f"/{path}")["resources"]:
            if "list" in row["verbs"]:
                assert cluster.get(f"/{path}/{row['name']}")["kind"] == f"{row['kind']}List"
            if "patch" in row["verbs"] and "/" not in row["name"]:
                inner = "/namespaces/{namespace}" if row["namespaced"] else ""
                patch = document["paths"][f"/{path}{inner}/{row['name']}/{{name}}"]["patch"]
                assert {"name": "fieldValidation", "in": "query",
                        "schema": {"type": "string", "uniqueItems": True}} in patch["parameters"]  # fmt: skip


def test_openapi_2_describes_nothing_in_both_forms(cluster):
    """kubectl takes it as protobuf only: swagger 2.0, a title and a version, and no kind."""
    assert cluster.get("/openapi/v2")["definitions"] == {}
    form = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    reply = cluster.send("GET", "/openapi/v2", accept=form)
    assert reply.content_type == form.replace("@", ".")
    assert reply.body.startswith(b"\x0a\x032.0\x12")
    assert len(reply.body) == 7 + reply.body[6]


def test_a_table_has_a_cell_for_each_column(cluster):
    """Rows of every kind have as many cells as there are columns, and the object's metadata."""
    cluster.make(PODS, pod("a"))
    cluster.pass_time(3)
    for path in (
        PODS,
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/api/v1/events",
        "/api/v1/serviceaccounts",
    ):
        table = cluster.get(path, accept=TABLE)
        assert table["kind"] == "Table"
        assert table["rows"]
        for row in table["rows"]:
            assert len(row["cells"]) == len(table["columnDefinitions"])
            assert row["object"]["kind"] == "PartialObjectMetadata"
    row = cluster.get(f"{PODS}/a", accept=TABLE)["rows"][0]
    assert row["cells"][:5] == ["a", "1/1", "Running", "0", "3s"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (601, "10m"), (3 * 3600 + 60, "3h1m"), (50 * 3600, "2d2h"),
     (8 * 86400, "8d"), (800 * 86400, "2y")],
)  # fmt: skip
def test_ages_are_written_as_kubectl_does(seconds, text):
    """Durations have one or two units, as kubectl's own."""
    assert human(seconds) == text


def test_unknown_paths_and_methods_are_statuses(cluster):
    """A path that is none is 404, a method that is not allowed 405, each a Status."""
    for path in ("/nope", "/api/v2", "/apis/none/v1", "/api/v1/widgets", f"{PODS}/a/widgets"):
        assert cluster.ask("GET", path, want=404)["kind"] == "Status"
    assert cluster.ask("POST", "/api/v1/pods", pod("a"), want=405)["reason"] == "MethodNotAllowed"
    cluster.ask("GET", PODS, want=406, accept="application/vnd.kubernetes.protobuf")


@given(st.binary(max_size=60), st.sampled_from(
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain"]))  # fmt: skip
def test_no_body_is_an_error_of_the_server(raw, kind):
    """Whatever bytes come, the reply is a refusal of the caller or an object, never an exception."""
    cluster = SHARED
    head = {"authorization": f"Bearer {cluster.token}", "content-type": kind}
    for method in ("POST", "DELETE"):
        reply = dispatch.answer(cluster.world, Request(method, MAPS, {}, head, raw), cluster.now)
        assert isinstance(reply, Reply)
        assert 200 <= reply.status < 500


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metadata", "spec", "name", "labels", "template", "containers", "replicas",
                         "selector", "data", "status", "finalizers", "annotations"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
paths = st.sampled_from([
    PODS, MAPS, "/apis/apps/v1/namespaces/default/deployments", "/apis/batch/v1/namespaces/default/jobs",
    "/apis/apps/v1/namespaces/default/statefulsets", "/api/v1/nodes", "/api/v1/namespaces",
    "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/persistentvolumeclaims",
])  # fmt: skip


@given(paths, st.dictionaries(st.sampled_from(["metadata", "spec", "data", "status"]), json_values))
def test_no_object_is_an_error_of_the_server(path, body):
    """Bodies of wrong shapes are refused with 4xx, and time goes on after those that are taken."""
    cluster = SHARED
    body.setdefault("metadata", {})
    if isinstance(body["metadata"], dict):
        body["metadata"].setdefault("generateName", "x-")
    reply = cluster.send("POST", path, body)
    assert not isinstance(reply, Stream)
    assert 200 <= reply.status < 500, reply.body
    cluster.pass_time(1)


SHARED = cluster_of(nodes=1)


def test_yaml_is_read_without_surprises(cluster):
    """YAML bodies are read, dates stay texts, aliases are refused."""
    send = {"kind": "application/yaml"}
    head = {"content-type": "application/yaml"}
    body = b"metadata: {name: a}\ndata: {x: 2026-01-01}"
    assert decoded(Request("POST", MAPS, {}, head, body))["data"] == {"x": "2026-01-01"}
    with pytest.raises(Exception, match="aliases"):
        decoded(Request("POST", MAPS, {}, head, b"a: &a [1]\nb: *a"))
    assert cluster.send("POST", MAPS, {"metadata": {"name": "b"}}, **send).status == 201


def test_a_protobuf_body_is_read_whole_or_refused():
    """What kubectl sends for a namespace is read; a field that is not known is refused."""
    body = bytes.fromhex(
        "6b3873000a0f0a02763112094e616d657370616365121a0a120a0274311200"
        "1a0022002a003200380042001200"
        "1a020a001a002200"
    )
    assert protobuf.read(body) == {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t1"},
    }  # fmt: skip
    with pytest.raises(Exception, match="field 25 of Namespace"):
        protobuf.read(body[:21] + bytes([0x12, 0x03, 0xCA, 0x01, 0x00]))


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [each for each in KINDS if not each.startswith("watch_")])
async def test_a_fault_does_to_a_request_what_it_says(cluster, app_of, kind):
    """Refused and cut ones lose their connection, statuses are told, the next is served."""
    app = app_of(cluster)
    cluster.control("POST", "faults", {"kind": kind, "path": "configmaps"}, want=201)
    async with opened(app, MAPS) as wire:
        if kind == "hang":
            wire.gone.set()
        await wire.over.wait()
    lost = {"refuse", "close_after", "truncated"}
    assert wire.cut is (kind in lost)
    if kind.isdigit():
        assert wire.status == int(kind)
    async with opened(app, MAPS) as again:
        await again.over.wait()
    assert (again.status, again.cut) == (200, False)


@pytest.mark.asyncio
async def test_a_body_is_bounded(cluster, app_of):
    """More than 3 MiB is 413, and nothing of it is kept."""
    async with opened(app_of(cluster), MAPS, method="POST", body=b"x" * (3 * 2**20 + 1)) as wire:
        await wire.over.wait()
    assert wire.status == 413


def test_rules_of_faults_are_bounded(cluster):
    """One rule too many is 429; a rule that cannot be read is 400 with the reason."""
    for _ in range(200):
        cluster.control("POST", "faults", {"kind": "500"}, want=201)
    cluster.control("POST", "faults", {"kind": "500"}, want=429)
    cluster.control("DELETE", "faults")
    cluster.control("POST", "faults", {"kind": "nonsense"}, want=400)
    cluster.control("POST", "faults", {"kind": "500", "path": "("}, want=400)
    cluster.control("GET", "nonsense", want=404)
    cluster.control("GET", "pods/default/none/use", want=404)
    cluster.control("POST", "nodes", {"name": "n", "cpu": "0"}, want=400)


questions = st.sampled_from([
    f"{PODS}/a/eviction", f"{PODS}/a/binding", "/api/v1/namespaces/default/serviceaccounts/default/token",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
])  # fmt: skip
words = st.sampled_from(["spec", "target", "deleteOptions", "name", "preconditions", "uid",
                         "gracePeriodSeconds", "expirationSeconds", "resourceAttributes", "verb",
                         "nonResourceAttributes", "token", "dryRun", "namespace"])  # fmt: skip
asked = st.recursive(st.none() | st.booleans() | st.integers(-2, 10**12) | st.text("ab", max_size=2),
                     lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=3),
                     max_leaves=8)  # fmt: skip


@given(questions, asked)
def test_no_question_is_an_error_of_the_server(path, body):
    """Whatever is asked of what is under an object, the reply is an answer or a refusal."""
    cluster = cluster_of(nodes=1)
    cluster.make(PODS, pod("a"))
    reply = cluster.send("POST", path, body)
    assert isinstance(reply, Reply)
    assert reply.status < 500, reply.body

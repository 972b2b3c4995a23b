"""Pods over time: scheduling, starting, ending, restarting, deleting, nodes that fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kube_cluster import cluster_of, pod

from kubernetes_simulator.core.quantities import read

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
MERGE = {"kind": "application/merge-patch+json"}


def phase(cluster, name):
    return cluster.get(f"{PODS}/{name}")["status"]["phase"]


def test_a_pod_pulls_starts_runs_and_ends(cluster):
    """Pending while it pulls and starts, Running for its duration, then Succeeded."""
    cluster.make(PODS, pod("a", duration="10s"))
    seen = {}
    for second in range(16):
        seen.setdefault(phase(cluster, "a"), second)
        cluster.pass_time(1)
    assert seen == {"Pending": 0, "Running": 3, "Succeeded": 13}


def test_the_clock_factor_shortens_runs_and_waits():
    """At speed 10 all of it takes a tenth of the real time."""
    cluster = cluster_of(speed=10)
    cluster.make(PODS, pod("a", duration="10s"))
    cluster.pass_time(1.2)
    assert phase(cluster, "a") == "Running"
    cluster.pass_time(0.2)
    assert phase(cluster, "a") == "Succeeded"


def test_how_a_settling_is_cut_up_changes_nothing():
    """One long wait and many short ones lead to the same objects at the same times."""

    def played(steps):
        cluster = cluster_of(seed=7)
        for number in range(5):
            policy = ("Always", "OnFailure", "Never")[number % 3]
            body = pod(f"p{number}", policy=policy, duration="7s", exit_code=str(number % 2))
            cluster.make(PODS, body)
        for seconds in steps:
            cluster.pass_time(seconds)
        return cluster.pods()

    assert played([100]) == played([0.5] * 200) == played([33, 67])


@pytest.mark.parametrize(
    ("policy", "code", "ends"),
    [("Never", "0", "Succeeded"), ("Never", "3", "Failed"), ("OnFailure", "0", "Succeeded"),
     ("OnFailure", "3", "Running"), ("Always", "0", "Running")],
)  # fmt: skip
def test_a_restart_policy_decides_what_follows_an_end(cluster, policy, code, ends):
    """Never ends a pod either way, OnFailure tries again after a failure, Always always."""
    cluster.make(PODS, pod("a", policy=policy, duration="5s", exit_code=code))
    cluster.pass_time(10)
    status = cluster.get(f"{PODS}/a")["status"]
    assert status["phase"] == ends
    state = status["containerStatuses"][0]["state"]
    if ends == "Running":
        assert state["waiting"]["reason"] == "CrashLoopBackOff"
    else:
        assert state["terminated"]["exitCode"] == int(code)


def test_waits_between_restarts_double(cluster):
    """The waits are 10, 20, 40 seconds: restarts come later and later."""
    cluster.make(PODS, pod("a", policy="Always", duration="1s"))
    counts = []
    for _ in range(8):
        cluster.pass_time(20)
        rows = cluster.get(f"{PODS}/a")["status"]["containerStatuses"]
        counts.append(rows[0]["restartCount"])
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == 4


def test_an_image_that_is_never_found_holds_a_pod(cluster):
    """It stays Pending with ImagePullBackOff, and the event says why."""
    cluster.make(PODS, pod("a", pull="fail"))
    cluster.pass_time(600)
    status = cluster.get(f"{PODS}/a")["status"]
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    told = cluster.get("/api/v1/namespaces/default/events", fieldSelector="reason=Failed")["items"]
    assert len(told) == 1


def test_a_pod_that_fits_nowhere_waits_and_is_told_why(cluster):
    """FailedScheduling counts the nodes by reason; a new node takes it at once."""
    cluster.control("POST", "nodes/node-1/cordon")
    taint = {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}
    cluster.ask("PATCH", f"{NODES}/node-2", taint, **MERGE)
    cluster.make(PODS, pod("a", cpu="8"))
    row = next(each for each in cluster.get(f"{PODS}/a")["status"]["conditions"]
               if each["type"] == "PodScheduled")  # fmt: skip
    assert row["reason"] == "Unschedulable"
    assert row["message"] == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {a: b}, "
        "1 node(s) were unschedulable."
    )
    cluster.control("POST", "nodes", {"name": "big", "cpu": "16"}, want=201)
    assert cluster.get(f"{PODS}/a")["spec"]["nodeName"] == "big"


def test_tolerations_and_selectors_choose_nodes(cluster):
    """A tolerated taint is none; a nodeSelector leaves only what has the label."""
    taint = {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}
    for name in ("node-1", "node-2", "node-3"):
        cluster.ask("PATCH", f"{NODES}/{name}", taint, **MERGE)
    cluster.ask("PATCH", f"{NODES}/node-2", {"metadata": {"labels": {"disk": "ssd"}}}, **MERGE)
    body = pod("a")
    body["spec"]["tolerations"] = [{"key": "a", "operator": "Equal", "value": "b"}]
    body["spec"]["nodeSelector"] = {"disk": "ssd"}
    cluster.make(PODS, body)
    cluster.make(PODS, pod("b"))
    assert cluster.get(f"{PODS}/a")["spec"]["nodeName"] == "node-2"
    assert "nodeName" not in cluster.get(f"{PODS}/b")["spec"]


amounts = st.tuples(st.integers(50, 3000), st.integers(64, 6000), st.integers(1, 60))


@settings(max_examples=40)
@given(st.lists(amounts, max_size=25), st.lists(st.integers(1, 40), max_size=6))
def test_a_node_is_never_promised_twice(wanted, waits):
    """At every moment the requests of the pods on a node that are not over fit it."""
    cluster = cluster_of(nodes=2, cpu="4", memory="8Gi")
    for number, (cpu, memory, seconds) in enumerate(wanted):
        body = pod(f"p{number}", cpu=f"{cpu}m", memory=f"{memory}Mi", duration=f"{seconds}s")
        cluster.make(PODS, body)
    for seconds in [0, *waits, 500]:
        cluster.pass_time(seconds)
        held = {}
        for each in cluster.pods():
            if each["spec"].get("nodeName") and each["status"]["phase"] in {"Pending", "Running"}:
                asked = each["spec"]["containers"][0]["resources"]["requests"]
                row = held.setdefault(each["spec"]["nodeName"], [0.0, 0.0])
                row[0] += read(asked["cpu"])
                row[1] += read(asked["memory"])
        assert all(cpu <= 4 + 1e-6 and memory <= 8 * 2**30 for cpu, memory in held.values())
        for name, (cpu, memory) in held.items():
            booked = cluster.world.booked[name]
            assert (booked.cpu, booked.memory) == (pytest.approx(cpu), pytest.approx(memory))


def test_a_deleted_pod_is_stopped_first(cluster):
    """It is Terminating until its node has stopped it; with no grace it is gone at once."""
    for name in "ab":
        cluster.make(PODS, pod(name, policy="Always"))
    cluster.pass_time(10)
    marked = cluster.ask("DELETE", f"{PODS}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert phase(cluster, "a") == "Running"
    cluster.pass_time(1)
    cluster.ask("GET", f"{PODS}/a", want=404)
    cluster.ask("DELETE", f"{PODS}/b", {"gracePeriodSeconds": 0})
    cluster.ask("GET", f"{PODS}/b", want=404)


def test_nothing_runs_of_a_pod_that_is_gone(cluster):
    """After a delete without grace its node is free and its counters have stopped."""
    body = cluster.make(PODS, pod("a", policy="Always", node="node-1", cpu="1"))
    cluster.pass_time(10)
    cluster.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    uid = body["metadata"]["uid"]
    first = cluster.control("GET", f"runs/{uid}/use")["cpu"]
    cluster.pass_time(100)
    second = cluster.control("GET", f"runs/{uid}/use")["cpu"]
    assert first["total"] == second["total"] > 0
    assert second["now"] == 0
    assert cluster.world.booked["node-1"].pods == 0


def test_a_silent_node_is_not_ready_and_loses_its_pods(cluster):
    """NotReady after 40 s, its pods leave after 300 s more, and are gone when it is back."""
    cluster.make(PODS, pod("a", policy="Always", node="node-1"))
    cluster.pass_time(10)
    cluster.control("POST", "nodes/node-1/silence")
    cluster.pass_time(39)
    assert ready(cluster) == "True"
    cluster.pass_time(2)
    assert ready(cluster) == "Unknown"
    assert "deletionTimestamp" not in cluster.get(f"{PODS}/a")["metadata"]
    cluster.pass_time(301)
    assert "deletionTimestamp" in cluster.get(f"{PODS}/a")["metadata"]
    cluster.pass_time(1000)
    assert cluster.get(f"{PODS}/a")
    cluster.control("POST", "nodes/node-1/wake")
    cluster.pass_time(2)
    assert ready(cluster) == "True"
    cluster.ask("GET", f"{PODS}/a", want=404)


def test_a_node_that_is_back_in_time_keeps_its_pods(cluster):
    """Its pods were not ready while nobody heard of them, and run on."""
    for name in ("a", "b"):
        cluster.make(PODS, pod(name, policy="Always", node="node-1"))
    cluster.pass_time(10)
    cluster.control("POST", "nodes/node-1/silence")
    cluster.pass_time(60)
    cluster.control("POST", "nodes/node-1/wake")
    cluster.pass_time(2)
    for name in ("a", "b"):
        status = cluster.get(f"{PODS}/{name}")["status"]
        rows = {each["type"]: each["status"] for each in status["conditions"]}
        assert (status["phase"], rows["Ready"]) == ("Running", "True")


def ready(cluster):
    rows = cluster.get(f"{NODES}/node-1")["status"]["conditions"]
    return next(each["status"] for each in rows if each["type"] == "Ready")


def test_a_node_that_is_gone_takes_its_pods_along(cluster):
    """Its pods are removed, and nothing stays booked on it."""
    cluster.make(PODS, pod("a", policy="Always", node="node-1"))
    cluster.pass_time(10)
    cluster.control("DELETE", "nodes/node-1")
    cluster.pass_time(1)
    assert cluster.pods() == []
    assert "node-1" not in cluster.world.booked


def test_a_drained_node_is_empty(cluster):
    """A drain cordons it and ends what is on it."""
    cluster.make(PODS, pod("a", policy="Always", node="node-1"))
    cluster.pass_time(10)
    assert cluster.control("POST", "nodes/node-1/drain")["spec"]["unschedulable"] is True
    cluster.pass_time(2)
    assert cluster.pods() == []


def test_a_pod_over_its_deadline_fails(cluster):
    """activeDeadlineSeconds ends it with the reason DeadlineExceeded."""
    body = pod("a", policy="Always")
    body["spec"]["activeDeadlineSeconds"] = 20
    cluster.make(PODS, body)
    cluster.pass_time(25)
    status = cluster.get(f"{PODS}/a")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_an_evicted_pod_says_so(cluster):
    """The control route's eviction and the API's differ: one fails the pod, one deletes it."""
    for name in "ab":
        cluster.make(PODS, pod(name, policy="Always"))
    cluster.pass_time(10)
    cluster.control("POST", "pods/default/a/evict")
    status = cluster.get(f"{PODS}/a")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    cluster.ask("POST", f"{PODS}/b/eviction", {"metadata": {"name": "b"}}, want=201)
    cluster.pass_time(2)
    cluster.ask("GET", f"{PODS}/b", want=404)


def test_logs_tell_a_start_and_an_end(cluster):
    """A pod that has not started has none; after its end both lines are there."""
    cluster.make(PODS, pod("a", duration="5s"))
    assert "ContainerCreating" in cluster.ask("GET", f"{PODS}/a/log", want=400)["message"]
    cluster.pass_time(20)
    text = cluster.send("GET", f"{PODS}/a/log").body.decode()
    assert text == "main started, life 1\nmain ended: Completed, code 0\n"
    assert cluster.send("GET", f"{PODS}/a/log", tailLines="1").body.count(b"\n") == 1

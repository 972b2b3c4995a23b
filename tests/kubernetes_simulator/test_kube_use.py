"""What pods truly take: curves, counters, limits, and the exporters that show them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_cluster import cluster_of, deployment, pod

from kubernetes_simulator.core.runs import Box, Run, When, Wish, peak, plan, wish_of
from kubernetes_simulator.core.usage import Form, drawn, grown

PODS = "/api/v1/namespaces/default/pods"
tops = st.floats(0.001, 1e12)
lengths = st.floats(0.5, 1e6)
forms = st.builds(Form, ramp=st.floats(0, 0.9), floor=st.floats(0.1, 1.0))
ages = st.floats(0, 3)


@given(tops, lengths, forms, st.booleans(), st.lists(ages, min_size=2, max_size=6))
def test_a_curve_is_never_more_than_its_top_and_its_sum_never_falls(top, length, form, endless, at):
    """At every age the amount is 0 to the top, the top is reached, and sums only grow."""
    curve = drawn(top, length, form, "seed", endless=endless)
    assert max(curve.values) == pytest.approx(top)
    times = sorted(each * length for each in at)
    sums = [curve.total(each) for each in times]
    assert all(0 <= curve.amount(each) <= top * (1 + 1e-9) for each in times)
    assert all(two >= one - 1e-9 * top * length for one, two in pairwise(sums))
    assert all(each <= top * time * (1 + 1e-9) for each, time in zip(sums, times, strict=True))


@given(tops, lengths, forms, ages, st.booleans())
def test_a_sum_is_the_area_under_its_curve(top, length, form, age, endless):
    """The exact sum agrees with a sum over many thin slices."""
    curve = drawn(top, length, form, "x", endless=endless)
    end = age * length
    slices = 2_000
    area = sum(curve.amount((n + 0.5) * end / slices) for n in range(slices)) * end / slices
    assert curve.total(end) == pytest.approx(area, rel=0.01, abs=top * length * 1e-4)


@given(tops, lengths, forms, st.floats(0.01, 2))
def test_memory_never_falls_and_passes_a_limit_where_it_says(top, length, form, share):
    """Just before the age of passing it is under the limit, just after it over."""
    curve = grown(top, length, form, "x")
    assert list(curve.values) == sorted(curve.values)
    limit = top * share
    age = curve.passes(limit)
    if age is None:
        assert max(curve.values) <= limit
    else:
        assert curve.amount(age) == pytest.approx(limit, rel=1e-6)
        assert max(curve.values) > limit


@given(st.integers(1, 4), st.floats(0.01, 64), st.floats(1e6, 1e11))
def test_a_wish_is_split_over_containers_and_adds_up(count, cpu, memory):
    """What an annotation says of a pod is what its containers reach together."""
    boxes = [Box(f"c{n}", 1.0 + n, 1e6 * (n + 1), None, None) for n in range(count)]
    attempt = plan(Wish(cpu=cpu, memory=memory), boxes, When(1, 0.0, 100.0, 600.0), "s")
    assert sum(max(each.cpu.values) for each in attempt.containers) == pytest.approx(cpu)
    assert attempt.takes("memory", 99.999) == pytest.approx(memory, rel=0.01)


@given(st.dictionaries(st.sampled_from(
    ["cpu", "memory", "duration", "exit-code", "ramp", "spike", "pull", "nope"]),
    st.text("0159.-msMie", max_size=6)))  # fmt: skip
def test_annotations_are_read_or_told(notes):
    """Whatever stands in an annotation is a value or a problem that names it, never an error."""
    said = {f"kubernetes-simulator/{key}": text for key, text in notes.items()}
    _, problems = wish_of(said)
    assert {name for name, _ in problems} <= set(said)
    assert ("kubernetes-simulator/nope" in dict(problems)) is ("nope" in notes)


def test_a_bad_annotation_is_refused_with_what_is_right(cluster):
    """A pod that asks for what cannot be read is 422, with the annotation's name."""
    told = cluster.ask("POST", PODS, pod("a", cpu_limit="x"), want=422)
    assert "annotations[kubernetes-simulator/cpu-limit]" in told["message"]
    body = pod("a", duration="soon")
    assert "such as" not in cluster.ask("POST", PODS, body, want=422)["message"]


def test_memory_over_the_limit_kills_a_pod(cluster):
    """The container is OOMKilled with 137 when its true memory passes its limit, not before."""
    body = pod("a", limits={"memory": "100Mi"}, duration="100s", ramp="0.5")
    body["metadata"]["annotations"]["kubernetes-simulator/memory"] = "200Mi"
    cluster.make(PODS, body)
    cluster.pass_time(20)
    assert cluster.get(f"{PODS}/a")["status"]["phase"] == "Running"
    cluster.pass_time(30)
    status = cluster.get(f"{PODS}/a")["status"]
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["reason"], ended["exitCode"]) == ("Failed", "OOMKilled", 137)
    use = cluster.control("GET", "pods/default/a/use")
    assert use["memory"]["peak"] == pytest.approx(100 * 2**20, rel=1e-3)
    assert use["memory"]["now"] == 0


def test_cpu_is_throttled_at_its_limit(cluster):
    """A pod that would take two cores takes its limit of half a core."""
    body = pod("a", limits={"cpu": "500m"}, duration="100s")
    body["metadata"]["annotations"]["kubernetes-simulator/cpu"] = "2"
    cluster.make(PODS, body)
    cluster.pass_time(60)
    assert cluster.control("GET", "pods/default/a/use")["cpu"]["peak"] == pytest.approx(0.5)


@pytest.mark.parametrize("speed", [1.0, 50.0])
def test_counters_grow_by_cores_times_real_seconds(speed):
    """Whatever the clock factor, the counter's growth over real seconds is the true cores."""
    cluster = cluster_of(speed=speed)
    body = pod("a", duration=f"{100 * speed:g}s", ramp="0")
    body["metadata"]["annotations"]["kubernetes-simulator/cpu"] = "2"
    cluster.make(PODS, body)
    cluster.pass_time(20)
    first = series(cluster, "container_cpu_usage_seconds_total", container="main")
    cluster.pass_time(50)
    second = series(cluster, "container_cpu_usage_seconds_total", container="main")
    use = cluster.control("GET", "pods/default/a/use", window="50")
    assert (second - first) / 50 == pytest.approx(use["cpu"]["mean"])
    assert 1.6 < use["cpu"]["mean"] <= 2


def series(cluster, name: str, page: str = "cadvisor", **labels: str) -> float:
    """Return the one series of a page with these labels."""
    reply = cluster.send("GET", f"/metrics/{page}")
    found = []
    for line in reply.body.decode().splitlines():
        head, _, value = line.rpartition(" ")
        held = dict(re.findall(r'(\w+)="([^"]*)"', head))
        if head.startswith(f"{name}{{") and labels.items() <= held.items():
            found.append(float(value))
    assert len(found) == 1, (name, labels, found)
    return found[0]


def test_a_restart_begins_counters_anew_under_another_id(cluster):
    """After a restart the series has another id and less on it, as a real one."""
    cluster.make(PODS, pod("a", policy="Always", duration="30s", cpu="1"))
    cluster.pass_time(25)
    ids = re.findall(
        r'container="main",id="([^"]+)"', cluster.send("GET", "/metrics/cadvisor").body.decode()
    )
    before = series(cluster, "container_cpu_usage_seconds_total", container="main")
    cluster.pass_time(25)
    again = re.findall(
        r'container="main",id="([^"]+)"', cluster.send("GET", "/metrics/cadvisor").body.decode()
    )
    assert set(ids).isdisjoint(again)
    assert series(cluster, "container_cpu_usage_seconds_total", container="main") < before
    assert series(cluster, "kube_pod_container_status_restarts_total", "kube-state") == 1


def test_a_nodes_counter_never_falls(cluster):
    """The sum of a node goes on through the ends of its pods."""
    cluster.make(PODS, pod("a", node="node-1", duration="20s", cpu="1"))
    seen = []
    for _ in range(10):
        cluster.pass_time(5)
        seen.append(series(cluster, "container_cpu_usage_seconds_total", id="/", node="node-1"))
    assert seen == sorted(seen)
    assert seen[-1] > 0.05 * 50


def test_labels_are_named_as_kube_state_metrics_names_them(cluster):
    """Signs become underscores, humps become snakes, and what then clashes is numbered."""
    body = pod("a")
    body["metadata"]["labels"] = {
        "labfleet/simulation-id": "s1",
        "myApp": "x",
        "a.b": "1",
        "a-b": "2",
    }
    cluster.make(PODS, body)
    assert series(cluster, "kube_pod_labels", "kube-state", label_labfleet_simulation_id="s1",
                  label_my_app="x", label_a_b_conflict1="2", label_a_b_conflict2="1") == 1  # fmt: skip


def test_pages_show_amounts_in_base_units(cluster):
    """Requests, limits and allocatable are cores and bytes with their units."""
    cluster.make(PODS, pod("a", cpu="250m", memory="64Mi", limits={"memory": "1Gi"}))
    asked = "kube_pod_container_resource_requests"
    assert series(cluster, asked, "kube-state", resource="cpu", unit="core") == 0.25
    limit = series(cluster, "kube_pod_container_resource_limits", "kube-state", resource="memory")
    assert limit == 2**30
    room = series(cluster, "kube_node_status_allocatable", "kube-state", node="node-1",
                  resource="memory", unit="byte")  # fmt: skip
    assert room == 16 * 2**30


def test_one_node_is_scraped_alone(cluster):
    """With ?node= or through the proxy only that node's series come, without the label."""
    cluster.make(PODS, pod("a", node="node-2"))
    cluster.pass_time(5)
    alone = cluster.send("GET", "/metrics/cadvisor", node="node-2").body.decode()
    proxied = cluster.send("GET", "/api/v1/nodes/node-2/proxy/metrics/cadvisor").body.decode()
    assert alone == proxied
    assert 'pod="a"' in alone
    assert "node=" not in alone
    assert 'pod="a"' not in cluster.send("GET", "/metrics/cadvisor", node="node-1").body.decode()


def test_metrics_of_the_api_agree_with_the_truth(cluster):
    """metrics.k8s.io shows cores and bytes of the last seconds, per container and per node."""
    cluster.make(PODS, pod("a", node="node-1", duration="500s"))
    cluster.pass_time(100)
    found = cluster.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/a")
    truth = cluster.control("GET", "pods/default/a/use", window="15")
    cores = float(found["containers"][0]["usage"]["cpu"].removesuffix("n")) / 1e9
    assert cores == pytest.approx(truth["cpu"]["mean"], rel=1e-3)
    rows = cluster.get("/apis/metrics.k8s.io/v1beta1/nodes")["items"]
    assert [each["metadata"]["name"] for each in rows] == ["node-1", "node-2", "node-3"]
    cluster.control("POST", "nodes/node-1/silence")
    assert len(cluster.get("/apis/metrics.k8s.io/v1beta1/nodes")["items"]) == 2


def test_a_peak_of_many_is_of_their_sum(cluster):
    """Of pods together the peak is of what they took at once, never the sum of their peaks."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    cluster.make(path, deployment("web", 3))
    cluster.pass_time(700)
    use = cluster.control("GET", "use", labelSelector="app=web", window="30")
    ones = [cluster.control("GET", f"runs/{each['metadata']['uid']}/use", window="30")
            for each in cluster.pods()]  # fmt: skip
    assert use["runs"] == 3
    assert use["cpu"]["peak"] <= sum(each["cpu"]["peak"] for each in ones) + 1e-9
    assert use["cpu"]["total"] == pytest.approx(sum(each["cpu"]["total"] for each in ones))
    assert use["cpu"]["peak"] >= use["cpu"]["mean"]


def test_what_is_gone_is_still_known_by_its_label(cluster):
    """After its pod is deleted the use of a run is told by label, and of no other label."""
    cluster.make(PODS, pod("a", duration="50s"))
    cluster.make(PODS, pod("b", duration="50s"))
    cluster.pass_time(100)
    before = cluster.control("GET", "use", labelSelector="name=a", window="10")
    cluster.ask("DELETE", f"{PODS}/a")
    after = cluster.control("GET", "use", labelSelector="name=a", namespace="default", window="10")
    assert before["cpu"]["peak"] == after["cpu"]["peak"] > 0
    assert after["runs"] == 1
    assert cluster.control("GET", "use", namespace="kube-system")["runs"] == 0


@given(st.floats(1, 60))
def test_a_peak_is_the_highest_mean_of_any_window(window):
    """No window that is looked at has a higher mean than the peak that is told."""
    attempt = plan(Wish(cpu=2.0), [Box("c", 1.0, 1e6, None, None)], When(1, 0.0, 100.0, 600.0), "p")
    attempt.ended = 100.0
    run = Run("n", "over", None, 0.0, attempts=[attempt])
    most = peak([run], "cpu", 200.0, window)
    means = [run.mean("cpu", at / 2, window) for at in range(400)]
    assert max(means) <= most * 1.005
    assert most <= 2.0 + 1e-9


def test_a_node_under_pressure_evicts_who_asks_for_least():
    """When pods truly take more than a node has, the one furthest beyond its request goes."""
    cluster = cluster_of(nodes=1, memory="2Gi")
    for name, memory in (("modest", "300Mi"), ("greedy", "2Gi")):
        body = pod(name, duration="1000s", ramp="0.5", memory="256Mi")
        body["metadata"]["annotations"]["kubernetes-simulator/memory"] = memory
        cluster.make(PODS, body)
    cluster.pass_time(900)
    greedy, modest = (cluster.get(f"{PODS}/{name}")["status"] for name in ("greedy", "modest"))
    assert (greedy["phase"], greedy["reason"]) == ("Failed", "Evicted")
    assert modest["phase"] == "Running"
    rows = cluster.get("/api/v1/nodes/node-1")["status"]["conditions"]
    assert next(each["status"] for each in rows if each["type"] == "MemoryPressure") == "False"


def test_use_is_told_as_it_was_at_an_instant(cluster):
    """Up to an earlier instant the same is told later; one that lies ahead is refused."""
    cluster.make(PODS, pod("a", duration="100s"))
    cluster.pass_time(40)
    then = cluster.control("GET", "use", labelSelector="name=a", window="10")
    cluster.pass_time(100)
    asked = {"labelSelector": "name=a", "window": "10"}
    assert cluster.control("GET", "use", at=f"{then['now']:f}", **asked) == then
    assert cluster.control("GET", "use", **asked)["cpu"]["total"] > then["cpu"]["total"]
    for wrong in (f"{cluster.now + 1:f}", "soon", "nan"):
        cluster.control("GET", "use", want=400, at=wrong, **asked)

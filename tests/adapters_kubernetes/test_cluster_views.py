"""What a view says of a cluster: nodes, pods of runs, all others, and how runs ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_cluster import (
    LABEL,
    Kubeconfigs,
    ScriptedCluster,
    cluster,
    ended,
    looking,
    node,
    pod,
    story,
    viewer,
)
from virtual_time import play

from labfleet.kernel import errors
from labfleet.resources.cluster import Cluster


def test_pods_are_counted_for_their_run_and_all_others_once() -> None:
    """By the label's value; what is over requests nothing."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("pods", pod("a-0", "run-a"))
        server.put("pods", pod("a-1", "run-a", phase="Pending", node=""))
        server.put("pods", pod("a-2", "run-a", status=ended(0)))
        server.put("pods", pod("system", namespace="kube-system"))
        found = await look()
        assert set(found.runs) == {"run-a"}
        run = found.runs["run-a"]
        assert (run.pending, run.running) == (1, 1)
        assert run.requested == {"cpu_milli": 200, "memory_mib": 256}
        assert found.others == {"cpu_milli": 100, "memory_mib": 128}
        assert found.over == {}

    story(tell)


def test_capacity_is_what_pods_may_have_of_nodes_that_take_them() -> None:
    """Rounded down; cordoned, tainted and unready nodes are named as such."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("nodes", node("cordoned", unschedulable=True))
        server.put("nodes", node("control", taints=[{"key": "c", "effect": "NoSchedule"}]))
        server.put("nodes", node("leaving", taints=[{"key": "l", "effect": "NoExecute"}]))
        server.put("nodes", node("soft", taints=[{"key": "s", "effect": "PreferNoSchedule"}]))
        broken = node("broken")
        broken["status"]["conditions"][0]["status"] = "Unknown"
        server.put("nodes", broken)
        nodes = {each.name: each for each in (await look()).nodes}
        assert nodes["n1"].allocatable == {"cpu_milli": 3920, "memory_mib": 15990}
        usable = {name for name, each in nodes.items() if each.ready and each.schedulable}
        assert usable == {"n1", "soft"}
        assert not nodes["broken"].ready

    story(tell)


def test_pods_of_others_on_nodes_that_are_no_capacity_do_not_count() -> None:
    """The system's pods of a control-plane node take nothing of what runs may have."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("nodes", node("control", taints=[{"key": "c", "effect": "NoSchedule"}]))
        server.put("pods", pod("etcd", node="control"))
        server.put("pods", pod("proxy", node="n1"))
        server.put("pods", pod("waits", node="", phase="Pending"))
        assert (await look()).others == {"cpu_milli": 100, "memory_mib": 128}

    story(tell)


def test_a_run_is_known_by_the_label_of_what_made_its_pods() -> None:
    """A chart that labels its Deployment only is found; with no right to list them, pods' labels are."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        labelled = {"metadata": {"name": "web", "namespace": "default", "labels": {LABEL: "run-w"}}}
        made = pod("web-5d4-x", ownerReferences=[_by("ReplicaSet", "web-5d4")])
        made["metadata"]["labels"]["pod-template-hash"] = "5d4"
        server.put("pods", made)
        server.refuse["deployments"] = (403, b"no")
        assert set((await look()).runs) == set()
        server.refuse.clear()
        server.put("deployments", labelled)
        await asyncio.sleep(700)
        found = await look()
        assert set(found.runs) == {"run-w"}
        assert found.others == {}
        asked = len(server.asked)
        await look()
        assert len(server.asked) == asked

    story(tell)


def _by(kind: str, name: str, uid: str = "o1") -> dict[str, Any]:
    return {"kind": kind, "name": name, "uid": uid, "controller": True}


ENDS = [
    (ended(0), "Completed", ""),
    (ended(3), "Failed", "container c of pod p ended with 3"),
    (ended(137, "OOMKilled"), "OOMKilled", "used more memory than it may"),
    ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted", "low on"),
    ({"phase": "Failed"}, "Failed", "pod p failed"),
]


@pytest.mark.parametrize(("status", "reason", "words"), ENDS)
def test_a_run_of_which_all_pods_are_over_has_ended_as_they_did(
    status: dict[str, Any], reason: str, words: str
) -> None:
    """While they are there, and when they were removed afterwards."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("pods", pod("p", "run-a"))
        assert set((await look()).runs) == {"run-a"}
        server.put("pods", pod("p", "run-a", status=status))
        await asyncio.sleep(1)
        found = await look()
        assert found.runs == {}
        assert found.over["run-a"].reason == reason
        assert words in found.over["run-a"].message
        server.remove("pods", "p")
        await asyncio.sleep(1)
        assert (await look()).over == found.over

    story(tell)


def test_what_is_removed_while_it_runs_is_gone_whatever_code_it_ends_with() -> None:
    """As `helm uninstall` does: the kubelet's signal makes 143 of every program."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("pods", pod("p", "run-a"))
        await look()
        going = "2026-11-27T00:01:00Z"
        server.put("pods", pod("p", "run-a", deletionTimestamp=going))
        server.put("pods", pod("p", "run-a", deletionTimestamp=going, status=ended(143)))
        server.remove("pods", "p")
        await asyncio.sleep(1)
        over = (await look()).over["run-a"]
        assert over.reason == "Gone"

    story(tell)


def test_a_drained_pod_was_evicted() -> None:
    """The condition DisruptionTarget says so, whether its program ended well or not."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("pods", pod("p", "run-a"))
        await look()
        why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        server.put("pods", pod("p", "run-a", status={"conditions": [why]}))
        server.remove("pods", "p")
        await asyncio.sleep(1)
        assert (await look()).over["run-a"].reason == "Evicted"

    story(tell)


def test_a_job_that_fails_once_may_try_again() -> None:
    """Its run goes on until the longest back-off is over; the try that counts is the last."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        owner = [_by("Job", "j", "job-1")]
        failed = ended(1, at="2026-11-27T00:00:01Z")
        server.put("pods", pod("j-1", "run-a", ownerReferences=owner))
        await look()
        server.put("pods", pod("j-1", "run-a", ownerReferences=owner, status=failed))
        await asyncio.sleep(2)
        found = await look()
        assert found.over == {}
        assert "may try again" in found.runs["run-a"].waits
        done = ended(0, at="2026-11-27T00:00:30Z")
        server.put("pods", pod("j-2", "run-a", ownerReferences=owner, status=done))
        await asyncio.sleep(2)
        assert (await look()).over["run-a"].reason == "Completed"
        server.put("pods", pod("k-1", "run-b", ownerReferences=[_by("Job", "k", "job-2")],
                               status=failed))  # fmt: skip
        await asyncio.sleep(400)
        assert (await look()).over["run-b"].reason == "Failed"

    story(tell)


def test_a_job_says_itself_when_it_will_not_try_again() -> None:
    """Asked once; before that, and when it may not be asked, the longest back-off is waited out."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        made = {"metadata": {"name": "j", "namespace": "default"}, "status": {}}
        job = server.put("jobs", made)
        owner = [_by("Job", "j", job["metadata"]["uid"])]
        failed = ended(1, at="2026-11-27T00:00:00Z")
        server.put("pods", pod("j-1", "run-a", ownerReferences=owner, status=failed))
        assert (await look()).over == {}
        fact = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
        server.put("jobs", {**made, "status": {"conditions": [fact]}})
        server.refuse["jobs"] = (403, b"")
        assert (await look()).over == {}
        server.refuse.clear()
        await asyncio.sleep(300)
        assert (await look()).over == {}

    async def told(server: ScriptedCluster, look: Any) -> None:
        fact = {"type": "Failed", "status": "True"}
        made = {"metadata": {"name": "j", "namespace": "default"}}
        job = server.put("jobs", {**made, "status": {"conditions": [fact]}})
        for uid, run in ((job["metadata"]["uid"], "run-a"), ("gone", "run-b")):
            failed = ended(1, at="2026-11-27T00:00:00Z")
            owner = [_by("Job", "j", uid)]
            server.put("pods", pod(f"{run}-1", run, ownerReferences=owner, status=failed))
        found = await look()
        assert {each.reason for each in found.over.values()} == {"Failed"}
        assert set(found.over) == {"run-a", "run-b"}
        asked = len(server.asked)
        await look()
        assert len(server.asked) == asked

    story(tell)
    story(told)


def test_pods_that_vanish_while_nobody_watches_are_gone() -> None:
    """The list after a cut does not name them, and their run is over."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("pods", pod("p", "run-a"))
        await look()
        server.down = True
        server.forget()
        await asyncio.sleep(5)
        server.remove("pods", "p")
        server.forget()
        server.down = False
        await asyncio.sleep(120)
        found = await look()
        assert found.runs == {}
        assert found.over["run-a"].reason == "Gone"

    story(tell)


def test_a_pod_that_waits_says_why() -> None:
    """In the scheduler's words, or the kubelet's."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        fact = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient cpu."}  # fmt: skip
        server.put("pods", pod("p", "a", phase="Pending", node="", status={"conditions": [fact]}))
        pull = {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        server.put("pods", pod("q", "b", phase="Pending", status={"containerStatuses": [pull]}))
        runs = (await look()).runs
        assert runs["a"].waits == "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."
        assert runs["b"].waits == "ImagePullBackOff"

    story(tell)


def test_only_the_named_namespaces_are_looked_at() -> None:
    """Each has a list and a watch of its own; pods elsewhere are nobody's."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        for place in ("lab-a", "lab-b", "else"):
            server.put("pods", pod(f"p-{place}", f"run-{place}", namespace=place))
        assert set((await look()).runs) == {"run-lab-a", "run-lab-b"}
        server.put("pods", pod("q", "run-q", namespace="lab-b"))
        await asyncio.sleep(1)
        assert "run-q" in (await look()).runs
        assert all("/pods" not in path or "/namespaces/lab-" in path for path, _ in server.asked)

    story(tell, of=cluster(namespaces=("lab-a", "lab-b")))


def test_a_cluster_without_kubernetes_is_not_looked_at() -> None:
    """None says that nobody looks, which is no view without pods."""

    async def played() -> None:
        plain = Cluster(metadata=cluster().metadata, spec=type(cluster().spec)())
        assert await viewer(ScriptedCluster()).view(plain) is None
        with pytest.raises(errors.Temporary):
            await viewer(ScriptedCluster()).view(cluster())

    play(played)


def test_more_than_is_looked_at_is_an_error_that_says_what_to_do() -> None:
    """Neither pods nor runs beyond the bound are left out in silence."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        for number in range(11):
            server.put("pods", pod(f"p{number}", "run-a"))
        with pytest.raises(
            errors.Invalid, match=r"more than 10 pods .* spec\.kubernetes\.namespaces"
        ):
            await look()
        server.remove("pods", "p10")
        await asyncio.sleep(120)
        assert (await look()).runs["run-a"].running == 10
        server.put("pods", pod("p11", "run-a"))
        await asyncio.sleep(1)
        with pytest.raises(errors.Invalid, match="more than 10 pods"):
            await look()

    story(tell, objects=10)


def test_a_session_ends_with_its_cluster() -> None:
    """Nobody asks for it any more, and its watches are closed; asked again, it begins anew."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        for _ in range(2):
            await look()
            await asyncio.sleep(1)
            assert server.open == 2
            await asyncio.sleep(400)
            assert server.open == 0

    story(tell)


def test_another_access_is_another_session() -> None:
    """The old one is closed at once, and nothing of it is believed."""

    async def played() -> None:
        server = ScriptedCluster()
        server.put("nodes", node("n1"))
        server.put("pods", pod("p", "run-a"))
        secrets = Kubeconfigs()
        seen = viewer(server, secrets)
        async with looking(seen):
            await seen.view(cluster())
            other = cluster(run_label="team/run")
            found = await seen.view(other)
            assert found is not None
            assert found.runs == {}
            await asyncio.sleep(1)
            assert server.open == 2
            assert secrets.read == 2

    play(played)

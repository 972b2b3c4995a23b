"""Deployments, ReplicaSets, StatefulSets, Jobs, and what becomes of what they own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kube_cluster import cluster_of, deployment, job, template

from kubernetes_simulator.core.kinds import PODS
from kubernetes_simulator.core.status import holds

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MERGE = {"kind": "application/merge-patch+json"}


def images(cluster):
    return sorted(each["spec"]["containers"][0]["image"] for each in cluster.pods())


def roll(cluster, image):
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    cluster.ask(
        "PATCH", f"{APPS}/deployments/web", patch, kind="application/strategic-merge-patch+json"
    )


def test_a_deployment_makes_its_pods(cluster):
    """A set of its template, pods of the set, all ready, and a status that says so."""
    cluster.make(f"{APPS}/deployments", deployment("web", 3))
    cluster.pass_time(10)
    status = cluster.get(f"{APPS}/deployments/web")["status"]
    assert (status["replicas"], status["availableReplicas"]) == (3, 3)
    rows = {each["type"]: each["reason"] for each in status["conditions"]}
    assert rows == {
        "Available": "MinimumReplicasAvailable",
        "Progressing": "NewReplicaSetAvailable",
    }


@settings(max_examples=12)
@given(
    st.integers(1, 5),
    st.sampled_from(["25%", "0", "1", "100%"]),
    st.sampled_from(["25%", "0", "2"]),
)
def test_a_rollout_keeps_its_bounds(count, gaps, surge):
    """At every step at most surge more pods exist and at most the gap fewer are ready."""
    surge_count = -(-count // 4) if surge == "25%" else int(surge)
    gap_count = {"25%": count // 4, "0": 0, "1": 1, "100%": count}[gaps]
    if surge_count == gap_count == 0:
        gap_count = 1
    cluster = cluster_of(nodes=1, cpu="8")
    rules = {"maxSurge": surge if "%" in surge else int(surge),
             "maxUnavailable": gaps if "%" in gaps else int(gaps)}  # fmt: skip
    strategy = {"type": "RollingUpdate", "rollingUpdate": rules}
    cluster.make(f"{APPS}/deployments", deployment("web", count, strategy=strategy))
    cluster.pass_time(20)
    roll(cluster, "busybox:2")
    for _ in range(30):
        cluster.pass_time(1)
        held = cluster.world.store.all(PODS)
        live = [each for each in held if "deletionTimestamp" not in each["metadata"]]
        assert len(live) <= count + surge_count
        assert sum(holds(each, "Ready") for each in live) >= count - gap_count
    assert images(cluster) == ["busybox:2"] * count


def test_recreate_ends_the_old_before_it_starts_the_new(cluster):
    """Pods of two templates never run at once."""
    cluster.make(f"{APPS}/deployments", deployment("web", 3, strategy={"type": "Recreate"}))
    cluster.pass_time(10)
    roll(cluster, "busybox:2")
    for _ in range(20):
        cluster.pass_time(0.5)
        assert len(set(images(cluster))) <= 1
    assert images(cluster) == ["busybox:2"] * 3


def test_an_undone_template_takes_its_old_set_again(cluster):
    """Going back to an earlier template makes no new set, and the revision goes on."""
    cluster.make(f"{APPS}/deployments", deployment("web", 1))
    for image in ("busybox:2", "busybox:1"):
        cluster.pass_time(20)
        roll(cluster, image)
    cluster.pass_time(20)
    sets = cluster.get(f"{APPS}/replicasets")["items"]
    assert len(sets) == 2
    notes = cluster.get(f"{APPS}/deployments/web")["metadata"]["annotations"]
    assert notes["deployment.kubernetes.io/revision"] == "3"


def test_a_rollout_that_stands_still_says_so(cluster):
    """After progressDeadlineSeconds without progress the reason is ProgressDeadlineExceeded."""
    body = deployment("web", 1, progressDeadlineSeconds=30)
    body["spec"]["template"] = template(pull="fail")
    cluster.make(f"{APPS}/deployments", body)
    cluster.pass_time(20)
    assert progress(cluster) == "ReplicaSetUpdated"
    cluster.pass_time(20)
    assert progress(cluster) == "ProgressDeadlineExceeded"


def progress(cluster):
    rows = cluster.get(f"{APPS}/deployments/web")["status"]["conditions"]
    return next(each["reason"] for each in rows if each["type"] == "Progressing")


def test_a_pod_that_is_taken_away_is_made_again(cluster):
    """A deleted pod of a set is replaced."""
    cluster.make(f"{APPS}/deployments", deployment("web", 2))
    cluster.pass_time(10)
    gone = cluster.pods()[0]["metadata"]["name"]
    cluster.ask("DELETE", f"/api/v1/namespaces/default/pods/{gone}")
    cluster.pass_time(10)
    names = [each["metadata"]["name"] for each in cluster.pods()]
    assert len(names) == 2
    assert gone not in names


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 3)])
def test_a_policy_decides_what_becomes_of_the_owned(cluster, policy, left):
    """Background and Foreground take sets and pods along, Orphan leaves them alone."""
    cluster.make(f"{APPS}/deployments", deployment("web", 2))
    cluster.pass_time(10)
    cluster.ask("DELETE", f"{APPS}/deployments/web", {"propagationPolicy": policy})
    cluster.pass_time(10)
    cluster.ask("GET", f"{APPS}/deployments/web", want=404)
    sets = cluster.get(f"{APPS}/replicasets")["items"]
    assert len(sets) + len(cluster.pods()) == left
    assert not any(each["metadata"].get("ownerReferences") for each in sets)


def test_a_foreground_delete_waits_for_the_owned(cluster):
    """The owner is marked and stays until the last dependent is gone."""
    cluster.make(f"{APPS}/deployments", deployment("web", 2))
    cluster.pass_time(10)
    marked = cluster.ask("DELETE", f"{APPS}/deployments/web", {"propagationPolicy": "Foreground"})
    assert "foregroundDeletion" in marked["metadata"]["finalizers"]
    assert cluster.get(f"{APPS}/deployments/web")
    cluster.pass_time(10)
    cluster.ask("GET", f"{APPS}/deployments/web", want=404)


def test_a_job_runs_to_its_completions(cluster):
    """So many at a time, so many in all, then Complete with its time."""
    cluster.make(JOBS, job("j", completions=5, parallelism=2, notes={"duration": "10s"}))
    most = 0
    for _ in range(60):
        cluster.pass_time(1)
        most = max(
            most, sum(each["status"]["phase"] in {"Pending", "Running"} for each in cluster.pods())
        )
    status = cluster.get(f"{JOBS}/j")["status"]
    assert (most, status["succeeded"], len(cluster.pods())) == (2, 5, 5)
    assert [each["type"] for each in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert status["completionTime"]


def test_a_job_gives_up_after_its_backoff_limit(cluster):
    """After more failures than the limit it is Failed, and waits grow between its pods."""
    cluster.make(JOBS, job("j", backoffLimit=2, notes={"duration": "1s", "exit_code": "1"}))
    cluster.pass_time(15)
    assert len(cluster.pods()) == 2
    cluster.pass_time(200)
    status = cluster.get(f"{JOBS}/j")["status"]
    assert status["failed"] == len(cluster.pods()) == 3
    assert status["conditions"][-1]["reason"] == "BackoffLimitExceeded"


def test_a_job_over_its_deadline_is_ended(cluster):
    """Its pods are stopped and the reason is DeadlineExceeded."""
    cluster.make(JOBS, job("j", activeDeadlineSeconds=30, notes={"duration": "1h"}))
    cluster.pass_time(40)
    status = cluster.get(f"{JOBS}/j")["status"]
    assert status["conditions"][-1]["reason"] == "DeadlineExceeded"
    assert cluster.pods() == []


def test_a_job_that_is_over_goes_after_its_time_to_live(cluster):
    """ttlSecondsAfterFinished removes it with its pods; a plain delete leaves the pods."""
    cluster.make(JOBS, job("j", ttlSecondsAfterFinished=60, notes={"duration": "1s"}))
    cluster.pass_time(30)
    assert cluster.get(f"{JOBS}/j")
    cluster.pass_time(60)
    cluster.ask("GET", f"{JOBS}/j", want=404)
    cluster.pass_time(2)
    assert cluster.pods() == []
    cluster.make(JOBS, job("k", notes={"duration": "1s"}))
    cluster.pass_time(20)
    cluster.ask("DELETE", f"{JOBS}/k")
    cluster.pass_time(5)
    assert len(cluster.pods()) == 1


def test_an_indexed_job_has_each_index_once(cluster):
    """Every index is run, and the status names them as ranges."""
    cluster.make(JOBS, job("j", completions=4, parallelism=2, completionMode="Indexed",
                           notes={"duration": "5s"}))  # fmt: skip
    cluster.pass_time(60)
    assert cluster.get(f"{JOBS}/j")["status"]["completedIndexes"] == "0-3"
    key = "batch.kubernetes.io/job-completion-index"
    assert sorted(each["metadata"]["annotations"][key] for each in cluster.pods()) == list("0123")


def test_a_suspended_job_has_no_pods(cluster):
    """Suspending ends them, resuming starts anew."""
    cluster.make(JOBS, job("j", notes={"duration": "1h"}))
    cluster.pass_time(10)
    cluster.ask("PATCH", f"{JOBS}/j", {"spec": {"suspend": True}}, **MERGE)
    cluster.pass_time(5)
    assert cluster.pods() == []
    cluster.ask("PATCH", f"{JOBS}/j", {"spec": {"suspend": False}}, **MERGE)
    cluster.pass_time(10)
    assert len(cluster.pods()) == 1


def stateful(replicas, **more):
    return {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "template": template(),
            "selector": {"matchLabels": {"app": "web"}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}], **more,
        },
    }  # fmt: skip


def test_a_stateful_set_starts_in_order(cluster):
    """Each pod is ready before the next is made, and has a claim of its own."""
    cluster.make(f"{APPS}/statefulsets", stateful(3))
    for _ in range(30):
        cluster.pass_time(0.5)
        pods = {each["metadata"]["name"]: each["status"]["phase"] for each in cluster.pods()}
        names = sorted(pods)
        assert names == [f"db-{n}" for n in range(len(names))]
        assert all(pods[name] == "Running" for name in names[:-1])
    claims = cluster.get("/api/v1/namespaces/default/persistentvolumeclaims")["items"]
    assert [each["metadata"]["name"] for each in claims] == ["data-db-0", "data-db-1", "data-db-2"]


def test_a_stateful_set_rolls_from_the_last(cluster):
    """A new template replaces the pods one by one, the highest number first."""
    cluster.make(f"{APPS}/statefulsets", stateful(3))
    cluster.pass_time(30)
    patch = {
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}}
    }
    kind = "application/strategic-merge-patch+json"
    cluster.ask("PATCH", f"{APPS}/statefulsets/db", patch, kind=kind)
    seen = []
    for _ in range(60):
        cluster.pass_time(0.5)
        fresh = [each["metadata"]["name"] for each in cluster.pods()
                 if each["spec"]["containers"][0]["image"] == "busybox:2"]  # fmt: skip
        if fresh not in seen:
            seen.append(fresh)
    assert [each for each in seen if each] == [
        ["db-2"], ["db-1", "db-2"], ["db-0", "db-1", "db-2"],
    ]  # fmt: skip
    status = cluster.get(f"{APPS}/statefulsets/db")["status"]
    assert status["currentRevision"] == status["updateRevision"]


def test_a_scale_is_read_and_written_beside_its_object(cluster):
    """The Scale shows replicas and selector; writing it changes the spec alone."""
    cluster.make(f"{APPS}/deployments", deployment("web", 1))
    held = cluster.get(f"{APPS}/deployments/web/scale")
    assert (held["kind"], held["spec"]["replicas"]) == ("Scale", 1)
    held["spec"]["replicas"] = 4
    cluster.ask("PUT", f"{APPS}/deployments/web/scale", held)
    cluster.pass_time(10)
    held = cluster.get(f"{APPS}/deployments/web/scale")
    assert (held["spec"]["replicas"], held["status"]["replicas"]) == (4, 4)


def test_a_selector_that_does_not_match_its_template_is_refused(cluster):
    """It is 422, as is a job's restartPolicy of Always and a change of a selector."""
    body = deployment("web", 1, selector={"matchLabels": {"app": "other"}})
    cluster.ask("POST", f"{APPS}/deployments", body, want=422)
    cluster.make(f"{APPS}/deployments", deployment("web", 1))
    patch = {"spec": {"selector": {"matchLabels": {"app": "web", "x": "y"}}}}
    told = cluster.ask("PATCH", f"{APPS}/deployments/web", patch, want=422, **MERGE)
    assert "field is immutable" in told["message"]
    held = job("j")
    held["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    cluster.ask("POST", JOBS, held, want=422)

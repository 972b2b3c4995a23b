"""Objects as an API server keeps them: names, versions, conflicts, finalizers, pages, patches."""

from __future__ import annotations

import pytest
from kube_cluster import cluster_of, deployment, pod

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def test_an_object_gets_what_only_the_server_sets(cluster):
    """A new object has uid, version, time and defaults, whatever its body claims."""
    body = pod("a")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z"}
    body["status"] = {"phase": "Running"}
    made = cluster.make(PODS, body)
    assert made["metadata"]["uid"] != "mine"
    assert made["metadata"]["creationTimestamp"].startswith("2027-")
    assert made["metadata"]["resourceVersion"].isdigit()
    assert made["status"]["phase"] == "Pending"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30


def test_a_name_is_taken_once(cluster):
    """A second create of a name is 409 AlreadyExists; generateName makes one each time."""
    cluster.make(MAPS, {"metadata": {"name": "a"}})
    told = cluster.ask("POST", MAPS, {"metadata": {"name": "a"}}, want=409)
    assert told["reason"] == "AlreadyExists"
    names = {cluster.make(MAPS, {"metadata": {"generateName": "b-"}})["metadata"]["name"]
             for _ in range(5)}  # fmt: skip
    assert len(names) == 5
    assert all(name.startswith("b-") for name in names)


@pytest.mark.parametrize("name", ["", "A", "-a", "a" * 254, "a_b", "a..b"])
def test_a_bad_name_is_refused(cluster, name):
    """A name that is no DNS subdomain is 422 with the field that is wrong."""
    told = cluster.ask("POST", MAPS, {"metadata": {"name": name}}, want=422)
    assert told["reason"] == "Invalid"
    assert told["details"]["causes"][0]["field"] == "metadata.name"


def test_a_write_that_rests_on_an_old_version_conflicts(cluster):
    """Of two writers who read the same version the second is told 409 Conflict."""
    made = cluster.make(MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    cluster.ask("PUT", f"{MAPS}/a", {**made, "data": {"x": "2"}})
    told = cluster.ask("PUT", f"{MAPS}/a", {**made, "data": {"x": "3"}}, want=409)
    assert told["reason"] == "Conflict"
    assert cluster.get(f"{MAPS}/a")["data"] == {"x": "2"}


def test_a_write_that_changes_nothing_makes_no_version(cluster):
    """What is equal to what is stored leaves the version as it is."""
    made = cluster.make(MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    again = cluster.ask("PUT", f"{MAPS}/a", made)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_generation_counts_changes_of_the_spec_alone(cluster):
    """A label leaves the generation; a replica count moves it; a status does not."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    cluster.make(path, deployment("web", 1))
    merge = {"kind": "application/merge-patch+json"}
    first = cluster.ask("PATCH", f"{path}/web", {"metadata": {"labels": {"a": "b"}}}, **merge)
    assert first["metadata"]["generation"] == 1
    second = cluster.ask("PATCH", f"{path}/web", {"spec": {"replicas": 2}}, **merge)
    assert second["metadata"]["generation"] == 2
    cluster.pass_time(10)
    assert cluster.get(f"{path}/web")["metadata"]["generation"] == 2


def test_finalizers_hold_an_object_until_the_last_is_gone(cluster):
    """A delete marks it, a patch that empties the list removes it."""
    cluster.make(MAPS, {"metadata": {"name": "a", "finalizers": ["x/y"]}})
    marked = cluster.ask("DELETE", f"{MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": None}}
    cluster.ask("PATCH", f"{MAPS}/a", patch, kind="application/merge-patch+json")
    assert cluster.ask("GET", f"{MAPS}/a", want=404)["reason"] == "NotFound"


def test_a_namespace_takes_all_that_is_in_it(cluster):
    """After the delete of a namespace nothing of it is left, and no create succeeds meanwhile."""
    cluster.make("/api/v1/namespaces", {"metadata": {"name": "n"}})
    held = {"metadata": {"name": "a", "finalizers": ["x/y"]}}
    cluster.make("/api/v1/namespaces/n/configmaps", held)
    cluster.make("/api/v1/namespaces/n/pods", pod("p"))
    cluster.pass_time(5)
    assert cluster.ask("DELETE", "/api/v1/namespaces/n")["status"]["phase"] == "Terminating"
    late = cluster.ask("POST", "/api/v1/namespaces/n/pods", pod("q"), want=403)
    assert late["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    cluster.pass_time(60)
    assert cluster.get("/api/v1/namespaces/n")["status"]["phase"] == "Terminating"
    cluster.ask("PATCH", "/api/v1/namespaces/n/configmaps/a", {"metadata": {"finalizers": []}},
                kind="application/merge-patch+json")  # fmt: skip
    cluster.pass_time(1)
    cluster.ask("GET", "/api/v1/namespaces/n", want=404)


def test_a_selector_chooses_by_labels_and_fields(cluster):
    """Labels by equality, set and presence, fields by equality; others are refused."""
    for number in range(4):
        labels = {"n": str(number), **({"odd": ""} if number % 2 else {})}
        cluster.make(MAPS, {"metadata": {"name": f"m{number}", "labels": labels}})

    def names(**query: str) -> list[str]:
        return [each["metadata"]["name"] for each in cluster.get(MAPS, **query)["items"]]

    assert names(labelSelector="n=1") == ["m1"]
    assert names(labelSelector="n!=1,n") == ["m0", "m2", "m3"]
    assert names(labelSelector="n in (1, 2)") == ["m1", "m2"]
    assert names(labelSelector="n notin (1,2),!odd") == ["m0"]
    assert names(labelSelector="odd") == ["m1", "m3"]
    assert names(labelSelector="n>1,n<3") == ["m2"]
    assert names(fieldSelector="metadata.name=m2") == ["m2"]
    assert cluster.ask("GET", MAPS, want=400, labelSelector="a b c")["reason"] == "BadRequest"
    told = cluster.ask("GET", MAPS, want=400, fieldSelector="spec.x=1")
    assert "field label not supported" in told["message"]


def test_pages_show_one_version_of_the_list(cluster):
    """Pages of a list agree with its first page whatever is written between them."""
    for number in range(7):
        cluster.make(MAPS, {"metadata": {"name": f"m{number}"}})
    first = cluster.get(MAPS, limit="3")
    assert first["metadata"]["remainingItemCount"] == 4
    cluster.ask("DELETE", f"{MAPS}/m4")
    cluster.make(MAPS, {"metadata": {"name": "m35"}})
    merge = {"kind": "application/merge-patch+json"}
    cluster.ask("PATCH", f"{MAPS}/m5", {"data": {"new": "1"}}, **merge)
    second = cluster.get(MAPS, limit="3", **{"continue": first["metadata"]["continue"]})
    third = cluster.get(MAPS, limit="3", **{"continue": second["metadata"]["continue"]})
    shown = [*first["items"], *second["items"], *third["items"]]
    assert [each["metadata"]["name"] for each in shown] == [f"m{n}" for n in range(7)]
    assert "data" not in shown[5]
    assert "continue" not in third["metadata"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_page_of_a_compacted_list_is_gone(cluster):
    """A continue token older than the log is 410 Expired; one that is no token is 400."""
    for number in range(3):
        cluster.make(MAPS, {"metadata": {"name": f"m{number}"}})
    token = cluster.get(MAPS, limit="1")["metadata"]["continue"]
    cluster.make(MAPS, {"metadata": {"name": "later"}})
    cluster.control("POST", "compact")
    told = cluster.ask("GET", MAPS, want=410, limit="1", **{"continue": token})
    assert told["reason"] == "Expired"
    cluster.ask("GET", MAPS, want=400, limit="1", **{"continue": "nonsense"})


def test_the_log_is_bounded():
    """Beyond its bound the log forgets its oldest changes, and old lists are gone."""
    cluster = cluster_of(nodes=0, most_changes=20)
    first = cluster.get(MAPS)["metadata"]["resourceVersion"]
    for number in range(30):
        cluster.make(MAPS, {"metadata": {"name": f"m{number}"}})
    assert len(cluster.world.store.log) == 20
    old = {"resourceVersion": first, "resourceVersionMatch": "Exact"}
    assert cluster.ask("GET", MAPS, want=410, **old)["reason"] == "Expired"


def test_the_number_of_objects_is_bounded():
    """A create beyond the bound is refused, and nothing of it is stored."""
    cluster = cluster_of(nodes=0, most_objects=12)
    made = 0
    while True:
        reply = cluster.send("POST", MAPS, {"metadata": {"name": f"m{made}"}})
        if reply.status != 201:
            break
        made += 1
        assert made < 12
    assert reply.status == 413
    assert cluster.world.store.count == 12


def test_a_dry_run_writes_nothing(cluster):
    """With dryRun=All the reply is as if it had been written, and it was not."""
    made = cluster.ask("POST", MAPS, {"metadata": {"name": "a"}}, want=201, dryRun="All")
    assert made["metadata"]["uid"]
    cluster.ask("GET", f"{MAPS}/a", want=404)
    cluster.make(MAPS, {"metadata": {"name": "a"}})
    cluster.ask("DELETE", f"{MAPS}/a", dryRun="All")
    assert cluster.get(f"{MAPS}/a")["metadata"]["name"] == "a"


def test_a_field_that_a_kind_has_not_is_refused_when_asked(cluster):
    """With fieldValidation=Strict a typing error is 400 with its path; without it is taken."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = deployment("web", 1)
    body["spec"]["replicaz"] = 3
    told = cluster.ask("POST", path, body, want=400, fieldValidation="Strict")
    assert 'unknown field "spec.replicaz"' in told["message"]
    body["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    told = cluster.ask("POST", path, body, want=400, fieldValidation="Strict")
    assert 'unknown field "spec.template.spec.containers[0].imagee"' in told["message"]
    cluster.make(path, body)

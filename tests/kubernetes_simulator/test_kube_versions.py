"""Versions: what watches and lists tell is one history, however it is cut up."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from kube_cluster import cluster_of

from kubernetes_simulator.core import listing
from kubernetes_simulator.core.kinds import BY_PATH
from kubernetes_simulator.core.listing import Query
from kubernetes_simulator.core.watching import Watch

MAPS = BY_PATH["", "v1", "configmaps"]
PATH = "/api/v1/namespaces/default/configmaps"
names, colours = st.sampled_from("abcde"), st.sampled_from(["red", "blue"])
writes = st.tuples(st.sampled_from(["put", "drop", "nothing"]), names, colours)


def write(cluster, how, name, colour):
    """Make, change or delete an object, or do nothing."""
    body = {"metadata": {"name": name, "labels": {"colour": colour}}}
    if how == "drop":
        cluster.send("DELETE", f"{PATH}/{name}")
    elif how == "put" and cluster.send("PUT", f"{PATH}/{name}", body).status == 404:
        cluster.send("POST", PATH, body)


@settings(max_examples=60)
@given(st.lists(st.tuples(writes, st.booleans()), max_size=25), st.sampled_from(["", "colour=red"]))
def test_a_watch_that_is_cut_anywhere_ends_in_the_listed_state(turns, labels):
    """Resumed from the last version that was seen, watches together tell every change once."""
    cluster = cluster_of(nodes=0)
    query = Query(MAPS, "default", labels)
    watch, seen = Watch(query, cluster.world.store.revision), {}
    for (how, name, colour), cut in turns:
        write(cluster, how, name, colour)
        if cut:
            follow(watch, cluster, seen)
            watch = Watch(query, watch.revision)
    follow(watch, cluster, seen)
    listed = listing.page(cluster.world.store, query).items
    assert seen == {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in listed
    }


def follow(watch, cluster, seen):
    """Take what a watch tells: what is added was not there, what changes or goes was."""
    last = 0
    for kind, obj in watch.news(cluster.world.store):
        meta = obj["metadata"]
        assert int(meta["resourceVersion"]) > last
        last = int(meta["resourceVersion"])
        assert (meta["name"] in seen) is (kind != "ADDED")
        if kind == "DELETED":
            del seen[meta["name"]]
        else:
            seen[meta["name"]] = meta["resourceVersion"]


@settings(max_examples=60)
@given(st.lists(writes, max_size=15), st.lists(writes, max_size=15), st.integers(1, 4),
       st.sampled_from(["", "colour=red"]))  # fmt: skip
def test_pages_are_one_version_whatever_is_written_between(before, between, limit, labels):
    """All pages together are the list as it was when the first was asked for."""
    cluster = cluster_of(nodes=0)
    for each in before:
        write(cluster, *each)
    store, token, found = cluster.world.store, "", []
    whole = listing.page(store, Query(MAPS, "default", labels)).items
    rest = list(between)
    while True:
        page = listing.page(store, Query(MAPS, "default", labels, "", limit, token))
        found += page.items
        token = page.token
        assert len(page.items) <= limit
        if not token:
            break
        for _ in range(3):
            if rest:
                write(cluster, *rest.pop())
    assert found == whole


@given(st.lists(writes, min_size=1, max_size=30), st.integers(0, 30))
def test_the_past_is_what_it_was(turns, back):
    """A list at an earlier version is the list that was given then, until it is compacted."""
    cluster = cluster_of(nodes=0)
    store, seen = cluster.world.store, {}
    for each in turns:
        seen[store.revision] = listing.page(store, Query(MAPS, "default")).items
        write(cluster, *each)
    version = sorted(seen)[back % len(seen)]
    exact = Query(MAPS, "default", version=str(version), match="Exact")
    assert listing.page(store, exact).items == seen[version]
    assert store.count == len([name for table in store.tables.values() for name in table])

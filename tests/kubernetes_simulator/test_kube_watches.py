"""Watches: what they tell, how they end, and what faults do to them."""

from __future__ import annotations

import asyncio
import json

import pytest
from kube_cluster import opened, pod

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
pytestmark = pytest.mark.asyncio


def names(events):
    return [(kind, obj["metadata"].get("name")) for kind, obj in events]


async def write(app, cluster, name, **more):
    """Create a map through the application, so that watches hear of it."""
    body = json.dumps({"metadata": {"name": name, **more}}).encode()
    async with opened(app, MAPS, method="POST", body=body) as wire:
        await wire.over.wait()
    assert wire.status == 201


async def test_a_watch_begins_with_what_is_there_and_goes_on(cluster, app_of):
    """Without a version the present objects come as ADDED, then each change as it happens."""
    app = app_of(cluster)
    cluster.make(MAPS, {"metadata": {"name": "a"}})
    async with opened(app, MAPS, "watch=true") as wire:
        first = await wire.event()
        await write(app, cluster, "b")
        second = await wire.event()
    assert names([first, second]) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_from_a_list_misses_nothing_and_repeats_nothing(cluster, app_of):
    """From the version of a list the watch tells exactly what came after it."""
    app = app_of(cluster)
    cluster.make(MAPS, {"metadata": {"name": "a"}})
    version = cluster.get(MAPS)["metadata"]["resourceVersion"]
    cluster.make(MAPS, {"metadata": {"name": "b"}})
    cluster.ask("DELETE", f"{MAPS}/a")
    async with opened(app, MAPS, f"watch=1&resourceVersion={version}") as wire:
        events = [await wire.event(), await wire.event()]
    assert names(events) == [("ADDED", "b"), ("DELETED", "a")]


async def test_an_object_that_leaves_a_selection_is_deleted_to_its_watch(cluster, app_of):
    """What comes to be selected is ADDED, what is no longer is DELETED, others are unseen."""
    app = app_of(cluster)
    cluster.make(MAPS, {"metadata": {"name": "a", "labels": {"x": "1"}}})
    merge = {"kind": "application/merge-patch+json"}
    query = "watch=1&labelSelector=x%3D1&resourceVersion=" + str(cluster.world.store.revision)
    cluster.ask("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"x": "2"}}}, **merge)
    cluster.ask("PATCH", f"{MAPS}/a", {"data": {"y": "1"}}, **merge)
    cluster.ask("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"x": "1"}}}, **merge)
    cluster.ask("PATCH", f"{MAPS}/a", {"data": {"y": "2"}}, **merge)
    async with opened(app, MAPS, query) as wire:
        events = [await wire.event() for _ in range(3)]
    assert [kind for kind, _ in events] == ["DELETED", "ADDED", "MODIFIED"]


async def test_a_watch_from_a_compacted_version_is_told_it_is_expired(cluster, app_of):
    """The one event of it is ERROR with a Status of 410 Expired, and the watch ends."""
    app = app_of(cluster)
    version = cluster.world.store.revision
    cluster.make(MAPS, {"metadata": {"name": "a"}})
    cluster.control("POST", "compact")
    async with opened(app, MAPS, f"watch=1&resourceVersion={version}") as wire:
        kind, obj = await wire.event()
        await wire.over.wait()
    assert (kind, obj["code"], obj["reason"]) == ("ERROR", 410, "Expired")
    assert wire.lines.empty()


async def test_a_version_of_another_cluster_is_no_version_of_this_one(cluster, app_of):
    """An older cluster's version is expired, one that is still to come is 504: none is waited for."""
    app = app_of(cluster)
    async with opened(app, MAPS, "watch=1&resourceVersion=1234") as wire:
        kind, obj = await wire.event()
    assert (kind, obj["code"]) == ("ERROR", 410)
    later = cluster.world.store.revision + 1
    async with opened(app, MAPS, f"watch=1&resourceVersion={later}") as wire:
        await wire.over.wait()
    assert wire.status == 504


async def test_a_watch_ends_at_its_time_with_a_bookmark(cluster, app_of):
    """After timeoutSeconds it ends in order; who asks for bookmarks is told the version."""
    app = app_of(cluster)
    query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion=" + str(
        cluster.world.store.revision
    )
    async with opened(app, MAPS, query) as wire:
        await asyncio.sleep(0)
        cluster.now += 6
        await write(app, cluster, "a")
        events = [await wire.event(), await wire.event()]
        await wire.over.wait()
    assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK"]
    assert int(events[1][1]["metadata"]["resourceVersion"]) == cluster.world.store.revision
    assert not wire.cut


async def test_initial_events_end_with_a_marked_bookmark(cluster, app_of):
    """With sendInitialEvents the present objects come first, then the mark that they are all."""
    app = app_of(cluster)
    cluster.make(MAPS, {"metadata": {"name": "a"}})
    query = ("watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
             "&resourceVersionMatch=NotOlderThan&resourceVersion=0")  # fmt: skip
    async with opened(app, MAPS, query) as wire:
        events = [await wire.event(), await wire.event()]
    assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK"]
    notes = events[1][1]["metadata"]["annotations"]
    assert notes == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("kind", "told"),
    [("watch_duplicate", ["ADDED", "ADDED", "ADDED", "ADDED"]), ("watch_cut", ["ADDED"]),
     ("watch_gone", ["ADDED", "ERROR"]), ("watch_slow", ["ADDED", "ADDED"])],
)  # fmt: skip
async def test_a_fault_does_to_a_watch_what_it_says(cluster, app_of, kind, told):
    """Events come twice, the watch is cut or expires after so many, or each is late."""
    app = app_of(cluster)
    for name in "ab":
        cluster.make(MAPS, {"metadata": {"name": name}})
    cluster.control("POST", "faults", {"kind": kind, "path": "configmaps", "events": 1}, want=201)
    async with opened(app, MAPS, "watch=1") as wire:
        events = [await wire.event() for _ in told]
        if kind in {"watch_cut", "watch_gone"}:
            await wire.over.wait()
    assert [each for each, _ in events] == told
    assert wire.cut is (kind == "watch_cut")
    assert cluster.control("GET", "faults")[0]["hits"] == 1


async def test_every_open_watch_can_be_cut(cluster, app_of):
    """The control route cuts connections, and a watch from the last version loses nothing."""
    app = app_of(cluster)
    async with opened(app, MAPS, "watch=1") as wire:
        await asyncio.sleep(0)
        async with opened(app, "/_control/watches/cut", method="POST") as told:
            await told.over.wait()
        await wire.over.wait()
    assert wire.cut


async def test_time_that_passes_is_told_to_watches(cluster, app_of):
    """A pod that starts by itself is seen by who watches, though nobody asks anything."""
    app = app_of(cluster)
    cluster.make(PODS, pod("a"))
    phases = []
    async with asyncio.TaskGroup() as group:
        going = group.create_task(app.run())
        async with opened(app, PODS, "watch=1") as wire:
            while phases[-1:] != ["Succeeded"]:
                _, obj = await wire.event()
                phases.append(obj["status"]["phase"])
                cluster.now += 20
                # private _stirred: the clock of this test moves by hand
                app._stirred.ring()
        going.cancel()
    assert list(dict.fromkeys(phases)) == ["Pending", "Running", "Succeeded"]


async def test_watches_are_bounded(cluster, app_of):
    """One watch too many is 429 with a time to come again."""
    app = app_of(cluster)
    app.watches = 1_000
    async with opened(app, MAPS, "watch=1") as wire:
        await wire.over.wait()
    assert (wire.status, wire.headers["retry-after"]) == (429, "1")

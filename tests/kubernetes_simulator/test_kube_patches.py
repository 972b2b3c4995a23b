"""Patches of all four kinds, alone and through the API."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_cluster import deployment

from kubernetes_simulator.core import patches, strategic
from kubernetes_simulator.core.applying import applied, fields_of, paths_of, tree
from kubernetes_simulator.core.errors import ApiError

MAPS = "/api/v1/namespaces/default/configmaps"
leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
objects = st.dictionaries(st.text("abc", min_size=1, max_size=2), documents, max_size=4)


def without_null(value):
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return value


@given(objects, objects)
def test_a_merge_patch_twice_is_once(target, patch):
    """Merging is idempotent, its values are there, and what it nulls is not."""
    once = patches.merged(target, patch)
    assert patches.merged(once, patch) == once
    for key, value in patch.items():
        assert (key in once) is (value is not None)
    assert patches.merged({}, patch) == without_null(patch)


@given(objects, documents)
def test_steps_add_move_and_take_back(target, value):
    """What is added is found, tested, moved, and removed again, and the rest is untouched."""
    steps = [
        {"op": "add", "path": "/zz", "value": value},
        {"op": "test", "path": "/zz", "value": value},
        {"op": "copy", "from": "/zz", "path": "/yy"},
        {"op": "move", "from": "/yy", "path": "/xx"},
        {"op": "remove", "path": "/xx"},
        {"op": "remove", "path": "/zz"},
    ]
    assert patches.stepped(target, steps) == target


@pytest.mark.parametrize(
    ("step", "code"),
    [({"op": "test", "path": "/a", "value": 2}, 422), ({"op": "remove", "path": "/no"}, 422),
     ({"op": "add", "path": "/l/9", "value": 1}, 422), ({"op": "replace", "path": "/no", "value": 1}, 422),
     ({"op": "jump", "path": "/a"}, 400), ({"op": "add", "path": "/a"}, 400),
     ({"op": "add", "path": "a", "value": 1}, 400), ({"op": "move", "from": "/o", "path": "/o/x"}, 422)],
)  # fmt: skip
def test_a_step_that_cannot_be_taken_changes_nothing(step, code):
    """It is refused, and steps before it are not taken either."""
    target = {"a": 1, "l": [1], "o": {}}
    with pytest.raises(ApiError) as told:
        patches.stepped(target, [{"op": "add", "path": "/b", "value": 1}, step])
    assert told.value.code == code
    assert target == {"a": 1, "l": [1], "o": {}}


def pods(*boxes, **more):
    return {"spec": {"containers": list(boxes), **more}}


def test_a_strategic_patch_knows_lists_by_their_keys():
    """Containers merge by name, sets grow, directives delete, replace and order."""
    target = pods({"name": "a", "image": "1", "env": [{"name": "x", "value": "1"}]}, {"name": "b"})
    patch = pods({"name": "a", "image": "2", "env": [{"name": "y", "value": "2"}]})
    done = strategic.patched(target, patch)["spec"]["containers"]
    assert done[0]["image"] == "2"
    assert [each["name"] for each in done[0]["env"]] == ["x", "y"]
    assert done[1] == {"name": "b"}
    gone = strategic.patched(target, pods({"name": "a", "$patch": "delete"}))
    assert [each["name"] for each in gone["spec"]["containers"]] == ["b"]
    order = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    turned = strategic.patched(target, order)["spec"]["containers"]
    assert [each["name"] for each in turned] == ["b", "a"]
    only = strategic.patched(target, pods({"$patch": "replace"}, {"name": "c"}))
    assert only["spec"]["containers"] == [{"name": "c"}]


def test_finalizers_are_a_set():
    """A strategic patch adds members and deletes named ones."""
    target = {"metadata": {"finalizers": ["a", "b"]}}
    more = strategic.patched(target, {"metadata": {"finalizers": ["c", "a"]}})
    assert more["metadata"]["finalizers"] == ["a", "b", "c"]
    less = strategic.patched(target, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})
    assert less["metadata"]["finalizers"] == ["b"]


def test_what_an_applier_leaves_out_is_removed():
    """Its own former fields go; those that another applied too, or nobody did, stay."""
    live = {"metadata": {}, "data": {"free": "1"}}
    one = applied(live, {"data": {"a": "1", "b": "1"}}, "one", 0.0, force=False)
    both = applied(one, {"data": {"b": "1"}}, "two", 0.0, force=False)
    done = applied(both, {"data": {}}, "one", 0.0, force=False)
    assert done["data"] == {"free": "1", "b": "1"}


def test_two_appliers_conflict_over_a_value():
    """The refusal names owner and field; force takes it over, and the first then conflicts."""
    one = applied({"metadata": {}}, {"data": {"a": "1"}}, "one", 0.0, force=False)
    with pytest.raises(ApiError) as told:
        applied(one, {"data": {"a": "2"}}, "two", 0.0, force=False)
    assert told.value.code == 409
    assert told.value.message == 'Apply failed with 1 conflict: conflict with "one":\n- .data.a'
    two = applied(one, {"data": {"a": "2"}}, "two", 0.0, force=True)
    with pytest.raises(ApiError):
        applied(two, {"data": {"a": "1"}}, "one", 0.0, force=False)


def test_entries_of_a_list_are_owned_by_their_keys():
    """Two appliers own containers side by side; one that leaves out its own removes only that."""
    live = {"metadata": {}}
    one = applied(live, pods({"name": "a", "image": "1"}), "one", 0.0, force=False)
    two = applied(one, pods({"name": "b", "image": "1"}), "two", 0.0, force=False)
    assert [each["name"] for each in two["spec"]["containers"]] == ["a", "b"]
    done = applied(two, {"spec": {}}, "one", 0.0, force=False)
    assert [each["name"] for each in done["spec"]["containers"]] == ["b"]


names = st.sampled_from(["x", "y", "z"])
boxes = st.lists(st.fixed_dictionaries({"name": names, "image": names}), max_size=3,
                 unique_by=lambda each: each["name"])  # fmt: skip
wanted = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": boxes, "replicas": st.integers(0, 3)})}
)


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), wanted), max_size=5))
def test_an_apply_is_there_afterwards_and_twice_is_once(turns):
    """After a forced apply every field of it has its value, and the same again changes nothing."""
    live = {"metadata": {}}
    for who, body in turns:
        live = applied(live, body, who, 0.0, force=True)
        assert live["spec"]["replicas"] == body["spec"]["replicas"]
        held = {each["name"]: each for each in live["spec"].get("containers", [])}
        for each in body["spec"]["containers"]:
            assert held[each["name"]]["image"] == each["image"]
        assert applied(live, body, who, 9.0, force=False) == live


@given(wanted)
def test_a_field_set_is_read_as_it_was_written(body):
    """Paths as fieldsV1 and back are the same paths."""
    paths = set(fields_of(body))
    assert paths_of(tree(paths)) == paths


def test_a_patch_of_the_api_says_what_it_takes(cluster):
    """Other media types are 415 and named; an apply without an owner is 400."""
    cluster.make(MAPS, {"metadata": {"name": "a"}})
    told = cluster.ask("PATCH", f"{MAPS}/a", {}, want=415)
    assert "application/merge-patch+json" in told["message"]
    cluster.ask("PATCH", f"{MAPS}/a", {}, want=400, kind="application/apply-patch+yaml")


def test_an_apply_through_the_api_makes_and_keeps(cluster):
    """It makes what is not there (201), changes it (200), and conflicts with another applier."""
    kind = {"kind": "application/apply-patch+yaml"}
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    body = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment("web", 2)}
    cluster.ask("PATCH", path, body, want=201, fieldManager="one", **kind)
    same = cluster.ask("PATCH", path, body, fieldManager="one", **kind)
    assert same["metadata"]["generation"] == 1
    body["spec"]["replicas"] = 3
    told = cluster.ask("PATCH", path, body, want=409, fieldManager="two", **kind)
    assert told["details"]["causes"][0]["field"] == ".spec.replicas"
    done = cluster.ask("PATCH", path, body, fieldManager="two", force="true", **kind)
    assert done["spec"]["replicas"] == 3

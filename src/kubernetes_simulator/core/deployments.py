"""Deployments: one ReplicaSet for each template, and the way from one to the next."""

import math

from kubernetes_simulator.core.deleting import begin
from kubernetes_simulator.core.happenings import tell
from kubernetes_simulator.core.inputs import Json, canonical, digest, pruned, seconds_of
from kubernetes_simulator.core.kinds import DEPLOYMENTS, PODS, REPLICASETS
from kubernetes_simulator.core.making import make, owned, owner_of
from kubernetes_simulator.core.status import condition, with_conditions
from kubernetes_simulator.core.world import ENDED, World

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
NAME = "deployment-controller"


def look(world: World, obj: Json) -> None:
    """Take the next step of a rollout, and say how far it is."""
    if obj["metadata"].get("deletionTimestamp"):
        _tell_status(world, obj, owned(world, obj, REPLICASETS), None)
        return
    spec = obj["spec"]
    mark = digest(canonical(pruned(spec["template"])))
    sets = owned(world, obj, REPLICASETS)
    fresh = next((each for each in sets if _mark(each) == mark), None)
    if fresh is None and not spec.get("paused"):
        fresh = _make(world, obj, mark, sets)
        sets = owned(world, obj, REPLICASETS)
    old = [each for each in sets if fresh is None or each is not fresh]
    if fresh is not None:
        obj, fresh = _numbered(world, obj, fresh, old)
        if spec.get("paused"):
            _scale(world, obj, fresh, spec["replicas"] - sum(_wants(each) for each in old))
        elif spec["strategy"]["type"] == "Recreate":
            _recreate(world, obj, fresh, old)
        else:
            _roll(world, obj, fresh, old)
        _forget(world, obj, old)
    sets = owned(world, obj, REPLICASETS)
    now = (
        None
        if fresh is None
        else world.store.get(REPLICASETS, obj["metadata"]["namespace"], fresh["metadata"]["name"])
    )
    _tell_status(world, obj, sets, now)


def _mark(each: Json) -> str:
    return str((each["metadata"].get("labels") or {}).get(HASH, ""))


def _wants(each: Json) -> int:
    return int(each["spec"]["replicas"])


def _has(each: Json, what: str) -> int:
    return int((each.get("status") or {}).get(what, 0))


def _ready(each: Json) -> int:
    """Return how many pods of a set are ready; what it has yet to end is not."""
    return min(_has(each, "availableReplicas"), _wants(each))


def _make(world: World, obj: Json, mark: str, sets: list[Json]) -> Json | None:
    template = obj["spec"]["template"]
    held = template.get("metadata") or {}
    labels = {**(held.get("labels") or {}), HASH: mark}
    match = obj["spec"]["selector"]
    selector = {**match, "matchLabels": {**(match.get("matchLabels") or {}), HASH: mark}}
    meta = {
        "name": f"{obj['metadata']['name']}-{mark}",
        "namespace": obj["metadata"]["namespace"],
        "labels": labels,
        "annotations": {REVISION: str(_last(sets) + 1)},
        "ownerReferences": [owner_of(obj)],
    }
    room = obj["spec"]["replicas"] if not sets else 0
    spec = {
        "replicas": room,
        "selector": selector,
        "template": {**template, "metadata": {**held, "labels": labels}},
    }
    if obj["spec"].get("minReadySeconds"):
        spec["minReadySeconds"] = obj["spec"]["minReadySeconds"]
    made = make(world, REPLICASETS, {"metadata": meta, "spec": spec})
    if made is not None and room:
        told = f"Scaled up replica set {meta['name']} from 0 to {room}"
        tell(world, obj, "ScalingReplicaSet", told, NAME)
    return made


def _last(sets: list[Json]) -> int:
    return max((_number(each) for each in sets), default=0)


def _number(each: Json) -> int:
    text = (each["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if str(text).isdigit() else 0


def _numbered(world: World, obj: Json, fresh: Json, old: list[Json]) -> tuple[Json, Json]:
    """Let the set of the template that holds now have the highest number, also after an undo."""
    number = max(_number(fresh), _last(old) + 1 if old else 1)
    told = (obj["metadata"].get("annotations") or {}).get("kubernetes.io/change-cause")
    notes = {**(fresh["metadata"].get("annotations") or {}), REVISION: str(number)}
    if told:
        notes["kubernetes.io/change-cause"] = told
    fresh = world.patch(REPLICASETS, fresh, metadata={**fresh["metadata"], "annotations": notes})
    mine = {**(obj["metadata"].get("annotations") or {}), REVISION: str(number)}
    obj = world.patch(DEPLOYMENTS, obj, metadata={**obj["metadata"], "annotations": mine})
    return obj, fresh


def _scale(world: World, obj: Json, each: Json, count: int) -> None:
    """Let a set want another number of pods."""
    was, count = _wants(each), max(count, 0)
    if was == count:
        return
    name = each["metadata"]["name"]
    way = "up" if count > was else "down"
    told = f"Scaled {way} replica set {name} from {was} to {count}"
    tell(world, obj, "ScalingReplicaSet", told, NAME)
    generation = each["metadata"]["generation"] + 1
    world.put(
        REPLICASETS,
        {
            **each,
            "metadata": {**each["metadata"], "generation": generation},
            "spec": {**each["spec"], "replicas": count},
        },
    )


def _recreate(world: World, obj: Json, fresh: Json, old: list[Json]) -> None:
    for each in old:
        _scale(world, obj, each, 0)
    left = [pod for each in old for pod in owned(world, each, PODS)]
    if all(pod["status"].get("phase") in ENDED for pod in left):
        _scale(world, obj, fresh, obj["spec"]["replicas"])


def _part(value: object, whole: int, *, up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        found = whole * float(value[:-1]) / 100
        return math.ceil(found) if up else math.floor(found)
    return int(str(value))


def _roll(world: World, obj: Json, fresh: Json, old: list[Json]) -> None:
    """Let the new set grow as far as the surge allows, the old ones shrink as far as is ready."""
    wanted = obj["spec"]["replicas"]
    rules = obj["spec"]["strategy"].get("rollingUpdate") or {}
    surge = _part(rules.get("maxSurge", "25%"), wanted, up=True)
    gaps = _part(rules.get("maxUnavailable", "25%"), wanted, up=False)
    if surge == 0 and gaps == 0:
        gaps = 1
    others = sum(map(_wants, old))
    grown = _wants(fresh)
    if grown > wanted or not others:
        grown = wanted
    elif grown < wanted:
        grown = min(wanted, max(grown, wanted + surge - others))
    _scale(world, obj, fresh, grown)
    ready = _ready(fresh)
    # What is not ready of the old sets is worth nothing: it goes first.
    for each in sorted(old, key=lambda one: _ready(one) - _wants(one)):
        broken = _wants(each) - _ready(each)
        spare = max(0, ready + sum(map(_ready, old)) - (wanted - gaps))
        gone = min(_wants(each), broken + min(spare, _ready(each)))
        if _wants(each) and gone:
            _scale(world, obj, each, _wants(each) - gone)
            break


def _forget(world: World, obj: Json, old: list[Json]) -> None:
    kept = obj["spec"].get("revisionHistoryLimit", 10)
    empty = [each for each in old if not _wants(each) and not _has(each, "replicas")]
    empty.sort(key=_number)
    for each in empty[: max(0, len(empty) - kept)]:
        begin(world, REPLICASETS, each, None)


def _tell_status(world: World, obj: Json, sets: list[Json], fresh: Json | None) -> None:
    meta, wanted = obj["metadata"], obj["spec"]["replicas"]
    total = sum(_has(each, "replicas") for each in sets)
    ripe = sum(_has(each, "availableReplicas") for each in sets)
    updated = _has(fresh, "replicas") if fresh else 0
    before = obj.get("status") or {}
    counts = {
        "observedGeneration": meta["generation"],
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": sum(_has(each, "readyReplicas") for each in sets),
        "availableReplicas": ripe,
        "unavailableReplicas": max(0, max(total, wanted) - ripe),
    }
    status: Json = {key: value for key, value in counts.items() if value}
    status["conditions"] = before.get("conditions") or []
    rules = obj["spec"]["strategy"].get("rollingUpdate") or {}
    gaps = _part(rules.get("maxUnavailable", "25%"), wanted, up=False)
    enough = ripe >= wanted - gaps
    flag, why = ("True", "MinimumReplicasAvailable") if enough else (
        "False", "MinimumReplicasUnavailable")  # fmt: skip
    text = f"Deployment {'has' if enough else 'does not have'} minimum availability."
    shown = [condition("Available", flag, world.now, why, text)]
    if fresh is not None:
        done = updated == wanted == ripe and total == wanted
        shown.append(_progress(world, obj, fresh, before, counts, done=done))
    whole = with_conditions(status, *shown)
    world.patch(DEPLOYMENTS, obj, status=whole)


def _progress(
    world: World, obj: Json, fresh: Json, before: Json, counts: Json, *, done: bool
) -> Json:
    """Return whether the rollout gets on; it does not when nothing moved for the deadline."""
    name = fresh["metadata"]["name"]
    rows = before.get("conditions") or ()
    held = next((each for each in rows if each["type"] == "Progressing"), None)
    moved = any(
        counts[key] != before.get(key, 0)
        for key in ("updatedReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    )
    if done:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return condition("Progressing", "True", world.now, "NewReplicaSetAvailable", text)
    limit = obj["spec"].get("progressDeadlineSeconds", 600)
    since = seconds_of(held["lastUpdateTime"]) if held and "lastUpdateTime" in held else world.now
    key = (DEPLOYMENTS.path, obj["metadata"]["namespace"], obj["metadata"]["name"])
    if held is not None and not moved and since + world.real(limit) <= world.now:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        row = condition("Progressing", "False", world.now, "ProgressDeadlineExceeded", text)
        return {**row, "lastUpdateTime": held["lastUpdateTime"]}
    text = f'ReplicaSet "{name}" is progressing.'
    row = condition("Progressing", "True", world.now, "ReplicaSetUpdated", text)
    if held is None or moved or "lastUpdateTime" not in held:
        world.at(world.now + world.real(limit) + 1, key)
        return {**row, "lastUpdateTime": row["lastTransitionTime"]}
    return {**row, "lastUpdateTime": held["lastUpdateTime"]}

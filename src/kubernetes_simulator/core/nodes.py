"""Nodes: how they join, fall silent, come back and go; and what that means for their pods."""

from kubernetes_simulator.core import kubelet
from kubernetes_simulator.core.deleting import begin
from kubernetes_simulator.core.happenings import tell
from kubernetes_simulator.core.inputs import Json, new_uid, seconds_of, stamp
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.scheduler import tolerated
from kubernetes_simulator.core.status import condition, with_conditions
from kubernetes_simulator.core.world import ENDED, World

NAME = "node-controller"
PRESSURES = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}
LOST = "node.kubernetes.io/unreachable"
KUBELET = "v1.32.4"


def status_of(world: World, number: int, cpu: str, memory: str, pods: str) -> Json:
    """Return the status of a node that is ready; amounts as quantities."""
    room = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "100Gi"}
    rows = [condition(kind, "False", world.now, why) for kind, why in PRESSURES.items()]
    rows.append(
        condition("Ready", "True", world.now, "KubeletReady", "kubelet is posting ready status")
    )
    return {
        "capacity": dict(room),
        "allocatable": dict(room),
        "conditions": rows,
        "addresses": [
            {"type": "InternalIP", "address": f"10.0.{number // 250 % 250}.{number % 250 + 1}"},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kernelVersion": "6.1.0",
            "osImage": "Debian GNU/Linux 12 (bookworm)",
            "containerRuntimeVersion": "containerd://1.7.27",
            "kubeletVersion": KUBELET,
            "kubeProxyVersion": KUBELET,
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }


def completed(world: World, obj: Json) -> Json:
    """Return a node as it joins: what its maker did not state gets a small node's values."""
    world.addresses += 1
    said = obj.get("status") or {}
    room = said.get("allocatable") or said.get("capacity") or {}
    made = status_of(
        world, world.addresses, str(room.get("cpu", "4")), str(room.get("memory", "16Gi")),
        str(room.get("pods", "110")),
    )  # fmt: skip
    status = {**made, **{key: value for key, value in said.items() if value}}
    status["allocatable"] = {**made["allocatable"], **(said.get("allocatable") or {})}
    status["capacity"] = {**made["capacity"], **(said.get("capacity") or {})}
    name = obj["metadata"]["name"]
    usual = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    meta = {**obj["metadata"], "labels": {**usual, **(obj["metadata"].get("labels") or {})}}
    return {**obj, "metadata": meta, "spec": obj.get("spec") or {}, "status": status}


def add(world: World, name: str, room: dict[str, str], labels: Json, taints: list[Json]) -> Json:
    """Let a node join that nobody posted; room: its cpu, memory and pods, as quantities."""
    obj: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "uid": new_uid(world.rng),
            "creationTimestamp": stamp(world.now),
        },
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": dict(room), "allocatable": dict(room)},
    }
    return world.put(NODES, completed(world, obj))


def silence(world: World, name: str) -> None:
    """Let a node's kubelet say nothing any more: after a while it counts as not ready."""
    if name not in world.silent:
        world.silent[name] = world.now
        world.at(world.now + world.real(world.settings.lost_seconds), ("silence:", "", name))


def wake(world: World, name: str) -> None:
    """Let a silent node's kubelet be back: it goes on where it was."""
    world.silent.pop(name, None)
    node = world.store.get(NODES, "", name)
    if node is None:
        return
    rows = [condition(kind, "False", world.now, why) for kind, why in PRESSURES.items()]
    rows.append(condition("Ready", "True", world.now, "KubeletReady"))
    taints = [each for each in (node["spec"].get("taints") or ()) if each.get("key") != LOST]
    spec = {**node["spec"], "taints": taints}
    if not taints:
        spec.pop("taints")
    world.patch(NODES, node, spec=spec, status=with_conditions(node["status"], *rows))
    for namespace, pod_name in list(world.on_node.get(name, {})):
        pod = world.store.get(PODS, namespace, pod_name)
        run = world.runs.get(pod["metadata"]["uid"]) if pod else None
        if pod is not None and run is not None and run.attempt is not None:
            status = with_conditions(pod["status"], condition("Ready", "True", world.now))
            world.patch(PODS, pod, status=status)
        world.look(("pods", namespace, pod_name))
    for pod in _deleted_on(world, name):
        world.look(("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))


def _deleted_on(world: World, name: str) -> list[Json]:
    return [
        pod
        for pod in world.store.all(PODS)
        if pod["spec"].get("nodeName") == name and pod["metadata"].get("deletionTimestamp")
    ]


def notice(world: World, name: str) -> None:
    """Say that a silent node is not ready, and have its pods leave it after their toleration."""
    node = world.store.get(NODES, "", name)
    if node is None or name not in world.silent:
        return
    rows = [
        condition(kind, "Unknown", world.now, "NodeStatusUnknown", "Kubelet stopped posting")
        for kind in (*PRESSURES, "Ready")
    ]
    when = stamp(world.now)
    lost = [
        {"key": LOST, "effect": each, "timeAdded": when} for each in ("NoSchedule", "NoExecute")
    ]
    taints = [each for each in node["spec"].get("taints") or () if each.get("key") != LOST]
    world.put(NODES, {
        **node,
        "spec": {**node["spec"], "taints": [*taints, *lost]},
        "status": with_conditions(node["status"], *rows),
    })  # fmt: skip
    tell(world, node, "NodeNotReady", f"Node {name} status is now: NodeNotReady", NAME)
    for space, pod_name in list(world.on_node.get(name, {})):
        pod = world.store.get(PODS, space, pod_name)
        if pod is not None:
            row = condition("Ready", "False", world.now, "NodeNotReady")
            world.patch(PODS, pod, status=with_conditions(pod["status"], row))


def look(world: World, node: Json) -> None:
    """End the pods that do not tolerate a node's NoExecute taints, at their time."""
    name = node["metadata"]["name"]
    hard = [each for each in node["spec"].get("taints") or () if each.get("effect") == "NoExecute"]
    for space, pod_name in list(world.on_node.get(name, {})) if hard else ():
        pod = world.store.get(PODS, space, pod_name)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            continue
        due = _leaves(world, pod, hard)
        if due is not None and due <= world.now:
            tell(world, pod, "TaintManagerEviction", "Deleting pod", NAME)
            begin(world, PODS, pod, None)
        elif due is not None:
            world.at(due, ("nodes", "", name))


def _leaves(world: World, pod: Json, taints: list[Json]) -> float | None:
    """Return when a pod must leave; None: it may stay."""
    dues = []
    for taint in taints:
        covers = [each for each in pod["spec"].get("tolerations") or () if tolerated(taint, [each])]
        waits = [each["tolerationSeconds"] for each in covers if "tolerationSeconds" in each]
        if covers and not waits:
            continue
        since = seconds_of(taint["timeAdded"]) if taint.get("timeAdded") else world.now
        dues.append(since + world.real(min(waits)) if waits else world.now)
    return min(dues) if dues else None


def gone(world: World, name: str) -> None:
    """Remove the pods of a node that is no more, and what is known of it."""
    world.silent.pop(name, None)
    world.images.pop(name, None)
    for pod in world.store.all(PODS):
        if pod["spec"].get("nodeName") != name:
            continue
        if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") not in ENDED:
            kubelet.remove(world, pod)
    world.booked.pop(name, None)
    world.on_node.pop(name, None)

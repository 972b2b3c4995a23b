"""What the cAdvisor in each kubelet exposes: counters and gauges of containers, pods and nodes.

Counters grow with amount x real seconds and begin anew with each life of a container, under
another id, as real ones do.
"""

from kubernetes_simulator.core.exposition import Families
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.node_use import node_holds, node_spent, node_takes
from kubernetes_simulator.core.pod_status import container_id
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.runs import Attempt
from kubernetes_simulator.core.world import World, amounts

CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
USED, DISK = "container_memory_usage_bytes", "container_fs_usage_bytes"
IN, OUT = "container_network_receive_bytes_total", "container_network_transmit_bytes_total"
LIMIT, SEEN = "container_spec_memory_limit_bytes", "container_last_seen"
DEVICE = "/dev/sda1"
START = "container_start_time_seconds"
CORES, BYTES = "machine_cpu_cores", "machine_memory_bytes"
FAMILIES = {
    CPU: ("counter", "Cumulative cpu time consumed in seconds."),
    MEMORY: ("gauge", "Current working set of the container in bytes."),
    USED: ("gauge", "Current memory usage in bytes, including all memory."),
    DISK: ("gauge", "Number of bytes that are consumed by the container on this filesystem."),
    IN: ("counter", "Cumulative count of bytes received."),
    OUT: ("counter", "Cumulative count of bytes transmitted."),
    LIMIT: ("gauge", "Memory limit for the container."),
    SEEN: ("gauge", "Last time a container was seen by the exporter."),
    START: ("gauge", "Start time of the container since unix epoch in seconds."),
    CORES: ("gauge", "Number of logical CPU cores."),
    BYTES: ("gauge", "Amount of memory installed on the machine."),
}


def cadvisor(world: World, node: str = "") -> str:
    """Return the page of one node, or of all, each series then with the label `node`."""
    page = Families()
    for name, (kind, text) in FAMILIES.items():
        page.family(name, kind, text)
    for each in world.store.all(NODES):
        name = each["metadata"]["name"]
        if name in world.silent or (node and name != node):
            continue
        more = {} if node else {"node": name}
        _machine(world, page, each, more)
        for space, pod_name in sorted(world.on_node.get(name, {})):
            pod = world.store.get(PODS, space, pod_name)
            if pod is not None:
                _pod(world, page, pod, more)
    return page.text()


def _machine(world: World, page: Families, node: Json, more: dict[str, str]) -> None:
    name = node["metadata"]["name"]
    room = node["status"].get("capacity") or {}
    page.add(CORES, {"machine_id": "", **more}, read(room.get("cpu", "0")))
    page.add(BYTES, {"machine_id": "", **more}, read(room.get("memory", "0")))
    root = {"container": "", "id": "/", "image": "", "name": "", "namespace": "", "pod": "", **more}
    page.add(CPU, {**root, "cpu": "total"}, node_spent(world, name, "cpu"))
    page.add(IN, {**root, "interface": "eth0"}, node_spent(world, name, "received"))
    page.add(OUT, {**root, "interface": "eth0"}, node_spent(world, name, "sent"))
    page.add(DISK, {**root, "device": DEVICE}, node_holds(world, name))
    page.add(MEMORY, root, node_takes(world, name, 0)[1])


def _pod(world: World, page: Families, pod: Json, more: dict[str, str]) -> None:
    meta = pod["metadata"]
    run = world.runs.get(meta["uid"])
    attempt = run.attempt if run is not None else None
    if attempt is None:
        return
    quality = str(pod["status"].get("qosClass", "BestEffort")).lower()
    path = f"/kubepods/{'' if quality == 'guaranteed' else quality + '/'}pod{meta['uid']}"
    of_pod = {"namespace": meta["namespace"], "pod": meta["name"], **more}
    whole = {"container": "", "id": path, "image": "", "name": "", **of_pod}
    _amounts(world, page, whole, attempt, None)
    page.add(START, whole, float(int(attempt.began)))
    network = {**whole, "interface": "eth0"}
    page.add(IN, network, attempt.total("received", world.now))
    page.add(OUT, network, attempt.total("sent", world.now))
    boxes = {each["name"]: each for each in pod["spec"]["containers"]}
    for place, each in enumerate(attempt.containers):
        uid = container_id(meta["uid"], each.name, attempt.number - 1).removeprefix("containerd://")
        image = str(boxes[each.name].get("image", ""))
        labels = {
            "container": each.name, "id": f"{path}/{uid}", "image": image, "name": uid, **of_pod,
        }  # fmt: skip
        _amounts(world, page, labels, attempt, place)
        page.add(LIMIT, labels, amounts(boxes[each.name], "limits")[1] or 0.0)
        page.add(SEEN, labels, float(int(world.now)))
        page.add(START, labels, float(int(attempt.began)))
        share = attempt.takes("disk", world.now) / len(attempt.containers)
        page.add(DISK, {**labels, "device": DEVICE}, share)


def _amounts(
    world: World, page: Families, labels: dict[str, str], attempt: Attempt, place: int | None
) -> None:
    """Add what one container takes, or, without a place, the whole pod."""
    age = attempt.age(world.now)
    chosen = attempt.containers if place is None else attempt.containers[place : place + 1]
    held = sum(each.memory.amount(age) for each in chosen)
    page.add(CPU, {**labels, "cpu": "total"}, sum(each.cpu.total(age) for each in chosen))
    page.add(MEMORY, labels, held)
    page.add(USED, labels, held)

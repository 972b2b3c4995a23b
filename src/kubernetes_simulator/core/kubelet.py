"""What a node does with its pods: pull, start, run, restart, kill for memory, stop, evict.

A pod's containers start and end together. How long each stage lasts and how it ends is in
`runs`; here it becomes the pod's status.
"""

from kubernetes_simulator.core import pod_status, scheduler
from kubernetes_simulator.core.happenings import tell
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.node_use import expect
from kubernetes_simulator.core.runs import CYCLE, Box, Figure, Run, When, Wish, plan, wish_of
from kubernetes_simulator.core.world import ENDED, Task, World, amounts

NAME = "kubelet"
COUNTED: tuple[Figure, ...] = ("cpu", "received", "sent")


def _task(pod: Json) -> Task:
    return ("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])


def wish(pod: Json) -> Wish:
    """Return what a pod's annotations ask of its use; what cannot be read is left out."""
    return wish_of(pod["metadata"].get("annotations") or {})[0]


def boxes(pod: Json) -> list[Box]:
    """Return what a pod's containers request and are limited to."""
    found = []
    for each in pod["spec"]["containers"]:
        (cpu, memory), limits = amounts(each, "requests"), amounts(each, "limits")
        cpu = limits[0] if cpu is None else cpu
        memory = limits[1] if memory is None else memory
        found.append(Box(each["name"], cpu, memory, *limits))
    return found


def look(world: World, pod: Json) -> None:
    """Do with a pod what is due now."""
    meta, phase = pod["metadata"], pod["status"].get("phase")
    node = pod["spec"].get("nodeName")
    if meta.get("deletionTimestamp"):
        _stop(world, pod)
        return
    if phase in ENDED:
        return
    if not node:
        pod = scheduler.place(world, pod)
        node = pod["spec"].get("nodeName")
        if not node:
            return
    if node in world.silent or world.store.get(NODES, "", node) is None:
        return
    run = world.runs.get(meta["uid"])
    if run is None:
        run, pod = _begin(world, pod, node)
    if run.deadline is not None and run.deadline <= world.now:
        fail(world, pod, "DeadlineExceeded", "Pod was active on the node longer than the deadline")
        return
    while run.due is not None and run.due <= world.now and run.stage != "over":
        pod = _advance(world, pod, run)


def _begin(world: World, pod: Json, node: str) -> tuple[Run, Json]:
    held = world.images.setdefault(node, {})
    images = [each.get("image", "") for each in pod["spec"]["containers"]]
    fresh = [each for each in images if each not in held]
    held.update(dict.fromkeys(images))
    while len(held) > 500:
        held.pop(next(iter(held)))
    pull = world.real(world.settings.pull_seconds) if fresh else 0.0
    run = Run(node, "pulling", world.now + pull, world.now)
    run.namespace = pod["metadata"]["namespace"]
    run.labels = dict(pod["metadata"].get("labels") or {})
    if wish(pod).pull_fails:
        run.due = None
    limit = pod["spec"].get("activeDeadlineSeconds")
    if limit is not None:
        run.deadline = world.now + world.real(limit)
        world.at(run.deadline, _task(pod))
    world.runs[pod["metadata"]["uid"]] = run
    world.addresses += 1
    status = pod_status.assigned(pod, world.now, world.addresses, node_address(world, node))
    if run.due is None:
        status = pod_status.unpulled(pod, status)
        tell(world, pod, "Failed", f'Failed to pull image "{images[0]}": not found', NAME,
             warning=True)  # fmt: skip
    else:
        for image in fresh:
            tell(world, pod, "Pulling", f'Pulling image "{image}"', NAME)
        world.at(run.due, _task(pod))
    return run, world.put(PODS, {**pod, "status": status})


def node_address(world: World, node: str) -> str:
    """Return a node's internal address."""
    found = world.store.get(NODES, "", node) or {}
    for each in (found.get("status") or {}).get("addresses") or ():
        if each.get("type") == "InternalIP":
            return str(each["address"])
    return ""


def _advance(world: World, pod: Json, run: Run) -> Json:
    match run.stage:
        case "pulling":
            said = wish(pod).start
            more = world.settings.start_seconds if said is None else said
            more += len(pod["spec"].get("initContainers") or ())
            run.stage, run.due = "starting", world.now + world.real(more)
        case "starting" | "resting":
            pod = _run(world, pod, run)
        case _:
            pod = _end(world, pod, run)
    if run.due is not None and run.stage != "over":
        world.at(run.due, _task(pod))
    return pod


def _run(world: World, pod: Json, run: Run) -> Json:
    """Start the containers, for the first time or again."""
    said = wish(pod)
    lasts = said.seconds
    if lasts is None and pod["spec"]["restartPolicy"] != "Always":
        lasts = world.settings.job_seconds
    real = None if lasts is None else world.real(lasts)
    run.number += 1
    seed = (world.settings.seed, pod["metadata"]["namespace"], pod["metadata"]["name"])
    when = When(run.number, world.now, real, world.real(CYCLE))
    attempt = plan(said, boxes(pod), when, *seed)
    run.begin(attempt)
    expect(world, run.node)
    run.stage = "running"
    run.due = None if attempt.seconds is None else world.now + attempt.seconds
    for each in pod["spec"]["containers"]:
        tell(world, pod, "Started", f"Started container {each['name']}", NAME)
    return world.put(PODS, {**pod, "status": pod_status.running(pod, world.now, run.number)})


def _over(world: World, run: Run) -> None:
    """Let the containers of a run be ended now."""
    attempt = run.attempt
    if attempt is None:
        return
    attempt.ended = world.now
    for figure in COUNTED:
        key = (run.node, figure)
        world.spent[key] = world.spent.get(key, 0.0) + attempt.total(figure, world.now)


def over(world: World, uid: str) -> None:
    """Let the run of a pod be over that has ended, or is gone."""
    run = world.runs.get(uid)
    if run is not None:
        _over(world, run)
        run.stage, run.due = "over", None
        world.ended(uid)


def _end(world: World, pod: Json, run: Run) -> Json:
    """Let the containers end by themselves: the pod is over, or waits for its next start."""
    attempt = run.attempts[-1]
    _over(world, run)
    policy = pod["spec"]["restartPolicy"]
    again = policy == "Always" or (policy == "OnFailure" and attempt.code != 0)
    if attempt.culprit:
        text = f"Memory cgroup out of memory: killed container {attempt.culprit}"
        tell(world, pod, "OOMKilling", text, NAME, warning=True)
    ended = pod_status.ended(pod, attempt, world.now)
    if not again:
        run.stage, run.due = "over", None
        world.ended(pod["metadata"]["uid"])
        return world.put(PODS, {**pod, "status": ended})
    wait = min(
        world.settings.backoff_seconds * 2 ** min(run.number - 1, 10), world.settings.backoff_most
    )
    run.stage, run.due = "resting", world.now + world.real(wait)
    tell(world, pod, "BackOff", "Back-off restarting failed container", NAME, warning=True)
    return world.put(PODS, {**pod, "status": pod_status.resting(ended, wait)})


def fail(world: World, pod: Json, reason: str, message: str) -> Json:
    """End a pod from outside: evicted, over its deadline."""
    over(world, pod["metadata"]["uid"])
    tell(world, pod, reason, message, NAME, warning=True)
    return world.put(PODS, {**pod, "status": pod_status.failed(pod, reason, message, world.now)})


def _stop(world: World, pod: Json) -> None:
    """Stop a pod that is being deleted, after its grace at the latest."""
    meta = pod["metadata"]
    run = world.runs.get(meta["uid"])
    node = pod["spec"].get("nodeName", "")
    gone = bool(node) and world.store.get(NODES, "", node) is None
    if node in world.silent and not gone:
        return
    active = run is not None and pod["status"].get("phase") not in ENDED and not gone
    if active and run is not None:
        if run.stopping is None:
            grace = meta.get("deletionGracePeriodSeconds", 0)
            run.stopping = world.now + world.real(min(grace, world.settings.stop_seconds))
            tell(world, pod, "Killing", "Stopping containers", NAME)
            world.at(run.stopping, _task(pod))
        if run.stopping > world.now:
            return
    remove(world, pod)


def remove(world: World, pod: Json) -> None:
    """Let a pod be gone, or, held by finalizers, be stopped."""
    meta = pod["metadata"]
    over(world, meta["uid"])
    if not meta.get("finalizers"):
        world.drop(PODS, pod)
    elif pod["status"].get("phase") not in ENDED:
        status = pod_status.failed(pod, "", "", world.now)
        meta = {**meta, "deletionGracePeriodSeconds": 0}
        world.put(PODS, {**pod, "metadata": meta, "status": status})

"""A pod's status in each stage of its life, as a kubelet writes it."""

from collections.abc import Callable

from kubernetes_simulator.core.inputs import Json, digest, stamp
from kubernetes_simulator.core.runs import Attempt
from kubernetes_simulator.core.status import condition, with_conditions

FACES = ("Initialized", "Ready", "ContainersReady")


def quality(spec: Json) -> str:
    """Return the class of service that requests and limits make."""
    rows = [each.get("resources") or {} for each in spec.get("containers") or ()]
    if not any(row.get("requests") or row.get("limits") for row in rows):
        return "BestEffort"
    same = all(
        {"cpu", "memory"} <= set(row.get("limits") or {})
        and (row.get("requests") or row["limits"]) == row["limits"]
        for row in rows
    )
    return "Guaranteed" if same else "Burstable"


def _containers(
    pod: Json,
    state: Callable[[Json], Json],
    *,
    ready: bool,
    restarts: int,
    last: Json | None = None,
) -> list[Json]:
    before = {each["name"]: each for each in pod["status"].get("containerStatuses") or ()}
    found = []
    for each in pod["spec"]["containers"]:
        uid, image = pod["metadata"]["uid"], each.get("image", "")
        now = state(each)
        row: Json = {
            "name": each["name"],
            "image": image,
            "imageID": "" if "waiting" in now and restarts == 0 else f"{image}@sha256:0",
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "state": now,
            "lastState": before.get(each["name"], {}).get("lastState", {})
            if last is None
            else last,
        }
        if "waiting" not in now:
            row["containerID"] = container_id(uid, each["name"], restarts)
        found.append(row)
    return found


def container_id(uid: str, name: str, restarts: int) -> str:
    """Return the id of a container's life; it is another one after a restart."""
    return f"containerd://{digest(uid, name, restarts, length=32)}"


def _waiting(reason: str, message: str = "") -> Callable[[Json], Json]:
    row = {"reason": reason, "message": message} if message else {"reason": reason}
    return lambda _: {"waiting": row}


def _ready(status: Json, now: float, *, ready: bool, why: str = "") -> Json:
    flag = "True" if ready else "False"
    return with_conditions(
        status,
        condition("Initialized", "True", now),
        condition("Ready", flag, now, why),
        condition("ContainersReady", flag, now, why),
    )


def assigned(pod: Json, now: float, number: int, host: str) -> Json:
    """Return the status of a pod that its node has seen: nothing runs yet."""
    address = f"10.{64 + number // 65536 % 64}.{number // 256 % 256}.{number % 256}"
    status = {
        **pod["status"],
        "phase": "Pending",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": stamp(now),
        "containerStatuses": _containers(
            pod, _waiting("ContainerCreating"), ready=False, restarts=0
        ),
    }
    return _ready(status, now, ready=False, why="ContainersNotReady")


def unpulled(pod: Json, status: Json) -> Json:
    """Return the status of a pod whose image is not found."""
    state = _waiting("ImagePullBackOff", "Back-off pulling image")
    rows = _containers(pod, state, ready=False, restarts=0)
    return {**status, "containerStatuses": rows}


def _initial(pod: Json, now: float) -> list[Json]:
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": stamp(now),
                           "finishedAt": stamp(now)}}  # fmt: skip
    return [
        {
            "name": each["name"],
            "image": each.get("image", ""),
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": done,
            "lastState": {},
        }
        for each in pod["spec"].get("initContainers") or ()
    ]


def running(pod: Json, now: float, number: int) -> Json:
    """Return the status of a pod whose containers run, for the n-th time."""
    rows = _containers(
        pod, lambda _: {"running": {"startedAt": stamp(now)}}, ready=True, restarts=number - 1
    )
    status = {**pod["status"], "phase": "Running", "containerStatuses": rows}
    if pod["spec"].get("initContainers") and number == 1:
        status["initContainerStatuses"] = _initial(pod, now)
    return _ready(status, now, ready=True)


def _outcome(pod: Json, attempt: Attempt, now: float, each: Json) -> Json:
    """Return how a container of an attempt ended; of an OOM kill only the culprit by it."""
    code, reason = attempt.code, attempt.reason
    if attempt.culprit and attempt.culprit != each["name"]:
        code, reason = 143, "Error"
    return {
        "exitCode": code,
        "reason": reason,
        "startedAt": stamp(attempt.began),
        "finishedAt": stamp(now),
        "containerID": container_id(pod["metadata"]["uid"], each["name"], attempt.number - 1),
    }


def ended(pod: Json, attempt: Attempt, now: float) -> Json:
    """Return the status of a pod whose containers ended by themselves."""
    rows = _containers(
        pod,
        lambda each: {"terminated": _outcome(pod, attempt, now, each)},
        ready=False,
        restarts=attempt.number - 1,
    )
    phase = "Failed" if attempt.code else "Succeeded"
    status = {**pod["status"], "phase": phase, "containerStatuses": rows}
    why = "PodFailed" if attempt.code else "PodCompleted"
    return _ready(status, now, ready=False, why=why)


def resting(over: Json, wait: float) -> Json:
    """Return the status of a pod whose containers ended and start again later."""
    rows = []
    for each in over["containerStatuses"]:
        text = f"back-off {wait:g}s restarting failed container={each['name']}"
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        rows.append({**each, "lastState": each["state"], "state": state})
    return {**over, "phase": "Running", "containerStatuses": rows}


def failed(pod: Json, reason: str, message: str, now: float) -> Json:
    """Return the status of a pod that was ended from outside."""
    rows = []
    for each in pod["status"].get("containerStatuses") or ():
        begun = each["state"].get("running", {}).get("startedAt")
        over = {"exitCode": 137, "reason": "Error", "finishedAt": stamp(now)}
        if begun:
            over["startedAt"] = begun
        state = {"terminated": over} if "terminated" not in each["state"] else each["state"]
        rows.append({**each, "ready": False, "started": False, "state": state})
    status = {**pod["status"], "phase": "Failed", "containerStatuses": rows}
    if reason:
        status["reason"], status["message"] = reason, message
    return _ready(status, now, ready=False, why="PodFailed")

"""Jobs: pods that shall end well, so many at a time, so many in all."""

from kubernetes_simulator.core.deleting import Wishes, begin
from kubernetes_simulator.core.happenings import tell
from kubernetes_simulator.core.inputs import Json, seconds_of, stamp, suffix
from kubernetes_simulator.core.kinds import JOBS, PODS
from kubernetes_simulator.core.making import (
    end_pod,
    is_active,
    is_ready,
    make_pod,
    owned,
    worst_first,
)
from kubernetes_simulator.core.status import condition, holds, with_conditions
from kubernetes_simulator.core.world import World

INDEX = "batch.kubernetes.io/job-completion-index"
NAME = "job-controller"
BURST = 500


def _index(pod: Json) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "-1")
    return int(text) if text.isdigit() else -1


def _phase(pod: Json) -> str:
    return str(pod["status"].get("phase", ""))


def look(world: World, job: Json) -> None:
    """Make pods that are missing, count those that ended, and end the job when it is over."""
    meta, spec, status = job["metadata"], job["spec"], dict(job.get("status") or {})
    key = (JOBS.path, meta["namespace"], meta["name"])
    if holds(job, "Complete") or holds(job, "Failed"):
        _expire(world, job)
        return
    if meta.get("deletionTimestamp"):
        return
    if spec.get("suspend"):
        _suspend(world, job, status)
        return
    if "startTime" not in status:
        status["startTime"] = stamp(world.now)
        if spec.get("activeDeadlineSeconds") is not None:
            world.at(world.now + world.real(spec["activeDeadlineSeconds"]), key)
    if holds(job, "Suspended"):
        status = with_conditions(status, condition("Suspended", "False", world.now, "JobResumed"))
    _count(world, job, status)


def _count(world: World, job: Json, status: Json) -> None:
    """Count what ended, then make what is missing or end the job."""
    pods = owned(world, job, PODS)
    done = [pod for pod in pods if _phase(pod) == "Succeeded"]
    bad = [pod for pod in pods if _phase(pod) == "Failed"]
    active = [pod for pod in pods if is_active(pod)]
    indexed = job["spec"].get("completionMode") == "Indexed"
    good = len({_index(pod) for pod in done}) if indexed else len(done)
    status.update(succeeded=good, failed=len(bad))
    over = _verdict(world, job, status, good, len(bad))
    if over is None:
        due = _more(world, job, active, (done, bad), good)
        if due is not None:
            world.at(due, (JOBS.path, job["metadata"]["namespace"], job["metadata"]["name"]))
    else:
        for pod in active:
            end_pod(world, pod, job)
        status = with_conditions(status, *over)
        if over[-1]["type"] == "Complete":
            status["completionTime"] = stamp(world.now)
            tell(world, job, "Completed", "Job completed", NAME)
        else:
            tell(world, job, over[-1]["reason"], over[-1]["message"], NAME, warning=True)
    active = [pod for pod in owned(world, job, PODS) if is_active(pod)]
    status.update(active=len(active), ready=sum(map(is_ready, active)))
    if indexed and done:
        status["completedIndexes"] = _ranges(sorted({_index(pod) for pod in done}))
    _tell_status(world, job, status)


def _tell_status(world: World, job: Json, status: Json) -> None:
    kept = {key: value for key, value in status.items() if value not in (0, None) or key == "ready"}
    job = world.patch(JOBS, job, status=kept)
    if holds(job, "Complete") or holds(job, "Failed"):
        _expire(world, job)


def _verdict(world: World, job: Json, status: Json, good: int, bad: int) -> list[Json] | None:
    """Return the conditions of the end; None if it goes on."""
    spec = job["spec"]
    limit = spec.get("activeDeadlineSeconds")
    wanted = spec.get("completions")
    active = sum(is_active(pod) for pod in owned(world, job, PODS))
    if (wanted is not None and good >= wanted) or (wanted is None and good and not active):
        text = "Reached expected number of succeeded pods"
        why = "CompletionsReached"
        return [
            condition("SuccessCriteriaMet", "True", world.now, why, text),
            condition("Complete", "True", world.now, why, text),
        ]
    why, text = "", ""
    if bad > spec["backoffLimit"]:
        why, text = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    elif limit is not None and (seconds_of(status["startTime"]) + world.real(limit) <= world.now):
        why, text = "DeadlineExceeded", "Job was active longer than specified deadline"
    if not why:
        return None
    return [
        condition("FailureTarget", "True", world.now, why, text),
        condition("Failed", "True", world.now, why, text),
    ]


def _more(
    world: World, job: Json, active: list[Json], ended: tuple[list[Json], list[Json]], good: int
) -> float | None:
    """Make the pods that are missing; return when the wait after a failure is over, if it is not."""
    spec, (done, bad) = job["spec"], ended
    wanted = spec.get("completions")
    room = spec["parallelism"]
    if wanted is not None:
        room = min(room, wanted - good)
    elif good:
        room = 0
    missing = room - len(active)
    if missing < 0:
        for pod in worst_first(active)[:-missing]:
            end_pod(world, pod, job)
        return None
    if missing and bad:
        last = max(_ended_at(pod, world.now) for pod in bad)
        rest = world.settings.backoff_seconds * 2 ** min(len(bad) - 1, 10)
        due = last + world.real(min(rest, 6 * world.settings.backoff_most))
        if due > world.now:
            return due
    indexed = spec.get("completionMode") == "Indexed"
    taken = {_index(pod) for pod in (*active, *done)}
    free = iter([each for each in range(wanted or 0) if each not in taken]) if indexed else iter(())
    for _ in range(min(missing, BURST)):
        _pod(world, job, next(free, None) if indexed else None)
    return None


def _ended_at(pod: Json, now: float) -> float:
    rows = pod["status"].get("containerStatuses") or ()
    ends = [each["state"].get("terminated", {}).get("finishedAt") for each in rows]
    return max((seconds_of(each) for each in ends if each), default=now)


def _pod(world: World, job: Json, index: int | None) -> None:
    if index is None:
        make_pod(world, job, job["spec"]["template"])
        return
    name = f"{job['metadata']['name']}-{index}-{suffix(world.rng)}"
    template = job["spec"]["template"]
    held = template.get("spec") or {}
    said = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
    boxes = [
        {**each, "env": [*(each.get("env") or ()), said]} for each in held.get("containers") or ()
    ]
    make_pod(
        world, job, template, name=name, labels={INDEX: str(index)},
        annotations={INDEX: str(index)}, more={"containers": boxes},
    )  # fmt: skip


def _ranges(numbers: list[int]) -> str:
    """Return numbers as `0-3,7`."""
    parts: list[list[int]] = []
    for each in numbers:
        if parts and parts[-1][1] == each - 1:
            parts[-1][1] = each
        else:
            parts.append([each, each])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _suspend(world: World, job: Json, status: Json) -> None:
    for pod in owned(world, job, PODS):
        if is_active(pod):
            end_pod(world, pod, job)
    status.pop("startTime", None)
    status.update(active=0, ready=0)
    row = condition("Suspended", "True", world.now, "JobSuspended", "Job suspended")
    _tell_status(world, job, with_conditions(status, row))


def _expire(world: World, job: Json) -> None:
    """Delete a job that is over once its time to live is."""
    lives = job["spec"].get("ttlSecondsAfterFinished")
    if lives is None or job["metadata"].get("deletionTimestamp"):
        return
    ends = [
        seconds_of(each["lastTransitionTime"])
        for each in job["status"]["conditions"]
        if each["type"] in {"Complete", "Failed"}
    ]
    due = max(ends) + world.real(lives)
    if due <= world.now:
        begin(world, JOBS, job, Wishes(policy="Background"))
    else:
        world.at(due, (JOBS.path, job["metadata"]["namespace"], job["metadata"]["name"]))

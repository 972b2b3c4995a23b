"""`/_control`: side channel for nodes, faults, tokens and the truth. JSON, loopback, no login.

It is no part of Kubernetes: it breaks the cluster on purpose and tells what pods truly take, by
which a run is judged.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kubernetes_simulator.core import faults, kubelet, nodes, writing
from kubernetes_simulator.core.access import Caller
from kubernetes_simulator.core.deleting import Wishes, begin
from kubernetes_simulator.core.errors import (
    ApiError,
    bad_request,
    no_such_path,
    not_found,
    too_many,
)
from kubernetes_simulator.core.faults import Fault
from kubernetes_simulator.core.inputs import Json, new_uid
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.runs import FIGURES, Run, peak
from kubernetes_simulator.core.selectors import labels_of
from kubernetes_simulator.core.settling import settle
from kubernetes_simulator.core.world import World
from kubernetes_simulator.core.writing import Place
from kubernetes_simulator.routes.web import Reply, Request, error_reply, json_reply

BASE = "/_control/"
T = TypeVar("T")
LONGEST_WINDOW = 86_400.0


class NewFault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST faults: regular expressions on method and path, seconds of real time."""

    kind: faults.Kind
    method: str = ".*"
    path: str = ".*"
    times: int | None = 1
    skip: int = 0
    delay: float = 0.0
    events: int = 0


class NewNode(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST nodes: what it has, as quantities."""

    name: str
    cpu: str = "4"
    memory: str = "16Gi"
    pods: str = "110"
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: list[dict[str, str]] = msgspec.field(default_factory=list)


class NewToken(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST tokens; the token is made unless it is given."""

    user: str = "somebody"
    token: str | None = None
    reads_only: bool = False
    namespace: str = ""
    seconds: float | None = None


class OldToken(msgspec.Struct, forbid_unknown_fields=True):
    """Body of what is done with a token."""

    token: str


class Compaction(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST compact; without a version all of the log is forgotten."""

    revision: int | None = None


class Ending(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST evict."""

    message: str = "The node was low on resource: memory."


@dataclass(frozen=True, slots=True)
class Call:
    """A control request."""

    world: World
    request: Request
    parts: tuple[str, ...]

    def read(self, kind: type[T]) -> T:
        """Return the checked body."""
        try:
            return msgspec.json.decode(self.request.body or b"{}", type=kind)
        except msgspec.DecodeError as error:
            raise bad_request(str(error)) from None

    @property
    def pod(self) -> Json:
        """Return the pod that the path names."""
        return writing.found(self.world, Place(PODS, self.parts[1], self.parts[2]))

    @property
    def node(self) -> Json:
        """Return the node that the path names."""
        return writing.found(self.world, Place(NODES, "", self.parts[1]))

    @property
    def window(self) -> float:
        """Return the seconds to take means over."""
        found = self._seconds("window", 0.0)
        if not 0 <= found <= LONGEST_WINDOW:
            raise bad_request(f"window must be 0 to {LONGEST_WINDOW:g} seconds")
        return found

    @property
    def at(self) -> float:
        """Return the instant up to which use is asked for: now, or one before."""
        found = self._seconds("at", self.world.now)
        if not 0 <= found <= self.world.now:
            raise bad_request("at must be seconds since 1970, and not lie ahead")
        return found

    def _seconds(self, name: str, default: float) -> float:
        text = self.request.query.get(name, "")
        try:
            return float(text) if text else default
        except ValueError:
            raise bad_request(f"{name} must be seconds, not {text!r}") from None


def summary(call: Call) -> Any:
    """Return how much there is."""
    world, store = call.world, call.world.store
    phases: dict[str, int] = {}
    for pod in store.all(PODS):
        phase = pod["status"].get("phase", "")
        phases[phase] = phases.get(phase, 0) + 1
    return {
        "now": world.now,
        "speed": world.settings.speed,
        "revision": store.revision,
        "compacted": store.floor,
        "objects": store.count,
        "pods": phases,
        "waiting": len(world.waiting),
        "nodes": [each["metadata"]["name"] for each in store.all(NODES)],
        "silent": sorted(world.silent),
    }


def _fault_view(fault: Fault) -> Json:
    return {
        "id": fault.id, "kind": fault.kind, "method": fault.method.pattern,
        "path": fault.path.pattern, "times": fault.times, "skip": fault.skip,
        "delay": fault.delay, "events": fault.events, "hits": fault.hits,
    }  # fmt: skip


def list_faults(call: Call) -> Any:
    """Return the rules with their hits."""
    return [_fault_view(each) for each in call.world.faults]


def add_fault(call: Call) -> Any:
    """Add a rule at the end (201)."""
    body, world = call.read(NewFault), call.world
    try:
        method, path = re.compile(body.method, re.IGNORECASE), re.compile(body.path)
    except re.error as error:
        raise bad_request(f"not a regular expression: {error}") from None
    if len(world.faults) >= world.settings.most_faults:
        raise too_many(f"more than {world.settings.most_faults} rules")
    fault = Fault(
        new_uid(world.rng), body.kind, method, path, body.times, body.skip, body.delay, body.events
    )
    world.faults.append(fault)
    return json_reply(_fault_view(fault), 201)


def clear_faults(call: Call) -> Any:
    """Remove every rule."""
    call.world.faults.clear()
    return []


def add_node(call: Call) -> Any:
    """Let a node join (201)."""
    body = call.read(NewNode)
    for text in (body.cpu, body.memory, body.pods):
        if read(text) <= 0:
            raise bad_request("sizes must be positive")
    if call.world.store.get(NODES, "", body.name) is not None:
        raise ApiError(409, "AlreadyExists", f'nodes "{body.name}" already exists')
    taints: list[Json] = [dict(each) for each in body.taints]
    room = {"cpu": body.cpu, "memory": body.memory, "pods": body.pods}
    made = nodes.add(call.world, body.name, room, body.labels, taints)
    return json_reply(made, 201)


def remove_node(call: Call) -> Any:
    """Let a node be gone, with its pods."""
    call.world.drop(NODES, call.node)
    return {"gone": call.parts[1]}


def _cordon(call: Call, *, on: bool) -> Json:
    node = call.node
    spec = {key: value for key, value in node["spec"].items() if key != "unschedulable"}
    return call.world.patch(NODES, node, spec={**spec, "unschedulable": True} if on else spec)


def act_on_node(call: Call) -> Any:
    """Cordon, uncordon, drain, silence or wake a node."""
    name, verb = call.parts[1], call.parts[2]
    match verb:
        case "cordon" | "uncordon":
            _cordon(call, on=verb == "cordon")
        case "drain":
            _cordon(call, on=True)
            for space, pod_name in list(call.world.on_node.get(name, {})):
                pod = call.world.store.get(PODS, space, pod_name)
                if pod is not None and not pod["metadata"].get("deletionTimestamp"):
                    begin(call.world, PODS, pod, Wishes())
        case "silence":
            nodes.silence(call.world, call.node["metadata"]["name"])
        case "wake":
            nodes.wake(call.world, call.node["metadata"]["name"])
        case _:
            raise no_such_path()
    settle(call.world, call.world.now)
    return writing.found(call.world, Place(NODES, "", name))


def evict(call: Call) -> Any:
    """End a pod as a node under pressure does."""
    return kubelet.fail(call.world, call.pod, "Evicted", call.read(Ending).message)


def _use(runs: list[Run], now: float, window: float) -> Json:
    found: Json = {}
    for figure in FIGURES:
        found[figure] = {
            "now": sum(run.takes(figure, now) for run in runs),
            "mean": sum(run.mean(figure, now, window) for run in runs),
            "peak": peak(runs, figure, now, window),
            "total": sum(run.total(figure, now) for run in runs),
        }
    return {"now": now, "window": window, "runs": len(runs), **found}


def use_of_pod(call: Call) -> Any:
    """Return what a pod truly takes: now, as a mean over a window, the highest such mean, in all."""
    run = call.world.run_of(call.pod["metadata"]["uid"])
    if run is None:
        raise ApiError(404, "NotFound", "nothing of this pod has run yet")
    return _use([run], call.at, call.window)


def use_of_uid(call: Call) -> Any:
    """Return what a pod truly took, also after it is gone."""
    run = call.world.run_of(call.parts[1])
    if run is None:
        raise not_found("", "pods", call.parts[1])
    return _use([run], call.at, call.window)


def use_of_many(call: Call) -> Any:
    """Return what the pods of a label and a namespace truly took together, also those that are gone."""
    asked = call.request.query
    space, chosen = asked.get("namespace", ""), labels_of(asked.get("labelSelector", ""))
    found = [
        run
        for run in (*call.world.past.values(), *call.world.runs.values())
        if (not space or run.namespace == space) and chosen({"metadata": {"labels": run.labels}})
    ]
    return _use(found, call.at, call.window)


def _fresh(world: World) -> str:
    raw = f"{new_uid(world.rng)}{new_uid(world.rng)}"
    return hashlib.sha256(raw.encode()).hexdigest()


def add_token(call: Call) -> Any:
    """Let a token be good (201)."""
    body, world = call.read(NewToken), call.world
    fresh = body.token or _fresh(world)
    end = None if body.seconds is None else world.now + body.seconds
    world.access.allow(fresh, Caller(body.user, body.reads_only, body.namespace, end))
    return json_reply({"token": fresh, "user": body.user}, 201)


def rotate_token(call: Call) -> Any:
    """Put a fresh token in the place of one, which is refused from now on."""
    fresh = _fresh(call.world)
    call.world.access.rotate(call.read(OldToken).token, fresh)
    return {"token": fresh}


def revoke_token(call: Call) -> Any:
    """Refuse a token from now on."""
    call.world.access.revoke(call.read(OldToken).token)
    return {}


def compact(call: Call) -> Any:
    """Forget changes, so that older watches and lists are answered 410."""
    return {"compacted": call.world.store.compact(call.read(Compaction).revision)}


def cut_watches(call: Call) -> Any:
    """Cut the connection of every open watch."""
    call.world.cut += 1
    return {"cuts": call.world.cut}


Answer = Callable[[Call], Any]
ROUTES: dict[tuple[str, ...], Answer] = {
    ("GET", "summary"): summary,
    ("GET", "faults"): list_faults,
    ("POST", "faults"): add_fault,
    ("DELETE", "faults"): clear_faults,
    ("POST", "nodes"): add_node,
    ("DELETE", "nodes", "*"): remove_node,
    ("POST", "nodes", "*", "*"): act_on_node,
    ("POST", "pods", "*", "*", "evict"): evict,
    ("GET", "pods", "*", "*", "use"): use_of_pod,
    ("GET", "runs", "*", "use"): use_of_uid,
    ("GET", "use"): use_of_many,
    ("POST", "tokens"): add_token,
    ("POST", "tokens", "rotate"): rotate_token,
    ("POST", "tokens", "revoke"): revoke_token,
    ("POST", "compact"): compact,
    ("POST", "watches", "cut"): cut_watches,
}


def _route(key: tuple[str, ...]) -> Answer | None:
    for form, found in ROUTES.items():
        if len(form) == len(key) and all(a in {"*", b} for a, b in zip(form, key, strict=True)):
            return found
    return None


def answer(world: World, request: Request, now: float) -> Reply:
    """Return the reply of `/_control`."""
    settle(world, now)
    parts = tuple(part for part in request.path.split("/")[2:] if part)
    try:
        found = _route((request.method, *parts))
        if found is None:
            raise no_such_path()
        value = found(Call(world, request, parts))
    except ApiError as error:
        return error_reply(error)
    settle(world, now)
    return value if isinstance(value, Reply) else json_reply(value)

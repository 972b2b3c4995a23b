"""What is under an object or answers a question: logs, evictions, bindings, tokens, reviews."""

import hashlib
from collections.abc import Callable
from typing import Any

from kubernetes_simulator.core import scheduler, writing
from kubernetes_simulator.core.access import Caller, may, require
from kubernetes_simulator.core.deleting import Wishes
from kubernetes_simulator.core.errors import ApiError, bad_request, conflict, forbidden, not_found
from kubernetes_simulator.core.inputs import Json, micro_stamp, new_uid, stamp
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.writing import Place
from kubernetes_simulator.routes.objects import Call, check_grace
from kubernetes_simulator.routes.web import Reply, decoded, json_reply, part, status_of, text_reply

MOST_TOKEN_SECONDS = 48 * 3600


def log(call: Call) -> Reply:
    """Return the lines that a container has written: when it started and ended."""
    pod = writing.found(call.world, call.place)
    names = [each["name"] for each in pod["spec"]["containers"]]
    name = call.request.query.get("container") or names[0]
    if name not in names:
        raise bad_request(f"container {name} is not valid for pod {call.place.name}")
    run = call.world.run_of(pod["metadata"]["uid"])
    if run is None or not run.attempts:
        raise bad_request(
            f'container "{name}" in pod "{call.place.name}" is waiting to start: ContainerCreating'
        )
    before = call.request.flag("previous")
    if before and len(run.attempts) < 2:
        raise bad_request(f'previous terminated container "{name}" in pod not found')
    attempt = run.attempts[-2 if before else -1]
    stamped = call.request.flag("timestamps")

    def mark(at: float) -> str:
        return f"{micro_stamp(at)} " if stamped else ""

    lines = [f"{mark(attempt.began)}{name} started, life {attempt.number}"]
    if attempt.ended is not None:
        lines.append(f"{mark(attempt.ended)}{name} ended: {attempt.reason}, code {attempt.code}")
    tail = call.request.query.get("tailLines")
    if tail is not None:
        count = call.request.whole("tailLines", 0)
        lines = lines[-count:] if count else []
    return text_reply("".join(f"{line}\n" for line in lines))


def evict(call: Call) -> Reply:
    """Delete a pod as a drain does; disruption budgets are stored and not asked."""
    body = decoded(call.request)
    options = part(body, "deleteOptions")
    check_grace(options.get("gracePeriodSeconds"))
    if not call.dry and (options.get("dryRun") or ()) != ["All"]:
        wishes = Wishes(options.get("gracePeriodSeconds"), "Background")
        writing.delete(call.world, call.place, wishes, part(options, "preconditions"))
    else:
        writing.found(call.world, call.place)
    return json_reply(status_of(), 201)


def bind(call: Call) -> Reply:
    """Let another scheduler say which node takes a pod."""
    pod, body = writing.found(call.world, call.place), decoded(call.request)
    node = str(part(body, "target").get("name", ""))
    if pod["spec"].get("nodeName"):
        why = f"pod {call.place.name} is already assigned to node {pod['spec']['nodeName']!r}"
        raise conflict("", "pods/binding", call.place.name, why)
    if call.world.store.get(NODES, "", node) is None:
        raise not_found("", "nodes", node)
    scheduler.bind(call.world, pod, node)
    return json_reply(status_of(), 201)


def token(call: Call) -> Reply:
    """Give out a token of a service account: it may do what the namespace's own may."""
    writing.found(call.world, call.place)
    body = decoded(call.request) if call.request.body.strip() else {}
    spec = part(body, "spec")
    asked = spec.get("expirationSeconds") or 3600
    if not isinstance(asked, int) or asked < 1:
        raise bad_request("expirationSeconds must be a whole number, 1 or more")
    seconds = min(asked, MOST_TOKEN_SECONDS)
    raw = f"{new_uid(call.world.rng)}{new_uid(call.world.rng)}"
    fresh = f"sa-{hashlib.sha256(raw.encode()).hexdigest()}"
    end = call.world.now + seconds
    space, name = call.place.namespace, call.place.name
    user = f"system:serviceaccount:{space}:{name}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated")
    # As what a token's caller may itself do, so that none gains by asking for one.
    held = call.caller
    limits = Caller(user, held.reads_only, held.namespace, end, groups)
    call.world.access.allow(fresh, limits)
    return json_reply({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": space, "creationTimestamp": stamp(call.world.now)},
        "spec": {"audiences": spec.get("audiences") or ["simulator"],
                 "expirationSeconds": seconds},
        "status": {"token": fresh, "expirationTimestamp": stamp(end)},
    }, 201)  # fmt: skip


def review_access(call: Call) -> Reply:
    """Say whether the caller may do something."""
    body = decoded(call.request)
    spec, asked = part(body, "spec"), part(body, "spec", "resourceAttributes")
    verb, space = str(asked.get("verb", "get")), str(asked.get("namespace", ""))
    if spec.get("nonResourceAttributes"):
        allowed = True
    else:
        allowed = may(call.caller, "get" if verb == "" else verb, space)
    status: Json = {"allowed": allowed}
    if not allowed:
        status["reason"] = "the token's rule does not allow it"
    return json_reply({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": None}, "spec": spec, "status": status,
    }, 201)  # fmt: skip


def review_rules(call: Call) -> Reply:
    """Say what the caller may do in a namespace."""
    body = decoded(call.request)
    space = str(part(body, "spec").get("namespace", ""))
    verbs = ["*"] if may(call.caller, "create", space) else ["get", "list", "watch"]
    shown: list[Any] = []
    if may(call.caller, "get", space):
        shown = [{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}]
    return json_reply({
        "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": None}, "spec": {},
        "status": {"incomplete": False, "nonResourceRules": [], "resourceRules": shown},
    }, 201)  # fmt: skip


def review_self(call: Call) -> Reply:
    """Say who the caller is."""
    caller = call.caller
    return json_reply({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": stamp(call.world.now)},
        "status": {"userInfo": {"username": caller.user, "groups": list(caller.groups)}},
    }, 201)  # fmt: skip


def review_token(call: Call) -> Reply:
    """Say whom a token stands for."""
    require(call.caller, "create", call.place.resource, "", "")
    body = decoded(call.request)
    asked = str(part(body, "spec").get("token", ""))
    try:
        found = call.world.access.caller(f"Bearer {asked}", call.world.now)
        user = {"username": found.user, "groups": list(found.groups)}
        status: Json = {"authenticated": True, "user": user}
    except ApiError:
        status = {"authenticated": False, "error": "the token is not known"}
    return json_reply({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": None}, "spec": {}, "status": status,
    }, 201)  # fmt: skip


def refuse_stream(call: Call) -> Reply:
    """Refuse what would need a real container."""
    raise forbidden(f"{call.place.sub} is not simulated: no container runs behind a pod")


Answer = Callable[[Call], Reply]
BESIDE: dict[tuple[str, str, str], Answer] = {
    ("pods", "log", "GET"): log,
    ("pods", "eviction", "POST"): evict,
    ("pods", "binding", "POST"): bind,
    ("serviceaccounts", "token", "POST"): token,
}
STREAMS = frozenset({"exec", "attach", "portforward", "proxy"})
QUESTIONS: dict[str, Answer] = {
    "selfsubjectaccessreviews": review_access,
    "selfsubjectrulesreviews": review_rules,
    "selfsubjectreviews": review_self,
    "tokenreviews": review_token,
}


def beside(call: Call) -> Answer | None:
    """Return what answers a request under an object; None if that is the object's own."""
    place, method = call.place, call.request.method
    if place.resource is PODS and place.sub in STREAMS:
        return refuse_stream
    return BESIDE.get((place.resource.plural, place.sub, method))


def wrong_method(method: str) -> ApiError:
    """Return the 405 of a verb that a resource has not."""
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, {"causes": [{"message": method}]})


def place_of_question(place: Place) -> Answer | None:
    """Return what answers a question that is posted."""
    return QUESTIONS.get(place.resource.plural)

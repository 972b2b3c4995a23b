"""One request to the cluster: path, caller, verb, refusal as a `Status`. Pure and synchronous."""

from collections.abc import Callable

from kubernetes_simulator.core import access
from kubernetes_simulator.core.errors import ApiError, no_such_path
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import BY_PATH, COMPUTED, NODES, groups
from kubernetes_simulator.core.settling import settle
from kubernetes_simulator.core.world import World
from kubernetes_simulator.core.writing import Place
from kubernetes_simulator.routes import beside, discovery, exporters, metrics_api, objects, openapi
from kubernetes_simulator.routes.forms import wants
from kubernetes_simulator.routes.objects import Call, Stream
from kubernetes_simulator.routes.web import (
    Reply,
    Request,
    encoded,
    error_reply,
    json_reply,
    text_reply,
)

HEALTH = frozenset({"healthz", "livez", "readyz"})
OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
MANY_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def answer(world: World, request: Request, now: float) -> Reply | Stream:
    """Return the reply of the cluster, or the watch that it begins."""
    settle(world, now)
    try:
        found = _answer(world, request)
    except ApiError as error:
        return error_reply(error)
    settle(world, now)
    return found


def _answer(world: World, request: Request) -> Reply | Stream:
    parts = [part for part in request.path.split("/") if part]
    if request.method == "HEAD":
        raise beside.wrong_method("HEAD")
    match parts:
        case [word, *_] if word in HEALTH:
            return text_reply("ok")
        case ["version"]:
            return json_reply(discovery.VERSION)
        case ["metrics", kind]:
            return exporters.scraped(world, kind, request.query.get("node", ""))
    caller = world.access.caller(request.headers.get("authorization", ""), world.now)
    found = _discovered(request, parts)
    if found is not None:
        return found if isinstance(found, Reply) else json_reply(found)
    place = locate(parts)
    if place is None:
        raise no_such_path()
    return _served(Call(world, request, place, caller))


def _discovered(request: Request, parts: list[str]) -> Json | Reply | None:
    match parts:
        case []:
            rows = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/readyz", "/version"]
            return {"paths": [*rows, *(f"/apis/{name}" for name in groups())]}
        case ["api"]:
            return _either(request, {"": ["v1"]}, discovery.versions)
        case ["apis"]:
            return _either(request, groups(), discovery.group_list)
        case ["apis", name]:
            return _must(discovery.group(name))
        case ["api", version]:
            return _must(discovery.resources("", version))
        case ["apis", name, version]:
            return _must(discovery.resources(name, version))
        case ["openapi", "v2"]:
            return openapi.second(request)
        case ["openapi", "v3"]:
            return openapi.index()
        case ["openapi", "v3", "api", version]:
            return _must(openapi.document("", version))
        case ["openapi", "v3", "apis", name, version]:
            return _must(openapi.document(name, version))
    return None


def _either(request: Request, names: dict[str, list[str]], plain: Callable[[], Json]) -> Reply:
    """Return the aggregated form of discovery to whom takes it, else the plain one."""
    for row in wants(request.headers.get("accept", "")):
        if row.get("as") == "APIGroupDiscoveryList" and row.get("v") in {"v2", "v2beta1"}:
            form = row["v"]
            kind = f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
            return Reply(200, encoded(discovery.aggregated(names, form)), kind)
        if row["type"] == "application/json" and "as" not in row:
            break
    return json_reply(plain())


def _must(found: Json | None) -> Json:
    if found is None:
        raise no_such_path()
    return found


def locate(parts: list[str]) -> Place | None:
    """Return the resource, namespace, name and subresource of a path; None if it is no resource."""
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    match rest:
        case ["namespaces", space, plural, *more] if (group, version, plural) in BY_PATH:
            resource = BY_PATH[group, version, plural]
            if not resource.namespaced:
                return None
        case [plural, *more] if (group, version, plural) in BY_PATH:
            resource, space = BY_PATH[group, version, plural], ""
            if resource.namespaced and more:
                return None
        case _:
            return None
    if resource is NODES and more[1:2] == ["proxy"]:
        return Place(resource, "", more[0], "/".join(more[1:]))
    if len(more) > 2:
        return None
    name, sub = (*more, "", "")[:2]
    return Place(resource, space, name, sub)


def _verb(call: Call) -> str:
    method, place = call.request.method, call.place
    if place.sub and method == "POST":
        return "create"
    verb = (OBJECT_VERBS if place.name else MANY_VERBS).get(method, "")
    if verb == "list" and call.request.flag("watch"):
        verb = "watch"
    return verb


def _allowed(call: Call, verb: str) -> None:
    place = call.place
    if beside.place_of_question(place) is None:
        access.require(call.caller, verb, place.resource, place.namespace, place.name)


def _served(call: Call) -> Reply | Stream:
    place, verb = call.place, _verb(call)
    if not verb:
        raise beside.wrong_method(call.request.method)
    _allowed(call, verb)
    question = beside.place_of_question(place)
    if question is not None:
        if call.request.method != "POST":
            raise beside.wrong_method(call.request.method)
        return question(call)
    if place.resource in COMPUTED:
        return metrics_api.answer(call)
    if place.resource is NODES and place.sub.startswith("proxy"):
        return exporters.proxied(call)
    if place.sub:
        special = beside.beside(call)
        if special is not None:
            return special(call)
        if place.sub not in place.resource.subresources or verb == "create":
            raise no_such_path()
    if place.resource.namespaced and not place.namespace and verb in {"create", "deletecollection"}:
        raise beside.wrong_method(call.request.method)
    return objects.VERBS[verb](call)

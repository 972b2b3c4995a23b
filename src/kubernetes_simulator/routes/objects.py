"""Reading and writing objects: one function for each verb of the API."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kubernetes_simulator.core import listing, patches, writing
from kubernetes_simulator.core.access import Caller
from kubernetes_simulator.core.deleting import Wishes
from kubernetes_simulator.core.errors import ApiError, bad_request, expired
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import NAMESPACES, PODS
from kubernetes_simulator.core.listing import Query
from kubernetes_simulator.core.watching import Event, Watch
from kubernetes_simulator.core.world import World
from kubernetes_simulator.core.writing import Place
from kubernetes_simulator.routes.fields import unknown
from kubernetes_simulator.routes.forms import Form, form_of
from kubernetes_simulator.routes.web import Reply, Request, decoded, json_reply, part, status_of

LONGEST_WATCH = 3600
POLICIES = frozenset({"", "Background", "Foreground", "Orphan"})


@dataclass(frozen=True, slots=True)
class Call:
    """A request that found its resource: by whom, for what."""

    world: World
    request: Request
    place: Place
    caller: Caller

    @property
    def dry(self) -> bool:
        """Tell whether nothing shall be written; 400 for a mode that is not known."""
        mode = self.request.query.get("dryRun", "")
        if mode not in {"", "All"}:
            raise bad_request(f'dryRun: Unsupported value: "{mode}": supported values: "All"')
        return mode == "All"

    def query(self) -> Query:
        """Return what a list or a watch asks for."""
        asked = self.request.query
        return Query(
            self.place.resource, self.place.namespace, asked.get("labelSelector", ""),
            asked.get("fieldSelector", ""), self.request.whole("limit", 0),
            asked.get("continue", ""), asked.get("resourceVersion", ""),
            asked.get("resourceVersionMatch", ""),
        )  # fmt: skip

    def shown(self, obj: Json, status: int = 200) -> Reply:
        """Return one object as a reply."""
        form = form_of(self.request)
        return json_reply(form.one(self.place.resource, obj, self.world.now), status)


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch that goes on: what is told first, in which form, for how long in real seconds."""

    watch: Watch
    first: list[Event]
    form: Form
    seconds: float
    bookmarks: bool


def get(call: Call) -> Reply:
    """Return an object, its status or its scale."""
    obj = writing.found(call.world, call.place)
    if call.place.sub == "scale":
        return json_reply(writing.scale_of(obj))
    return call.shown(obj)


def list_or_watch(call: Call) -> Reply | Stream:
    """Return a page of a list, or begin a watch."""
    if call.request.flag("watch"):
        return watch(call)
    query = call.query()
    form = form_of(call.request)
    page = listing.page(call.world.store, query)
    meta: Json = {"resourceVersion": str(page.revision)}
    if page.token:
        meta["continue"] = page.token
        if page.left is not None:
            meta["remainingItemCount"] = page.left
    return json_reply(form.many(query.resource, page.items, meta, call.world.now))


def watch(call: Call) -> Stream:
    """Begin a watch; a version that is compacted is told as the watch's first event."""
    query, store = call.query(), call.world.store
    form = form_of(call.request)
    initial = call.request.flag("sendInitialEvents")
    bookmarks = call.request.flag("allowWatchBookmarks")
    if initial and (query.match != "NotOlderThan" or not bookmarks):
        raise bad_request(
            "sendInitialEvents needs resourceVersionMatch=NotOlderThan and allowWatchBookmarks=true"
        )
    asked = call.request.whole("timeoutSeconds", 1800)
    seconds = min(asked or 1800, LONGEST_WATCH)
    query.test()
    if initial:
        query = replace(query, version="")
    try:
        revision, held = listing.watch_from(store, query)
    except ApiError as error:
        if error.code != 410:
            raise
        told: list[Event] = [("ERROR", error.status_object())]
        return Stream(Watch(query, store.revision), told, form, 0, bookmarks=False)
    found = Watch(query, revision)
    first: list[Event] = [("ADDED", obj) for obj in held or ()]
    if initial:
        kind, mark = found.bookmark()
        mark["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
        first.append((kind, mark))
    return Stream(found, first, form, seconds, bookmarks)


def too_old(watched: Watch, floor: int) -> Event:
    """Return the event that ends a watch which fell behind what is kept."""
    return "ERROR", expired(watched.revision, floor).status_object()


def _read(call: Call) -> Any:
    body = decoded(call.request)
    _strict(call, body)
    return body


def _strict(call: Call, body: Any) -> None:
    """Raise if the caller asks that fields be known, and some are not."""
    if call.request.query.get("fieldValidation", "") == "Strict":
        wrong = unknown(call.place.resource, body)
        if wrong:
            told = ", ".join(f'unknown field "{each}"' for each in wrong[:20])
            raise bad_request(f"strict decoding error: {told}")


def create(call: Call) -> Reply:
    """Make an object."""
    made = writing.create(call.world, call.place, _read(call), dry=call.dry)
    return call.shown(made, 201)


def update(call: Call) -> Reply:
    """Write an object in place of the one there is."""
    if call.place.sub == "scale":
        return json_reply(
            writing.scale(call.world, call.place, decoded(call.request), dry=call.dry)
        )
    body = _read(call)
    if call.place.resource is NAMESPACES and call.place.sub == "finalize":
        return _finalize(call, body)
    return call.shown(writing.update(call.world, call.place, body, dry=call.dry))


def _finalize(call: Call, body: Any) -> Reply:
    old = writing.found(call.world, call.place)
    wanted = part(body, "spec").get("finalizers")
    if not isinstance(wanted, list | None):
        raise bad_request("spec.finalizers: a list is expected")
    new = {**old, "spec": {**(old.get("spec") or {}), "finalizers": wanted or []}}
    return call.shown(call.world.put(NAMESPACES, new) if not call.dry else new)


def patch(call: Call) -> Reply:
    """Change an object by a patch of the body's type."""
    kind = call.request.content_type
    body = decoded(call.request)
    if call.place.sub == "scale":
        return _patch_scale(call, body)
    if isinstance(body, dict):
        _strict(call, body)
    obj, made = writing.patch(
        call.world, call.place, kind, body, owner=call.request.query.get("fieldManager", ""),
        force=call.request.flag("force"), dry=call.dry,
    )  # fmt: skip
    return call.shown(obj, 201 if made else 200)


def _patch_scale(call: Call, body: Any) -> Reply:
    old = writing.scale_of(writing.found(call.world, call.place))
    if call.request.content_type == writing.JSON_PATCH:
        new = patches.stepped(old, body)
    else:
        new = patches.merged(old, body)
    meta = new.get("metadata") if isinstance(new, dict) else None
    if isinstance(meta, dict):
        new["metadata"] = {"uid": meta.get("uid"), "resourceVersion": meta.get("resourceVersion")}
    return json_reply(writing.scale(call.world, call.place, new, dry=call.dry))


def check_grace(grace: Any) -> None:
    """Raise the 400 of a grace that is no whole number of seconds."""
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int) or grace < 0):
        raise bad_request("gracePeriodSeconds must be a whole number, 0 or more")


def wishes_of(call: Call) -> tuple[Wishes, Json]:
    """Return how a delete is to be carried out, by body and query, and its preconditions."""
    body = decoded(call.request) if call.request.body.strip() else {}
    if not isinstance(body, dict):
        raise bad_request("DeleteOptions is an object")
    policy = str(body.get("propagationPolicy") or call.request.query.get("propagationPolicy", ""))
    if policy not in POLICIES:
        raise bad_request(f'propagationPolicy: Unsupported value: "{policy}"')
    grace = body.get("gracePeriodSeconds")
    if grace is None and call.request.query.get("gracePeriodSeconds"):
        grace = call.request.whole("gracePeriodSeconds", 0)
    check_grace(grace)
    if body.get("orphanDependents"):
        policy = "Orphan"
    return Wishes(grace, policy), part(body, "preconditions")


def delete(call: Call) -> Reply:
    """Delete an object, or let its end begin."""
    wishes, conditions = wishes_of(call)
    dry = call.dry
    if call.request.body.strip() and (decoded(call.request).get("dryRun") or ()) == ["All"]:
        dry = True
    last = writing.delete(call.world, call.place, wishes, conditions, dry=dry)
    meta, resource = last["metadata"], call.place.resource
    if meta.get("deletionTimestamp") or resource in {PODS, NAMESPACES}:
        return call.shown(last)
    details = {"name": meta["name"], "kind": resource.plural, "uid": meta["uid"]}
    if resource.group:
        details["group"] = resource.group
    return json_reply(status_of(details=details))


def delete_many(call: Call) -> Reply:
    """Delete every object that is selected."""
    wishes, _ = wishes_of(call)
    page = listing.page(call.world.store, call.query())
    for obj in page.items:
        meta = obj["metadata"]
        place = Place(call.place.resource, meta.get("namespace", ""), meta["name"])
        if not call.dry:
            writing.delete(call.world, place, wishes, None)
    listed = Form().many(call.place.resource, page.items, {}, call.world.now)
    listed["metadata"] = {"resourceVersion": str(call.world.store.revision)}
    return json_reply(listed)


VERBS: dict[str, Callable[[Call], Reply | Stream]] = {
    "get": get,
    "list": list_or_watch,
    "watch": list_or_watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_many,
}

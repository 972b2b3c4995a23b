"""Lists: which objects, of which version, a page at a time."""

import base64
import binascii
import json
from dataclasses import dataclass

from kubernetes_simulator.core.errors import (
    ApiError,
    bad_request,
    expired,
    expired_continue,
)
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import Resource
from kubernetes_simulator.core.selectors import Test, exact_name, fields_of, labels_of
from kubernetes_simulator.core.store import Name, Store


@dataclass(frozen=True, slots=True)
class Query:
    """What a list or a watch asks for.

    namespace: "" for all. version: the version asked for; "" for the newest. match: how it is
    meant. limit: objects of a page; 0: all. token: where the next page begins.
    """

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""

    def test(self) -> Test:
        """Return whether an object is asked for."""
        by_label, by_field = labels_of(self.labels), fields_of(self.resource.plural, self.fields)

        def test(obj: Json) -> bool:
            inside = not self.namespace or obj["metadata"].get("namespace") == self.namespace
            return inside and by_label(obj) and by_field(obj)

        return test


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list: its objects, the version of all of it, the next page, and what is left."""

    items: list[Json]
    revision: int
    token: str = ""
    left: int | None = None


def number(text: str) -> int:
    """Return a version as a number; 400 if it is none."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_request(f'invalid resource version: "{text}"')
    return int(text)


def _token(revision: int, last: Name) -> str:
    raw = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": list(last)})
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def _opened(token: str) -> tuple[int, Name]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found = json.loads(raw)
        space, name = found["start"]
        return int(found["rv"]), (str(space), str(name))
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise bad_request("continue key is not valid") from None


def _not_yet(asked: int, store: Store) -> ApiError:
    """Return the 504 of a version that is still to come, as after a start of another cluster."""
    text = f"Too large resource version: {asked}, current: {store.revision}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(504, "Timeout", text, {"causes": [cause]}, retry_after=1)


def _version(store: Store, query: Query) -> int:
    """Return the version of which a list is."""
    if query.match and query.match not in {"Exact", "NotOlderThan"}:
        raise bad_request(f'resourceVersionMatch: Unsupported value: "{query.match}"')
    if query.match and not query.version:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if not query.version:
        return store.revision
    asked = number(query.version)
    if asked > store.revision:
        raise _not_yet(asked, store)
    return asked if query.match == "Exact" and asked else store.revision


def page(store: Store, query: Query) -> Page:
    """Return a page of a list; 410 when its version is compacted."""
    start: Name | None = None
    if query.token:
        if query.version and query.version != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, start = _opened(query.token)
        if revision < store.floor:
            raise expired_continue()
        if revision > store.revision:
            raise bad_request("continue key is not valid")
    else:
        revision = _version(store, query)
    table = store.at(query.resource, revision)
    test = query.test()
    only = exact_name(query.fields)
    if only is not None and query.namespace:
        one = table.get((query.namespace, only))
        names = [(query.namespace, only)] if one is not None else []
    else:
        space = query.namespace
        names = sorted(name for name in table if not space or name[0] == space)
    after = [name for name in names if start is None or name > start]
    found = [name for name in after if test(table[name])]
    if not query.limit or len(found) <= query.limit:
        return Page([table[name] for name in found], revision)
    shown = found[: query.limit]
    left = None if query.labels or query.fields else len(found) - query.limit
    return Page([table[name] for name in shown], revision, _token(revision, shown[-1]), left)


def watch_from(store: Store, query: Query) -> tuple[int, list[Json] | None]:
    """Return after which version a watch begins, and what it is shown first, if anything."""
    if not query.version or query.version == "0":
        test = query.test()
        held = store.all(query.resource, query.namespace)
        return store.revision, [obj for obj in held if test(obj)]
    asked = number(query.version)
    if asked < store.floor:
        raise expired(asked, store.floor)
    if asked > store.revision:
        raise _not_yet(asked, store)
    return asked, None

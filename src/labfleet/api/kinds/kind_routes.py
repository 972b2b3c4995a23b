"""Create, list, get, replace, patch and delete for every row of the table of kinds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from litestar.params import QueryParameter

from labfleet.api.core.route import FEW, SMALL, Key, Name, Reply, Routes, Uid
from labfleet.api.core.warning_headers import warning_headers
from labfleet.api.kinds.events_reply import EventsReply, events_reply
from labfleet.interfaces import store as stores
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import API_VERSION, Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import explain, listing
from labfleet.service.verbs import objects

Namespace = Annotated[str, QueryParameter(name="namespace", description="Namespace of the object.")]
SomeNamespace = Annotated[
    str | None, QueryParameter(name="namespace", description="Only this namespace; all without.")
]
Labels = Annotated[
    str, QueryParameter(name="labelSelector", description="For example a=b,c!=d,e in (x,y),!f.")
]
Limit = Annotated[
    int,
    QueryParameter(
        name="limit", ge=1, le=stores.PAGE_LIMIT, description="How many a page has at most."
    ),
]
Cursor = Annotated[str, QueryParameter(name="cursor", description="`next` of the page before.")]
Sort = Annotated[
    str, QueryParameter(name="sort", description="A field, for example -status.end; - descends.")
]
Text = Annotated[
    str,
    QueryParameter(
        name="q",
        max_length=listing.SEARCHED_LIMIT,
        description="Only what has this text in its name, its namespace or a field with a filter.",
    ),
]
Before = Annotated[
    int | None,
    QueryParameter(name="before", ge=0, le=2**53 - 1, description="Only older revisions."),
]
Filter = Annotated[str | None, QueryParameter(description="Only these; several with commas.")]
_LIST_FIELDS = """
apiVersion: Version of the API in which the page is written.
kind: Kind of the page.
items: The objects of this page.
cursor: Place in the log up to which the page knows; follow the stream from here.
next: Value of `cursor` for the next page; null when this is the last.
total: Number of objects on all pages.
"""
Tag = Annotated[
    list[str] | None,
    QueryParameter(
        name="tag", description="A tag as the provider shows it, KEY=VALUE or KEY; repeats."
    ),
]
Handler = Callable[..., Awaitable[dict[str, Any]]]
ANY_KIND = ("phase", "owner", "worker", "pool", "definition", "cluster")
"""Filters that the list of every kind takes; one that the kind does not declare is refused."""
Wait = Annotated[
    int,
    QueryParameter(
        name="wait", ge=0, le=60, description="Seconds to wait while it is not decided yet."
    ),
]
Version = Annotated[
    str | None, QueryParameter(name="resourceVersion", description="Only if still at this version.")
]


def routes(services: ServiceContext) -> Routes:
    """Return the routes of all kinds."""
    made = Routes()
    for row in KINDS.values():
        _list(made, services, row)
        if row.creatable:
            _create(made, services, row)
        _reading(made, services, row)
        _writing(made, services, row)
    return made


def list_reply(row: Kind, page: listing.Listed) -> dict[str, Any]:
    """Return a page in the API's format."""
    return {
        "apiVersion": API_VERSION,
        "kind": f"{row.name}List",
        "items": page.items,
        "cursor": str(page.at),
        "next": page.next,
        "total": page.total,
    }


@functools.cache
def list_type(row: Kind) -> type[msgspec.Struct]:
    """Return the type of a list of this kind, for the OpenAPI document."""
    return msgspec.defstruct(
        f"{row.name}List",
        [
            ("apiVersion", str),
            ("kind", str),
            ("items", Sequence[row.type]),  # type: ignore[name-defined]  # a type of the table
            ("cursor", str),
            ("next", str | None),
            ("total", int),
        ],
        kw_only=True,
        namespace={"__doc__": f"One page of {row.plural}.\n\n{_LIST_FIELDS}"},
    )


def _with_filters(row: Kind, handler: Handler) -> Handler:
    """Return the handler with a parameter for each filter, as the framework reads signatures."""
    names = [*ANY_KIND, *(name for name, _ in row.filters if name not in ANY_KIND)]
    signature = inspect.signature(handler)
    fixed = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Filter)
        for name in names
    ]
    named: dict[str, Any] = dict.fromkeys(names, Filter)
    if row.tags:
        more.append(
            inspect.Parameter("tag", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Tag)
        )
        named["tag"] = Tag
    typed = {key: each for key, each in handler.__annotations__.items() if key != "given"}
    handler.__annotations__ = {**typed, **named}
    handler.__signature__ = signature.replace(parameters=[*fixed, *more])  # type: ignore[attr-defined]
    return handler


def _list(made: Routes, services: ServiceContext, row: Kind) -> None:
    @made.get(
        f"/api/v1/{row.plural}", f"List {row.plural}",
        name=f"list{row.name}s", tag=row.plural, needs=("read", row.name), reply=list_type(row),
    )  # fmt: skip
    @functools.partial(_with_filters, row)
    async def list_(
        who: Caller,
        *,
        namespace: SomeNamespace = None,
        label_selector: Labels = "",
        limit: Limit = listing.DEFAULT_LIMIT,
        cursor: Cursor = "",
        sort: Sort = "",
        text: Text = "",
        **given: Any,
    ) -> dict[str, Any]:
        """Return one page of the objects that the caller may see, filtered and sorted."""
        tags = given.pop("tag", None) or ()
        query = listing.Query(
            namespace=namespace,
            selector=label_selector,
            filters=tuple((name, value) for name, value in given.items() if value is not None),
            tags=tuple(tags),
            sort=sort,
            text=text,
            limit=limit,
            cursor=cursor,
        )
        return list_reply(row, await listing.listed(services, who, row, query))


def _create(made: Routes, services: ServiceContext, row: Kind) -> None:
    @made.post(
        f"/api/v1/{row.plural}", f"Create {row.one}",
        name=f"create{row.name}", tag=row.plural, needs=("create", row.name), body=row.type,
        required=True, limit=body_limit(row), values=body_values(row), reply=row.type, status=201,
    )  # fmt: skip
    async def create(
        who: Caller, sent: Any, namespace: SomeNamespace = None, idempotency_key: Key = None
    ) -> Reply[Resource]:
        """Check and store a new object; what follows from it happens by itself afterwards."""
        new = await objects.create(
            services, who, row, sent, namespace=namespace, key=idempotency_key
        )
        where = {"Location": f"/api/v1/{row.plural}/{new.name}"}
        return Reply(new, headers={**where, **warning_headers(services, new)})


def _reading(made: Routes, services: ServiceContext, row: Kind) -> None:
    path, needs = f"/api/v1/{row.plural}/{{name:str}}", ("read", row.name)

    async def get(who: Caller, name: Name, namespace: Namespace = "default") -> Resource:
        """Return the object of this name as it is now: what people want and what was observed."""
        return await objects.get(services, who, row, name, namespace)

    async def get_decided(
        who: Caller, name: Name, namespace: Namespace = "default", wait: Wait = 0
    ) -> Resource:
        """Return the object of this name as it is now, or as soon as it is decided."""
        return await objects.get(services, who, row, name, namespace, wait=wait)

    made.get(
        path, f"Read {row.one}",
        name=f"get{row.name}", tag=row.plural, needs=needs, reply=row.type,
    )(get_decided if row.waiting else get)  # fmt: skip

    @made.get(
        f"{path}/events", "What happened to it, newest first",
        name=f"eventsOf{row.name}", tag=row.plural, needs=needs,
    )  # fmt: skip
    async def events(
        who: Caller,
        name: Name,
        namespace: Namespace = "default",
        before: Before = None,
        limit: Limit = 100,
    ) -> EventsReply:
        """Return one page of an object's history, newest first: who did what when, and why."""
        found = await objects.events(
            services, who, row, name, namespace, before=before, limit=limit
        )
        older: tuple[stores.Event, ...] = ()
        if len(found) == limit:
            older = await objects.events(
                services, who, row, name, namespace, before=found[-1].revision, limit=1
            )
        return events_reply(who.principal, found, limit, older=older[0] if older else None)

    @made.get(
        f"{path}/explain", "Why it is as it is",
        name=f"explain{row.name}", tag=row.plural, needs=needs,
    )  # fmt: skip
    async def explained(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> explain.Explanation:
        """Return why it is so, what it waits for, what comes next and what a person can do."""
        return await explain.explain(services, who, row, name, namespace)


def _writing(made: Routes, services: ServiceContext, row: Kind) -> None:
    path = f"/api/v1/{row.plural}/{{name:str}}"
    needs, limit, values = ("update", row.name), body_limit(row), body_values(row)

    @made.put(
        path, f"Replace {row.one}",
        name=f"replace{row.name}", tag=row.plural, needs=needs, body=row.type, required=True,
        limit=limit, values=values, reply=row.type,
    )  # fmt: skip
    async def replace(
        who: Caller, name: Name, sent: Any, namespace: Namespace = "default"
    ) -> Reply[Resource]:
        """Set the whole object to what the body says; 409 when its version is not the newest."""
        new = await objects.replace(services, who, row, name, sent, namespace=namespace)
        return Reply(new, headers=warning_headers(services, new))

    @made.patch(
        path, f"Change {row.one} by a merge patch",
        name=f"patch{row.name}", tag=row.plural, needs=needs, body=dict[str, Any], required=True,
        limit=limit, values=values, reply=row.type,
    )  # fmt: skip
    async def patch(
        who: Caller, name: Name, sent: Any, namespace: Namespace = "default"
    ) -> Reply[Resource]:
        """Change the fields that the body names (RFC 7396); null means the default again."""
        new = await objects.patch(services, who, row, name, sent, namespace=namespace)
        return Reply(new, headers=warning_headers(services, new))

    @made.delete(
        path, f"Ask for {row.one}'s end",
        name=f"delete{row.name}", tag=row.plural, needs=("delete", row.name), reply=row.type,
        also=(202,),
    )  # fmt: skip
    async def delete(
        who: Caller,
        name: Name,
        namespace: Namespace = "default",
        resource_version: Version = None,
        uid: Uid = None,
    ) -> Reply[Resource]:
        """Ask for the object's end; 202 while something outside still has to end."""
        ended = await objects.delete(
            services, who, row, name, namespace, version=resource_version, uid=uid
        )
        return Reply(ended, status=202 if ended.metadata.finalizers else 200)


def body_values(row: Kind) -> int:
    """Return how many values the largest legal body has: a kind with a document may list its ports."""
    return 4 * FEW if row.text_limit else FEW


def body_limit(row: Kind) -> int:
    """Return the bytes of the largest legal body: a kind's long text, and all else is small.

    A JSON string may take two bytes for one of the text's.
    """
    return 2 * row.text_limit + SMALL

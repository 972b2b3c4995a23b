"""Create, list, get, replace, patch and delete for every row of the table of kinds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from labfleet.api.core.endpoints import (
    MERGE_PATCH,
    Ask,
    Key,
    RouteDoc,
    body,
    caller,
    endpoint,
    reply,
)
from labfleet.api.kinds.events_reply import EventsReply, events_reply
from labfleet.interfaces import store as stores
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import API_VERSION
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import explain, listing
from labfleet.service.verbs import objects

Namespace = Annotated[str, QueryParameter(name="namespace", description="Namespace of the object.")]
SomeNamespace = Annotated[
    str | None, QueryParameter(name="namespace", description="Only this namespace; all without.")
]
Labels = Annotated[
    str, QueryParameter(name="labelSelector", description="For example a=b,c!=d,e in (x,y),!f.")
]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=stores.PAGE_LIMIT)]
Cursor = Annotated[str, QueryParameter(name="cursor", description="`next` of the page before.")]
Sort = Annotated[
    str, QueryParameter(name="sort", description="A field, for example -status.end; - descends.")
]
Before = Annotated[int | None, QueryParameter(name="before", description="Only older revisions.")]
Filter = Annotated[str | None, QueryParameter(description="Only these; several with commas.")]
Handler = Callable[..., Awaitable[Response[bytes]]]
ANY_KIND = ("phase", "owner", "worker", "pool", "definition", "cluster")
"""Filters that the list of every kind takes; one that the kind does not declare is refused."""
Version = Annotated[
    str | None, QueryParameter(name="resourceVersion", description="Only if still at this version.")
]


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the routes of all kinds."""
    made: list[HTTPRouteHandler] = []
    for row in KINDS.values():
        made.append(_list(services, row))
        if row.creatable:
            made.append(_create(services, row))
        made += [*_single(services, row), *_about(services, row)]
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
    )


def _list(services: ServiceContext, row: Kind) -> HTTPRouteHandler:
    async def list_(
        request: Ask,
        *,
        namespace: SomeNamespace = None,
        label_selector: Labels = "",
        limit: Limit = listing.DEFAULT_LIMIT,
        cursor: Cursor = "",
        sort: Sort = "",
        **given: str | None,
    ) -> Response[bytes]:
        query = listing.Query(
            namespace=namespace,
            selector=label_selector,
            filters=tuple((name, value) for name, value in given.items() if value is not None),
            sort=sort,
            limit=limit,
            cursor=cursor,
        )
        page = await listing.listed(services, caller(request), row, query)
        return reply(list_reply(row, page))

    return endpoint(
        "GET",
        f"/api/v1/{row.plural}",
        _with_filters(list_, row),
        name=f"list{row.name}s",
        tag=row.plural,
        summary=f"List {row.plural}",
        shape=RouteDoc(reply=list_type(row)),
    )


def _with_filters(handler: Handler, row: Kind) -> Handler:
    """Return the handler with a parameter for each filter, as the framework reads signatures."""
    names = [*ANY_KIND, *(name for name, _ in row.filters if name not in ANY_KIND)]
    signature = inspect.signature(handler)
    fixed = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Filter)
        for name in names
    ]
    typed = {key: each for key, each in handler.__annotations__.items() if key != "given"}
    handler.__annotations__ = {**typed, **dict.fromkeys(names, Filter)}
    handler.__signature__ = signature.replace(parameters=[*fixed, *more])  # type: ignore[attr-defined]
    return handler


def _create(services: ServiceContext, row: Kind) -> HTTPRouteHandler:
    async def create(
        request: Ask, namespace: SomeNamespace = None, idempotency_key: Key = None
    ) -> Response[bytes]:
        made = await objects.create(
            services,
            caller(request),
            row,
            await body(request),
            namespace=namespace,
            key=idempotency_key,
        )
        place = f"/api/v1/{row.plural}/{made.name}"
        return reply(made, status=201, headers={"Location": place})

    return endpoint(
        "POST",
        f"/api/v1/{row.plural}",
        create,
        name=f"create{row.name}",
        tag=row.plural,
        status=201,
        summary=f"Create a {row.name.lower()}",
        shape=RouteDoc(body=row.type, reply=row.type),
    )


def _single(services: ServiceContext, row: Kind) -> list[HTTPRouteHandler]:
    async def get(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return reply(await objects.get(services, caller(request), row, name, namespace))

    async def replace(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        sent = await body(request)
        who = caller(request)
        return reply(await objects.replace(services, who, row, name, sent, namespace=namespace))

    async def patch(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        sent = await body(request, MERGE_PATCH, "application/json")
        who = caller(request)
        return reply(await objects.patch(services, who, row, name, sent, namespace=namespace))

    async def delete(
        request: Ask,
        name: FromPath[str],
        namespace: Namespace = "default",
        resource_version: Version = None,
    ) -> Response[bytes]:
        ended = await objects.delete(
            services, caller(request), row, name, namespace, version=resource_version
        )
        return reply(ended, status=202 if ended.metadata.finalizers else 200)

    path, word = f"/api/v1/{row.plural}/{{name:str}}", row.name.lower()
    whole = RouteDoc(body=row.type, reply=row.type)
    partial = RouteDoc(body=dict[str, Any], body_type=MERGE_PATCH, reply=row.type)
    return [
        endpoint("GET", path, get, name=f"get{row.name}", tag=row.plural,
                 summary=f"Read a {word}", shape=RouteDoc(reply=row.type)),
        endpoint("PUT", path, replace, name=f"replace{row.name}", tag=row.plural,
                 summary=f"Replace a {word}", shape=whole),
        endpoint("PATCH", path, patch, name=f"patch{row.name}", tag=row.plural,
                 summary=f"Change a {word} by a merge patch", shape=partial),
        endpoint("DELETE", path, delete, name=f"delete{row.name}", tag=row.plural,
                 summary=f"Ask for a {word}'s end", shape=RouteDoc(reply=row.type)),
    ]  # fmt: skip


def _about(services: ServiceContext, row: Kind) -> list[HTTPRouteHandler]:
    async def events(
        request: Ask,
        name: FromPath[str],
        namespace: Namespace = "default",
        before: Before = None,
        limit: Limit = 100,
    ) -> Response[bytes]:
        found = await objects.events(
            services, caller(request), row, name, namespace, before=before, limit=limit
        )
        return reply(events_reply(found, limit))

    async def explained(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return reply(await explain.explain(services, caller(request), row, name, namespace))

    path = f"/api/v1/{row.plural}/{{name:str}}"
    return [
        endpoint("GET", f"{path}/events", events, name=f"eventsOf{row.name}", tag=row.plural,
                 summary="What happened to it, newest first", shape=RouteDoc(reply=EventsReply)),
        endpoint("GET", f"{path}/explain", explained, name=f"explain{row.name}", tag=row.plural,
                 summary="Why it is as it is", shape=RouteDoc(reply=explain.Explanation)),
    ]  # fmt: skip

"""Many objects in one request: what `labfleet apply` and `diff` send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar.params import QueryParameter

from labfleet.api.core import problems
from labfleet.api.core.route import FEW, Ask, Key, Routes
from labfleet.api.core.served import take_write
from labfleet.resources.definition import TOPOLOGY_LIMIT
from labfleet.resources.meta import Record, Resource
from labfleet.service.core import views, warned
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import applying
from labfleet.service.verbs.applying import Applied, ApplyResult, Mode

PATH = "/api/v1/apply"
BODY_LIMIT = 4 * TOPOLOGY_LIMIT
"""Bytes of a body: the largest definition as JSON, twice."""
VALUES_LIMIT = 16 * FEW
Namespace = Annotated[
    str, QueryParameter(name="namespace", description="Of the objects that name none.")
]
How = Annotated[
    Literal["check", "dry-run", "apply"],
    QueryParameter(
        name="mode",
        description="`check` judges the shape, `dry-run` says what would happen, `apply` does it.",
    ),
]
Checked = Annotated[
    bool,
    QueryParameter(
        name="checked",
        description="The shape of all was judged before; a new one that is wrong refuses itself.",
    ),
]


class ApplyRequest(Record, frozen=True, kw_only=True):
    """Objects with kind, metadata and spec, in the order in which they need each other.

    items: The objects.
    """

    items: Annotated[
        tuple[dict[str, Any], ...], msgspec.Meta(min_length=1, max_length=applying.ITEMS_LIMIT)
    ]


class AppliedItem(Record, frozen=True, kw_only=True):
    """What became of one object.

    result: What became of it.
    object: The object as it is now (in a dry run: would be); null when it was refused.
    before: The object as it was, in a dry run only.
    problem: Why it was refused, as the answer to a request for it alone would say; null when it
    was not.
    warnings: What will not do what one might expect, and what else it changes, such as the times of
    a group's seats.
    """

    result: ApplyResult
    object: Any = None
    before: Any = None
    problem: problems.Problem | None = None
    warnings: tuple[str, ...] = ()


class ApplyReply(Record, frozen=True, kw_only=True):
    """What became of each object, in the order of the request.

    items: One entry for each object of the request.
    """

    items: tuple[AppliedItem, ...]


def routes(services: ServiceContext) -> Routes:
    """Return the route."""
    made = Routes("system")

    @made.post(
        PATH, "Create or merge many objects", limit=BODY_LIMIT, values=VALUES_LIMIT, required=True,
    )  # fmt: skip
    async def apply_objects(
        request: Ask,
        who: Caller,
        sent: ApplyRequest,
        *,
        namespace: Namespace = "default",
        mode: How = "apply",
        checked: Checked = False,
        idempotency_key: Key = None,
    ) -> ApplyReply:
        """Create or merge up to 500 objects in order, or only say what would happen (dry run)."""
        done = await applying.apply(
            services,
            who,
            sent.items,
            namespace=namespace,
            mode=Mode(mode),
            checked=checked,
            key=idempotency_key,
            take=take_write(request),
        )
        compared = mode == "dry-run"
        return ApplyReply(
            items=tuple(_item(services, who, each, compared=compared) for each in done)
        )

    return made


def _item(services: ServiceContext, who: Caller, done: Applied, *, compared: bool) -> AppliedItem:
    refused = done.error
    return AppliedItem(
        result=done.result,
        object=views.within(services, who.principal, done.obj),
        before=views.within(services, who.principal, done.before) if compared else None,
        problem=None
        if refused is None
        else problems.of(refused, instance=PATH, request_id=who.request_id),
        warnings=() if done.obj is None else _warnings(services, done.before, done.obj),
    )


def _warnings(
    services: ServiceContext, before: Resource | None, after: Resource
) -> tuple[str, ...]:
    """Return what a change changed beside the object, and what will not do what one might expect."""
    return (*warned.differences(before, after), *warned.warnings(services, after))

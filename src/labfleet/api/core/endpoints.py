"""What handlers share: making a route with its documentation, reading bodies, replying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import HeaderParameter

from labfleet.kernel import errors
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller

CALLER = "labfleet.caller"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
T = TypeVar("T")
Ask = Request[Any, Any, Any]
Key = Annotated[
    str | None,
    HeaderParameter(name="Idempotency-Key", description="Same key and body, same answer."),
]


class RouteDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What the OpenAPI document says of a route beyond its parameters."""

    body: Any = None
    body_type: str = JSON
    reply: Any = None
    reply_type: str = JSON
    public: bool = False


def endpoint(
    method: str,
    path: str,
    run: Callable[..., Any],
    *,
    name: str,
    summary: str,
    tag: str,
    shape: RouteDoc | None = None,
    status: int = 200,
) -> HTTPRouteHandler:
    """Return a Litestar route; `name` is its operationId."""
    return HTTPRouteHandler(
        path,
        http_method=method,  # type: ignore[arg-type]  # Litestar takes the plain word too
        operation_id=name,
        summary=summary,
        tags=[tag],
        status_code=status,
        opt={"shape": shape or RouteDoc()},
    )(run)


def caller(request: Ask) -> Caller:
    """Return the request's caller, which `front` has put into the scope."""
    found = request.scope.get(CALLER)
    if not isinstance(found, Caller):
        raise errors.Denied("a bearer token is needed", reason="Unauthenticated")
    return found


async def body(request: Ask, *types: str) -> Any:
    """Return the decoded body; Invalid when it is no JSON or of another media type."""
    allowed = types or (JSON,)
    given = request.headers.get("content-type", "").split(";")[0].strip().lower()
    raw = await request.body()
    if given not in allowed and (given or raw):
        message = f"send {' or '.join(allowed)}, not {given[:80] or 'nothing'}"
        raise errors.Invalid(message, reason="UnsupportedMediaType")
    if not raw:
        raise intake.invalid(("body", "is missing"))
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        said = str(problem) if isinstance(problem, msgspec.DecodeError) else "not UTF-8 JSON"
        raise intake.invalid(("body", said[:200]), reason="NotJson") from None


async def record(request: Ask, kind: type[T]) -> T:
    """Return the body as a small record; an absent body is an empty one."""
    if not await request.body():
        return intake.record(kind, {})
    return intake.record(kind, await body(request))


def reply(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response[bytes]:
    """Return a JSON reply of any record or plain value."""
    return Response(
        content=msgspec.json.encode(value),
        status_code=status,
        media_type=JSON,
        headers=dict(headers or {}),
    )

"""Errors as problem documents (RFC 9457): one table from error to status."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from labfleet.kernel import errors
from labfleet.service.core.service_context import Refused, Stale

MEDIA_TYPE = "application/problem+json"

# Looked up by reason first, then by the nearest type; an error in neither table is a 500.
BY_REASON: dict[str, int] = {
    "Unauthenticated": 401,
    "RouteNotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "BodyTimeout": 408,
    "TooLarge": 413,
    "UnsupportedMediaType": 415,
    "UnknownHost": 421,
    "TooManyTokens": 409,
    "TooManyStreams": 503,
    "TooManyStreamsOfToken": 429,
    "TooManySessions": 429,
    "TooManyWorkers": 429,
}
BY_TYPE: dict[type[errors.LabfleetError], int] = {
    errors.Invalid: 400,
    errors.Denied: 403,
    errors.Gone: 404,
    errors.Conflict: 409,
    errors.TooOld: 410,
    errors.Throttled: 429,
    errors.Protocol: 502,
    errors.Temporary: 503,
    errors.Ambiguous: 504,
    errors.Permanent: 422,
}


class Place(msgspec.Struct, frozen=True):
    """One thing that is wrong: where and what.

    where: Field, parameter or place in a file that is wrong.
    what: What is wrong with it.
    """

    where: str
    what: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A problem document; `reason` is the word that programs branch on.

    type: Identifier of the kind of problem.
    title: Phrase of the HTTP status.
    status: The HTTP status.
    detail: What went wrong, in a sentence.
    instance: Path of the request.
    reason: Word that programs branch on.
    problems: Each thing that is wrong, with its place.
    request_id: Id under which the server's log has the request.
    current_version: Version of the object now, when yours is older.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    reason: str
    problems: tuple[Place, ...] = ()
    request_id: str = ""
    current_version: str | None = None


def status_of(error: errors.LabfleetError) -> int:
    """Return the status of an error."""
    if error.reason in BY_REASON:
        return BY_REASON[error.reason]
    for kind in type(error).__mro__:
        if kind in BY_TYPE:
            return BY_TYPE[kind]
    return 500


def of(error: errors.LabfleetError, *, instance: str, request_id: str) -> Problem:
    """Return the document of an error of ours."""
    status = status_of(error)
    places = error.problems if isinstance(error, errors.Invalid | Refused) else ()
    current = str(error.current) if isinstance(error, Stale) else None
    return Problem(
        type=f"urn:labfleet:problem:{_kebab(error.reason)}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.message,
        instance=instance,
        reason=error.reason,
        problems=tuple(Place(where, what) for where, what in places),
        request_id=request_id,
        current_version=current,
    )


def unexpected(*, instance: str, request_id: str) -> Problem:
    """Return the document of an unexpected exception, without internal details."""
    return Problem(
        type="urn:labfleet:problem:internal",
        title=HTTPStatus(500).phrase,
        status=500,
        detail="the server has a defect; the request id finds it in the log",
        instance=instance,
        reason="Internal",
        request_id=request_id,
    )


def headers(error: errors.LabfleetError) -> dict[str, str]:
    """Return the headers that go with an error."""
    made: dict[str, str] = {}
    status = status_of(error)
    if status == 401:
        made["WWW-Authenticate"] = 'Bearer realm="labfleet"'
    if error.retry_after is not None or status in {429, 503}:
        made["Retry-After"] = str(max(1, round(error.retry_after or 1)))
    return made


def encode(problem: Problem) -> bytes:
    """Return the document as JSON, without what is unknown."""
    raw: dict[str, Any] = msgspec.to_builtins(problem)
    return msgspec.json.encode({key: value for key, value in raw.items() if value is not None})


def head(headers: Mapping[str, str], body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of a document as a reply, its own length among them."""
    return [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in headers.items()),
    ]


async def send(
    write: Callable[[Any], Awaitable[None]], status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Write a document as a whole reply."""
    told = head(headers, body)
    await write({"type": "http.response.start", "status": status, "headers": told})
    await write({"type": "http.response.body", "body": body, "more_body": False})


def _kebab(word: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", word).lower()

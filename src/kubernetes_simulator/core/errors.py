"""Kubernetes' refusals: an HTTP status, a reason that clients branch on, and a sentence."""

from collections.abc import Sequence
from typing import Any

from kubernetes_simulator.core.inputs import Json


class ApiError(Exception):
    """A refusal; `status_object` is the body that clients read."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Json | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details, self.retry_after = details, retry_after

    def status_object(self) -> Json:
        """Return the `Status` object."""
        found: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        details = dict(self.details or {})
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        if details:
            found["details"] = details
        return {**found, "code": self.code}


def _of(group: str, plural: str, name: str) -> Json:
    found: Json = {"name": name, "kind": plural}
    if group:
        found["group"] = group
    return found


def _full(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    """Return the 404 of an object."""
    text = f'{_full(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", text, _of(group, plural, name))


def no_such_path() -> ApiError:
    """Return the 404 of a path that is no resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """Return the 409 of a name that is taken."""
    text = f'{_full(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _of(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    """Return the 409 of a write that rests on an old version."""
    text = f'Operation cannot be fulfilled on {_full(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", text, _of(group, plural, name))


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def bad_request(text: str) -> ApiError:
    """Return a 400 with a sentence."""
    return ApiError(400, "BadRequest", text)


def forbidden(text: str, details: Json | None = None) -> ApiError:
    """Return a 403 with a sentence."""
    return ApiError(403, "Forbidden", text, details)


def expired(revision: int, floor: int) -> ApiError:
    """Return the 410 of a version that compaction has passed."""
    text = f"too old resource version: {revision} ({floor})"
    return ApiError(410, "Expired", text)


def expired_continue() -> ApiError:
    """Return the 410 of a page token that compaction has passed."""
    text = (
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter."
    )
    return ApiError(410, "Expired", text)


def too_large(what: str, most: int) -> ApiError:
    """Return the 413 of something over a bound."""
    return ApiError(413, "RequestEntityTooLarge", f"{what} is over the limit of {most}")


def too_many(text: str) -> ApiError:
    """Return the 429 that asks to come again in a second."""
    return ApiError(429, "TooManyRequests", text, retry_after=1)


def invalid(group: str, kind: str, name: str, causes: Sequence[tuple[str, str, str]]) -> ApiError:
    """Return the 422 of a body with problems: (field, reason, sentence) each."""
    told = [
        {"reason": reason, "message": text, "field": field} for field, reason, text in causes[:50]
    ]
    shown = [f"{field}: {text}" for field, _, text in causes[:50]]
    said = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
    full = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {**_of(group, kind, name), "causes": told}
    return ApiError(422, "Invalid", f'{full} "{name}" is invalid: {said}', details)

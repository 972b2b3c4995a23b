"""What a page that tells of an error says, and its HTTP status."""

from __future__ import annotations

from labfleet.kernel import errors

_STATUS = (
    (errors.Gone, 404),
    (errors.Denied, 403),
    (errors.Invalid, 400),
    (errors.Conflict, 409),
    (errors.Throttled, 429),
    (errors.QuotaExceeded, 429),
    (errors.Temporary, 503),
    (errors.Permanent, 422),
)


def status_of(error: errors.LabfleetError) -> int:
    """Return the status of an error's page; 500 for what nobody expects."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def sentence(error: errors.LabfleetError) -> str:
    """Return what an error says, as a sentence begins."""
    return error.message[:1].upper() + error.message[1:]


def places(error: errors.LabfleetError) -> tuple[tuple[str, str], ...]:
    """Return the places that an error names, each with what is wrong there; none for most errors."""
    return tuple(getattr(error, "problems", ()))

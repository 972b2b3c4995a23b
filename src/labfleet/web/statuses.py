"""The HTTP status of a page that tells of an error."""

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

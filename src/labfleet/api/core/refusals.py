"""Which errors a route may reply, by status: they follow from what the route states."""

from __future__ import annotations

from labfleet.api.core import problems
from labfleet.api.core.route import OWN_API, Route
from labfleet.kernel import errors

ANY = (errors.Temporary, errors.Throttled, errors.Ambiguous)
"""What any route may meet: the store is away, too much is asked, an outcome is unknown."""


def statuses(route: Route) -> set[int]:
    """Return the statuses of 400 and above that a client of this route has to expect.

    Not in it: 404 and 405 for an address that is no route, and 500, which is always a defect.
    """
    kinds: set[type[errors.LabfleetError]] = set(route.refuses)
    reasons: set[str] = set()
    if not route.public:
        # Invalid: two different credentials.
        kinds |= {errors.Denied, errors.Invalid, *ANY}
        reasons.add("Unauthenticated")
    if route.parameters or route.path.startswith(OWN_API):
        kinds.add(errors.Invalid)
    if "{" in route.path:
        kinds.add(errors.Gone)
    if route.method != "GET":
        kinds |= {errors.Conflict, errors.Invalid}
    if route.body is not None:
        kinds.add(errors.Invalid)
        reasons |= {"TooLarge", "BodyTimeout", "UnsupportedMediaType"}
    return {problems.BY_TYPE[kind] for kind in kinds} | {problems.BY_REASON[r] for r in reasons}

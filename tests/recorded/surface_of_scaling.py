"""Where today's OpenAPI document differs by the policies of pools."""

from __future__ import annotations

_FIELDS = ("hours", "spareTimes", "spareWorkers", "surePercent", "thresholds", "timetable")
SCALING = {
    f"/components/schemas/{place}": "each policy is built, with its thresholds, times and spares"
    for place in (
        *(f"PoolSpec/properties/scaling/default/{name}" for name in _FIELDS),
        *(f"Scaling/properties/{name}" for name in _FIELDS),
        "Thresholds",
        "Window",
        "WorkersWindow",
    )
}
"""Place in the document -> why today's differs there."""

"""Where today's OpenAPI document differs by drift of ports, and by what becomes of held ones."""

from __future__ import annotations

DRIFT = {
    f"/{place}": "held ports are released by a person, and who asked for an observation is kept"
    for place in (
        "components/schemas/PortRelease",
        "components/schemas/ReleaseRequest",
        "components/schemas/SessionSpec/properties/observeRequestedBy",
        "paths/~api~v1~workers~{name}~ports~release",
    )
}
"""Place in the document -> why today's differs there."""

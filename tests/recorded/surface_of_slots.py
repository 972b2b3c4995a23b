"""Where today's OpenAPI document differs by what is known of a session's slot, person and lab."""

from __future__ import annotations

SLOTS = {
    f"/{place}": "a slot's time may change, within its definition's policy"
    for place in (
        "components/schemas/DefinitionSpec/properties/extension",
        "components/schemas/DefinitionSpec/properties/teardownMinutes",
        "components/schemas/ExtensionPolicy",
        "components/schemas/Extensions",
        "components/schemas/MoveRequest",
        "components/schemas/Session/properties/status/default/extensions",
        *(
            f"components/schemas/DefinitionSpec/properties/{name}"
            for name in ("noShowMinutes", "variables", "warnMinutes")
        ),
        *(
            f"components/schemas/{place}/{name}"
            for place in ("Session/properties/status/default", "SessionStatus/properties")
            for name in ("checkedInAt", "checkedInBy", "warnedMinutes")
        ),
        *(
            f"components/schemas/SessionSpec/properties/{name}"
            for name in (
                "durationMinutes",
                "environment",
                "limits",
                "studentEmail",
                "timeFactor",
            )
        ),
        "paths/~api~v1~sessions~{name}~check-in",
        "components/schemas/SessionStatus/properties/extensions",
        "components/schemas/ShortenRequest",
        "paths/~api~v1~sessions~{name}~move",
        "paths/~api~v1~sessions~{name}~shorten",
    )
}
"""Place in the document -> why today's differs there."""

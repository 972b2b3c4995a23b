"""Where today's OpenAPI document differs by what is kept of a session's lab at its end."""

from __future__ import annotations

KEPT = {
    f"/{place}": "what was configured in a lab is kept, and a later session goes on with it"
    for place in (
        "components/schemas/DefinitionSpec/properties/continuable",
        "components/schemas/DefinitionSpec/properties/keep",
        "components/schemas/KeptWork",
        "components/schemas/Session/properties/status/default/continues",
        "components/schemas/Session/properties/status/default/kept",
        "components/schemas/SessionSpec/properties/continueFrom",
        "components/schemas/SessionStatus/properties/continues",
        "components/schemas/SessionStatus/properties/kept",
        "components/schemas/Settings/properties/spec/default/keeping",
        "components/schemas/SettingsSpec/properties/keeping",
        "paths/~api~v1~sessions~{name}~kept-lab",
    )
}
"""Place in the document -> why today's differs there."""

"""Where today's OpenAPI document differs by demand that is learned from past use."""

from __future__ import annotations

LEARNED = {
    f"/components/schemas/{place}": "sessions may be counted with what past ones used"
    for place in (
        "Decision/properties/demand",
        "DefinitionSpec/properties/demand",
        "LearnedAmount",
        "LearnedDemand",
        "PoolSpec/properties/demand",
        "Session/properties/status/default/demand",
        "SessionStatus/properties/demand",
    )
}
"""Place in the document -> why today's differs there."""

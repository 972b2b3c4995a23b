"""Where today's OpenAPI document differs by what is recommended for definitions, and families."""

from __future__ import annotations

RECOMMENDATIONS = {
    f"/{place}": "what definitions should ask for is recommended and applied; families have versions"
    for place in (
        *(
            f"components/schemas/{record}"
            for record in (
                "AppliedBody",
                "AppliedReply",
                "AppliedSize",
                "ApplyRecommendation",
                "LabBound",
                "LabRecommendation",
                "PoolOutcome",
                "ProposedSize",
                "ProposeRecommendation",
                "SizedAmounts",
                "SizeOption",
                "SizeSaving",
                "UndoRecommendation",
            )
        ),
        *(
            f"components/schemas/{place}/{name}"
            for place in ("Definition/properties/status/default", "DefinitionStatus/properties")
            for name in ("applied", "proposal", "reserved")
        ),
        "components/schemas/SessionSpec/properties/definition/default",
        "components/schemas/SessionSpec/properties/definition/minLength",
        "components/schemas/SessionSpec/properties/family",
        "components/schemas/SessionSpec/required",
        "components/schemas/Settings/properties/spec/default/review",
        "components/schemas/SettingsSpec/properties/review",
        "paths/~api~lablet-definitions~{id}~apply",
        "paths/~api~v1~definitions~{name}~recommendation",
        *(
            f"paths/~api~v1~definitions~{{name}}~recommendation~{verb}"
            for verb in ("apply", "propose", "undo")
        ),
    )
}
"""Place in the document -> why today's differs there."""

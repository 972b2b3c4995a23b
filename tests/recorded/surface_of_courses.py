"""What courses, and handing sessions over, added to the OpenAPI document."""

from __future__ import annotations

COURSES: dict[str, str] = {
    f"/{place}": "a class that meets on several dates is booked as one, and sessions are handed over"
    for place in (
        *(
            f"components/schemas/{name}"
            for name in (
                "Course",
                "CourseDate",
                "CourseList",
                "CourseSlot",
                "CourseSpec",
                "CourseStatus",
            )
        ),
        "components/schemas/HandOverRequest",
        "components/schemas/HandedOver",
        "components/schemas/SessionOffer",
        "components/schemas/TakeRequest",
        *(
            f"components/schemas/{where}/{name}"
            for where in ("Session/properties/status/default", "SessionStatus/properties")
            for name in ("handedOver", "offer")
        ),
        *(f"paths/~api~v1~sessions~{{name}}~{verb}" for verb in ("hand-over", "take")),
        *(
            f"paths/~api~v1~courses{rest}"
            for rest in ("", "~{name}", "~{name}~events", "~{name}~explain")
        ),
    )
}
"""Place in the document -> why today's differs there."""

"""What courses added to the OpenAPI document."""

from __future__ import annotations

COURSES: dict[str, str] = {
    f"/{place}": "a class that meets on several dates is booked as one"
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
        *(
            f"paths/~api~v1~courses{rest}"
            for rest in ("", "~{name}", "~{name}~events", "~{name}~explain")
        ),
    )
}
"""Place in the document -> why today's differs there."""

"""Where today's OpenAPI document differs by what a group's times mean, and what is told of them."""

from __future__ import annotations

GROUPS = (
    dict.fromkeys(
        (
            "/components/schemas/GroupEndRequest",
            "/components/schemas/SeatTimes",
            "/components/schemas/SeatsChanged",
            *(f"/paths/~api~v1~groups~{{name}}~{verb}" for verb in ("extend", "move", "shorten")),
        ),
        "a group is extended, shortened and moved with its seats, and says whose times differ",
    )
    | dict.fromkeys(
        (),
        "a check-in is of who sat there, so it is known when somebody else got the seat",
    )
    | {
        "/components/schemas/Explanation/properties/more": "what stands in no other field",
    }
)
"""Place in the document -> why today's differs there."""

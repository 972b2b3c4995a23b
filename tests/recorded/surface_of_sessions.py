"""Where today's OpenAPI document differs from recorded ones for what sessions and queues can do now."""

from __future__ import annotations

SESSIONS: dict[str, str] = (
    dict.fromkeys(
        (
            "/components/schemas/NodeObservation/properties/used",
            "/components/schemas/ResourceObservation/properties/measured",
            "/components/schemas/ResourceObservation/properties/used",
            "/components/schemas/Session/properties/status/default/measured",
            "/components/schemas/Session/properties/status/default/used",
            "/components/schemas/SessionStatus/properties/measured",
            "/components/schemas/SessionStatus/properties/used",
            "/components/schemas/Settings/properties/spec/default/observation",
            "/components/schemas/SettingsSpec/properties/observation",
            "/paths/~api~v1~fleet~sessions~usage",
            "/paths/~api~v1~sessions~{name}~series",
        ),
        "what sessions' labs use is measured",
    )
    | dict.fromkeys(
        (
            "/components/schemas/CalendarFeedReply",
            "/components/schemas/Settings/properties/spec/default/notices",
            "/components/schemas/SettingsSpec/properties/notices",
            "/components/schemas/WebhookSpec/properties/owner",
            "/components/schemas/WebhookSpec/properties/previousSecret",
            *(f"/paths/~api~v1~calendar{each}" for each in ("-feed", "-feed.ics", ".ics")),
        ),
        "owners are told of their sessions, by webhooks of their own and in calendars",
    )
    | dict.fromkeys(
        (
            "/components/schemas/Queue",
            "/components/schemas/QueueList",
            "/components/schemas/QueueOrder",
            "/components/schemas/QueueSpec",
            "/components/schemas/QueueStatus",
            "/paths/~api~v1~queues",
            "/paths/~api~v1~queues~{name}",
            "/paths/~api~v1~queues~{name}~events",
            "/paths/~api~v1~queues~{name}~explain",
        ),
        "requests for a cluster wait in queues",
    )
    | dict.fromkeys(
        (
            *(
                f"/components/schemas/{name}"
                for name in (
                    "BookedSeat",
                    "Group",
                    "GroupList",
                    "GroupSpec",
                    "GroupStatus",
                    "Seat",
                    "SeatCounts",
                    "SessionSeat",
                    "Session/properties/status/default/seat",
                    "SessionStatus/properties/seat",
                )
            ),
            "/paths/~api~v1~sessions/get/parameters",
            "/paths/~api~v1~groups",
            "/paths/~api~v1~groups~{name}",
            "/paths/~api~v1~groups~{name}~events",
            "/paths/~api~v1~groups~{name}~explain",
        ),
        "seats of a class are booked together, by who answers for them",
    )
    | dict.fromkeys(
        (
            "/paths/~api~v1~sessions~{name}~retry",
            "/components/schemas/RetryRequest",
            "/components/schemas/SessionLink",
            "/components/schemas/Explanation/properties/attempts",
            *(
                f"/components/schemas/{place}/{name}"
                for place in ("Session/properties/status/default", "SessionStatus/properties")
                for name in ("retryCount", "retryOf", "retriedAs")
            ),
        ),
        "a failed session is tried again as a new one that links to it",
    )
    | dict.fromkeys(
        (
            "/components/schemas/Claim",
            "/components/schemas/Pool/properties/status/default/endangered",
            "/components/schemas/PoolStatus/properties/endangered",
            "/components/schemas/Session/properties/status/default/claim",
            "/components/schemas/SessionSpec/properties/whenFull",
            "/components/schemas/SessionStatus/properties/claim",
        ),
        "a slot is promised when it is accepted, or waits for room",
    )
    | dict.fromkeys(
        (
            "/components/schemas/DefinitionSpec/properties/labUser",
            "/components/schemas/LabUser",
            "/components/schemas/PortAccess",
            "/components/schemas/Session/properties/status/default/access",
            "/components/schemas/SessionAccess",
            "/components/schemas/SessionStatus/properties/access",
            "/components/schemas/Settings/properties/spec/default/access",
            "/components/schemas/SettingsSpec/properties/access",
        ),
        "owners are told where their labs are, as far as a setting says",
    )
)

"""Where today's OpenAPI document differs by the labs on workers' servers."""

from __future__ import annotations

LIVE_LABS = {
    f"/{place}": "the labs on a worker's server are told, and left alone when somebody says so"
    for place in (
        "components/schemas/HostedLab",
        "components/schemas/IgnoredLab",
        "components/schemas/LabOfWorker",
        "components/schemas/LabsReading",
        "components/schemas/IgnoreRequest",
        "components/schemas/StrayLab/properties/ignored",
        "components/schemas/Worker/properties/spec/default/ignoredLabs",
        "components/schemas/Worker/properties/status/default/hostedLabs",
        "components/schemas/WorkerSpec/properties/ignoredLabs",
        "components/schemas/WorkerStatus/properties/hostedLabs",
        "paths/~api~v1~workers~{name}~labs",
        "components/schemas/Worker/properties/spec/default/labOrder",
        "components/schemas/Worker/properties/status/default/labOrder",
        "components/schemas/WorkerSpec/properties/labOrder",
        "components/schemas/WorkerStatus/properties/labOrder",
        "paths/~api~v1~workers~{name}~labs~{lab}~ignore",
        "paths/~api~v1~workers~{name}~labs~{lab}~order",
    )
} | {
    f"/{place}": "the lab of a session that runs takes orders, and what others do to it is told"
    for place in (
        "components/schemas/DefinitionSpec/properties/labControl",
        "components/schemas/LabMember",
        "components/schemas/LabOff",
        "components/schemas/LabOrder",
        "components/schemas/LabOrderProgress",
        "components/schemas/LabOrderRequest",
        "components/schemas/LabStatus/properties/edits",
        "components/schemas/LabStatus/properties/members",
        "components/schemas/Session/properties/status/default/labOff",
        "components/schemas/Session/properties/status/default/labOrder",
        "components/schemas/SessionSpec/properties/labOrder",
        "components/schemas/SessionStatus/properties/labOff",
        "components/schemas/SessionStatus/properties/labOrder",
        "paths/~api~v1~sessions~{name}~lab",
        "components/schemas/ConsolesReading",
        "components/schemas/NodeConsole",
        "paths/~api~v1~sessions~{name}~consoles",
    )
}
"""Place in the document -> why today's differs there."""

"""Where today's OpenAPI document differs from recorded ones, and why."""

from __future__ import annotations

from surface_of_bounds import BOUNDS
from surface_of_courses import COURSES
from surface_of_drift import DRIFT
from surface_of_groups import GROUPS
from surface_of_hands import HANDS
from surface_of_kept import KEPT
from surface_of_learned import LEARNED
from surface_of_livelabs import LIVE_LABS
from surface_of_money import MONEY
from surface_of_recommendations import RECOMMENDATIONS
from surface_of_scaling import SCALING
from surface_of_sessions import SESSIONS
from surface_of_slots import SLOTS
from surface_of_stream import STREAM

_WHERE = "two namespaces may hold workers and pools of one name, so a reading says which it is"
_PROVIDER = "machines come from more than EC2: neutral names, and the old ones are still read"
DIFFERENCES: dict[str, dict[str, str]] = {
    "9f921ab": {
        "/paths/~api~internal~workers~{id}~cml-data/get/summary": "seed 003 is upstream 003 now",
        "/components/schemas/Reading/properties/at": "when a worker was last measured",
        "/components/schemas/SettingValue/properties/note": "what a value will not do is said",
        "/components/schemas/SettingValue/properties/value": "each field says what it is",
        "/paths/~api~workers~region~{region}~workers/get/responses/200/content": "it is a list",
        "/components/schemas/AliveReply": "liveness says no more than that it lives",
        "/paths/~healthz/get/responses/200/content": "liveness says no more than that it lives",
        "/paths/~readyz/get/summary": "readiness says what of the store works",
        "/paths/~api~v1~settings~confirm-clock": "a jump of the host's clock is confirmed there",
        "/components/schemas/ObservationBody/properties/observed_ports": "none told is not none",
        "/paths/~api~events~stream/get/parameters": "the document had those of /api/v1/events",
    }
    | SESSIONS
    | COURSES
    | BOUNDS
    | {
        f"/paths/~{name}/post/parameters": "runs have a namespace, given in the query"
        for name in ("request_run", "simulation_complete")
    }
    | {
        f"/components/schemas/{place}": "a run's cost may be left out, is predicted and learned"
        for place in (
            "Cost",
            "ClusterSpec/properties/coveragePercent",
            "ClusterSpec/properties/defaults",
            "ClusterSpec/properties/overloadPercent",
            "ClusterSpec/properties/rule",
            *(f"Decision/properties/{name}" for name in ("epsilon", "risk", "rule")),
            "DefaultCost",
            "Evidence",
            "ClusterLoad",
            *(
                f"Explanation/properties/{name}"
                for name in ("again", "evidence", "load", "prediction")
            ),
            "Forecast",
            "Prediction",
            "Rule",
            "RunBody/properties/cost",
            "RunBody/required",
            "RunReply/properties/evidence",
            "RunReply/properties/predicted",
            "SimulationSpec/properties/cost",
            "SimulationSpec/properties/durationSeconds",
            "SimulationSpec/properties/family",
            "SimulationStatus/properties/evidence",
            "SimulationStatus/properties/prediction",
            "Use",
            "Achieved",
            "Later",
            "Overload",
            "Cluster/properties/status/default/overload",
            "ClusterStatus/properties/overload",
            "SimulationStatus/properties/used",
            "PredictionList",
            "RunKind",
        )
    }
    | {
        f"/components/schemas/{place}": "a worker is chosen by its pool's strategy, which is told"
        for place in (
            "Decision/properties/latencyMs",
            "Decision/properties/parts",
            "Decision/properties/strategy",
            "DefinitionSpec/properties/cmlVersionMax",
            "DefinitionSpec/properties/cmlVersionMin",
            "DefinitionSpec/properties/labType",
            "LabType",
            "PoolSpec/properties/strategy",
            "Settings/properties/spec/default/scheduling",
            "SettingsSpec/properties/scheduling",
            "Strategy",
        )
    }
    | {
        f"/{place}": "what a session's lab uses is measured"
        for place in (
            "components/schemas/NodeObservation/properties/used",
            "components/schemas/ResourceObservation/properties/measured",
            "components/schemas/ResourceObservation/properties/used",
            "components/schemas/Session/properties/status/default/measured",
            "components/schemas/Session/properties/status/default/used",
            "components/schemas/SessionStatus/properties/measured",
            "components/schemas/SessionStatus/properties/used",
            "components/schemas/Settings/properties/spec/default/observation",
            "components/schemas/SettingsSpec/properties/observation",
            "paths/~api~v1~fleet~sessions~usage",
            "paths/~api~v1~sessions~{name}~series",
        )
    }
    | {"/paths/~api~v1~predictions": "how well predictions hold"}
    | {
        f"/components/schemas/{place}": "when a waiting session starts is worked out and told"
        for place in (
            "Expected",
            *(f"Explanation/properties/{name}" for name in ("earlier", "expected", "headline")),
            "Session/properties/status/default/outlook",
            "SessionOutlook",
            "SessionStatus/properties/outlook",
        )
    }
    | {
        f"/components/schemas/{place}": "a cluster is looked at: its nodes, its figures, safe mode"
        for place in (
            "Cluster/properties/status/default/mode",
            "Cluster/properties/status/default/seen",
            "ClusterSeen",
            "ClusterSpec/properties/capacity",
            "ClusterSpec/properties/kubernetes",
            "ClusterSpec/properties/metrics",
            "ClusterSpec/properties/safeAfterSeconds",
            "ClusterSpec/properties/whenBlind",
            "ClusterSpec/required",
            "ClusterStatus/properties/mode",
            "ClusterStatus/properties/seen",
            "Figure",
            "KubernetesAccess",
            "MetricsKind",
            "MetricsSource",
            "WhenBlind",
        )
    }
    | {
        f"/{place}": "a run may wait, lives by its caller's reports, and ends in more than one way"
        for place in (
            "components/schemas/CompleteBody/properties/observed",
            "components/schemas/CompleteBody/properties/status",
            "components/schemas/HeartbeatBody",
            "components/schemas/HeartbeatReply",
            "components/schemas/RunBody/properties/duration_seconds",
            "components/schemas/RunBody/properties/key",
            "components/schemas/RunBody/properties/priority",
            "components/schemas/RunBody/properties/queue",
            "components/schemas/RunBody/properties/ttl_seconds",
            "components/schemas/RunReply/properties/take_up_by",
            "components/schemas/RunReply/properties/position",
            "components/schemas/RunReply/properties/start_range",
            "components/schemas/StartRange",
            "components/schemas/Settings/properties/spec/default/admission",
            "components/schemas/SettingsSpec/properties/admission",
            "components/schemas/Simulation/properties/status/default",
            "components/schemas/SimulationPhase",
            "components/schemas/SimulationSpec/properties/priority",
            "components/schemas/SimulationSpec/properties/queue",
            "components/schemas/SimulationSpec/properties/ttlSeconds",
            "components/schemas/SimulationStatus/properties/askedAt",
            "components/schemas/SimulationStatus/properties/leaseUntil",
            "components/schemas/SimulationStatus/properties/note",
            "components/schemas/SimulationStatus/properties/observed",
            "components/schemas/SimulationStatus/properties/phase",
            "components/schemas/SimulationStatus/properties/reported",
            "components/schemas/SimulationStatus/properties/startedAt",
            "components/schemas/SimulationStatus/properties/takeUpBy",
            "paths/~api~v1~simulations/get/parameters/11",
            "paths/~api~v1~simulations~{name}/get/parameters/2",
            "paths/~simulation_heartbeat",
        )
    }
    | {
        f"/{place}": "a token may come in X-API-Key, as upstream 002's programs send it"
        for place in ("components/securitySchemes/apiKey", "security")
    }
    | {
        f"/components/schemas/{place}": "what is promised of a worker and left is told"
        for place in (
            "Allocation",
            "Reading/properties/allocation",
            "Shares",
            "Vitals/properties/allocation",
            "Worker/properties/status/default/allocation",
            "WorkerStatus/properties/allocation",
        )
    }
    | {
        f"/components/schemas/{place}/{name}": "a launch and the last check have instants"
        for place in ("Worker/properties/status/default", "WorkerStatus/properties")
        for name in (
            "failedCheckAt",
            "lastHealthCheckAt",
            "provisioningEndedAt",
            "provisioningStartedAt",
        )
    }
    | dict.fromkeys(
        (
            "/components/schemas/FlatWorkers",
            "/paths/~api~internal~workers/get/responses/200",
            "/paths/~api~internal~workers/get/summary",
            "/paths/~api~internal~workers~{id}/get/responses/200",
            "/paths/~api~internal~workers~{id}/get/summary",
        ),
        "upstream 002's routes answer its flat worker",
    )
    | {"/paths/~api~v1~workers/get/parameters": "workers are listed by the tags that EC2 shows"}
    | {
        f"/components/schemas/ImportBody/{name}": "an import takes upstream 002's body"
        for name in (
            "properties/aws_instance_id",
            "properties/instance_id",
            "properties/template",
            "required",
        )
    }
    | {
        f"/components/schemas/{place}": "a pool's phase has a date of its own"
        for place in (
            "Pool/properties/status/default/phaseSince",
            "PoolStatus/properties/phaseSince",
        )
    }
    | {
        f"/components/schemas/{place}": "alerts carry the value that was measured"
        for place in ("Condition/properties/measured", "Measured", "Raised/properties/measured")
    }
    | {
        f"/components/schemas/{place}": "a worker's time limit says from when it counts"
        for place in (
            "LimitStatus",
            "Worker/properties/status/default/limit",
            "WorkerStatus/properties/limit",
        )
    }
    | {
        f"/components/schemas/{place}": "stopped workers are in a count of their pool"
        for place in ("Pool/properties/status/default/stopped", "PoolStatus/properties/stopped")
    }
    | {
        f"/components/schemas/{place}": "what others ended is counted, and no suspect for ever"
        for place in (
            "GarbageSummary/properties/endedOutside",
            "GarbageSummary/required",
            "Region/properties/status/default",
            "RegionStatus/properties/endedOutside",
            "RegionStatus/properties/outside",
        )
    }
    | {
        "/paths/~api~v1~fleet~leaders": "everybody sees who leads",
        "/components/schemas/LeaderList": "everybody sees who leads",
        "/components/schemas/RoleLeader": "everybody sees who leads",
    }
    | dict.fromkeys(
        (
            "/paths/~api~v1~apply",
            "/components/schemas/AppliedItem",
            "/components/schemas/ApplyReply",
            "/components/schemas/ApplyRequest",
            "/components/schemas/ApplyResult",
        ),
        "many objects are applied in one request",
    )
    | dict.fromkeys(
        (
            "/components/schemas/EventReply/properties/uid",
            "/components/schemas/Explanation/properties/uid",
            "/paths/~api~v1~sessions~{name}~cancel/post/parameters",
            "/paths/~api~v1~sessions~{name}~extend/post/parameters",
        ),
        "a name is given again, so the object that is meant is told by its uid",
    )
    | dict.fromkeys(
        (
            "/components/schemas/Definition/properties/status/default/unplaced",
            "/components/schemas/DefinitionStatus/properties/unplaced",
        ),
        "nodes that get a place at import are counted",
    )
    | dict.fromkeys(
        (
            "/components/schemas/Catalogue",
            "/components/schemas/Definition/properties/status/default/imageDefinitions",
            "/components/schemas/DefinitionStatus/properties/imageDefinitions",
            "/components/schemas/Image",
            "/components/schemas/ImageList",
            "/components/schemas/ImageSpec",
            "/components/schemas/ImageStatus",
            "/components/schemas/Template/properties/status/default/image",
            "/components/schemas/TemplateStatus/properties/image",
            "/paths/~api~v1~images",
            "/paths/~api~v1~images~{name}",
            "/paths/~api~v1~images~{name}~events",
            "/paths/~api~v1~images~{name}~explain",
        ),
        "labs are judged by what workers of an image were seen to have",
    )
    | {
        f"/components/schemas/{place}": "how early workers are made is measured"
        for place in (
            "Lead",
            "LeadSource",
            "Pool/properties/status/default/lead",
            "Pool/properties/status/default/promised",
            "PoolSpec/properties/scaling/default/leadSeconds",
            "PoolStatus/properties/lead",
            "PoolStatus/properties/promised",
            "Scaling/properties/leadSeconds",
        )
    }
    | {
        f"/{place}": "what pools have promised is shown over time"
        for place in (
            "components/schemas/Calendar",
            "components/schemas/CalendarPart",
            "components/schemas/PoolCalendar",
            "components/schemas/CalendarSpan",
            "paths/~api~v1~calendar",
        )
    }
    | {
        f"/components/schemas/{name}/properties/namespace": _WHERE
        for name in ("IdleReading", "Pause", "Raised", "Sample", "Vitals")
    }
    | {
        f"/components/schemas/HealthReply/properties/store{name}": "what of the store works"
        for name in ("", "Reason", "Since")
    }
    | {
        f"/components/schemas/{place}/limits": "one caller's share is a setting"
        for place in ("Settings/properties/spec/default", "SettingsSpec/properties")
    }
    | dict.fromkeys(
        (
            *(
                f"/components/schemas/{name}"
                for name in (
                    "DeregisterLicenceRequest",
                    "LicenceOrder",
                    "LicenceProgress",
                    "LicenceReading",
                    "LicenceStatus/properties/order",
                    "LicenseBody",
                    "OrderReading",
                    "RegisterLicenceRequest",
                    "Worker/properties/spec/default/licence",
                    "Worker/properties/status/default/licence/order",
                    "WorkerSpec/properties/licence",
                    "WorkerStatus/properties/licence/default/order",
                )
            ),
            "/paths/~api~v1~workers~{name}~deregister-licence",
            "/paths/~api~v1~workers~{name}~licence",
            "/paths/~api~v1~workers~{name}~register-licence",
            "/paths/~api~v1~workers~{name}~renew-licence",
            "/paths/~api~workers~region~{region}~workers~{id}~license",
        ),
        "a licence is registered, renewed and given back without making the worker anew",
    )
    | dict.fromkeys(
        (
            "/components/schemas/ConsoleText/properties/answered",
            "/components/schemas/Worker/properties/spec/default/consoleAsked",
            "/components/schemas/Worker/properties/status/default/consoleHandled",
            "/components/schemas/WorkerSpec/properties/consoleAsked",
            "/components/schemas/WorkerStatus/properties/consoleHandled",
            "/paths/~api~v1~workers~{name}~console",
            "/paths/~api~v1~workers~{name}~logs/get/summary",
        ),
        "console text is read when somebody asks for it",
    )
    | {
        f"/components/schemas/{place}": "labs that are no session's are known and told"
        for place in (
            "Deed/properties/kind",
            "StrayLab",
            "StrayLabs",
            "Suspect/properties/kind",
            "Worker/properties/status/default/strayLabs",
            "WorkerStatus/properties/strayLabs",
        )
    }
    | {
        "/components/schemas/DefinitionSpec/properties/family": "past runs of a lab's versions are "
        "one family",
    }
    | dict.fromkeys(
        (
            "/components/schemas/ImportRuns",
            "/components/schemas/ImportedRuns",
            "/components/schemas/KeptRun",
            "/components/schemas/PastRun",
            "/components/schemas/Run",
            "/components/schemas/RunKind",
            "/components/schemas/RunList",
            "/components/schemas/Source",
            "/components/schemas/Use",
            "/paths/~api~history",
            "/paths/~api~v1~history",
            "/paths/~api~v1~history~import",
        ),
        "past runs are kept and read",
    )
    | {
        f"/components/schemas/RunBody/properties/{name}/default": "what the caller left out stays "
        "left out, so that one key and body are one request after an upgrade too"
        for name in ("cluster", "duration_seconds", "owner", "params")
    }
    | {
        f"/{place}": "who may still hold a worker's ports is told"
        for place in (
            *(
                f"components/schemas/{name}"
                for name in ("HeldPorts", "PortCounts", "PortUse", "PortsReading", "TakenPort")
            ),
            *(
                f"components/schemas/{record}/{name}"
                for record in ("WorkerStatus/properties", "Worker/properties/status/default")
                for name in ("heldPorts", "ports")
            ),
            "components/schemas/LabStatus/properties/tagsWritten",
            "paths/~api~v1~workers~{name}~ports",
        )
    }
    | {
        f"/{place}": "clusters and runs have series too, and a list of what they use now"
        for place in (
            "components/schemas/Series/properties/kind",
            "components/schemas/Series/properties/name",
            "components/schemas/Usage",
            "components/schemas/UsageList",
            "paths/~api~v1~clusters~{name}~series",
            "paths/~api~v1~fleet~clusters~usage",
            "paths/~api~v1~fleet~simulations~usage",
            "paths/~api~v1~simulations~{name}~series",
        )
    }
    | GROUPS
    | KEPT
    | SCALING
    | LIVE_LABS
    | MONEY
    | LEARNED
    | RECOMMENDATIONS
    | SLOTS
    | DRIFT
    | STREAM
    | HANDS
    | {
        f"/components/schemas/{place}": _PROVIDER
        for place in (
            "AwsSettings/properties/kind",
            "AwsSettings/required",
            "Ec2Status",
            *(f"Machine/properties/{name}" for name in ("aws", "provider")),
            "MachineStatus",
            "StaticSettings",
            *(f"Worker/properties/status/default/{name}" for name in ("ec2", "machine")),
            *(f"WorkerStatus/properties/{name}" for name in ("ec2", "machine")),
        )
    },
}
"""By revision: place in the OpenAPI document (all below it too) -> why today's differs there."""

"""The facts that are recorded of a worker, and why each is so."""

from __future__ import annotations

from labfleet.resources.conditions import ANY_ERROR, ConditionType, Reason


class WorkerReason(Reason):
    """Why a condition of a worker is as it is."""

    ANSWERING = "Answering", "It answered the last look."
    APPLIED = "Applied", "The provider has the tags."
    BAD_GATEWAY = "BadGateway", "CML's web server answers, the controller behind it does not yet."
    BELOW_THRESHOLD = "BelowThreshold", "The measurement is below its threshold again."
    BELOW_WATERMARK = "BelowWatermark", "Every disk is below its watermark."
    BOOT_TIMEOUT = "BootTimeout", "CML was not ready within limits.boot."
    CAPACITY_SHRANK = (
        "CapacityShrank",
        "The capacity that was seen is smaller than what is reserved.",
    )
    CHECK_FAILED = "CheckFailed", "A check failed; the message names it."
    CLAIMED = "Claimed", "The instance carries our owner tag."
    CLAIMING = "Claiming", "Our owner tag is being put on the instance."
    CLOSED = "Closed", "Its phase, a cordon, a drain or the named condition keeps sessions away."
    COMPLETE = "Complete", "Every part could be read."
    COMPUTE_MISSING = "ComputeMissing", "A compute host of CML's cluster is not connected."
    CONTROLLER_DOWN = "ControllerDown", "CML's controller says that its core is not connected."
    DONE = "Done", "What was asked is so."
    CREDENTIALS_EXPIRED = (
        "CredentialsExpired",
        "The provider says that our credentials are expired.",
    )
    CREDENTIALS_REFUSED = "CredentialsRefused", "The provider does not accept our credentials."
    PORTS_AS_GIVEN = "PortsAsGiven", "Its sessions' labs name the ports that they were given."
    PORTS_DIFFER = (
        "PortsDiffer",
        "Somebody changed port tags of labs; the message names their sessions.",
    )
    EMPTY = "Empty", "No session is left."
    ENOUGH_FREE = "EnoughFree", "Enough of them are free again."
    EXPIRED = "Expired", "The date has passed."
    FEW_FREE = "FewFree", "Few of them are left to be given out."
    EXTERNAL = "External", "A server at an address; there is no instance of ours."
    HEALTHY = "Healthy", "CML finds nothing wrong."
    IMPAIRED = "Impaired", "A check fails for longer than the patience."
    IN_COMPLIANCE = "InCompliance", "Registered and authorized."
    IN_PROGRESS = "InProgress", "The registration is under way."
    INITIALIZING = "Initializing", "The provider has not checked it yet."
    INSTANCE_REBOOT = "InstanceReboot", "The provider will reboot the machine."
    INSTANCE_RETIREMENT = "InstanceRetirement", "The provider will retire the machine under it."
    INSTANCE_STOP = "InstanceStop", "The provider will stop the machine."
    INSTANCE_TERMINATED = "InstanceTerminated", "The instance was ended, not by us."
    KEPT = "Kept", "Something keeps the worker; the message says what."
    KVM_MISSING = "KvmMissing", "No compute can run machines that need KVM."
    LATE = "Late", "The deadline of the drain has passed."
    LAUNCH_REFUSED = "LaunchRefused", "The provider refused the request for good."
    LAUNCH_TIMEOUT = "LaunchTimeout", "No running instance within limits.launch."
    LEFT = "Left", "It went on to another phase."
    LEFT_BEHIND = "LeftBehind", "The session is not in this store, or has ended."
    LICENCE_REFUSED = "LicenceRefused", "The licence cloud refused the registration."
    LICENCE_TIMEOUT = "LicenceTimeout", "Not licensed within limits.licence."
    LICENCE_UNKNOWN = "LicenceUnknown", "CML answers, but not what its licence is."
    LOGIN_REFUSED = "LoginRefused", "CML refused the user and password."
    NO_ADDRESS = "NoAddress", "The instance got no address that we can use."
    NO_ANSWER = "NoAnswer", "Nothing good was heard for longer than thresholds.silentSeconds."
    NO_COMPUTE = "NoCompute", "The only compute host is gone."
    NO_COMPUTE_READY = "NoComputeReady", "No compute host accepts nodes."
    NO_DATE = "NoDate", "CML tells no date that can be read."
    NO_LICENCE = "NoLicence", "It is to run without a licence."
    NO_MACHINE = "NoMachine", "Its spec names no machine."
    NO_ORPHANS = "NoOrphans", "CML knows every machine that runs on the host."
    NO_STRAYS = "NoStrays", "They are gone, or their sessions are known again."
    NO_SUCH_INSTANCE = "NoSuchInstance", "The instance that it was found by does not exist."
    NOT_ALLOWED = "NotAllowed", "Our credentials may not make the call that the message names."
    NOT_ADOPTED = "NotAdopted", "Discovery found it; nobody has adopted it."
    NOT_ANSWERING = "NotAnswering", "The first look without an answer; the patience begins."
    NOT_IN_COMPLIANCE = "NotInCompliance", "CML says that it is not registered or not authorized."
    NOT_LISTED = "NotListed", "The provider does not show the machine; it is looked for again."
    NOT_READY = "NotReady", "CML answers and says that it is not ready."
    NOT_RENEWED = (
        "NotRenewed",
        "The latest looks did not tell; the message has what they said before.",
    )
    NOT_RETURNED = "NotReturned", "The licence could not be given back before the machine ended."
    NOT_RUNNING = "NotRunning", "The provider shows the machine in another state than running."
    NOT_SEEN = "NotSeen", "CML could not be looked at."
    NOT_TOLD = "NotTold", "Who should know does not say."
    OFF = "Off", "The mode is off."
    ON = "On", "Somebody switched the mode on."
    OPEN = "Open", "Nothing keeps sessions away."
    ORPHANS = "Orphans", "Machines run on the host that CML does not know."
    OTHER_EVENT = "OtherEvent", "An event of a code that this program does not know."
    OUT_OF_CAPACITY = "OutOfCapacity", "The provider has no room for it."
    OUTCOME_LOST = (
        "OutcomeLost",
        "It is unknown whether the licence cloud heard that it was given back.",
    )
    OVER_LIMIT = "OverLimit", "The phase lasts longer than its limit allows."
    OVER_THRESHOLD = "OverThreshold", "Two measurements in a row are at or over the threshold."
    OVERLOADED = "Overloaded", "Every compute host is overloaded and refuses nodes."
    OWNED_BY_ANOTHER = (
        "OwnedByAnother",
        "The instance carries the owner tag of another installation.",
    )
    PARTIAL = "Partial", "A part could not be read; the message names it."
    PASSED = "Passed", "Both checks pass."
    PROVIDER_SILENT = "ProviderSilent", "The provider's API has not answered for minutes."
    QUOTA_EXCEEDED = "QuotaExceeded", "A quota of the account is reached."
    READY = "Ready", "CML answers and is ready."
    REFUSED = "Refused", "The other side said no; the message has its words."
    RETURNED = "Returned", "The licence was given back."
    RUNNING = "Running", "The provider shows the machine as running."
    SAME_PRODUCT_UUID = "SameProductUuid", "An older worker has the same product_uuid."
    SERVER_LATE = "ServerLate", "The server at the address does not answer within the limit."
    SESSIONS_RUNNING = "SessionsRunning", "Sessions are left; the message has the deadline."
    SET = "Set", "CML took the wanted value."
    SETTLED = "Settled", "What somebody else did is over or was taken back."
    SHARED_SERVER = (
        "SharedServer",
        "A server that we did not launch: another installation may use it too.",
    )
    SOON = "Soon", "The date is near."
    SPOT_INTERRUPTION = "SpotInterruption", "The provider takes the machine back in two minutes."
    STARTED = "Started", "Somebody else started the instance."
    STOP_LATE = "StopLate", "The instance does not stop within the limit."
    STOP_NEAR = "StopNear", "Nobody uses the worker; the message says when it is stopped."
    STOPPED = "Stopped", "The instance was stopped."
    STOPPED_OUTSIDE = "StoppedOutside", "Somebody else stopped the instance."
    SUSPECTED = "Suspected", "A check fails; the patience runs."
    SYSTEM_MAINTENANCE = (
        "SystemMaintenance",
        "The provider will work on the host's network or power.",
    )
    SYSTEM_REBOOT = "SystemReboot", "The provider will reboot the host."
    TERMINATE_LATE = "TerminateLate", "The instance does not end within the limit."
    TERMINATED = "Terminated", "The instance has ended."
    THROTTLED = "Throttled", "The provider refuses our requests as too many, for minutes."
    TIMED_OUT = "TimedOut", "There was no answer within the limit."
    UNIQUE = "Unique", "No other worker has this identity."
    UNREACHABLE = "Unreachable", "Nothing answers at the address."
    UNTRUSTED = "Untrusted", "The server shows a certificate that is not trusted; nothing was sent."
    VALID = "Valid", "The date is far enough away."
    WAITING = "Waiting", "It waits for the server, or for its sessions to end."
    WATERMARK = "Watermark", "A disk is over its watermark."
    WITHIN_CAPACITY = "WithinCapacity", "What is reserved fits what there is."


R = WorkerReason


class WorkerCondition(ConditionType):
    """The facts that are recorded of a worker."""

    MACHINE_PROVISIONED = (
        "MachineProvisioned",
        "The machine runs, as its provider says.",
        R.NOT_LISTED,
        R.NOT_RENEWED,
        R.NOT_RUNNING,
        R.RUNNING,
        R.TERMINATED,
        ANY_ERROR,
    )
    PROVIDER_ANSWERS = (
        "ProviderAnswers",
        (
            "False while the provider's API does not do what it is asked, with the cause; facts that only "
            "it tells are Unknown, limits stand still. It appears with the first trouble."
        ),
        R.ANSWERING,
        R.CREDENTIALS_EXPIRED,
        R.CREDENTIALS_REFUSED,
        R.NOT_ALLOWED,
        R.PROVIDER_SILENT,
        R.THROTTLED,
    )
    MACHINE_LAUNCHED = (
        "MachineLaunched",
        "False when there was no room for its machine anywhere for thresholds.noCapacitySeconds.",
        R.OUT_OF_CAPACITY,
        R.QUOTA_EXCEEDED,
    )
    MACHINE_STARTED = (
        "MachineStarted",
        "False while the provider has no room to start the worker's own machine again.",
        R.OUT_OF_CAPACITY,
        R.QUOTA_EXCEEDED,
    )
    TAGS_APPLIED = (
        "TagsApplied",
        "The instance has the tags that spec.tags names.",
        R.APPLIED,
        R.REFUSED,
    )
    CML_READY = (
        "CMLReady",
        "CML on it answers and is ready.",
        R.BAD_GATEWAY,
        R.LICENCE_UNKNOWN,
        R.LOGIN_REFUSED,
        R.NOT_READY,
        R.NOT_SEEN,
        R.READY,
        R.REFUSED,
        R.STOPPED,
        R.UNREACHABLE,
        R.UNTRUSTED,
    )
    LICENSED = (
        "Licensed",
        "CML is registered and in compliance.",
        R.IN_COMPLIANCE,
        R.IN_PROGRESS,
        R.NOT_IN_COMPLIANCE,
        R.NOT_RENEWED,
        R.NO_LICENCE,
        R.REFUSED,
        R.RETURNED,
        R.TIMED_OUT,
    )
    LICENCE_LEAKED = (
        "LicenceLeaked",
        "A licence could not be given back; a person must free it.",
        R.NOT_RETURNED,
        R.OUTCOME_LOST,
    )
    LICENCE_ORDERED = (
        "LicenceOrdered",
        "What was asked last of its licence (register, deregister, renew) is done.",
        R.DONE,
        R.IN_PROGRESS,
        R.REFUSED,
        R.TIMED_OUT,
        R.WAITING,
    )
    LICENCE_EXPIRING = (
        "LicenceExpiring",
        "A licence date is near or past: its automatic renewals fail.",
        R.EXPIRED,
        R.NOT_RENEWED,
        R.NO_DATE,
        R.SOON,
        R.VALID,
    )
    DUPLICATE_IDENTITY = (
        "DuplicateIdentity",
        "An older worker has the same product_uuid: this one hosts nothing.",
        R.SAME_PRODUCT_UUID,
        R.UNIQUE,
    )
    CML_HEALTHY = (
        "CmlHealthy",
        "What CML says of its controller and computes, the worst first.",
        R.CHECK_FAILED,
        R.COMPUTE_MISSING,
        R.CONTROLLER_DOWN,
        R.HEALTHY,
        R.KVM_MISSING,
        R.NOT_READY,
        R.NOT_RENEWED,
        R.NOT_TOLD,
        R.NO_COMPUTE,
        R.NO_COMPUTE_READY,
        R.OVERLOADED,
    )
    CPU_HIGH = (
        "CpuHigh",
        "CPU is over its threshold in two measurements; back below the eased one.",
        R.BELOW_THRESHOLD,
        R.NOT_RENEWED,
        R.OVER_THRESHOLD,
    )
    MEMORY_HIGH = (
        "MemoryHigh",
        "Used memory is over its threshold, by the same rule.",
        R.BELOW_THRESHOLD,
        R.NOT_RENEWED,
        R.OVER_THRESHOLD,
    )
    SILENT = (
        "Silent",
        "Nothing good was heard of CML; raised after thresholds.silentSeconds.",
        R.ANSWERING,
        R.BAD_GATEWAY,
        R.CHECK_FAILED,
        R.LOGIN_REFUSED,
        R.NOT_ANSWERING,
        R.NO_ANSWER,
        R.REFUSED,
        R.UNTRUSTED,
    )
    PHASE_STUCK = (
        "PhaseStuck",
        "The phase lasts longer than its limit times thresholds.stuckFactor.",
        R.OVER_LIMIT,
    )
    INSTANCE_CHECKS_PASSED = (
        "InstanceChecksPassed",
        "The provider's own checks of host and machine; two minutes of patience.",
        R.IMPAIRED,
        R.INITIALIZING,
        R.NOT_RENEWED,
        R.NOT_TOLD,
        R.PASSED,
        R.SUSPECTED,
    )
    SCHEDULED_EVENT = (
        "ScheduledEvent",
        "The provider will reboot, stop or retire the machine, or takes it back now.",
        R.INSTANCE_REBOOT,
        R.INSTANCE_RETIREMENT,
        R.INSTANCE_STOP,
        R.OTHER_EVENT,
        R.SPOT_INTERRUPTION,
        R.SYSTEM_MAINTENANCE,
        R.SYSTEM_REBOOT,
    )
    ORPHANS_ON_HOST = (
        "OrphansOnHost",
        "Machines run there that CML does not know; capacity is less.",
        R.NOT_RENEWED,
        R.NO_ORPHANS,
        R.ORPHANS,
    )
    STRAY_LABS = (
        "StrayLabs",
        "Labs with our marker run there that belong to no session; capacity is less.",
        R.LEFT_BEHIND,
        R.NOT_RENEWED,
        R.NO_STRAYS,
        R.SHARED_SERVER,
    )
    DISK_ALMOST_FULL = (
        "DiskAlmostFull",
        "A disk is over its watermark: no new labs.",
        R.BELOW_WATERMARK,
        R.NOT_RENEWED,
        R.WATERMARK,
    )
    MAINTENANCE_MODE = (
        "MaintenanceMode",
        "CML is in maintenance mode: closed for new sessions.",
        R.NOT_RENEWED,
        R.OFF,
        R.ON,
    )
    TELEMETRY_COMPLETE = (
        "TelemetryComplete",
        "Every part of its telemetry could be read.",
        R.COMPLETE,
        R.NOT_RENEWED,
        R.PARTIAL,
    )
    TELEMETRY_SET = (
        "TelemetrySet",
        "CML's own telemetry was switched as wanted, on this boot.",
        R.REFUSED,
        R.SET,
    )
    HEALTH_CHECK_PASSED = (
        "HealthCheckPassed",
        "The last check of CML succeeded; failing ones never end a worker.",
        R.ANSWERING,
        R.CHECK_FAILED,
        R.NOT_READY,
        R.UNREACHABLE,
    )
    ACCEPTING_LABS = (
        "AcceptingLabs",
        "New sessions may be placed here.",
        R.CLOSED,
        R.OPEN,
    )
    OVER_COMMITTED = (
        "OverCommitted",
        "More is reserved than there is: nothing more is admitted, nothing broken.",
        R.CAPACITY_SHRANK,
        R.WITHIN_CAPACITY,
    )
    PORT_DRIFT = (
        "PortDrift",
        "Labs of sessions there name other ports than they were given; False once none does.",
        R.PORTS_AS_GIVEN,
        R.PORTS_DIFFER,
    )
    PORTS_LOW = (
        "PortsLow",
        "Few port numbers are left for new labs; False once enough are free again.",
        R.ENOUGH_FREE,
        R.FEW_FREE,
    )
    DRAINED = (
        "Drained",
        "No session is left while a drain is asked for.",
        R.EMPTY,
        R.LATE,
        R.SESSIONS_RUNNING,
    )
    ADOPTED = (
        "Adopted",
        "It is ours to manage; False: only observed, no sessions, no acts.",
        R.CLAIMED,
        R.CLAIMING,
        R.EXTERNAL,
        R.NO_SUCH_INSTANCE,
        R.NOT_ADOPTED,
        R.OWNED_BY_ANOTHER,
    )
    EXTERNAL_CHANGE = (
        "ExternalChange",
        "Somebody else stopped, started or ended its instance, with a hint.",
        R.SETTLED,
        R.STARTED,
        R.STOPPED,
        R.TERMINATED,
    )
    IDLE_WARNING = (
        "IdleWarning",
        "Nobody uses it, and it will be stopped; False once used, kept or stopped.",
        R.KEPT,
        R.STOP_NEAR,
        R.STOPPED,
    )
    LATE = (
        "Late",
        "A stage takes longer than its limit; it goes on.",
        R.SERVER_LATE,
        R.STOP_LATE,
        R.TERMINATE_LATE,
    )
    FAILED = (
        "Failed",
        "Why the worker is FAILED; False once it went on.",
        R.BOOT_TIMEOUT,
        R.INSTANCE_TERMINATED,
        R.LAUNCH_REFUSED,
        R.LAUNCH_TIMEOUT,
        R.LEFT,
        R.LICENCE_REFUSED,
        R.LICENCE_TIMEOUT,
        R.NO_ADDRESS,
        R.NO_MACHINE,
        R.STOPPED_OUTSIDE,
    )

"""The facts that are recorded of a session, and why each is so."""

from __future__ import annotations

from typing import NewType

from labfleet.resources.conditions import ConditionType, Reason, Word


class SessionReason(Reason):
    """Why a condition of a session is as it is."""

    ANSWERING = "Answering", "The answer came as expected."
    AS_IT_WAS = "AsItWas", "Its lab is as it was when it was ready, or as it was ordered."
    AUTOMATION_PAUSED = "AutomationPaused", "Its pool, or every automatic action, was paused."
    BEING_KEPT = "BeingKept", "Configurations are being read out of its nodes."
    BOOTED = "Booted", "All nodes are up."
    BOOTING = "Booting", "Nodes are still coming up."
    EDITED_OUTSIDE = (
        "EditedOutside",
        "Nodes of its lab were added, removed, renamed or stopped; the message names them.",
    )
    END_NEAR = "EndNear", "Its time is over soon; the message says when."
    DRAINING = "Draining", "Its pool is being emptied."
    GIVEN = "Given", "It is its turn."
    NO_PLACE = "NoPlace", "No worker was found for it yet; its decision says why."
    KEPT = "Kept", "Its promise has a place with room."
    KEPT_IN_PART = (
        "KeptInPart",
        "It is kept; the message names nodes whose configuration could not be read out.",
    )
    LAB_KEPT = "LabKept", "It is kept, with what was configured last in each node."
    NO_ROOM = "NoRoom", "There is no room left for it; the message says whose."
    NO_TIME = "NoTime", "It could not be kept in the time that a teardown may wait."
    NO_TEMPLATE = "NoTemplate", "Its pool makes no workers: its template is missing or disabled."
    IN_TIME = "InTime", "It began within its grace."
    LAB_FAILED = "LabFailed", "Its lab was refused, was deleted by somebody, or did not come up."
    MAXIMUM_LOWERED = "MaximumLowered", "Its pool may have fewer workers than it had promised."
    NO_MACHINE = "NoMachine", "The provider gave no machine in time, or did not answer."
    NOT_ANSWERING = "NotAnswering", "A port does not answer; the message names it."
    NOT_EXPLAINED = (
        "NotExplained",
        "Nothing outside is known that kept it from beginning: tell who maintains Labfleet.",
    )
    NOT_KEPT = "NotKept", "It could not be kept; the message says why."
    NOT_LICENSED = "NotLicensed", "A worker of its pool had no licence."
    NOT_OBSERVED = "NotObserved", "The observation failed; the message says why."
    NOT_SEEN = "NotSeen", "CML could not be looked at."
    NOT_TRIED = "NotTried", "Settings say that ports are not tried from here."
    OBSERVED = "Observed", "The observation is recorded."
    OFF_AS_ORDERED = "OffAsOrdered", "Somebody ordered it off; the message says who and what."
    PLACED = "Placed", "A worker was found for it."
    PORTS_AS_GIVEN = "PortsAsGiven", "Its nodes name the ports that it was given, and no others."
    PORTS_DIFFER = "PortsDiffer", "Its nodes name other ports; the message says which."
    REFUSED = "Refused", "No worker that can exist could host it; its decision says why."
    PLACES_GONE = "PlacesGone", "Its pool may have fewer workers than it has promised."
    STOPPED_OUTSIDE = "StoppedOutside", "Its lab was stopped, and nobody ordered that here."
    TAKEN_BACK = "TakenBack", "It left its worker; another one is looked for."
    TAGS_ADDED = "TagsAdded", "Nodes of its lab name ports that it was not given."
    TAGS_MISSING = "TagsMissing", "Nodes of its lab lack tags of its ports; the message names them."
    TAGS_WRITTEN = "TagsWritten", "What the nodes name was read back, and it is what was given."
    POOL_ENDED = "PoolEnded", "Its pool is gone, or is being emptied."
    ROOM_HELD = "RoomHeld", "Labs that should have ended still hold the worker's room."
    SERVER_SILENT = "ServerSilent", "CML of a worker of its pool did not answer, or was not well."
    SHORT_NOTICE = "ShortNotice", "It was asked for later than a worker takes to boot."
    TEMPLATE_MISSING = "TemplateMissing", "The template of its pool was missing or disabled."
    WAITING = "Waiting", "Other labs of the worker boot first."
    WORKER_CLOSED = "WorkerClosed", "A worker of its pool was stopped, drained or closed."
    WORKER_FAILED = "WorkerFailed", "Its worker has failed."
    WIPED_OUTSIDE = "WipedOutside", "Its lab was wiped, and nobody ordered that here."
    WORKERS_LATE = "WorkersLate", "The worker for it is not up in time."
    WORKERS_SMALLER = "WorkersSmaller", "Workers of its pool have less than was promised on them."
    WORKER_LOST = "WorkerLost", "A worker of its pool was lost, or did not come up."


R = SessionReason


class SessionCondition(ConditionType):
    """The facts that are recorded of a session."""

    WORKER_ASSIGNED = (
        "WorkerAssigned",
        "A worker was found for it, whose room is held; once it has ended, it had one.",
        R.NO_PLACE,
        R.PLACED,
        R.REFUSED,
        R.TAKEN_BACK,
    )
    START_TURN = (
        "StartTurn",
        "It is the lab's turn: its worker has room, and so many of a worker boot at once.",
        R.GIVEN,
        R.ROOM_HELD,
        R.WAITING,
    )
    LAB_STARTED = (
        "LabStarted",
        "All nodes of the lab are booted.",
        R.BOOTED,
        R.BOOTING,
        R.OFF_AS_ORDERED,
    )
    LAB_CHANGED = (
        "LabChanged",
        "True while its lab is not as it was when it was ready, and nobody ordered that here.",
        R.AS_IT_WAS,
        R.EDITED_OUTSIDE,
        R.STOPPED_OUTSIDE,
        R.WIPED_OUTSIDE,
    )
    PORTS_TAGGED = (
        "PortsTagged",
        "When its lab came up, the tags of its nodes named the ports that it was given, and no others.",
        R.TAGS_ADDED,
        R.TAGS_MISSING,
        R.TAGS_WRITTEN,
    )
    PORT_DRIFT = (
        "PortDrift",
        "True while the nodes of its lab name other ports than it was given, as last seen.",
        R.PORTS_AS_GIVEN,
        R.PORTS_DIFFER,
    )
    PORTS_OPEN = (
        "PortsOpen",
        "The session's TCP ports answer from where Labfleet runs.",
        R.ANSWERING,
        R.NOT_ANSWERING,
        R.NOT_TRIED,
    )
    HOST_REACHABLE = (
        "HostReachable",
        "The worker's CML could be asked about the lab.",
        R.ANSWERING,
        R.NOT_SEEN,
        R.WORKER_FAILED,
    )
    ENDS_SOON = (
        "EndsSoon",
        "Its end is near: its people should save their work, or ask for more time.",
        R.END_NEAR,
    )
    COLLECTED = (
        "Collected",
        "The newest look at what the lab uses, before its teardown or when asked for, saw it.",
        R.NOT_OBSERVED,
        R.NOT_SEEN,
        R.OBSERVED,
    )
    WORK_KEPT = (
        "WorkKept",
        "What was configured in its lab was kept before its teardown, as its definition asks.",
        R.BEING_KEPT,
        R.KEPT_IN_PART,
        R.LAB_KEPT,
        R.NO_ROOM,
        R.NO_TIME,
        R.NOT_KEPT,
        R.NOT_SEEN,
    )
    PROMISE_SAFE = (
        "PromiseSafe",
        "False while what was promised to it may not be kept; True since it has a place again.",
        R.DRAINING,
        R.KEPT,
        R.NO_TEMPLATE,
        R.PLACES_GONE,
        R.WORKERS_LATE,
        R.WORKERS_SMALLER,
    )
    PROMISE_KEPT = (
        "PromiseKept",
        "What was promised to it began within its grace; False names what kept it from that.",
        R.AUTOMATION_PAUSED,
        R.IN_TIME,
        R.LAB_FAILED,
        R.MAXIMUM_LOWERED,
        R.NO_MACHINE,
        R.NOT_EXPLAINED,
        R.NOT_LICENSED,
        R.POOL_ENDED,
        R.ROOM_HELD,
        R.SERVER_SILENT,
        R.SHORT_NOTICE,
        R.TEMPLATE_MISSING,
        R.WORKER_CLOSED,
        R.WORKER_LOST,
    )


class WaitReason(Word):
    """Why no place was found for a session: the reason of a decision that says `waiting`."""

    MISSING_DEFINITIONS = (
        "MissingDefinitions",
        "No worker of its track was seen to have a node or image definition that its lab names.",
    )
    NO_CAPACITY = "NoCapacityAvailable", "No worker has enough left for it in its slot."
    NO_TRACK = "NoMatchingTrack", "No worker serves its track."
    NO_VERSION = "NoMatchingVersion", "No worker has a CML version that its definition allows."
    NO_WORKERS = "NoWorkersAvailable", "There is no worker yet."
    NOT_LICENSED = "WorkerNotLicensed", "No worker has a licence that its lab can run under."
    NOT_READY = "WorkerNotReady", "No worker of its track takes sessions now."
    PORTS_SHORT = "PortsShort", "The worker that has room for it has too few free ports."
    PROMISED = "PromisedToOthers", "What workers have free is promised to later slots of others."
    SLOT_AHEAD = "SlotAhead", "Its slot is so far ahead that no worker is looked for yet."


class Holdup(Word):
    """What keeps a worker from coming for a session that waits for one; seen when it is explained."""

    AT_MAXIMUM = "AtMaximum", "Each pool of its track has as many workers as it may have."
    FIRST_LOOK = "FirstLook", "The scheduler has not looked at it yet."
    IN_DANGER = "InDanger", "The place that is promised to it is in danger, or its pool is gone."
    FLEET_PAUSED = "FleetPaused", "Automatic actions are paused, so no worker is added."
    NO_POOL = "NoPool", "No pool of its track adds workers."
    NO_TEMPLATE = "NoTemplate", "Its pool's template is missing or disabled."
    POOL_PAUSED = "PoolPaused", "Each pool of its track is paused, so no worker is added."
    PROVIDER_TROUBLE = "ProviderTrouble", "The provider of its workers does not do what is asked."


NEED_A_WORKER = frozenset(
    {WaitReason.NO_CAPACITY, WaitReason.NO_TRACK, WaitReason.NO_WORKERS, WaitReason.PROMISED}
)
"""Reasons that a further worker ends, so that what keeps one from coming is what matters."""

StoredReason = NewType("StoredReason", str)
"""The reason that a session has already, as it is stored."""


class PhaseReason(Word):
    """Why a session is in its phase: its `status.reason`."""

    BOOT_TIMEOUT = "BootTimeout", "Its lab was not up within its budget."
    CANCELLED = "Cancelled", "Somebody cancelled it."
    DRAINED = "Drained", "Its worker was drained by force."
    IMPORTING = "Importing", "Its lab is being imported."
    LAB_DELETED_OUTSIDE = "LabDeletedOutside", "Its lab was deleted by somebody else."
    LICENCE_RETURNED = "LicenceReturned", "Its worker gave its licence back by force."
    NEVER_FITS = "NeverFits", "It asks for more than any worker that can exist has."
    NEVER_STARTED = "NeverStarted", "It had not started when its time was over."
    NO_DEFINITION = "NoDefinition", "Its definition is gone."
    NO_SHOW = "NoShow", "Nobody checked in to it in time, as its definition asks for."
    NO_TYPE = "NoMatchingType", "No worker runs labs of its definition's type."
    PORTS_SILENT = "PortsSilent", "Its lab is up, and its ports do not answer."
    READY = "Ready", "Its lab is up."
    REFUSED = "Refused", "CML refused its lab."
    ROOM_HELD = (
        "RoomHeld",
        "Labs that should have ended held its worker's room; another worker is looked for.",
    )
    RUNNING = "Running", "Its slot has begun and its lab is up."
    SCHEDULED = "Scheduled", "A worker was found for it."
    SLOT_ENDED = "SlotEnded", "Its time is over."
    WAITING = "Waiting", "No worker has room for it yet; its decision says why."
    WORKER_LOST = "WorkerLost", "Its worker is gone."
    WORKER_SILENT = (
        "WorkerSilent",
        "Its worker's CML could not be asked for as long as its lab's boot may take.",
    )
    WORKER_UNFIT = (
        "WorkerUnfit",
        "Nothing would start on its worker; another one is looked for before its lab is imported.",
    )

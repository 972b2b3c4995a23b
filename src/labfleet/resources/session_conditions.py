"""The facts that are recorded of a session, and why each is so."""

from __future__ import annotations

from labfleet.resources.conditions import ConditionType, Reason


class SessionReason(Reason):
    """Why a condition of a session is as it is."""

    ANSWERING = "Answering", "The answer came as expected."
    BOOTED = "Booted", "All nodes are up."
    BOOTING = "Booting", "Nodes are still coming up."
    GIVEN = "Given", "It is its turn."
    NOT_ANSWERING = "NotAnswering", "A port does not answer yet; the message names it."
    NOT_OBSERVED = "NotObserved", "The observation failed; the message says why."
    NOT_SEEN = "NotSeen", "CML could not be looked at."
    OBSERVED = "Observed", "The observation is recorded."
    ROOM_HELD = "RoomHeld", "Labs that should have ended still hold the worker's room."
    WAITING = "Waiting", "Other labs of the worker boot first."
    WORKER_FAILED = "WorkerFailed", "Its worker has failed."


R = SessionReason


class SessionCondition(ConditionType):
    """The facts that are recorded of a session."""

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
    )
    PORTS_OPEN = (
        "PortsOpen",
        "The session's TCP ports answer.",
        R.ANSWERING,
        R.NOT_ANSWERING,
    )
    HOST_REACHABLE = (
        "HostReachable",
        "The worker's CML could be asked about the lab.",
        R.ANSWERING,
        R.NOT_SEEN,
        R.WORKER_FAILED,
    )
    COLLECTED = (
        "Collected",
        "What the lab used was observed before its teardown.",
        R.NOT_OBSERVED,
        R.NOT_SEEN,
        R.OBSERVED,
    )

"""The facts that are recorded of a pool, and why each is so."""

from __future__ import annotations

from labfleet.resources.conditions import ConditionType, Reason


class PoolReason(Reason):
    """Why a condition of a pool is as it is."""

    DRAINING = "Draining", "It is being emptied."
    FAILED = "Failed", "It cannot make workers."
    INITIALIZING = "Initializing", "Its first workers are being made."
    MASS_TERMINATION = (
        "MassTermination",
        "Many machines were ended from outside within half an hour.",
    )
    NEVER_UP = "NeverUp", "Several workers in a row never came up."
    PAUSED_BY_PEOPLE = "PausedByPeople", "Somebody paused the pool or the fleet."
    PENDING = "Pending", "Its controller has not looked at it yet."
    RESUMED = "Resumed", "Somebody resumed the pool."
    SCALING_DOWN = "ScalingDown", "Workers are being taken away."
    SCALING_UP = "ScalingUp", "Workers are being added."
    STEADY = "Steady", "It has what its policy asks for."
    TERMINATED = "Terminated", "Its workers are gone."
    TERMINATING = "Terminating", "Its workers are ending."


R = PoolReason


class PoolCondition(ConditionType):
    """The facts that are recorded of a pool."""

    READY = (
        "Ready",
        "The pool has what its policy asks for.",
        R.STEADY,
        R.INITIALIZING,
        R.PENDING,
        R.SCALING_UP,
        R.SCALING_DOWN,
        R.DRAINING,
        R.TERMINATING,
        R.TERMINATED,
        R.FAILED,
    )
    LOSING_MACHINES = (
        "LosingMachines",
        "So many machines were ended from outside, or never came up, that it paused itself.",
        R.MASS_TERMINATION,
        R.NEVER_UP,
        R.RESUMED,
    )
    PAUSED = (
        "Paused",
        "People have paused automatic actions on it; False since they were resumed.",
        R.PAUSED_BY_PEOPLE,
        R.RESUMED,
    )

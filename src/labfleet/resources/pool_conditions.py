"""The facts that are recorded of a pool, and why each is so."""

from __future__ import annotations

from labfleet.resources.conditions import ConditionType, Reason


class PoolReason(Reason):
    """Why a condition of a pool is as it is."""

    AT_MAXIMUM = "AtMaximum", "It has as many workers as it may have, and more are needed."
    BOOTS_LATE = (
        "BootsLate",
        "Workers for what is promised boot longer than measured, failed, or cannot be made in time.",
    )
    BUDGET_NEAR = "BudgetNear", "80 % of its budget or more are taken."
    BUDGET_REACHED = (
        "BudgetReached",
        "Its budget is taken: nothing further is started, and what runs goes on.",
    )
    COVERED = "Covered", "Its workers are enough for what waits, or more are coming."
    DRAINING = "Draining", "It is being emptied."
    FAILED = "Failed", "It cannot make workers."
    FLEET_PAUSED = "FleetPaused", "Somebody paused all automatic actions."
    INITIALIZING = "Initializing", "Its first workers are being made."
    KEPT = "Kept", "Each promised slot has a place with room."
    MASS_TERMINATION = (
        "MassTermination",
        "Many machines were ended from outside within half an hour.",
    )
    NEVER_UP = "NeverUp", "Several workers in a row never came up."
    NO_TEMPLATE = "NoTemplate", "Workers are needed; its template is missing or disabled."
    OUTSIDE_HOURS = (
        "OutsideHours",
        "More workers are needed, outside of the hours in which it changes.",
    )
    PAUSED_BY_PEOPLE = "PausedByPeople", "Somebody paused the pool."
    PENDING = "Pending", "Its controller has not looked at it yet."
    PLACES_GONE = "PlacesGone", "It may have fewer workers than it has promised."
    POLICY_RESTS = "PolicyRests", "Sessions wait, and its policy makes no worker for that."
    PRICE_UNKNOWN = (
        "PriceUnknown",
        "It has a budget, and what its workers cost is not known: nothing further is started.",
    )
    RESUMED = "Resumed", "Somebody resumed the pool."
    SCALING_DOWN = "ScalingDown", "Workers are being taken away."
    SCALING_UP = "ScalingUp", "Workers are being added."
    STEADY = "Steady", "It has what its policy asks for."
    TERMINATED = "Terminated", "Its workers are gone."
    TERMINATING = "Terminating", "Its workers are ending."
    WITHIN_BUDGET = (
        "WithinBudget",
        "Less than 80 % of its budget are taken, or it has none any more.",
    )
    WORKERS_LATE = "WorkersLate", "Workers for what is promised are not up in time."
    WORKERS_SMALLER = "WorkersSmaller", "Its workers have less than was promised on them."


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
        R.AT_MAXIMUM,
        R.BUDGET_REACHED,
        R.NO_TEMPLATE,
        R.OUTSIDE_HOURS,
        R.POLICY_RESTS,
    )
    DEMAND_MET = (
        "DemandMet",
        "False while workers are needed that the pool may not add; True since it may, or needs none.",
        R.AT_MAXIMUM,
        R.BUDGET_REACHED,
        R.COVERED,
        R.NO_TEMPLATE,
        R.OUTSIDE_HOURS,
        R.POLICY_RESTS,
    )
    LOSING_MACHINES = (
        "LosingMachines",
        "So many machines were ended from outside, or never came up, that it paused itself.",
        R.MASS_TERMINATION,
        R.NEVER_UP,
        R.RESUMED,
    )
    PROMISES_KEPT = (
        "PromisesKept",
        "False while promised slots are in danger; True since none is.",
        R.PLACES_GONE,
        R.WORKERS_SMALLER,
        R.BOOTS_LATE,
        R.WORKERS_LATE,
        R.NO_TEMPLATE,
        R.DRAINING,
        R.KEPT,
    )
    PAUSED = (
        "Paused",
        "People have paused automatic actions on it; False since they were resumed.",
        R.FLEET_PAUSED,
        R.PAUSED_BY_PEOPLE,
        R.RESUMED,
    )
    BUDGET_NEAR = (
        "BudgetNear",
        "80 % or more of its budget are taken; False since less are.",
        R.BUDGET_NEAR,
        R.BUDGET_REACHED,
        R.PRICE_UNKNOWN,
        R.WITHIN_BUDGET,
    )
    BUDGET_REACHED = (
        "BudgetReached",
        "Its budget lets nothing further be started; False since it does.",
        R.BUDGET_NEAR,
        R.BUDGET_REACHED,
        R.PRICE_UNKNOWN,
        R.WITHIN_BUDGET,
    )

"""The facts that are recorded of a cluster and of the pods of a run, and why each is so."""

from __future__ import annotations

from labfleet.resources.conditions import ANY_ERROR, ConditionType, Reason


class ClusterReason(Reason):
    """Why a condition of a cluster is as it is."""

    SEEN = "Seen", "Its nodes and pods are seen."
    MEASURED = "Measured", "Its figures are new enough to decide by."
    NOT_YET = "NotYet", "Nothing has been heard of it since it was described."
    KUBERNETES_SILENT = "KubernetesSilent", "Its API server has not answered for too long."
    METRICS_OLD = "MetricsOld", "No source has had new figures for too long."
    CONTRADICTING = "Contradicting", "Its sources contradict each other."


R = ClusterReason


class ClusterCondition(ConditionType):
    """The facts that are recorded of a cluster."""

    SEEN = (
        "Seen",
        "Its nodes and pods are seen by its API server; False says what is wrong.",
        R.SEEN,
        ANY_ERROR,
    )
    SAFE_MODE = (
        "SafeMode",
        "Its figures are unknown, so that requests are denied or decided by what callers declare.",
        R.NOT_YET,
        R.KUBERNETES_SILENT,
        R.METRICS_OLD,
        R.CONTRADICTING,
        R.MEASURED,
    )


class PodsReason(Reason):
    """Why the pods of a run are as they are."""

    RUNNING = "PodsRunning", "At least one of its pods runs."
    COMPLETED = "Completed", "All its pods ended well."
    FAILED = "PodsFailed", "One of its pods ended with an error."
    OOM_KILLED = (
        "OOMKilled",
        "One of its pods was killed, since it took more memory than its limit.",
    )
    EVICTED = "Evicted", "One of its pods was evicted from its node."
    GONE = "PodsGone", "Its pods are gone, and nobody saw how they ended."


P = PodsReason


class SimulationCondition(ConditionType):
    """The facts that are recorded of a simulation."""

    PODS_LIVE = (
        "PodsLive",
        "Pods that carry its name in their label are there; False says how they ended.",
        P.RUNNING,
        P.COMPLETED,
        P.FAILED,
        P.OOM_KILLED,
        P.EVICTED,
        P.GONE,
    )

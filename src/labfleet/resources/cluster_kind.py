"""All that is shown of clusters: columns, conditions, alerts, page."""

from __future__ import annotations

from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_conditions import ClusterCondition, ClusterReason
from labfleet.resources.declaration import Kind, Loud, Page, PageColumn, columns, runbook

_RUNBOOK = runbook(
    "Cluster",
    (
        "Seen",
        "",
        "False: its API server does not answer, or refuses what Labfleet asks.",
        "labfleet explain cluster/NAME",
        "Mend spec.kubernetes or the rights of its account; runs that are there are not touched.",
    ),
    (
        "SafeMode",
        "spec.safeAfterSeconds (120 s)",
        "True: its figures are too old or contradict each other, so that nothing may start.",
        "labfleet explain cluster/NAME",
        (
            "Mend the source that is named; it ends by itself with the next good figures. To admit by "
            "what callers declare meanwhile, set spec.whenBlind to declared."
        ),
    ),
)
_PAGE = Page(
    2,
    "Clusters",
    (
        PageColumn("Cluster", "name", wide=3),
        PageColumn("Running", "live"),
        PageColumn("Mode", "text", "status.mode", "not looked at yet"),
        PageColumn("CPU of target", "load", "cpuMilli", wide=3),
        PageColumn("Memory GiB of target", "load", "memoryMib", wide=3),
        PageColumn("About", "text", "spec.description", "", wide=5),
    ),
    none="No clusters",
    hints=(
        (
            "A cluster is what simulations run on. Describe one:",
            "labfleet apply -f cluster.yaml",
        ),
    ),
)
KIND = Kind(
    name="Cluster",
    plural="clusters",
    type=Cluster,
    summary="A Kubernetes cluster, or one namespace of it, that simulations run on.",
    columns=columns(
        "CPU(m)=status.seen.capacity.cpuMilli|spec.capacity.cpuMilli",
        "MEMORY(MiB)=status.seen.capacity.memoryMib|spec.capacity.memoryMib",
        "TARGET%=spec.cpuPercent",
        "MODE=status.mode",
        "NODES=status.seen.usable*",
        "OTHERS-CPU(m)=status.seen.others.cpuMilli*",
        "OTHERS-MEMORY(MiB)=status.seen.others.memoryMib*",
    ),
    amounts=(("capacity", True), ("defaults.*.cost", False), ("defaults.*.each", False)),
    conditions=ClusterCondition,
    reasons=ClusterReason,
    loud=(
        Loud(ClusterCondition.SAFE_MODE, "True", "warning"),
        Loud(ClusterCondition.SEEN, "False", "warning"),
    ),
    runbook=_RUNBOOK,
    page=_PAGE,
    followed=True,
)

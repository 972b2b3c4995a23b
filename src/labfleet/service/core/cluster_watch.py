"""What this process has heard of each cluster, and when: the memory behind safe mode.

The controller that looks at clusters writes, the decider of the same process reads. It is not
stored: a fact that is no longer renewed is unknown, also to a process that has just begun.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from labfleet.decisions.safe_mode import Heard, SafeMode, safe_mode
from labfleet.resources import conditions
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_conditions import ClusterCondition

FIRST_LOOK_SECONDS = 15.0
"""For so long a process that begins to decide believes what its predecessor recorded, at most.

Less by the time in which nobody led: what was recorded before that has grown old with nobody to say so.
"""


@dataclass(slots=True)
class _Part:
    heard_at: float | None = None
    problem: str = ""
    contradicting: bool = False


@dataclass(slots=True)
class ClusterWatch:
    """By uid of the cluster and part of it, when it was last heard (monotonic seconds)."""

    began: float | None = None
    """When this process began to decide, or earlier by the time in which nobody led before."""
    _parts: dict[str, dict[str, _Part]] = field(default_factory=dict)

    def begin(self, now: float, vacant: float = 0.0) -> None:
        """Note that this process begins to decide: what it heard before its term is kept.

        `vacant` is for how many fleet seconds nobody had led before.
        """
        self.began = now - vacant

    def heard(self, uid: str, part: str, now: float) -> None:
        """Note that a part of a cluster told its figures."""
        self._parts.setdefault(uid, {})[part] = _Part(now)

    def failed(self, uid: str, part: str, problem: str, *, contradicting: bool = False) -> None:
        """Note why a part of a cluster was not heard; when it last was is kept."""
        found = self._parts.setdefault(uid, {}).setdefault(part, _Part())
        found.problem, found.contradicting = problem, contradicting

    def forget(self, uid: str) -> None:
        """Forget a cluster that is gone or was described anew."""
        self._parts.pop(uid, None)

    def parts(self, uid: str, now: float) -> dict[str, Heard]:
        """Return what was heard of a cluster, by part."""
        return {
            part: Heard(
                age=None if each.heard_at is None else max(0.0, now - each.heard_at),
                problem=each.problem,
                contradicting=each.contradicting,
            )
            for part, each in self._parts.get(uid, {}).items()
        }

    def safe_mode(self, cluster: Cluster, now: float) -> SafeMode | None:
        """Return why a cluster is in safe mode; None when it is not.

        Where this process has only begun and has heard nothing yet, its predecessor's word counts,
        so that a restart denies nothing: a cluster that it had measured is not in safe mode. A
        predecessor that was long gone may have been unable to record what it saw last, as when the
        store's disk is full, so its word does not count.
        """
        parts = self.parts(cluster.metadata.uid, now)
        found = safe_mode(cluster.spec, parts)
        if found is None or any(each.age is not None for each in parts.values()):
            return found
        recorded = conditions.find(cluster.status.conditions, ClusterCondition.SAFE_MODE)
        trusted = recorded is not None and recorded.status == "False"
        young = self.began is not None and now - self.began <= FIRST_LOOK_SECONDS
        return None if trusted and young else found

"""The rule that a decider counts every live run once: as if it had begun with the store's objects.

What a leader keeps in memory is compared with what the objects of the commits give. The two may
differ for a short while, as listeners miss changes and a cache lags; not for longer than a decider
takes to count anew.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.controllers.admission import AdmissionController
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.rules.approvals import Approvals

LATE_SECONDS = 900.0
"""How long a leader may count wrongly: two rounds of counting anew, and a cache that is behind."""


@dataclass(slots=True)
class Counted:
    """Compares every leader's load with the stored objects; `broken` takes word and sentence."""

    approvals: Approvals
    broken: Callable[[str, str], None]
    time: Callable[[], float]
    looks: int = 0
    _since: dict[tuple[str, str], float] = field(default_factory=dict)

    def look(self, replicas: list[Replica]) -> None:
        """Compare what every decider that rests keeps; those that do not lead keep nothing true."""
        now, wrong = self.time(), set[tuple[str, str]]()
        for replica in replicas:
            for each in replica.controllers:
                owner = getattr(each.reconcile, "__self__", None)
                if isinstance(owner, AdmissionController) and owner.leads and owner.decider.rests:
                    wrong |= {(replica.name, path) for path in self._apart(owner)}
        for known in [each for each in self._since if each not in wrong]:
            del self._since[known]
        for name, path in sorted(wrong):
            if now - self._since.setdefault((name, path), now) > LATE_SECONDS:
                self.broken("counted", f"{name} counts other runs on {path} than are stored")

    def _apart(self, owner: AdmissionController) -> list[str]:
        """Return the clusters of which a decider counts something else than is stored."""
        from labfleet.decisions.admission.judge import Judge

        found = []
        for path, kept in owner.decider.loads.items():
            cluster = self.approvals.clusters.get(path)
            if cluster is None:
                continue
            self.looks += 1
            # What runs count for changes with their age: both are compared at the end of it.
            load = copy.deepcopy(kept)
            anew = Judge().load(cluster, self.approvals.held.get(path, {}).values())
            for each in (load, anew):
                each.advance(math.inf)
            same = (anew.bounds, anew.declared, len(anew)) == (
                load.bounds, load.declared, len(load)
            )  # fmt: skip
            if not same or (anew.drawn != load.drawn).any():
                found.append(path)
        return found

"""The rule that while automatic actions are paused, only what people ask for is done.

Judged by commits. After the pause is durable, neither a pool nor the idle rule may commit a wish
for a worker (made, started, stopped, emptied, retired), and garbage collection may commit no
action. A decision from before the pause is no excuse: the product writes it only if nobody
paused meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.resources import fleet_settings, refs
from labfleet.resources.fleet_settings import Settings
from labfleet.resources.pool import Pool
from labfleet.resources.region import Region
from labfleet.resources.worker import Worker

AUTOMATIC = frozenset({"pool-controller", "idle-controller"})


@dataclass(slots=True)
class Pauses:
    """Knows from the commits what is paused, and what acts on its own in spite of it."""

    broken: Callable[[str, str], None]
    pools: dict[str, Pool] = field(default_factory=dict)
    fleet: bool = False
    tripped: int = 0
    _ended: dict[str, int] = field(default_factory=dict)

    def settings(self, new: Settings) -> None:
        """Take the fleet's settings."""
        self.fleet = fleet_settings.effective(new, {}).automation.paused

    def pool(self, actor: str, new: Pool) -> None:
        """Take a pool; count it when it paused itself."""
        old = self.pools.get(new.key.label)
        paused = new.spec.paused and (old is None or not old.spec.paused)
        self.tripped += paused and actor == "pool-controller"
        self.pools[new.key.label] = new

    def held(self, pool: str | None) -> bool:
        """Tell whether automatic actions on a pool are paused (None: outside of pools)."""
        found = self.pools.get(pool or "")
        if found is not None and (found.deleting or found.spec.desired != "Ready"):
            return False  # people asked for its end
        return self.fleet or (found is not None and found.spec.paused)

    def worker(self, actor: str, old: Worker | None, new: Worker) -> None:
        """Judge which actor changed the desired state of a worker."""
        if actor not in AUTOMATIC or not self.held(pool_label(new)):
            return
        if old is None:
            self.broken("paused", f"{actor} makes {new.key} while it is paused")
        elif old.spec.desired != new.spec.desired:
            told = f"{actor} wants {new.key} {new.spec.desired} while it is paused"
            self.broken("paused", told)
        elif old.spec.drain is None and new.spec.drain is not None:
            self.broken("paused", f"{actor} drains {new.key} while it is paused")

    def region(self, actor: str, new: Region) -> None:
        """Judge an action of garbage collection, which is recorded before it is done."""
        before = self._ended.get(new.name, 0)
        self._ended[new.name] = new.status.ended
        if actor == "garbage" and new.status.ended > before and self.fleet:
            self.broken("paused", f"garbage is ended in {new.name} while all is paused")


def pool_label(worker: Worker) -> str | None:
    """Return the rules' name of a worker's pool, with its namespace unless that is `default`."""
    pool = refs.pool_of(worker)
    return None if pool is None else pool.key.label

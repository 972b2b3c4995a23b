"""The rules of simulations: nothing is promised twice, and an approval is kept until its end.

Judged by the commits, in their order, and by what run scripts were told and what they asked
(`worlds.clusters`), never by what a decider keeps in memory. A host's wrong clock excuses what
the rules of time excuse (`timely.TOLERANCE`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.interfaces import store
from labfleet.rehearsal.rules.timely import TOLERANCE
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.clusters import Clusters, Script
from labfleet.resources import fleet_settings, kinds, refs
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec, as_seen
from labfleet.resources.decision import Rule
from labfleet.resources.meta import Key
from labfleet.resources.simulation import HOLDING, OPEN, Simulation, SimulationPhase
from labfleet.stores import rules

TARGETED = {"cpu_milli": "cpu_percent", "memory_mib": "memory_percent",
            "network_kbps": "network_percent"}  # fmt: skip
SLACK_SECONDS = 1800.0
"""How long after its bound an approval may still be held: no leader, wrong clocks, a full disk."""
STALE_SECONDS = 180.0
"""How long a decider may go on with what a cluster was before: a slow commit, a leader paused."""
LEASES, SURE = 3, 2
"""How many of its `ttlSeconds` a caller may be silent; for how many an answered report counts."""
BY_CALLER = frozenset(
    {SimulationPhase.COMPLETED, SimulationPhase.FAILED, SimulationPhase.CANCELLED}
)
Decided = Callable[[Simulation, Cluster, tuple[Simulation, ...], int], None]


@dataclass(slots=True)
class Approvals:
    """Knows from the commits what every cluster has given away; `broken` takes word and sentence.

    `decided` hears of every decision: the run, its cluster, what was held there before, and the
    revision of the newest change there that was no decision.
    """

    world: Clusters
    broken: Callable[[str, str], None]
    time: Callable[[], float]
    decided: Decided = lambda *_: None
    clusters: dict[str, Cluster] = field(default_factory=dict)
    runs: dict[Key, Simulation] = field(default_factory=dict)
    held: dict[str, dict[str, Simulation]] = field(default_factory=dict)
    changed: int = 0
    """The newest revision that changed a simulation or a cluster."""
    _of_wish: dict[float, set[str]] = field(default_factory=dict)
    _others: dict[str, int] = field(default_factory=dict)
    _before: dict[str, list[tuple[float, Cluster]]] = field(default_factory=dict)
    _default: float = 3600.0
    _grace: float = 600.0

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write, revision in written(commit, outcome):
                if isinstance(write, store.Put):
                    self._put(write, revision, fenced=commit.fence is not None)
                else:
                    self._gone(write.key)

    def _put(self, write: store.Put, revision: int, *, fenced: bool) -> None:
        if write.key.kind == "Simulation":
            self.changed = revision
            new, old = kinds.decode("Simulation", write.doc, revision), self.runs.get(write.key)
            decision = new.status.decision
            if decision is not None and (old is None or old.status.decision != decision):
                if not fenced:
                    self.broken("fence", f"{new.key} was decided by nobody who leads")
                self._decide(new)
            else:
                self._others[refs.cluster_of(new).key.path] = revision
            self._run(old, new)
        elif write.key.kind == "Cluster":
            self.changed = revision
            found = kinds.decode("Cluster", write.doc, revision)
            self._before.setdefault(found.key.path, []).append((self.time(), found))
            self.clusters[found.key.path] = found
        elif write.key.kind == "Settings":
            # An approval keeps what held when it was given; the longest of all is no secret.
            now = fleet_settings.effective(
                kinds.decode("Settings", write.doc, revision), {}
            ).admission
            self._default = max(self._default, now.default_duration_seconds)
            self._grace = max(self._grace, now.grace_seconds)

    def _gone(self, key: Key) -> None:
        old = self.runs.pop(key, None)
        if old is not None and old.status.phase in HOLDING:
            self.broken("approval", f"{key} is deleted while it is {old.status.phase}")

    # --- a run --------------------------------------------------------------------------------

    def _decide(self, new: Simulation) -> None:
        """Pass a decision on, with what was held before it."""
        path = refs.cluster_of(new).key.path
        if path in self.clusters:
            live = tuple(self.held.get(path, {}).values())
            self.decided(new, self.clusters[path], live, self._others.get(path, 0))

    def _run(self, old: Simulation | None, new: Simulation) -> None:
        self.runs[new.key] = new
        path, uid = refs.cluster_of(new).key.path, new.metadata.uid
        cluster, held = self.clusters.get(path), self.held.setdefault(path, {})
        if cluster is None:
            # One that ends may be older than what this rule has seen of clusters.
            if new.status.completed_at is None:
                self.broken("approval", f"{new.key} is for {path}, which is not there")
            return
        # Whose first write here is its end was asked for before this rule began to see.
        if old is None and new.status.phase not in {*BY_CALLER, SimulationPhase.EXPIRED}:
            self._asked_once(new)
        before = held.pop(uid, None)
        if new.status.phase in HOLDING:
            held[uid] = new
            self._given(new, before, cluster, held.values())
        elif new.status.reservation is not None:
            self.broken("approval", f"{new.key} is {new.status.phase} and holds something")
        if before is not None:
            self._kept(before, new)
        elif old is not None and old.status.phase not in OPEN and new.status.phase in OPEN:
            self.broken("approval", f"{new.key} was {old.status.phase} and is {new.status.phase}")

    def holding(self) -> list[str]:
        """Return the names of the runs that hold something."""
        return [run.name for held in self.held.values() for run in held.values()]

    def script(self, run: Simulation) -> Script | None:
        """Return the script that has asked for a run."""
        return self.world.scripts.get(run.spec.params.get("rate", 0.0))

    def _asked_once(self, new: Simulation) -> None:
        """One key has one run, and no run is nobody's."""
        script = self.script(new)
        if script is None:
            self.broken("one-answer", f"{new.key} was asked for by nobody")
            return
        names = self._of_wish.setdefault(script.wish, set())
        names.add(new.name)
        if script.keyed and len(names) > 1:
            self.broken("one-answer", f"one key made {' and '.join(sorted(names))}")

    def _given(
        self, new: Simulation, before: Simulation | None, cluster: Cluster,
        held: Iterable[Simulation],
    ) -> None:  # fmt: skip
        """Judge what an approval takes of its cluster, when it takes it."""
        mine = new.status.reservation
        if mine is None:
            self.broken("approval", f"{new.key} is {new.status.phase} and holds nothing")
            return
        was = None if before is None else before.status.reservation
        if was is not None:
            if was.amounts != mine.amounts:
                self.broken("approval", f"{new.key} held {was.amounts}, now {mine.amounts}")
            return
        most = self._most(cluster)
        for name in TARGETED:
            stated = None if new.spec.cost is None else getattr(new.spec.cost, name)
            if getattr(most, name) and not getattr(mine.amounts, name) and stated != 0:
                self.broken("overbooked", f"{new.key} holds no {name}: unknown is not free")
        decision = new.status.decision
        rule = "" if decision is None else decision.rule
        if rule == "declared" and new.spec.cost is not None:
            for name, stated in new.spec.cost.stated.items():
                if getattr(mine.amounts, name) < stated:
                    self.broken("overbooked", f"{new.key} holds less {name} than it stated")
        # In safe mode what callers declare is added up, not what earlier runs hold by predictions.
        blind = rule == "declared" and cluster.spec.rule is not Rule.DECLARED
        if rule in {"bounds", "declared"} and not blind:
            # What was let in by another rule, in safe mode, counts by this one for less than it holds.
            like = [each for each in held if each.status.reservation and _rule(each) == rule]
            self._within(new, most, like)

    def _most(self, cluster: Cluster) -> Amounts:
        """Return how far a decider may believe that a cluster may be filled: nodes come and go."""
        rows, old = self._before.get(cluster.key.path, []), self.time() - STALE_SECONDS
        while len(rows) > 1 and rows[1][0] <= old:
            del rows[0]
        found = [targets(as_seen(each)) for _, each in rows] or [targets(as_seen(cluster))]
        return Amounts(**{name: max(getattr(each, name) for each in found) for name in DIMENSIONS})

    def _within(self, new: Simulation, most: Amounts, held: list[Simulation]) -> None:
        for name in DIMENSIONS:
            mine = getattr(new.status.reservation.amounts, name)  # type: ignore[union-attr]  # held
            total = sum(getattr(each.status.reservation.amounts, name) for each in held)  # type: ignore[union-attr]
            if total > getattr(most, name) and mine:
                where = f"{new.spec.cluster} as {new.key} is let in"
                self.broken("overbooked", f"{where}: {total} of {getattr(most, name)} {name}")
                return

    # --- what was promised ----------------------------------------------------------------------

    def _kept(self, old: Simulation, new: Simulation) -> None:
        """Judge that an approval is kept until its caller ends it, or for a cause that is named."""
        phase, script = new.status.phase, self.script(new)
        if phase in HOLDING:
            before, after = old.status.reservation, new.status.reservation
            if before is not None and after is not None and _sooner(after.end, before.end):
                self.broken("approval", f"{new.key} is to end sooner than it was told")
        elif phase in BY_CALLER:
            reported = script is not None and new.name in script.ends
            truth = None if script is None else self.world.truth(script)
            if not reported and (truth is None or truth.over is None):
                self.broken("approval", f"{new.key} is {phase}, which its caller did not report")
        elif phase is SimulationPhase.EXPIRED:
            self._expired(old, new, script)
        else:
            self.broken("approval", f"{new.key} was {old.status.phase} and is {phase}")

    def _expired(self, old: Simulation, new: Simulation, script: Script | None) -> None:
        now = EPOCH + timedelta(seconds=self.time())
        if not new.status.note:
            self.broken("approval", f"{new.key} expires and says no cause")
        held = old.status.reservation
        bounds = (old.status.take_up_by, old.status.lease_until, None if held is None else held.end)
        due = [each for each in bounds if each is not None and each <= now + TOLERANCE]
        if not due:
            self.broken("approval", f"{new.key} expires before any bound that it was told")
        ttl, beat = new.spec.ttl_seconds, None if script is None else script.beat.get(new.name)
        lost = old.status.lease_until in due and (held is None or held.end not in due)
        if lost and ttl is not None and beat is not None:
            left = beat + SURE * ttl - self.time()
            if left > TOLERANCE.total_seconds():
                self.broken("approval", f"{new.key} expires though its caller reported in time")

    # --- now and then ---------------------------------------------------------------------------

    def patrol(self) -> None:
        """Check what depends on time, and what scripts were told; every virtual minute."""
        now = self.time()
        for held in self.held.values():
            for each in held.values():
                if now > self._longest(each) + SLACK_SECONDS:
                    since = each.status.decided_at
                    self.broken("held-for-ever", f"{each.key} is held since {since}")
        known = {each.name for each in self.runs.values()}
        for script in self.world.scripts.values():
            if script.keyed and len(script.told) > 1:
                self.broken("one-answer", f"one key was told {' and '.join(sorted(script.told))}")
            for name, answers in script.told.items():
                if name not in known:
                    self.broken("one-answer", f"{name} was told and is not stored")
                if script.keyed and {"approved", "denied"} <= answers:
                    self.broken("one-answer", f"{name} was told approved and denied")

    def _longest(self, run: Simulation) -> float:
        """Return until when an approval may be held at most: loop seconds, by the truth."""
        status, script = run.status, self.script(run)
        decided = status.decided_at or EPOCH
        begun = (decided - EPOCH).total_seconds()
        learned = None
        if status.prediction is not None:
            learned = status.prediction.of("duration_seconds")
        seconds = run.spec.duration_seconds or self._default
        if run.spec.duration_seconds is None and learned is not None:
            seconds = max(seconds, learned.bound)
        life = begun if script is None else script.tried.get(run.name, begun)
        truth = None if script is None else self.world.truth(script)
        if truth is not None and truth.ran is not None:
            # Where pods are seen, they tell of its life as its caller would.
            life = max(life, self.time() if truth.over is None else truth.over)
        bound = max(begun + seconds + self._grace, life + 2 * self._grace)
        if run.spec.ttl_seconds is not None:
            bound = min(bound, max(begun, life) + LEASES * run.spec.ttl_seconds)
        return bound

    def unsettled(self) -> list[str]:
        """Return which requests wait for nothing, or hold something beyond their bound.

        Nobody asks any more; what a crashed script left may be held for the hours it may last.
        """
        now, found = self.time(), []
        for key, run in sorted(self.runs.items()):
            phase = run.status.phase
            late = phase in HOLDING and now > self._longest(run)
            idle = phase in OPEN - HOLDING and not self.held.get(refs.cluster_of(run).key.path)
            if late or idle:
                found.append(f"{key} is {phase}")
        return found


def targets(spec: ClusterSpec) -> Amounts:
    """Return how far a cluster may be filled, by its description alone."""
    shares = {name: getattr(spec, TARGETED[name]) if name in TARGETED else 100
              for name in DIMENSIONS}  # fmt: skip
    return Amounts(
        **{name: getattr(spec.capacity, name) * share // 100 for name, share in shares.items()}
    )


def _rule(run: Simulation) -> str:
    return "" if run.status.decision is None else str(run.status.decision.rule)


def _sooner(after: datetime | None, before: datetime | None) -> bool:
    return after is not None and (before is None or after < before)

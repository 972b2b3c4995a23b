"""Deliberate breaks of how simulations are let in, kept, counted and learned from.

As in `product_breaks`, a break edits the product (never a world, never the checker).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from product_breaks import Break, Patch

from labfleet.controllers import cluster_samples, clusters
from labfleet.decisions.admission import chance, judge, needs
from labfleet.decisions.prediction import forecasts, series
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources.amounts import Amounts
from labfleet.resources.simulation import SimulationPhase
from labfleet.service.core import idempotency
from labfleet.service.verbs import admission, deciding, drafting

RUNS = Options(hours=3, workers=1, sessions=0, simulations=480)
MEASURED = Options(hours=1, workers=1, sessions=0, simulations=120)
BUSY = Options(hours=16, workers=1, sessions=0, simulations=800)


def count_nobody(patch: Patch) -> None:
    """Believe that no run holds anything."""
    patch.setattr(judge.Judge, "wanted", lambda *_: None)


def hold_a_tenth(patch: Patch) -> None:
    """Reserve a tenth of what was asked for, in records that fit each other."""
    # private _approved, _save, _record, _expired: the product is broken at exactly this step
    before = drafting.Drafter._approved

    def approved(self: Any, new: Any, judged: Any) -> Any:
        made = before(self, new, judged)
        held = made.reservation.amounts
        less = Amounts(
            **{name: getattr(held, name) // 10 for name in ("cpu_milli", "memory_mib")},
            network_kbps=held.network_kbps,
        )
        small = msgspec.structs.replace(made.reservation, amounts=less)
        return msgspec.structs.replace(made, reservation=small)

    patch.setattr(drafting.Drafter, "_approved", approved)


def let_the_unknown_in_free(patch: Patch) -> None:
    """Let a run that nobody knows anything of cost nothing."""
    patch.setattr(needs, "default_of", lambda *_: (Amounts(), "nothing is known"))


def expire_early(patch: Patch) -> None:
    """Take approvals back when they are five minutes old."""
    before = admission._expired

    def expired(each: Any, now: Any) -> str | None:
        since = each.status.decided_at
        old = since is not None and (now - since).total_seconds() > 300
        return "it was long enough" if old else before(each, now)

    patch.setattr(admission, "_expired", expired)


def expire_without_a_cause(patch: Patch) -> None:
    """End approvals in time and say nothing of why."""
    before = admission._expired
    patch.setattr(admission, "_expired", lambda *args: None if before(*args) is None else "")


def expire_nothing(patch: Patch) -> None:
    """Leave every approval that nobody ends."""

    async def expire(*_: Any, **__: Any) -> int:
        return 0

    patch.setattr(admission, "expire", expire)


def forget_the_key(patch: Patch) -> None:
    """Keep each answer under a key that nobody will ask by."""
    before = idempotency.Memo.write

    def write(self: Any, services: Any, obj: Any) -> Any:
        return replace(before(self, services, obj), key=f"lost-{obj.metadata.uid}")

    patch.setattr(idempotency.Memo, "write", write)


def answer_before_the_commit(patch: Patch) -> None:
    """Tell the caller its decision while the commit is still under way."""
    before = deciding.Decider._record

    async def record(self: Any, draft: Any, fence: Any) -> Any:
        if draft.asked is not None:
            self._services.asked.answer(draft.asked, draft.made)
        return await before(self, draft, fence)

    patch.setattr(deciding.Decider, "_record", record)


def decide_without_a_lease(patch: Patch) -> None:
    """Commit decisions without the leader's token."""
    before = deciding.Decider._save

    async def save(self: Any, draft: Any, fence: Any) -> Any:
        del fence
        return await before(self, draft, None)

    patch.setattr(deciding.Decider, "_save", save)


def count_twice(patch: Patch) -> None:
    """Count a run as approved and once more as running, and never count anew."""
    before = drafting.Drafter.follow

    def follow(self: Any, run: Any) -> None:
        before(self, run)
        if run.status.phase is SimulationPhase.RUNNING:
            metadata = msgspec.structs.replace(run.metadata, uid=f"{run.metadata.uid}-runs")
            before(self, msgspec.structs.replace(run, metadata=metadata))

    patch.setattr(drafting.Drafter, "follow", follow)
    patch.setattr(drafting.Drafter, "forget", lambda _: None)


def say_an_old_version(patch: Patch) -> None:
    """Predict by all runs and say that it was by the first few."""
    # private _prediction: brief and whole predictions are both made there
    before = forecasts.Foreseen._prediction

    def made(self: Any, *args: Any) -> Any:
        told = before(self, *args)
        return msgspec.structs.replace(told, version=told.version // 2)

    patch.setattr(forecasts.Foreseen, "_prediction", made)


def let_outliers_carry(patch: Patch) -> None:
    """Multiply by a hundred whatever a family's bound is, and cap it nowhere."""
    before = series.Series.bound_ratio
    patch.setattr(series, "OUTLIER", 1e9)
    patch.setattr(series.Series, "bound_ratio", lambda self, *args: 100 * before(self, *args))


def see_no_risk(patch: Patch) -> None:
    """Say that no load exceeds a target, whatever runs and whatever was measured."""
    patch.setattr(chance, "_count", lambda *_: 0)
    # Else what is seen of the promise turns the rule to that of bounds.
    patch.setattr(clusters, "above", lambda *_: False)


def blame_every_run_for_all(patch: Patch) -> None:
    """Take the load of a cluster for what each of its runs uses."""
    before = cluster_samples.ClusterSamples.take

    def take(self: Any, cluster: Any, found: Any, watched: Any) -> None:
        whole = {name: found.load[name] for name in ("cpu_milli", "memory_mib")}
        before(self, cluster, replace(found, now=dict.fromkeys(found.now, whole)), watched)

    patch.setattr(cluster_samples.ClusterSamples, "take", take)


BREAKS: dict[str, Break] = {
    "count_nobody": Break("overbooked", count_nobody, RUNS),
    "hold_a_tenth": Break("overbooked", hold_a_tenth, RUNS),
    "let_the_unknown_in_free": Break("overbooked", let_the_unknown_in_free, RUNS),
    "expire_early": Break("approval", expire_early, RUNS),
    "expire_without_a_cause": Break("approval", expire_without_a_cause, RUNS),
    "expire_nothing": Break("held-for-ever", expire_nothing, RUNS),
    "forget_the_key": Break("one-answer", forget_the_key, RUNS),
    "answer_before_the_commit": Break("one-answer", answer_before_the_commit, RUNS),
    "decide_without_a_lease": Break("fence", decide_without_a_lease, RUNS),
    "count_twice": Break("counted", count_twice, RUNS),
    "say_an_old_version": Break("replayed", say_an_old_version, RUNS),
    "let_outliers_carry": Break("outlier", let_outliers_carry, RUNS),
    "blame_every_run_for_all": Break("measured", blame_every_run_for_all, MEASURED),
    "see_no_risk": Break("overload", see_no_risk, BUSY),
}

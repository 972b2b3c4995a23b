"""Deliberate breaks of how clusters are looked at: safe mode, pods of runs, figures that are believed.

As in `product_breaks`, a break edits the product (never a world, never the checker).
"""

from __future__ import annotations

from typing import Any

from product_breaks import Break, Patch

from labfleet.decisions import run_pods, safe_mode
from labfleet.interfaces.cluster_view import RunOver
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources.cluster_conditions import PodsReason
from labfleet.service.core.cluster_watch import ClusterWatch
from labfleet.service.verbs import drafting, pods_seen

LOOKED = Options(hours=3, workers=1, sessions=0, simulations=480)
# private _left, _over, _REASONS: the product is broken at exactly this step


def let_in_blind(patch: Patch) -> None:
    """Never be in safe mode, whatever was not heard."""
    patch.setattr(ClusterWatch, "safe_mode", lambda *_: None)


def decide_blind_by_predictions(patch: Patch) -> None:
    """Decide as ever where declared values alone shall count."""
    patch.setattr(drafting.Drafter, "_declared", lambda *_: False)


def stay_in_safe_mode(patch: Patch) -> None:
    """Believe nothing any more of a part of a cluster that was once not heard."""
    heard, failed = ClusterWatch.heard, ClusterWatch.failed
    lost: set[tuple[str, str]] = set()

    def fails(self: Any, uid: str, part: str, problem: str, **more: Any) -> None:
        lost.add((uid, part))
        failed(self, uid, part, problem, **more)

    def hears(self: Any, uid: str, part: str, now: float) -> None:
        if (uid, part) not in lost:
            heard(self, uid, part, now)

    patch.setattr(ClusterWatch, "failed", fails)
    patch.setattr(ClusterWatch, "heard", hears)


def deny_what_may_wait(patch: Patch) -> None:
    """Deny requests in safe mode that would wait in their queue."""
    before = drafting.Drafter._left

    def left(self: Any, cluster: Any, new: Any, judged: Any, level: Any) -> Any:
        blind = self._denies(cluster)
        if blind is None:
            return before(self, cluster, new, judged, level)
        told = safe_mode.in_safe_mode(judged.decision, cluster.name, blind)
        return self._draft(cluster, new, self._denied(new, judged, told))

    patch.setattr(drafting.Drafter, "_left", left)


def see_no_life(patch: Patch) -> None:
    """Take no note of pods that run."""

    async def lives(services: Any, caller: Any, run: Any, *_: Any) -> Any:
        del services, caller
        return run

    patch.setattr(pods_seen, "_lives", lives)


def end_what_lives(patch: Patch) -> None:
    """Take pods that run for pods that are gone."""

    async def lives(services: Any, caller: Any, run: Any, pods: Any, fence: Any) -> Any:
        del pods
        return await pods_seen._over(services, caller, run, RunOver("Gone"), fence)

    patch.setattr(pods_seen, "_lives", lives)


def call_success_failure(patch: Patch) -> None:
    """Say of pods that have completed that they failed."""
    wrong = {**run_pods._REASONS, "Completed": PodsReason.FAILED}
    patch.setattr(run_pods, "_REASONS", wrong)


def let_what_is_over_expire(patch: Patch) -> None:
    """End no run by its pods: each expires at its bound."""
    patch.setattr(run_pods, "end", lambda _: None)


def believe_anything(patch: Patch) -> None:
    """Take every figure for true, however large."""
    patch.setattr(safe_mode, "contradiction", lambda **_: "")


BREAKS: dict[str, Break] = {
    "let_in_blind": Break("safe-mode", let_in_blind, LOOKED),
    "decide_blind_by_predictions": Break("safe-mode", decide_blind_by_predictions, LOOKED),
    "stay_in_safe_mode": Break("safe-mode", stay_in_safe_mode, LOOKED),
    "deny_what_may_wait": Break("safe-mode", deny_what_may_wait, LOOKED, first=2),
    "see_no_life": Break("pods", see_no_life, LOOKED),
    "end_what_lives": Break("pods", end_what_lives, LOOKED),
    "call_success_failure": Break("pods", call_success_failure, LOOKED),
    "let_what_is_over_expire": Break("pods", let_what_is_over_expire, LOOKED),
    "believe_anything": Break("measured", believe_anything, LOOKED),
}

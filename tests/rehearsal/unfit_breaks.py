"""Deliberate breaks of what keeps labs off unfit machines, and time right when a host's is wrong.

As in `product_breaks`, a break edits the product (never a world, never the checker).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from product_breaks import Break, Patch

from labfleet.controllers.worker.observer import WorkerObserver
from labfleet.decisions import clock_trust, scaling
from labfleet.decisions.lifecycle.session import moving
from labfleet.decisions.lifecycle.session.draft import Draft
from labfleet.decisions.lifecycle.worker import health, phases
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources.session import SessionPhase
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.worker_conditions import WorkerCondition


def close_for_nothing(patch: Patch) -> None:
    """Place sessions whatever the facts of a worker say."""
    patch.setattr(phases, "closed_by", lambda facts: None)


def believe_in_the_host(patch: Patch) -> None:
    """Place sessions on a machine whose checks EC2 calls impaired."""
    patch.delitem(phases.CLOSING, WorkerCondition.INSTANCE_CHECKS_PASSED)


def show_what_was(patch: Patch) -> None:
    """Ask a server that is not ready for nothing, and show its facts as they were."""

    async def unready(self: Any, worker: Any, host: Any, seen: Any) -> Any:
        return seen

    # The product is broken at exactly this step.
    patch.setattr(WorkerObserver, "_unready", unready)
    patch.setattr(health, "let_lapse", lambda draft: None)


def replace_all_at_once(patch: Patch) -> None:
    """Let every empty worker on an impaired host go, whatever the disruption budget says."""

    def replaced(view: Any, groups: Any) -> Any:
        return tuple(
            scaling.Retirement(name=each.name, reason="Impaired")
            for each in groups.ready
            if each.ill and not (each.reservations or each.in_use)
        )

    patch.setattr(scaling, "_replaced", replaced)


def replace_nothing(patch: Patch) -> None:
    """Keep workers on a host that nobody mends."""
    patch.setattr(scaling, "_replaced", lambda *_: ())


def follow_the_wall_clock(patch: Patch) -> None:
    """Believe the host's wall clock, however far it jumps."""
    patch.setattr(
        clock_trust, "judged", lambda trust, wall, steady: clock_trust.Trust(wall, steady)
    )


def boot_in_silence(patch: Patch) -> None:
    """Count the time in which nobody could ask for a lab as its boot, and fail it when it is over."""

    def unanswered(draft: Any) -> Any:
        if draft.age < timedelta(seconds=draft.budget.boot):
            return draft.stay("waiting for the worker")
        return draft.teardown(SessionPhase.FAILED, PhaseReason.BOOT_TIMEOUT, "not imported yet")

    patch.setattr(moving, "unanswered", unanswered)


def stay_with_nothing(patch: Patch) -> None:
    """Treat what was never imported like a lab that has to be looked for first."""
    patch.setattr(Draft, "never_imported", False)


SMALL = Options(hours=1.5, workers=2, sessions=80, replicas=1)

BREAKS: dict[str, Break] = {
    "close_for_nothing": Break("unfit", close_for_nothing, SMALL, first=65),
    "believe_in_the_host": Break("unfit", believe_in_the_host, SMALL, first=64),
    "show_what_was": Break("not-renewed", show_what_was, replace(SMALL, sessions=10), first=57),
    "replace_all_at_once": Break(
        "replaced", replace_all_at_once, Options(hours=3, sessions=60, replicas=1), first=21
    ),
    "replace_nothing": Break(
        "replaced", replace_nothing, Options(hours=2, workers=4, sessions=8, replicas=1), first=32
    ),
    "follow_the_wall_clock": Break(
        "early", follow_the_wall_clock, Options(hours=1, workers=3, sessions=240), first=3
    ),
    "boot_in_silence": Break("boot-limit", boot_in_silence, SMALL),
    "stay_with_nothing": Break(
        "unreached", stay_with_nothing, replace(SMALL, hours=2, sessions=40)
    ),
    "date_by_the_wall_clock": Break(
        "instant", follow_the_wall_clock, Options(hours=1, workers=2, sessions=16), first=52
    ),
}

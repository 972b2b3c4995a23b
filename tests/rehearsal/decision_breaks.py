"""More deliberate breaks of product code: what is decided, said, asked and given back.

As in `product_breaks`, a break edits the product (never a world, never the checker).
"""

from __future__ import annotations

from typing import Any

import msgspec
from product_breaks import Break, Patch

from labfleet.controllers.session.reconcile import observations
from labfleet.controllers.worker import inventory
from labfleet.controllers.worker.idle import IdleController
from labfleet.decisions import scaling
from labfleet.decisions.lifecycle.session import decide as session_rules
from labfleet.decisions.lifecycle.session import draft as session_draft
from labfleet.engine import election
from labfleet.engine.controller import Again
from labfleet.interfaces import store as stores
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources.session import SessionPhase


def never_shrink(patch: Patch) -> None:
    """Give no worker back, however long it stands empty, and stop none as idle."""

    async def reconcile(self: Any, key: Any) -> Again:
        return Again(300.0)

    patch.setattr(scaling, "_surplus", lambda *_: ())
    patch.setattr(IdleController, "reconcile", reconcile)


def observe_without_fence(patch: Patch) -> None:
    """Record what a lab used without the leader's token."""
    before = observations.record

    async def record(*args: Any, fence: Any = None, **given: Any) -> Any:
        del fence
        return await before(*args, **given)

    patch.setattr(observations, "record", record)


def borrow_a_lease(patch: Patch) -> None:
    """Let every leader write under the scheduler's lease and its present token."""

    def fence(self: Any) -> Any:
        own = self._fence if self.held else None
        return None if own is None else stores.Fence("scheduler", own.token)

    # private _Term, _HANDLERS: the product is broken at exactly this step
    patch.setattr(election._Term, "fence", property(fence))


def say_nothing_at_all(patch: Patch) -> None:
    """Keep phases and decisions, and never say what is waited for."""
    before = session_draft.Draft.go

    def go(self: Any, *args: Any, **given: Any) -> Any:
        step = before(self, *args, **given)
        self.set(reason="", message="")
        return msgspec.structs.replace(step, status=self.status)

    patch.setattr(session_draft.Draft, "go", go)


def fail_everything(patch: Patch) -> None:
    """Give up every lab as soon as it is to come up, with a reason that sounds well."""

    def instantiating(draft: Any) -> Any:
        return draft.teardown(SessionPhase.FAILED, "BootTimeout", "0 of 3 nodes booted")

    patch.setitem(session_rules._HANDLERS, SessionPhase.INSTANTIATING, instantiating)


def blame_the_worker(patch: Patch) -> None:
    """Say that a worker was lost when its lab is long in coming."""
    patch.setattr(
        session_rules,
        "_booting",
        lambda draft, lab: draft.teardown(SessionPhase.FAILED, "WorkerLost", "gone, surely"),
    )


def ask_one_by_one(patch: Patch) -> None:
    """Look at each machine by itself, a dozen times each round."""
    before = inventory.Inventory.find

    async def find(self: Any, region: str, instance: str) -> Any:
        for _ in range(12):
            await self._compute.describe(region, instance)
        return await before(self, region, instance)

    patch.setattr(inventory.Inventory, "find", find)


CALM = Options(hours=16, sessions=8, exam=40)

BREAKS: dict[str, Break] = {
    "never_shrink": Break("surplus", never_shrink, CALM, first=2),
    "observe_without_fence": Break("fence", observe_without_fence),
    "borrow_a_lease": Break("fence", borrow_a_lease),
    "say_nothing_at_all": Break("reason", say_nothing_at_all),
    "fail_everything": Break("failure", fail_everything),
    "blame_the_worker": Break("failure", blame_the_worker),
    "ask_one_by_one": Break("budget", ask_one_by_one),
}

"""Deliberate breaks of product code that only some stories show: impaired checks, pools that go.

As in `product_breaks`, a break edits the product (never a world, never the checker).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from product_breaks import Break, Patch, leak_for_nothing

from labfleet.decisions import scaling
from labfleet.decisions.lifecycle.worker import decide as worker
from labfleet.decisions.lifecycle.worker import external as worker_external
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources import conditions
from labfleet.resources.pool import PoolPhase
from labfleet.resources.worker import FINALIZER_LICENCE, WorkerPhase


def stop_the_impaired(patch: Patch) -> None:
    """Stop a machine whose check is impaired, as if that would mend it."""
    for phase in (WorkerPhase.READY, WorkerPhase.ACTIVE):
        # private _RULES, _terminate, _end: the product is broken at exactly this step
        before = worker._RULES[phase]

        def rule(draft: Any, before: Any = before) -> Any:
            checks = conditions.find(draft.status.conditions, "InstanceChecksPassed")
            if checks is not None and checks.status == "False":
                return draft.stay("its check is impaired", do="stop")
            return before(draft)

        patch.setitem(worker._RULES, phase, rule)


def forget_the_workers(patch: Patch) -> None:
    """Call a pool ended as soon as the end of its workers was asked for."""
    before = scaling._terminate
    patch.setattr(
        scaling, "_terminate", lambda *args: replace(before(*args), phase=PoolPhase.TERMINATED)
    )


def let_go_at_once(patch: Patch) -> None:
    """Let go of a server at an address with all that is ours on it."""
    patch.setattr(worker_external, "leak", lambda draft, why: draft.drop(FINALIZER_LICENCE))
    for phase, before in list(worker_external._RULES.items()):

        def rule(draft: Any, before: Any = before) -> Any:
            ending = worker_phases.desire(draft.worker) == "Terminated"
            return worker_external._end(draft) if ending else before(draft)

        if phase is not WorkerPhase.TERMINATED:
            patch.setitem(worker_external._RULES, phase, rule)


BREAKS: dict[str, Break] = {
    "leak_in_a_harsh_seed": Break("leak", leak_for_nothing),
    "stop_the_impaired": Break("impaired", stop_the_impaired),
    "forget_the_workers": Break("pool-finalizer", forget_the_workers, first=2),
    "let_go_at_once": Break("server-finalizer", let_go_at_once, Options(hours=6, sessions=80)),
}

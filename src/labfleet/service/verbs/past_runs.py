"""Brings past runs from elsewhere into the history, all of a request or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources import history
from labfleet.resources.history import Run, Source
from labfleet.service.core import access, intake
from labfleet.service.core.service_context import Caller, ServiceContext

AT_ONCE = 256
"""Runs of one request: one commit, so that it is there whole or not at all."""
_AHEAD = timedelta(minutes=1)
"""Clocks of two hosts differ a little."""
_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Imported:
    """How many runs were new, and how many the history had already and kept as they were."""

    added: int
    known: int


async def bring(services: ServiceContext, caller: Caller, runs: Sequence[Run]) -> Imported:
    """Append runs with source `imported`, in their order; Invalid names the wrong fields of any.

    A run whose kind and uid the history has changes nothing, so a request may be repeated.
    """
    access.demand(caller.principal, "create", "Run")
    if len(runs) > AT_ONCE:
        raise intake.invalid(("runs", f"at most {AT_ONCE} at once, not {len(runs)}"))
    latest = services.clock.now() + _AHEAD
    wrong = [
        (f"runs[{place}].{field}", why)
        for place, run in enumerate(runs)
        for field, why in history.problems(run, latest)
    ]
    if wrong:
        raise intake.invalid(*wrong[:_PROBLEMS])
    taught = tuple(
        stores.Teach(
            msgspec.structs.replace(
                run, source=Source.IMPORTED, parameters=history.typed(run.parameters)
            )
        )
        for run in runs
    )
    if not taught:
        return Imported(0, 0)
    cause = services.cause(caller, "past runs imported")
    done = await services.objects.store.commit(stores.Commit(cause=cause, writes=taught))
    services.learning.stale = True
    return Imported(done.taught, len(taught) - done.taught)

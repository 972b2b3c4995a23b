"""Deliberate breaks of what keeps promised slots, one for each rule on promises.

As in `product_breaks`, a break edits the product (never a world, never the checker).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
from product_breaks import Break, Patch

from labfleet.controllers import promises
from labfleet.controllers.session.reconcile import SessionController
from labfleet.decisions.claims.places import PoolClaims
from labfleet.decisions.lifecycle.session import promise
from labfleet.rehearsal import faults
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources.session_conditions import SessionReason
from labfleet.service.kinds import session_outlook
from labfleet.service.kinds.pool_leads import Leads

EXAM = Options(hours=4, workers=1, sessions=240, replicas=1)
QUIET = replace(EXAM, harshness=faults.NONE)
CALM = Options(hours=4, workers=1, sessions=1, replicas=1, harshness=faults.NONE)


def promise_without_looking(patch: Patch) -> None:
    """Accept every slot, whatever its place has promised already."""
    patch.setattr(PoolClaims, "lack", lambda self, place, request, **_: None)


def promise_anew_each_time(patch: Patch) -> None:
    """Give what waits another place at each look, for no reason."""
    before = promises.Promises.wanted

    def wanted(self: Any, session: Any, request: Any, **how: Any) -> Any:
        claim = before(self, session, request, **how)
        return claim and msgspec.structs.replace(claim, place=1 - claim.place)

    patch.setattr(promises.Promises, "wanted", wanted)


def give_what_is_promised(patch: Patch) -> None:
    """Let whoever comes first take a worker, whatever is promised there."""
    patch.setattr(promises.Promises, "own", lambda *_: [])
    patch.setattr(promises.Promises, "_free", lambda *_: None)


def tell_ranges_backwards(patch: Patch) -> None:
    """Tell that what waits starts a day later than at the latest."""
    before = session_outlook.minute

    def minute(at: datetime, *, up: bool = False) -> datetime:
        return before(at, up=up) + timedelta(days=0 if up else 1)

    patch.setattr(session_outlook, "minute", minute)


def look_too_late(patch: Patch) -> None:
    """Look for a worker only when the grace of a slot is over."""

    def late(self: Any, session: Any) -> Any:
        start = session.spec.slot.start
        return start and start + timedelta(minutes=40)

    patch.setattr(Leads, "looked_for", late)


def say_nothing(patch: Patch) -> None:
    """Look for workers too late, and record no cause for a promise that was not kept."""
    look_too_late(patch)
    patch.setattr(SessionController, "_judged", lambda self, session, status: status)


def blame_the_provider(patch: Patch) -> None:
    """Look for workers too late, and say that the provider gave none."""
    look_too_late(patch)
    patch.setattr(promise, "cause", lambda *_: SessionReason.NO_MACHINE)


BREAKS: dict[str, Break] = {
    "promise_without_looking": Break("packed", promise_without_looking, EXAM),
    "promise_anew_each_time": Break("packed", promise_anew_each_time, replace(EXAM, workers=2)),
    "tell_ranges_backwards": Break("starts", tell_ranges_backwards, EXAM),
    "give_what_is_promised": Break("taken", give_what_is_promised, QUIET),
    "look_too_late": Break("kept", look_too_late, QUIET, first=6),
    "say_nothing": Break("kept", say_nothing, CALM, first=3),
    "blame_the_provider": Break("excuse", blame_the_provider, CALM, first=3),
}

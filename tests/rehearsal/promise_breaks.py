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
from labfleet.decisions.claims.places import PoolClaims
from labfleet.rehearsal import faults
from labfleet.rehearsal.seeds.run import Options
from labfleet.service.kinds import session_outlook

EXAM = Options(hours=4, workers=1, sessions=240, replicas=1)
QUIET = replace(EXAM, harshness=faults.NONE)


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


BREAKS: dict[str, Break] = {
    "promise_without_looking": Break("packed", promise_without_looking, EXAM),
    "promise_anew_each_time": Break("packed", promise_anew_each_time, replace(EXAM, workers=2)),
    "tell_ranges_backwards": Break("starts", tell_ranges_backwards, EXAM),
    "give_what_is_promised": Break("kept", give_what_is_promised, QUIET, first=6),
}

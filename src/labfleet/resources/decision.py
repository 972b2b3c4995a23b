"""The recorded answer of a pure decision, which `explain` and the pages read.

Bounded on purpose: at most `CANDIDATES` verdicts are kept, the nearest misses first, with
counts by reason for the rest.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from labfleet.resources.amounts import Amounts, Shortage
from labfleet.resources.meta import Record

CANDIDATES = 12

Outcome = Literal["assigned", "waiting", "refused", "approved", "denied"]


class Verdict(Record, frozen=True, kw_only=True):
    """What the decision made of one candidate worker or cluster."""

    name: str
    fits: bool
    reasons: tuple[str, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    score: float | None = None


class Decision(Record, frozen=True, kw_only=True):
    """Outcome with its reasons: enough to explain it later without the state of then.

    `revision` is the store revision of the snapshot that was decided on.
    """

    outcome: Outcome
    reason: str
    message: str
    at: datetime
    revision: int = 0
    requested: Amounts = Amounts()
    chosen: str | None = None
    candidates: tuple[Verdict, ...] = ()
    evaluated: int = 0
    rejected_by_reason: dict[str, int] = {}

"""The recorded answer of a pure decision, which `explain` and the pages read.

Bounded on purpose: at most `CANDIDATES` verdicts are kept, the nearest misses first, with
counts by reason for the rest.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from labfleet.resources.amounts import Amounts, Shortage
from labfleet.resources.learned_demand import LearnedDemand
from labfleet.resources.meta import Record

CANDIDATES = 12

Outcome = Literal["assigned", "waiting", "refused", "approved", "denied"]


class Rule(StrEnum):
    """By what a cluster admits runs: a bounded chance of overload, sums of bounds, or declared."""

    CHANCE = "chance"
    BOUNDS = "bounds"
    DECLARED = "declared"


class Verdict(Record, frozen=True, kw_only=True):
    """What the decision made of one candidate worker or cluster.

    name: Name of the candidate.
    fits: Whether it could have been chosen.
    reasons: Words for why not.
    shortages: What it lacks, by dimension.
    score: Its rank among those that fit; null for those that do not.
    """

    name: str
    fits: bool
    reasons: tuple[str, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    score: float | None = None


class Decision(Record, frozen=True, kw_only=True):
    """Outcome with its reasons: enough to explain it later without the state of then.

    outcome: What was decided.
    reason: Word for why.
    message: Sentence for people.
    at: When it was decided (fleet time).
    revision: Store revision of the snapshot that was decided on.
    requested: What was asked for.
    chosen: Name of the candidate that was chosen; null when none was.
    candidates: The candidates that are worth showing, each with its verdict.
    evaluated: How many candidates were looked at.
    rejected_by_reason: How many candidates were turned down for each reason.
    rule: Which rule of admission was applied; empty where there is only one.
    risk: Chance that the load exceeds a target with it, 0 to 1; null when the rule knows none.
    epsilon: How large that chance may be; null when the rule knows none.
    strategy: By what the worker was chosen among those that fit; empty where nothing was chosen.
    parts: What the chosen one's score is made of, and what its pool was chosen by.
    latency_ms: How long the decision took, in milliseconds of machine time; null when not measured.
    demand: The bounds of past use that `requested` was made of; null where it is what was declared.
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
    rule: str = ""
    risk: float | None = None
    epsilon: float | None = None
    strategy: str = ""
    parts: dict[str, float] = {}
    latency_ms: float | None = None
    demand: LearnedDemand | None = None

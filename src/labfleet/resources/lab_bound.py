"""What sessions of a definition's family used of one dimension, against what it asks for."""

from __future__ import annotations

from labfleet.resources.meta import Record
from labfleet.resources.prediction import Evidence

SIZED = ("cpu_milli", "memory_mib", "storage_mib")
"""The dimensions of which a lab's use is measured."""
HARD = frozenset({"cpu_milli", "memory_mib"})
"""Dimensions that CML reserves for a node before it starts it (facts/cml.md#states)."""


class LabBound(Record, frozen=True, kw_only=True):
    """One dimension of a definition: what it asks for, what was used, and what would do.

    All amounts are in the dimension's base unit; what is not known is null, never 0.

    resource: Name of the dimension, as a field of amounts.
    declared: What one lab asks for now.
    reserved: What the lab's nodes reserve on a server by themselves, whatever is declared.
    sessions: Sessions that count: measured, and not cut off before they could say anything new.
    left_out: Sessions that were measured and cut off early, and say nothing new.
    latest: Peak of the newest of them.
    mean: Mean of their peaks.
    max: Greatest of their peaks.
    p50: Peak that half of them stayed within.
    p90: Peak that nine of ten stayed within.
    p95: Peak that nineteen of twenty stayed within.
    p99: Peak that ninety-nine of a hundred stayed within.
    bound: What would do for the stated share of sessions; null with too few sessions.
    coverage: Share of sessions that stay within the bound, as stated; with few sessions it is lower
    than what was asked for, since so many say no more.
    achieved: Share of the sessions that stayed within the bound that those before them gave; null
    when no bound could be judged.
    exceeded: How many of the sessions that count used more than the bound.
    slack: Share of what is declared that the mean session leaves unused.
    evidence: What the bound rests on: sessions of this very version, of others of its family, or no
    more than what is declared.
    capped: Whether the bound was lowered to what the largest worker has.
    sentence: The evidence for people.
    """

    resource: str
    declared: int
    reserved: int = 0
    sessions: int = 0
    left_out: int = 0
    latest: float | None = None
    mean: float | None = None
    max: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    bound: int | None = None
    coverage: float = 0.0
    achieved: float | None = None
    exceeded: int = 0
    slack: float | None = None
    evidence: Evidence = Evidence.DECLARED
    capped: bool = False
    sentence: str = ""

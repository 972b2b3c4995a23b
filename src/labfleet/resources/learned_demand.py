"""What one session is counted with where its lab's past use says that, and not its definition alone.

Fixed when the session is accepted, so that its claim, its reservation and its moves count the same
however much is learned later.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import Record
from labfleet.resources.prediction import Evidence

DemandRule = Literal["declared", "bound"]
"""Whether sessions are counted with what their definition declares, or with a bound of past use."""


class LearnedAmount(Record, frozen=True, kw_only=True):
    """How one dimension of a session was found, in its base unit.

    dimension: Which one, as a field of amounts.
    declared: What its definition declares.
    reserved: What its nodes reserve on a server by themselves; it is never counted with less.
    bound: What past sessions stayed within; null with too few of them.
    counted: What it is counted with.
    coverage: Share of sessions that stay within the bound, as stated; null without a bound.
    sessions: How many past sessions say so.
    evidence: Which sessions those are: of this version, of its family, or none.
    sentence: The evidence for people.
    """

    dimension: str
    declared: int
    reserved: int = 0
    bound: int | None = None
    counted: int
    coverage: float | None = None
    sessions: int = 0
    evidence: Evidence = Evidence.DECLARED
    sentence: str = ""


class LearnedDemand(Record, frozen=True, kw_only=True):
    """What one session is counted with by a bound of past use, and on which evidence.

    amounts: What it is counted with, in its claim and wherever it is placed.
    family: Which past sessions it was compared with.
    at: When that was fixed.
    learned: How each dimension was found that is measured.
    """

    amounts: Amounts
    family: str
    at: datetime
    learned: tuple[LearnedAmount, ...] = ()

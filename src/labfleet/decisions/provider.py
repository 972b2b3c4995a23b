"""Whether a provider answers: what one look means for the condition that says so. Pure.

A short trouble is nothing to tell. One that lasts longer than `PATIENCE` is a fact about all that
waits for the provider: what it told before is not known any more, limits stand still, and the
alert names the cause instead of what it leads to.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from labfleet.resources import conditions
from labfleet.resources.conditions import Condition, Status
from labfleet.resources.providers.trouble import Trouble, sentence
from labfleet.resources.region import RegionCondition, RegionReason

PATIENCE = timedelta(seconds=180)
"""How long the provider's last word stands while it does not answer."""


class Verdict(NamedTuple):
    """The condition's new status, its trouble (None: it answers), and its message."""

    status: Status
    trouble: Trouble | None
    message: str


class Asked(NamedTuple):
    """Who was asked: the provider's name, the region, and the words of its last answer."""

    title: str
    region: str
    text: str = ""


def judge(
    before: Condition | None,
    trouble: Trouble | None,
    asked: Asked,
    now: datetime,
    *,
    silent: timedelta = timedelta(0),
) -> Verdict | None:
    """Return what to record after a look; None when it is recorded already.

    `silent` is how long it has been so by the caller's memory; without one the first look is
    recorded as Unknown, and the patience counts from there.
    """
    if trouble is None:
        good = before is None or before.status == "True"
        return None if good else Verdict("True", None, "")
    same = before is not None and before.reason == trouble
    if before is not None and before.status == "False":
        if same:
            return None
        return Verdict("False", trouble, _told(asked, trouble, now))
    began = now - silent
    if before is not None and before.status == "Unknown":
        began = min(began, before.last_transition_time)
    if now - began > PATIENCE:
        return Verdict("False", trouble, _told(asked, trouble, began))
    if silent or (before is not None and before.status == "Unknown"):
        return None
    return Verdict("Unknown", trouble, "the first look without an answer")


REASONS = {each: reason for each in Trouble for reason in RegionReason if reason == each.value}


def of_region(
    facts: tuple[Condition, ...], trouble: Trouble | None, asked: Asked, now: datetime
) -> tuple[Condition, ...]:
    """Return a region's conditions after one look at all of it."""
    name = RegionCondition.PROVIDER_ANSWERS
    found = judge(conditions.find(facts, name), trouble, asked, now)
    if found is None:
        return facts
    reason = RegionReason.ANSWERING if found.trouble is None else REASONS[found.trouble]
    return conditions.put(facts, name, found.status, reason, found.message, now=now)


def _told(asked: Asked, trouble: Trouble, since: datetime) -> str:
    told = sentence(asked.title, asked.region, trouble, since)
    return f"{told}: {asked.text[:300]}" if trouble is not Trouble.SILENT and asked.text else told

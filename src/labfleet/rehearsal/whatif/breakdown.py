"""The breakdown of a period's figures: who waited, why sessions failed, pools, labs and days.

Plain values for the answer's JSON; instants and ends are those of `tally`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labfleet.rehearsal.figures import run_records
from labfleet.rehearsal.figures.run_records import SessionRecord, Span, WorkerRecord, quantile
from labfleet.rehearsal.figures.tally import Tally, spent_in
from labfleet.rehearsal.plans.demand import PlannedSession

DAY = 86400.0
SHOWN_SECONDS = 1.0
_WITH_REASON = ("failed", "refused", "expired")
Row = dict[str, Any]


def waiters(tally: Tally, end: float, count: int, *, begin: float = 0.0, limit: float) -> list[Row]:
    """Return up to `count` sessions that never ran and as many of those that waited longest.

    Those that never ran come first; each group is sorted by wait, the longest first.
    """
    due = [
        each for each in tally.stays.values()
        if begin <= each.wished < end and each.outcome(end) != run_records.NOT_DUE
    ]  # fmt: skip
    ordered = sorted(due, key=lambda each: (-each.wait(end), each.name))
    lost = [each for each in ordered if each.never_ran(end, limit)]
    names = {id(each) for each in lost}
    long = [each for each in ordered
            if id(each) not in names and each.wait(end) >= SHOWN_SECONDS]  # fmt: skip
    return [
        {
            "session": each.name,
            "owner": each.owner,
            "definition": each.definition,
            "slot": each.slotted,
            "asked_hours": round((each.asked - begin) / 3600, 3),
            "wait_seconds": round(each.wait(end), 1),
            "outcome": each.outcome(end),
            "ran": each.ran(end),
            "never_ran": id(each) in names,
            "reason": _reason(each, end),
        }
        for each in [*lost[:count], *long[:count]]
    ]


def _reason(each: SessionRecord, end: float) -> str:
    if each.why and (each.ran(end) or each.phase != "FAILED" or each.refused):
        return each.why
    return "its lab booted" if each.ran(end) else each.message or each.reason


def reasons(
    tally: Tally, end: float, *, begin: float = 0.0,
    turned_away: Mapping[tuple[str, str], int],
) -> dict[str, list[Row]]:  # fmt: skip
    """Return why sessions failed, were refused or expired: reason, count and one message each.

    `turned_away` counts, by reason and message, those that never became sessions.
    """
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in _WITH_REASON}
    examples: dict[tuple[str, str], str] = {}
    found = [each for each in tally.stays.values() if begin <= each.wished < end]
    for each in sorted(found, key=lambda each: each.name):
        kind = each.outcome(end).lower()
        if kind not in counts:
            continue
        code = (each.why_reason if kind == "refused" else each.reason) or "Unknown"
        told = each.why if kind == "refused" else each.message
        counts[kind][code] += 1
        examples.setdefault((kind, code), told or each.why)
        if kind == "expired" and not each.ran(end) and each.why:
            examples[kind, code] = each.why
    for (code, told), many in turned_away.items():
        counts["refused"][code] += many
        examples.setdefault(("refused", code), told)
    return {
        kind: [
            {"reason": code, "count": many, "example": examples[kind, code]}
            for code, many in counted.most_common()
        ]
        for kind, counted in counts.items()
        if counted
    }


def details(
    tally: Tally,
    end: float,
    *,
    begin: float = 0.0,
    limit: float,
    away: Sequence[PlannedSession] = (),
) -> Row:
    """Return the figures by pool, by lab definition and by day.

    `away` are wishes that were turned away before they were sessions.
    """
    return {
        "by_pool": by_pool(tally, end, begin=begin),
        "by_definition": by_definition(tally, end, begin=begin, limit=limit, away=away),
        "by_day": by_day(tally, end, begin=begin, limit=limit, away=away),
    }


def by_definition(
    tally: Tally,
    end: float,
    *,
    begin: float = 0.0,
    limit: float,
    away: Sequence[PlannedSession] = (),
) -> Row:
    """Return sessions and waits of each lab definition."""
    lost = Counter(each.definition for each in away)
    kinds: dict[str, list[SessionRecord]] = {}
    for each in tally.stays.values():
        if begin <= each.wished < end:
            kinds.setdefault(each.definition, []).append(each)
    return {
        name: _sessions(kinds.get(name, []), end, limit, lost[name])
        for name in sorted({*kinds, *lost})
    }


def by_day(
    tally: Tally,
    end: float,
    *,
    begin: float = 0.0,
    limit: float,
    away: Sequence[PlannedSession] = (),
) -> list[Row]:
    """Return sessions by the day on which they were due, and that day's machines."""
    days: list[Row] = []
    start = begin
    while start < end:
        until = min(start + DAY, end)
        # A slot counts for its own day, not for the day of its booking; one due later for no day.
        due = [each for each in tally.stays.values()
               if start <= each.asked < until and each.wished >= begin]  # fmt: skip
        days.append({
            "day": len(days),
            **_sessions(due, end, limit, sum(start <= each.due < until for each in away)),
            **_machines(spent_in(tally, start, until)),
        })  # fmt: skip
        start = until
    return days


def by_pool(tally: Tally, end: float, *, begin: float = 0.0) -> Row:
    """Return the machines of each pool."""
    pools: dict[str, list[tuple[WorkerRecord, Span]]] = {}
    for post, span in spent_in(tally, begin, end):
        pools.setdefault(post.pool, []).append((post, span))
    return {name: _machines(pools[name]) for name in sorted(pools)}


def _sessions(found: list[SessionRecord], end: float, limit: float, away: int) -> Row:
    waits = sorted(each.wait(end) for each in found if each.ran(end))
    return {
        "requested": len(found) + away,
        "completed": sum(each.outcome(end) == "COMPLETED" for each in found),
        "unserved": sum(each.never_ran(end, limit) for each in found) + away,
        "wait_p50": _round(quantile(waits, 0.5)),
        "wait_p95": _round(quantile(waits, 0.95)),
    }


def _machines(spent: Iterable[tuple[WorkerRecord, Span]]) -> Row:
    ran = [(post, until - since, (since, until)) for post, (since, until) in spent if until > since]
    known = sum((post.price or 0.0) * seconds / 3600 for post, seconds, _ in ran)
    unpriced = sum(seconds for post, seconds, _ in ran if post.price is None) / 3600
    return {
        "peak_workers": run_records.most_at_once([span for _, _, span in ran]),
        "worker_hours": _round(sum(seconds for _, seconds, _ in ran) / 3600),
        "cost_usd": None if unpriced else _round(known),
        "cost_known_usd": _round(known),
        "unpriced_hours": _round(unpriced),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

"""What a what-if says: a table for people, one JSON object for programs, and which is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from labfleet.rehearsal.plan import Best
from labfleet.rehearsal.tally import Figures
from labfleet.rehearsal.what_if import Answer
from labfleet.resources import prices

BAR, SHOWN = 30, 6
_LINES: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("sessions requested", lambda each: str(each.requested)),
    ("  completed", lambda each: str(each.completed)),
    ("  failed", lambda each: str(each.failed)),
    ("  expired", lambda each: str(each.expired)),
    ("  refused", lambda each: str(each.refused)),
    ("  cancelled", lambda each: str(each.cancelled)),
    ("  unfinished", lambda each: str(each.unfinished)),
    ("late slot starts", lambda each: str(each.late_starts)),
    ("wait p50", lambda each: span(each.wait_p50)),
    ("wait p95", lambda each: span(each.wait_p95)),
    ("wait max", lambda each: span(each.wait_max)),
    ("peak workers", lambda each: str(each.peak_workers)),
    ("worker-hours", lambda each: f"{each.worker_hours:.1f}"),
    ("utilisation", lambda each: _percent(each.utilisation)),
    ("cost USD", lambda each: "no price" if each.cost_usd is None else f"{each.cost_usd:,.2f}"),
)


def span(seconds: float | None) -> str:
    """Return seconds as people read them; a dash when there is nothing to say it of."""
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"


def best(answers: list[Answer], rule: Best) -> tuple[str | None, str]:
    """Return the name of the best variant and the rule that chose it."""
    told = (
        f"the cheapest of those that leave at most {rule.max_unserved_share * 100:g} % unserved "
        f"and let 95 % start within {rule.max_wait_p95_minutes:g} min"
    )
    if not answers:
        return None, told
    good = [each for each in answers if good_enough(each.figures, rule)]
    if good:
        chosen = min(good, key=lambda each: (_cost(each.figures), each.figures.wait_p95 or 0.0))
        return chosen.name, told
    least = min(
        answers,
        key=lambda each: (each.figures.unserved, each.figures.wait_p95 or 0.0, _cost(each.figures)),
    )
    return least.name, f"none is good enough for: {told}; this one leaves the fewest unserved"


def good_enough(found: Figures, rule: Best) -> bool:
    """Tell whether a variant keeps the plan's promises."""
    share = found.unserved / found.requested if found.requested else 0.0
    in_time = (found.wait_p95 or 0.0) <= rule.max_wait_p95_minutes * 60
    return share <= rule.max_unserved_share and in_time


def _cost(found: Figures) -> float:
    return found.worker_hours if found.cost_usd is None else found.cost_usd


def answer(name: str, answers: list[Answer], rule: Best, extra: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object."""
    chosen, why = best(answers, rule)
    cpu = sum(each.seconds for each in answers)
    hours = sum(each.virtual_hours for each in answers)
    struck: dict[str, int] = {}
    for each in answers:
        for word, count in each.faults.items():
            struck[word] = struck.get(word, 0) + count
    return {
        "plan": name,
        "variants": [_variant(each, rule) for each in answers],
        "best": chosen,
        "best_rule": why,
        "prices": {"as_of": prices.AS_OF, "region": prices.REGION, "currency": prices.CURRENCY},
        "violations": [
            {"variant": each.name, "rule": broken.rule, "at_hours": round(broken.at / 3600, 4),
             "text": broken.text}
            for each in answers
            for broken in each.violations
        ],
        "hashes": {each.name: each.log for each in answers},
        "virtual_hours": round(hours, 2),
        "cpu_seconds": round(cpu, 1),
        "speed": round(hours * 3600 / cpu, 1) if cpu else None,
        "commits": sum(each.commits for each in answers),
        "steps": sum(each.steps for each in answers),
        "faults": struck,
        **extra,
    }  # fmt: skip


def _variant(each: Answer, rule: Best) -> dict[str, Any]:
    found = {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in asdict(each.figures).items()
    }
    return {
        "name": each.name,
        **found,
        "good_enough": good_enough(each.figures, rule),
        "refusals": each.refusals,
        "cpu_seconds": round(each.seconds, 1),
        "waiters": each.waiters,
    }


def text(name: str, answers: list[Answer], rule: Best) -> str:
    """Return the answer for people."""
    chosen, why = best(answers, rule)
    rows = [["", *(each.name for each in answers)]]
    rows += [[title, *(show(each.figures) for each in answers)] for title, show in _LINES]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [f"{name}", ""]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    lines += ["", f"best: {chosen} ({why})"]
    for each in answers:
        if each.waiters:
            lines += ["", f"who waited longest with {each.name}:"]
            lines += [_waiter(row) for row in each.waiters[:SHOWN]]
        for broken in each.violations:
            lines.append(f"BROKEN {broken.rule} at {broken.at / 3600:.2f} h: {broken.text}")
    lines += ["", f"prices: {prices.REGION} list of {prices.AS_OF} where a template states none"]
    return "\n".join(lines) + "\n"


def _waiter(row: dict[str, Any]) -> str:
    ran = "" if row["ran"] else f", {row['outcome']}"
    told = f"{span(row['wait_seconds']):>9}  {row['session']} ({row['definition']}{ran})"
    return f"  {told}  {row['reason']}"[:160]


def bar(share: float, title: str) -> str:
    """Return a progress bar of one line."""
    full = int(share * BAR)
    return f"\r{title} [{'#' * full}{'.' * (BAR - full)}] {share * 100:3.0f} %"

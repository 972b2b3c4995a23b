"""The table of an answer: rows of figures, a column for each variant, no wider than the terminal.

Does titles and widths, and does not judge the figures. A figure of several draws is its median
with the lowest and the highest in brackets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labfleet.rehearsal.answers.columns import Spread, VariantColumn, apart, spread
from labfleet.rehearsal.answers.verdict import good_enough
from labfleet.rehearsal.figures.tally import Figures
from labfleet.rehearsal.plans.plan import Best

GAP = "  "
BROKEN = "broken"
Row = tuple[str, list[str]]
Show = Callable[[Spread], str]
_SETTINGS = ("policy", "workers", "template")


def span(seconds: float | None) -> str:
    """Return seconds as people read them; a dash when there is no value."""
    return "-" if seconds is None else _span(Spread(seconds, seconds, seconds))


def _span(each: Spread) -> str:
    if each.high < 100:
        return f"{_ranged(each, '.0f')} s"
    if each.high < 6000:
        return f"{_ranged(each, '.1f', 60)} min"
    return f"{_ranged(each, '.1f', 3600)} h"


def _count(each: Spread) -> str:
    return _ranged(each, ".10g")


def _tenth(each: Spread) -> str:
    return _ranged(each, ",.1f")


def _dollars(each: Spread) -> str:
    return _ranged(each, ",.2f" if each.low == each.high or each.high < 100 else ",.0f")


def _percent(each: Spread) -> str:
    return f"{_ranged(each, '.1f', 0.01)} %"


def _ranged(each: Spread, form: str, unit: float = 1.0) -> str:
    low, mid, high = (format(value / unit, form) for value in (each.low, each.mid, each.high))
    return mid if low == high else f"{mid} ({low}..{high})"


# Title, figure, how it is shown, and whether the row is left out when it is zero everywhere.
_LINES: tuple[tuple[str, str, Show, bool], ...] = (
    ("sessions requested", "requested", _count, False),
    ("  completed", "completed", _count, False),
    ("  failed", "failed", _count, False),
    ("  expired", "expired", _count, False),
    ("  refused", "refused", _count, False),
    ("  cancelled", "cancelled", _count, False),
    ("  running at end", "running", _count, True),
    ("  waiting at end", "waiting", _count, True),
    ("  not due by end", "not_due", _count, True),
    ("never ran", "unserved", _count, False),
    ("gave up waiting", "gave_up", _count, False),
    ("ran within {limit} min", "in_time", _percent, False),
    ("slots late or never", "slots_late_or_never", _count, False),
    ("wait p50 (if it ran)", "wait_p50", _span, False),
    ("wait p95", "wait_p95", _span, False),
    ("wait max", "wait_max", _span, False),
    ("  on demand p50", "now_p50", _span, False),
    ("  on demand p95", "now_p95", _span, False),
    ("  slots p95", "slot_p95", _span, False),
    ("peak workers", "peak_workers", _count, False),
    ("worker-hours", "worker_hours", _tenth, False),
    ("utilisation", "utilisation", _percent, False),
    ("cost USD", "cost_usd", _dollars, False),
    ("  per session", "cost_per_session_usd", _dollars, False),
    ("after the end, hours", "tail_worker_hours", _tenth, True),
    ("after the end, USD", "tail_cost_usd", _dollars, True),
)  # fmt: skip
_APART_ONLY = frozenset({"now_p50", "now_p95", "slot_p95"})


def rows(columns: list[VariantColumn], rule: Best, recorded: Figures | None) -> list[Row]:
    """Return all rows, the names of the columns first."""
    every = [each.figures for each in columns]
    heads = [each.name for each in columns]
    if recorded is not None:
        every, heads = [[recorded], *every], ["recorded", heads[0], "apart", *heads[1:]]
    far = {} if recorded is None else apart(recorded, columns[0].figures)
    made: list[Row] = [("", heads)]
    made += [(title, _beside(cells, far)) for title, cells in settings_rows(columns)]
    both = any(each.slots and each.slots < each.requested for found in every for each in found)
    for title, name, show, skipped in _LINES:
        spreads = [spread(found, name) for found in every]
        if name in _APART_ONLY and not both:
            continue
        if skipped and not any(each is not None and each.high for each in spreads):
            continue
        cells = [
            _unpriced(found, name) if each is None else show(each)
            for each, found in zip(spreads, every, strict=True)
        ]
        if recorded is not None:
            cells.insert(2, _far(cells[0], cells[1], far[name]))
        made.append((title.format(limit=f"{rule.max_wait_p95_minutes:g}"), cells))
    last = [BROKEN if each.broken else _verdict(each.figures, rule) for each in columns]
    if recorded is not None:
        last = [_verdict([recorded], rule), last[0], "", *last[1:]]
    made.append(("good enough", last))
    return made


def _far(one: str, two: str, share: float | None) -> str:
    """Return the difference of two cells; none when both show the same text."""
    if one == two:
        return "-" if one == "-" else "="
    return "-" if share is None else f"{share * 100:+.1f} %"


def _beside(cells: list[str], far: dict[str, Any]) -> list[str]:
    """Return the cells, with empty ones in the columns of the record and of its distance."""
    return ["", cells[0], "", *cells[1:]] if far else cells


def _unpriced(found: list[Figures], name: str) -> str:
    known = spread(found, "cost_known_usd")
    if name == "cost_usd" and known is not None:
        return f"{_dollars(known)} + ?" if known.high else "no price"
    return "-"


def _verdict(found: list[Figures], rule: Best) -> str:
    said = [good_enough(each, rule) for each in found]
    yes, known = said.count(True), len(said) - said.count(None)
    if not known:
        return "-"
    if len(said) > 1 and 0 < yes < known:
        return f"in {yes} of {known}"
    return "yes" if yes == known else "no"


def settings_rows(columns: list[VariantColumn]) -> list[Row]:
    """Return policy, size and template of each pool, and what else differs between variants."""
    pools = sorted({pool for each in columns for pool in each.settings})
    made: list[Row] = []
    for pool in pools:
        found = [each.settings.get(pool, {}) for each in columns]
        other = sorted(
            {key for each in found for key in each}
            - {"minWorkers", "maxWorkers", "policy", "template"}
        )
        for key in (*_SETTINGS, *other):
            cells = [_setting(each, key) for each in found]
            if len(set(cells)) > 1 or (len(pools) == 1 and key in _SETTINGS):
                made.append((key if len(pools) == 1 else f"{pool}: {key}", cells))
    return made


def _setting(pool: dict[str, Any], key: str) -> str:
    if not pool:
        return "-"
    if key == "workers":
        low, high = pool.get("minWorkers", 0), pool.get("maxWorkers", 0)
        return str(low) if low == high else f"{low} to {high}"
    return str(pool.get(key, "-"))


def drawn(found: list[Row], width: int) -> list[str]:
    """Return the lines of a table; columns that do not fit stand below, with the titles again."""
    first = max(len(title) for title, _ in found)
    widths = [max(len(cells[at]) for _, cells in found) for at in range(len(found[0][1]))]
    lines: list[str] = []
    for block in _blocks(first, widths, width):
        if lines:
            lines.append("")
        for title, cells in found:
            shown = [cells[at].rjust(widths[at]) for at in block]
            lines.append(GAP.join([title.ljust(first), *shown]).rstrip())
    return lines


def _blocks(first: int, widths: list[int], width: int) -> list[list[int]]:
    blocks: list[list[int]] = [[]]
    used = first
    for at, each in enumerate(widths):
        if blocks[-1] and used + len(GAP) + each > width:
            blocks.append([])
            used = first
        blocks[-1].append(at)
        used += len(GAP) + each
    return blocks

"""Which variant is best, and whether any is good enough: the rule of a plan, and its sentence.

The sentence says no more than the rule has checked. The rule has to hold in every draw, and a
session that never ran counts as one that did not start in time.
"""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.rehearsal.answers.columns import VariantColumn, spread
from labfleet.rehearsal.figures.tally import Figures
from labfleet.rehearsal.plans.plan import Best

IN_TIME_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """The best variant, or the least bad one when none is good enough; a field is None without one.

    `same` are variants whose figures are all the same as the chosen one's.
    """

    text: str
    best: str | None = None
    least_bad: str | None = None
    same: tuple[str, ...] = ()


def told(rule: Best) -> str:
    """Return the rule in words."""
    return (
        f"at most {rule.max_unserved_share * 100:g} % never ran and "
        f"{IN_TIME_SHARE * 100:g} % started within {rule.max_wait_p95_minutes:g} min"
    )


def good_enough(found: Figures, rule: Best) -> bool | None:
    """Tell whether one draw meets the plan's criteria; None when there is nothing to judge."""
    share = unserved_share(found)
    if share is None or found.in_time is None:
        return None
    return share <= rule.max_unserved_share and found.in_time >= IN_TIME_SHARE


def unserved_share(found: Figures) -> float | None:
    """Return the share of those due in the period that never ran; None when none was due."""
    due = found.requested - found.not_due
    return found.unserved / due if due else None


def kept(column: VariantColumn, rule: Best) -> bool | None:
    """Tell whether a variant is good enough in every draw; None when no draw can be judged.

    None also for a variant that broke a rule: its run stopped there.
    """
    if column.broken:
        return None
    said = [good_enough(each, rule) for each in column.figures]
    known = [each for each in said if each is not None]
    return all(known) if known else None


def judge(columns: list[VariantColumn], rule: Best) -> PlanVerdict:
    """Return the verdict on the variants of a plan; none when one of them broke a rule."""
    broken = [each.name for each in columns if each.broken]
    if broken:
        stopped = "its play stopped there" if len(broken) == 1 else "their plays stopped there"
        return PlanVerdict(
            f"nothing is judged: a rule was broken with {_listed(broken)}, and {stopped}"
        )
    said = {each.name: kept(each, rule) for each in columns}
    if not columns or all(each is None for each in said.values()):
        return PlanVerdict("nothing to judge: no session was due in the period")
    good = [each for each in columns if said[each.name]]
    if len(columns) == 1:
        return _alone(columns[0], rule, good=bool(good))
    if _all_same(columns):
        names = _listed([each.name for each in columns])
        enough = "all are good enough" if good else "none is good enough"
        return PlanVerdict(
            f"no difference between {names}; {enough} ({told(rule)})",
            same=tuple(each.name for each in columns),
        )
    if not good:
        least = min(columns, key=lambda each: (*_badness(each), _price(each, columns)))
        why = f"none is good enough ({told(rule)}); least bad: {least.name}, {measured(least)}"
        return PlanVerdict(why, least_bad=least.name)
    chosen = min(good, key=lambda each: (_price(each, columns), *_badness(each)))
    same = tuple(each.name for each in good
                 if each is not chosen and each.figures == chosen.figures)  # fmt: skip
    by = "the cheapest" if _priced(columns) else "of the fewest worker-hours"
    draws = len(chosen.draws)
    every = f" in each of {draws} draws" if draws > 1 else ""
    text = f"best: {chosen.name} ({by} of those where {told(rule)}{every})"
    if same:
        text += f"; no difference to {_listed(list(same))}"
    return PlanVerdict(text, best=chosen.name, same=same)


def measured(column: VariantColumn) -> str:
    """Return what the rule measured for a variant, in words; of several draws the worst."""
    shares = [unserved_share(each) for each in column.figures]
    lost = max((each for each in shares if each is not None), default=0.0)
    times = [each.in_time for each in column.figures if each.in_time is not None]
    worst = " in the worst draw" if len(column.draws) > 1 else ""
    return (
        f"where {lost * 100:.1f} % never ran and "
        f"{min(times, default=0.0) * 100:.1f} % started in time{worst}"
    )


def smallest(columns: list[VariantColumn], sizes: dict[str, float], rule: Best) -> str | None:
    """Return the sweep's smallest variant that is good enough; None when none is."""
    good = [each.name for each in columns if each.name in sizes and kept(each, rule)]
    return min(good, key=lambda name: sizes[name], default=None)


def _alone(column: VariantColumn, rule: Best, *, good: bool) -> PlanVerdict:
    answer = "yes" if good else "no"
    text = f"good enough: {answer}, {measured(column)} (needed: {told(rule)})"
    if good:
        return PlanVerdict(text, best=column.name)
    return PlanVerdict(text, least_bad=column.name)


def _all_same(columns: list[VariantColumn]) -> bool:
    return all(each.figures == columns[0].figures for each in columns)


def _badness(column: VariantColumn) -> tuple[float, float, float]:
    lost, late = spread(column.figures, "unserved"), spread(column.figures, "in_time")
    wait = spread(column.figures, "wait_p95")
    return (
        lost.mid if lost else 0.0,
        -late.mid if late else 0.0,
        wait.mid if wait else float("inf"),
    )


def _priced(columns: list[VariantColumn]) -> bool:
    """Tell whether dollars can be compared: every variant has a price for all it used."""
    return all(spread(each.figures, "cost_usd") is not None for each in columns)


def _price(column: VariantColumn, columns: list[VariantColumn]) -> float:
    name = "cost_usd" if _priced(columns) else "worker_hours"
    found = spread(column.figures, name)
    return found.mid if found else float("inf")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

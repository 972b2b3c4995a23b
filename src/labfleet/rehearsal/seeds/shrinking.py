"""Makes a failing fault plan smaller: fewer kinds, fewer scheduled faults, the same broken rule.

Every try is a whole run, so the number of tries is bounded. What is left fails by the same rule,
though perhaps at another time: taking a fault away moves everything after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from labfleet.rehearsal import faults
from labfleet.rehearsal.seeds.run import Options, plan_of, rehearse

TRIES = 40


def shrink(
    seed: int,
    options: Options,
    rule: str,
    *,
    tries: int | None = None,
    tell: Callable[[int, int, Options], None] = lambda *_: None,
) -> Options:
    """Return options that still break the rule, with as little going wrong as was found.

    `tell` hears of each try before it is played: its number, the most there will be, the plan.
    """
    left = most = TRIES if tries is None else tries

    def breaks(candidate: Options) -> bool:
        nonlocal left
        if left <= 0:
            return False
        left -= 1
        tell(most - left, most, candidate)
        return any(each.rule == rule for each in rehearse(seed, candidate).violations)

    calm = replace(options, harshness=faults.NONE, without=(), keep=None)
    if options.harshness != faults.NONE and breaks(calm):
        return calm  # no fault is needed: the shortest plan there is
    options = _fewer_kinds(seed, options, breaks)
    return _fewer_scheduled(seed, options, breaks)


def _fewer_kinds(seed: int, options: Options, breaks: Callable[[Options], bool]) -> Options:
    """Leave kinds out: all at once if that still fails, else by halves."""
    plan = plan_of(seed, options)
    kinds = sorted({*plan.rates, *(each.word for each in plan.scheduled)})
    kinds = [word for word in kinds if word in faults.KINDS]
    size = len(kinds)
    while size >= 1 and kinds:
        for start in range(0, len(kinds), size):
            out = kinds[start : start + size]
            candidate = replace(options, without=(*options.without, *out))
            if breaks(candidate):
                options = candidate
                kinds = [word for word in kinds if word not in out]
                break
        else:
            size //= 2
    return options


def _fewer_scheduled(seed: int, options: Options, breaks: Callable[[Options], bool]) -> Options:
    """Leave single scheduled faults out, by halves."""
    numbers = [each.number for each in plan_of(seed, options).scheduled]
    size = len(numbers) // 2
    while size >= 1 and len(numbers) > 1:
        for start in range(0, len(numbers), size):
            kept = [*numbers[:start], *numbers[start + size :]]
            candidate = replace(options, keep=tuple(kept))
            if breaks(candidate):
                options, numbers = candidate, kept
                break
        else:
            size //= 2
        size = min(size, len(numbers) // 2)
    return options

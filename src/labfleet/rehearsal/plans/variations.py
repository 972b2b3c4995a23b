"""What a plan is played with: the seeds of its draws, and the variants that a sweep stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from labfleet.rehearsal.plans.plan import Variant, WhatIfPlan
from labfleet.rehearsal.plans.plan_words import Wrong
from labfleet.resources.pool import Scaling

DRAWS_USUAL, DRAWS_LIMIT, VARIANTS_LIMIT = 3, 100, 50
_RANGE = re.compile(r"\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*")


def seeds(asked: WhatIfPlan) -> tuple[int, ...]:
    """Return the seeds to play; three for drawn demand, else one, unless the plan says which.

    Drawn demand differs with each seed. Demand of a file or a recording is the same for all seeds,
    and only the machines' times are drawn.
    """
    if asked.seeds is None:
        if asked.seed is not None:
            return (asked.seed,)
        usual = DRAWS_USUAL if asked.demand.generated is not None else 1
        return tuple(range(1, usual + 1))
    if asked.seed is not None:
        raise Wrong("give seed or seeds, not both", "seeds")
    found = _listed(asked.seeds)
    if len(set(found)) < len(found):
        raise Wrong("a seed stands there twice", "seeds")
    if not 0 < len(found) <= DRAWS_LIMIT:
        raise Wrong(f"give 1 to {DRAWS_LIMIT} seeds, not {len(found)}", "seeds")
    return found


def _listed(value: str | tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(value, str):
        return value
    both = _RANGE.fullmatch(value)
    if both is None:
        raise Wrong(f"{value!r} is not a range; write 1..5, or a list: [1, 2, 3]", "seeds")
    first, last = int(both[1]), int(both[2])
    if last < first or last - first >= DRAWS_LIMIT:
        raise Wrong(f"{value} runs backwards or is more than {DRAWS_LIMIT} seeds", "seeds")
    return tuple(range(first, last + 1))


def swept(asked: WhatIfPlan) -> tuple[str, dict[str, float], tuple[Variant, ...]]:
    """Return the setting of a sweep, its values by variant, and a variant for each value."""
    if not asked.sweep:
        return "", {}, asked.variants
    if asked.variants:
        raise Wrong("give variants or sweep, not both", "sweep")
    if len(asked.sweep) != 1:
        raise Wrong("a sweep is over one setting, for example maxWorkers: [2, 4, 8]", "sweep")
    ((key, values),) = asked.sweep.items()
    if not 0 < len(values) <= VARIANTS_LIMIT or len(set(values)) < len(values):
        raise Wrong(f"give 1 to {VARIANTS_LIMIT} different values", "sweep", key)
    made = [(Variant(name=f"{key} {value}", scaling={key: value}), value) for value in values]
    return key, {each.name: float(value) for each, value in made}, tuple(each for each, _ in made)


def spelt(asked: WhatIfPlan) -> WhatIfPlan:
    """Return the plan with its sweep written as variants."""
    return msgspec.structs.replace(asked, variants=swept(asked)[2], sweep={})


@contextmanager
def placing(asked: WhatIfPlan) -> Iterator[None]:
    """Report a mistake in a sweep's variant at the sweep, because the file has no such variant."""
    try:
        yield
    except Wrong as problem:
        if not asked.sweep or problem.steps[:1] != ("variants",):
            raise
        key, number = next(iter(asked.sweep)), problem.steps[1]
        inside = (
            (number,) if key in problem.steps and key in Scaling.__struct_encode_fields__ else ()
        )
        raise Wrong(problem.message, "sweep", key, *inside) from None

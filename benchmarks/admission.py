"""How full a saturated pool gets and how often it is too full, by rule of admission.

Memory of real tasks (`--data DIR`, WfInstances) in pools of four sizes. oracle knows every peak;
lars_mean is upstream's rule; declared, sum_of_bounds and labfleet are the product's functions
with its defaults: the same learner, load and rules that answer a request. What is told to whom
and when stands in the result. Beside it, what one answer costs and the least that it could.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import pool_rules
from benchmarks.measure import Plan, ratio, row, timed
from benchmarks.saturated_pool import Filled, PoolRule, fill
from benchmarks.tasks import MIB, TRACE, Task, in_order, made, wfinstances
from labfleet.decisions.admission import chance
from labfleet.decisions.admission.draws import DRAWS, TARGETED, draws
from labfleet.decisions.admission.load import Load, Need
from labfleet.decisions.prediction.learner import Learner
from labfleet.resources.amounts import MOST, Amounts
from labfleet.resources.decision import Rule
from labfleet.resources.prediction import LEVELS

SUMMARY = "true use and time over the limit of saturated pools, by rule; cost of one answer"
SIZES = ("10", "30", "100", "300")
"""Pools in GB (10^9 bytes)."""
ORDERS = range(5, 13)
"""Reported; settings were fixed on orders 1 to 4."""
INFORMATION = (
    "peaks and durations are known at a run's own completion only; strict FIFO, only the head of "
    "the queue is tried; order = random.Random(seed).shuffle of all rows, then at most 900 of a "
    "type; rows without runtime dropped; declared = 2 x the type's largest peak, known to every "
    "rule and kept as the allocation of a run; size known before a run = n_inputs, input_bytes, cores; "
    "a run takes its peak from start to end; time counted while the queue is non-empty; a run "
    "that a rule would not let in alone starts alone"
)
LIVE = 100

Rules = dict[str, Callable[[float, pool_rules.Declared], PoolRule]]
RULES: Rules = {
    "oracle": pool_rules.oracle,
    "declared": lambda limit, declared: pool_rules.Product(limit, declared, Rule.DECLARED, None),
    "lars_mean": pool_rules.Mean,
    "sum_of_bounds": lambda limit, declared: pool_rules.Product(
        limit, declared, Rule.BOUNDS, Learner()
    ),
    "labfleet": lambda limit, declared: pool_rules.Product(limit, declared, Rule.CHANCE, Learner()),
}


def measure(plan: Plan) -> dict[str, Any]:
    """Return the table of rules and sizes, and rows of what an answer costs."""
    rows = _answers(plan)
    found: dict[str, Any] = {
        "rows": rows,
        "peers": [],
        "ratios": {"admit_to_bare_count": ratio(*[each["per_cpu_second"] for each in rows[:2]])},
        "rules": {},
    }
    if plan.smoke:
        return {**found, **table(made(200), orders=(5,), scale=0.1), "data": "made, means nothing"}
    if plan.data is None or not (plan.data / TRACE).exists():
        plan.skip(f"admission's table: {TRACE} is not in the folder that --data names")
        return found
    odd = [name for name in plan.rules if name not in RULES]
    if odd:
        raise ValueError(f"no rule of admission is called {odd}; there are: {', '.join(RULES)}")
    asked = table(
        wfinstances(plan.data),
        rules={name: RULES[name] for name in plan.rules or RULES},
        sizes=plan.pools or SIZES,
        orders=plan.orders or ORDERS,
    )
    return {**found, **asked, "data": TRACE}


def table(
    tasks: Sequence[Task],
    *,
    rules: Rules = RULES,
    sizes: Sequence[str] = SIZES,
    orders: Sequence[int] = ORDERS,
    scale: float = 1.0,
) -> dict[str, Any]:
    """Return, for each rule and size, means over the orders and the worst of them.

    `scale` shrinks the pools, for few or small tasks.
    """
    declared: dict[str, float] = {}
    for each in tasks:
        declared[each.family] = max(declared.get(each.family, 0.0), 2 * each.memory_mib)
    queues = {seed: in_order(tasks, seed) for seed in orders}
    pools = {size: float(size) * scale * 1e9 / MIB for size in sizes}
    filled: dict[str, dict[str, list[Filled]]] = {}
    for name, begin in rules.items():
        of_rule = filled[name] = {}
        for size, limit in pools.items():
            of_rule[size] = []
            for seed, queue in queues.items():
                found = fill(queue, limit, begin(limit, declared))
                of_rule[size].append(found)
                print(f"{name}, {size} GB, order {seed}: {found}", file=sys.stderr, flush=True)
    return {
        "rules": {
            name: {size: _over_orders(each) for size, each in of_rule.items()}
            for name, of_rule in filled.items()
        },
        "by_order": {
            name: {
                size: [[round(each.true_use, 2), round(each.over_limit, 3)] for each in orders_of]
                for size, orders_of in of_rule.items()
            }
            for name, of_rule in filled.items()
        },
        "orders": list(queues),
        "runs": [len(each) for each in queues.values()],
        "information": INFORMATION,
        "defaults": {"epsilon": chance.EPSILON, "draws": DRAWS},
    }


def _over_orders(found: Sequence[Filled]) -> dict[str, float]:
    return {
        "true_use": round(statistics.mean(each.true_use for each in found), 2),
        "over_limit": round(statistics.mean(each.over_limit for each in found), 3),
        "worst": round(max(each.over_limit for each in found), 3),
        "makespan_h": round(statistics.mean(each.makespan_h for each in found), 2),
    }


def _answers(plan: Plan) -> list[dict[str, Any]]:
    """Return rows of one answer beside LIVE runs in three dimensions, and of the bare count."""
    spread = tuple(10.0 + 90 * level for level in LEVELS)
    cost = Amounts(cpu_milli=95, memory_mib=95, network_kbps=95)
    need = Need(spreads=(spread,) * 3, bounds=cost, declared=cost)
    load = Load()
    for number in range(LIVE):
        load.add(f"live-{number}", need)
    drawn = draws("asks", need.spreads)
    total = load.drawn + drawn
    # The middle outcome, so that about half of them exceed: a denial says most.
    middle = zip(TARGETED, total.tolist(), strict=True)
    full = Amounts(**{name: int(statistics.median(each)) for name, each in middle})
    wide = Amounts(cpu_milli=MOST, memory_mib=MOST, network_kbps=MOST)

    def answer(target: Amounts) -> None:
        chance.admit(need, drawn, load=load, cluster="pool", target=target, now=pool_rules.BEGIN)

    def change() -> None:
        load.add("one more", need)
        load.remove("one more")

    ways: dict[str, Callable[[], Any]] = {
        f"admit, approved, {LIVE} live": lambda: answer(wide),
        "limit: adding and counting": lambda: chance.risk(load.drawn + drawn, wide),
        f"admit, denied, {LIVE} live": lambda: answer(full),
        "draws of a run": lambda: draws("asks", need.spreads),
        "add and remove a run": change,
    }
    rows = []
    for name, way in ways.items():
        rows.append(row(name, [timed(way, plan.seconds) for _ in range(plan.rounds)]))
    return rows

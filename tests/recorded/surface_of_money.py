"""Where today's OpenAPI document differs by what is known of costs, budgets and plans."""

from __future__ import annotations

MONEY = {
    f"/{place}": "what is paid is recorded and told, bounded and planned"
    for place in (
        *(
            f"components/schemas/{name}"
            for name in (
                "CheaperPlan",
                "CostLine",
                "CostReport",
                "CostStatement",
                "CostSum",
                "DiskPrice",
                "MachinePrice",
                "PaidTime",
                "PoolBudget",
                "PoolPlan",
                "PriceList",
                "PriceStep",
                "RegionPrices",
                "StatementRow",
            )
        ),
        *(
            f"components/schemas/{kind}/properties/status/default/{field}"
            for kind, field in (
                ("Pool", "budgetWorkers"),
                ("Session", "hostedSince"),
                ("Worker", "paid"),
            )
        ),
        "components/schemas/PoolStatus/properties/budgetWorkers",
        "components/schemas/PoolSpec/properties/budget",
        "components/schemas/SessionStatus/properties/hostedSince",
        "components/schemas/WorkerStatus/properties/paid",
        "components/schemas/MachineStatus/properties/stoppedAt",
        "paths/~api~v1~cost",
        "paths/~api~v1~cost~prices",
        "paths/~api~v1~cost~statement",
        "paths/~api~v1~pools~{name}~plan",
    )
}
"""Place in the document -> why today's differs there."""

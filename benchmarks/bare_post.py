"""The bare Litestar POST beside `decide`: nine validated fields, one look-up, a JSON reply.

No token, no store, no prediction: what the framework alone costs for each request. It is equal
to `http/app_litestar.py` of perf-peers.
`uvicorn benchmarks.bare_post:app` serves it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Litestar, post
from msgspec import Meta

PATH = "/request_run"
COSTS = {f"chart-{i}": (2 + i % 7, 2048 + 512 * (i % 9), 10 + i % 5) for i in range(500)}
MOST_CPUS = 4096


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body."""

    requester: Annotated[str, Meta(min_length=1, max_length=64)]
    lab_id: Annotated[str, Meta(min_length=1, max_length=64)]
    chart: Annotated[str, Meta(pattern="^[a-z0-9-]{1,40}$")]
    nodes: Annotated[int, Meta(ge=1, le=500)]
    cpu: Annotated[float, Meta(gt=0, le=512)]
    memory_mb: Annotated[int, Meta(ge=1, le=4_000_000)]
    duration_min: Annotated[int, Meta(ge=1, le=10080)]
    priority: Annotated[int, Meta(ge=0, le=9)] = 5
    tags: list[str] = []


@post(PATH, status_code=200)
async def request_run(data: Asked) -> dict[str, Any]:
    """Decide by a look-up."""
    cpu, memory, storage = COSTS[data.chart]
    needs = {"cpu": cpu * data.nodes, "memory_mb": memory * data.nodes, "storage_gb": storage}
    fits = needs["cpu"] <= MOST_CPUS
    return {
        "decision": "approved" if fits else "denied",
        "simulation_id": "sim-00000001",
        "predicted": needs,
        "reason": "fits",
    }


app = Litestar([request_run], openapi_config=None)

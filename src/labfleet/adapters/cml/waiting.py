"""Says why nodes wait in CML's launch queue, as far as the server tells (facts/cml-issues.md#f41).

The queue itself gives no reason. When something waits, and only then, three more requests look
at what can hold it up: admission states, the licence's quota, full pools. Best effort.
"""

from __future__ import annotations

from typing import Any

from labfleet.adapters.cml import parsing
from labfleet.adapters.cml.client import Client
from labfleet.kernel import errors

SHOWN = 3


async def read(client: Client) -> dict[str, str]:
    """Return node id -> needs, and what the server is short of; at most four requests."""
    nodes = parsing.queue(await client.get("diagnostics/node_launch_queue"))
    if not nodes:
        return nodes
    held = [
        *computes(await _try(client, "system/compute_hosts")),
        *licence(await _try(client, "diagnostics/licensing")),
        *pools(await _try(client, "resource_pool_usage")),
    ]
    why = f" ({'; '.join(held)})" if held else ""
    return {key: f"{text}{why}" for key, text in nodes.items()}


async def _try(client: Client, path: str) -> Any:
    try:
        return await client.get(path)
    except errors.LabfleetError:
        return None


def computes(value: Any) -> list[str]:
    """Return what is wrong with the computes: nodes start only on READY, connected ones."""
    hosts = [parsing.mapping(each) for each in value] if isinstance(value, list) else []
    open_ = [
        each
        for each in hosts
        if each.get("admission_state") == "READY" and each.get("is_connected") is not False
    ]
    if not hosts or open_:
        return []
    told = ", ".join(
        f"{parsing.text(each.get('hostname')) or '?'} is "
        + ("not connected" if each.get("is_connected") is False else str(each["admission_state"]))
        for each in hosts[:SHOWN]
        if "admission_state" in each
    )
    return [f"no compute takes nodes: {told}"]


def licence(value: Any) -> list[str]:
    """Return that every licensed node is in use; the user quota means nothing.

    Source: facts/cml-issues.md#f4.
    """
    raw = parsing.mapping(value)
    quota, started = parsing.integer(raw.get("quota")), parsing.integer(raw.get("started"))
    if quota is None or started is None or started < quota:
        return []
    return [f"{started} of {quota} licensed nodes run"]


def pools(value: Any) -> list[str]:
    """Return the resource pools that are full; cpus are in 1/100 CPU."""
    found = []
    for raw in value if isinstance(value, list) else ():
        pool = parsing.mapping(raw)
        limit, usage = parsing.mapping(pool.get("limit")), parsing.mapping(pool.get("usage"))
        for name in ("licenses", "ram", "cpus"):
            most, used = parsing.number(limit.get(name)), parsing.number(usage.get(name))
            if most is not None and used is not None and used >= most:
                label = parsing.text(pool.get("label")) or parsing.text(pool.get("id")) or "?"
                found.append(f"pool {label} is full ({name} {used:g} of {most:g})")
    return found[:SHOWN]

"""One best-effort look at everything of a lab, in a bounded number of requests.

Lab-wide calls first (facts/cml-issues.md#f11); live MAC addresses come only from each node, so that
is done for a bounded number of nodes. One failing call leaves a gap, not a failed look
(facts/cml-issues.md#f16).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from labfleet.adapters.cml import concurrency_limits, parsing
from labfleet.adapters.cml.client import Client
from labfleet.interfaces.lab_host import InterfaceState, LabObservation, NodeState
from labfleet.kernel import errors

T = TypeVar("T")

NODES_QUERY = "data=true&operational=true&exclude_configurations=true"
NAMED = 20


class Look:
    """The state of one look: what was found and what is missing."""

    def __init__(self, client: Client, lab_id: str) -> None:
        self._client = client
        self._base = f"labs/{lab_id}"
        self._lab_id = lab_id
        self._gaps: list[str] = []
        self._interfaces: dict[str, InterfaceState] = {}
        self._nodes: tuple[NodeState, ...] = ()
        self._stats: dict[str, Any] | None = None

    async def take(self) -> LabObservation:
        """Return what could be seen in time; Gone when the lab is not there."""
        try:
            async with asyncio.timeout(self._client.limits.observe_total):
                await self._all()
        except TimeoutError:
            self._gaps.append("rest: the look took too long and was cut short")
        return LabObservation(
            nodes=self._nodes,
            interfaces=tuple(self._interfaces.values()),
            simulation_stats=self._stats,
            gaps=tuple(self._gaps),
        )

    async def _all(self) -> None:
        self._nodes = await self._try("nodes", self._read_nodes(), ())
        self._note_unknown()
        # The measured use is worth more than the interfaces: it is asked for first.
        self._stats = await self._try("simulation_stats", self._read_stats(), None)
        await self._try("interfaces", self._read_interfaces(), None)
        learned = await self._try("layer3_addresses", self._read_addresses(), {})
        self._learn(learned)
        try:
            await self._read_live()
        finally:  # keep addresses even when the look is cut short
            self._learn(learned)

    async def _try(self, what: str, reading: Awaitable[T], otherwise: T) -> T:
        try:
            return await reading
        except errors.Gone:
            if what == "nodes":
                raise
            self._gaps.append(f"{what}: not there")
        except errors.LabfleetError as error:
            self._gaps.append(f"{what}: {error.message}")
        return otherwise

    async def _read_nodes(self) -> tuple[NodeState, ...]:
        value = await self._client.get(f"{self._base}/nodes?{NODES_QUERY}")
        return parsing.nodes(value, self._lab_id)

    async def _read_stats(self) -> dict[str, Any]:
        stats = parsing.simulation_stats(await self._client.get(f"{self._base}/simulation_stats"))
        if not stats.get("nodes"):
            self._gaps.append("simulation_stats: no node is in them")
        return stats

    async def _read_addresses(self) -> dict[str, tuple[str | None, tuple[str, ...]]]:
        return parsing.addresses(await self._client.get(f"{self._base}/layer3_addresses"))

    async def _read_interfaces(self) -> None:
        topology = parsing.mapping(
            await self._client.get(f"{self._base}/topology?exclude_configurations=true")
        )
        states: dict[str, Any] = await self._try("states", self._read_states(), {})
        for node in parsing.items(topology.get("nodes"), what="topology"):
            node_id = parsing.identity(node, what="topology")
            for raw in parsing.items(node.get("interfaces", []), what="interfaces"):
                found = parsing.interface(raw, node_id)
                state = found.state or parsing.text(states.get(found.id))
                self._interfaces[found.id] = replace(found, state=state)

    async def _read_states(self) -> dict[str, Any]:
        value = await self._client.get(f"{self._base}/lab_element_state")
        return parsing.mapping(parsing.mapping(value).get("interfaces"))

    async def _read_live(self) -> None:
        """Read the running nodes' own interfaces, a bounded number of nodes."""
        running = [n for n in self._nodes if n.state in ("STARTED", "BOOTED")]
        limit = self._client.limits.observe_nodes
        if running[limit:]:
            self._gaps.append(f"live interfaces: not asked for {names(running[limit:])}")
        results = await concurrency_limits.each(
            [node.id for node in running[:limit]],
            self._read_node,
            width=self._client.limits.connections,
        )
        failed = [n for n in running if isinstance(results.get(n.id), errors.LabfleetError)]
        if failed:
            error = results[failed[0].id]
            self._gaps.append(f"live interfaces: failed for {names(failed)}: {error}")

    async def _read_node(self, node_id: str) -> None:
        value = await self._client.get(
            f"{self._base}/nodes/{node_id}/interfaces?data=true&operational=true"
        )
        for raw in parsing.items(value, what="interfaces"):
            known = self._interfaces.get(str(raw.get("id")))
            self._interfaces[str(raw.get("id"))] = parsing.interface(
                raw, node_id, known.state if known else None
            )

    def _learn(self, learned: dict[str, tuple[str | None, tuple[str, ...]]]) -> None:
        for key, (mac, ip4) in learned.items():
            known = self._interfaces.get(key)
            if known is not None:
                self._interfaces[key] = replace(
                    known, mac_address=known.mac_address or mac, ip4=ip4
                )

    def _note_unknown(self) -> None:
        unknown = [n for n in self._nodes if n.cpus is None or n.ram_mib is None]
        if unknown:
            self._gaps.append(
                f"sizes: no effective values (never deployed, or none told) for {names(unknown)}"
            )


def names(nodes: Iterable[NodeState]) -> str:
    """Return the nodes' labels, bounded."""
    labels = [node.label or node.id for node in nodes]
    rest = len(labels) - NAMED
    return ", ".join(labels[:NAMED]) + (f" and {rest} more" if rest > 0 else "")

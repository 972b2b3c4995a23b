"""LabHost over the CML API: what each verb sends and how its answer is read.

No decisions and no waiting: one verb is one call or a bounded handful. Changes of one lab
go one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import quote

from labfleet.adapters.cml import (
    activity,
    concurrency_limits,
    licensing,
    parsing,
    telemetry,
    waiting,
)
from labfleet.adapters.cml import errors as translate
from labfleet.adapters.cml.client import Call, Client
from labfleet.adapters.cml.observation import NODES_QUERY, Look
from labfleet.adapters.http.transport import Reply
from labfleet.interfaces.lab_host import (
    Lab,
    LabObservation,
    NodeState,
    NodeVerb,
    Readiness,
    Stage,
)
from labfleet.kernel import errors
from labfleet.resources.idle import Activity
from labfleet.resources.image import Catalogue
from labfleet.resources.lab_use import NodeFigures
from labfleet.resources.telemetry import Licensing, SystemHealth, SystemStats

STAGES: dict[str, Stage] = {
    "Certificate": "untrusted",
    "Refused": "refused",
    "Closed": "refused",
    "BadGateway": "bad_gateway",
    "ProtocolError": "bad_gateway",
    "Truncated": "bad_gateway",
    "TooLarge": "bad_gateway",
}
"""Reason of a failed look -> stage; every other reason is `unreachable`."""


class CmlHost:
    """One CML server for one boot."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._limits_by_key = concurrency_limits.ConcurrencyLimits(
            patience=client.limits.write.total
        )

    def __repr__(self) -> str:
        """Name the worker and nothing secret."""
        return f"CmlHost({self._client.worker})"

    async def readiness(self) -> Readiness:
        """Look at system_information, which needs no login; raises nothing."""
        call = Call("GET", "system_information", self._client.limits.probe)
        try:
            reply = await self._client.ask(call.path)
            if translate.is_page(reply) or reply.status in (502, 503, 504):
                return self._stage("bad_gateway", f"a proxy answers {reply.status} for the API")
            if reply.status != 200:
                return self._stage("not_ready", f"system_information answers {reply.status}")
            told = parsing.mapping(self._client.decode(reply, call))
        except errors.LabfleetError as error:
            return self._stage(STAGES.get(error.reason, "unreachable"), error.message)
        version = parsing.text(told.get("version"))
        if told.get("ready") is True:
            return self._stage("ready", "the API is up and nodes can be started", version)
        return self._stage("not_ready", "the API is up, no compute can start nodes", version)

    def _stage(self, stage: Stage, detail: str, version: str | None = None) -> Readiness:
        return Readiness(stage, detail, version, self._client.fingerprint)

    async def authenticate(self) -> None:
        """Log in if need be and have the server confirm it; Denied on a wrong password."""
        await self._client.log_in()

    async def system_stats(self) -> SystemStats:
        """Return sizes in bytes and use."""
        return telemetry.system_stats(await self._client.get("system_stats"))

    async def system_health(self) -> SystemHealth:
        """Return all flags."""
        return await self._client.read("system_health", telemetry.system_health)

    async def maintenance(self) -> bool:
        """Tell whether maintenance mode is on; a release without it is never closed."""
        reply = await self._client.ask("system/maintenance_mode")
        call = Call("GET", "system/maintenance_mode", self._client.limits.probe)
        if reply.status == 404 and not translate.is_page(reply):
            return False
        if reply.status != 200 or translate.is_page(reply):
            raise translate.refusal(reply, where=self._client.worker, repeat="read")
        told = parsing.mapping(self._client.decode(reply, call)).get("maintenance_mode")
        if not isinstance(told, bool):
            raise errors.Protocol(f"{self._client.worker}: maintenance_mode gave no boolean")
        return told

    async def licensing(self) -> Licensing:
        """Return the licence and diagnostics' numbers."""
        return await licensing.read(self._client)

    async def register(
        self, product: str, token: str, *, expansion_nodes: int, again: bool = False
    ) -> None:
        """Do the steps that are not done yet; poll, and call again for the expansion."""
        async with self._limits_by_key.turn("licensing"):
            await licensing.register(
                self._client, product, token, expansion_nodes=expansion_nodes, again=again
            )

    async def renew_licence(self) -> None:
        """Renew authorization and registration; Conflict Later, or Invalid in CML's words."""
        async with self._limits_by_key.turn("licensing"):
            await licensing.renew(self._client)

    async def deregister(self) -> Literal["done", "not_registered", "cloud_not_told"]:
        """Give the licence back; Conflict NodesRunning or Later."""
        async with self._limits_by_key.turn("licensing"):
            return await licensing.deregister(self._client)

    async def set_telemetry(self, *, enabled: bool) -> None:
        """Opt in or out, in the values of this release: booleans up to 2.9, then text."""
        now = parsing.mapping(await self._client.get("telemetry")).get("opt_in")
        wanted: object = enabled
        if isinstance(now, str):
            wanted = "accepted" if enabled else "declined"
        if now != wanted:
            await self._client.change("PUT", "telemetry", {"opt_in": wanted})

    async def activity(self) -> Activity:
        """Return the telemetry events, in two requests."""
        return await activity.read(self._client)

    async def catalogue(self) -> Catalogue:
        """Return all definitions, by the list that is made for user interfaces: it is short."""
        return parsing.catalogue(await self._client.get("simplified_node_definitions"))

    async def labs(self) -> tuple[Lab, ...]:
        """Return every lab with its notes; complete or an error, never a part."""
        found = parsing.ids(await self._client.get("labs?show_all=true"), what="labs")
        if len(found) > self._client.limits.labs:
            raise errors.Protocol(f"{self._client.worker}: {len(found)} labs are too many")
        results = await concurrency_limits.each(
            found, self.lab, width=self._client.limits.connections
        )
        kept = []
        for lab_id in found:
            result = results[lab_id]
            if isinstance(result, Lab):
                kept.append(result)
            elif not isinstance(result, errors.Gone):  # deleted since the list was made
                raise result
        return tuple(kept)

    async def import_lab(self, topology: str, *, title: str) -> str:
        """Import YAML text; Ambiguous whenever the lab may exist without a known id."""
        # No Content-Type: what the official client sends for YAML (facts/cml.md#requests).
        call = Call(
            "POST",
            f"import?title={quote(title, safe='')}",
            self._client.limits.upload,
            "once",
            topology.encode(),
        )
        reply = await self._client.send(call)
        try:
            return parsing.identity(
                parsing.mapping(self._client.decode(reply, call)), what="import"
            )
        except errors.Temporary as error:
            raise errors.Ambiguous(error.message, reason=error.reason) from None

    async def lab(self, lab_id: str) -> Lab:
        """Return one lab; Gone when it is not there."""
        return parsing.lab(await self._client.get(f"labs/{_part(lab_id)}"))

    async def nodes(self, lab_id: str) -> tuple[NodeState, ...]:
        """Return the lab's nodes with effective values, in one request."""
        value = await self._client.get(f"labs/{_part(lab_id)}/nodes?{NODES_QUERY}")
        return parsing.nodes(value, lab_id)

    async def all_nodes(self) -> tuple[NodeState, ...]:
        """Return every node on the server, in one request."""
        return parsing.nodes(
            await self._client.get("nodes?operational=true&exclude_configurations=true")
        )

    async def converged(self, lab_id: str) -> bool:
        """Tell whether nothing is in transition."""
        value = await self._client.get(f"labs/{_part(lab_id)}/check_if_converged")
        if not isinstance(value, bool):
            raise errors.Protocol(f"{self._client.worker}: check_if_converged gave no boolean")
        return value

    async def queue(self) -> Mapping[str, str]:
        """Return node id -> what it waits for in the launch queue, and what holds it up."""
        return await waiting.read(self._client)

    async def start(self, lab_id: str) -> None:
        """Start all nodes; OutOfCapacity when licence or room is missing."""
        await self._change("PUT", lab_id, "/start")

    async def stop(self, lab_id: str) -> None:
        """Stop all nodes; Gone when the lab is not there."""
        await self._change("PUT", lab_id, "/stop")

    async def set_tags(self, lab_id: str, node_id: str, tags: Sequence[str]) -> None:
        """Replace a node's tags."""
        path = f"labs/{_part(lab_id)}/nodes/{_part(node_id)}"
        async with self._limits_by_key.turn(lab_id):
            await self._client.change("PATCH", path, {"tags": list(tags)})

    async def wipe(self, lab_id: str) -> None:
        """Wipe a stopped lab; Conflict reason Later while it still runs."""
        await self._teardown("PUT", lab_id, "/wipe")

    async def operate_node(self, lab_id: str, node_id: str, verb: NodeVerb) -> None:
        """Start, stop or wipe one node; Conflict reason Later for a wipe while it runs."""
        what = f"/nodes/{_part(node_id)}/" + ("wipe_disks" if verb == "wipe" else f"state/{verb}")
        if verb == "wipe":
            await self._teardown("PUT", lab_id, what)
        else:
            await self._change("PUT", lab_id, what)

    async def delete(self, lab_id: str) -> None:
        """Delete a wiped lab; Conflict reason Later while it is not wiped."""
        try:
            await self._teardown("DELETE", lab_id, "")
        except errors.Gone:
            return

    async def lab_use(self, lab_id: str) -> Mapping[str, NodeFigures]:
        """Return node id -> what it uses now, of the nodes that run; Gone without the lab."""
        return parsing.node_figures(
            await self._client.get(f"labs/{_part(lab_id)}/simulation_stats")
        )

    async def observe(self, lab_id: str) -> LabObservation:
        """Look at everything of a lab; Gone when it is not there."""
        return await Look(self._client, _part(lab_id)).take()

    async def extract(self, lab_id: str, node_id: str) -> None:
        """Have a booted node's configuration read out of it into the lab.

        CML logs in to the node for it, which takes as long as the node takes: an upload's time.
        """
        path = f"labs/{_part(lab_id)}/nodes/{_part(node_id)}/extract_configuration"
        await self._client.send(Call("PUT", path, self._client.limits.upload, "safe"))

    async def download(self, lab_id: str) -> bytes:
        """Return the lab's YAML text as it came, which is no JSON."""
        call = Call("GET", f"labs/{_part(lab_id)}/download", self._client.limits.upload)
        return (await self._client.send(call)).body

    async def close(self) -> None:
        """Drop connections and the login."""
        await self._client.close()

    async def _change(self, method: str, lab_id: str, verb: str) -> Reply:
        path = f"labs/{_part(lab_id)}{verb}"
        async with self._limits_by_key.turn(lab_id):
            return await self._client.change(method, path)

    async def _teardown(self, method: str, lab_id: str, verb: str) -> None:
        """Send a request without a body; a 400 is about the lab's state and becomes Conflict Later.

        Which status CML really sends is not proven (facts/cml.md#open-questions).
        """
        try:
            await self._change(method, lab_id, verb)
        except errors.Invalid as error:
            raise errors.Conflict(error.message, reason="Later") from None


def _part(identifier: str) -> str:
    return quote(identifier, safe="")

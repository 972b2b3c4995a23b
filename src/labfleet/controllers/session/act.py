"""Carry out one decided action on a session's lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from labfleet.controllers.context import Context
from labfleet.decisions import port_numbers
from labfleet.decisions.lifecycle.session import start as session_start
from labfleet.engine.aside import Aside
from labfleet.engine.effects import OPERATION_SECONDS
from labfleet.interfaces import store as stores
from labfleet.interfaces.lab_host import LabHost, NodeVerb
from labfleet.kernel import errors
from labfleet.resources import kept_lab, refs, topology, topology_words
from labfleet.resources.meta import Effect
from labfleet.resources.session import LabStatus, Session

DEADLINE = OPERATION_SECONDS
Removal = Literal["stop", "wipe", "delete"]
NODE_CALLS: Mapping[str, NodeVerb] = {
    "start_node": "start", "stop_node": "stop", "wipe_node": "wipe",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Results of an action that the next observation will not show."""

    lab_id: str | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Actions:
    """The calls that the session controller makes; all but import are safe to repeat."""

    context: Context
    kept: stores.KeptStore
    aside: Aside

    async def perform(self, session: Session, host: LabHost, action: str) -> ActionResult:
        """Make the call under its open effect; Invalid becomes a refusal, other errors raise."""
        effect, lab = session.status.effect, session.status.lab
        if effect is None or lab is None:
            raise AssertionError(f"{action} without an open effect or a lab record")
        try:
            return await self.context.effects.call(
                effect, lambda: self._call(session, lab, host, action), deadline=DEADLINE
            )
        except errors.Invalid as problem:
            if action in {"import", "start", "start_node"}:
                return ActionResult(refused=self._in_words(session, problem))
            raise
        except errors.Gone:
            return ActionResult()  # the next look says what that means

    def _in_words(self, session: Session, problem: errors.Invalid) -> str:
        """Return CML's refusal in the words of the definition's topology."""
        definition = self.context.cache.find(refs.definition_of(session))
        if not problem.problems or definition is None:
            return problem.message
        told = topology_words.told(definition.spec.topology, problem.problems)
        return f"{session.status.worker}: CML does not take the lab: {told}"

    async def remove(self, effect: Effect, host: LabHost, lab_id: str) -> None:
        """Do the open effect's step in removing a surplus lab."""
        call = {"stop": host.stop, "wipe": host.wipe, "delete": host.delete}[effect.kind]
        try:
            await self.context.effects.call(effect, lambda: call(lab_id), deadline=DEADLINE)
        except errors.Gone:
            return

    async def _call(
        self, session: Session, lab: LabStatus, host: LabHost, action: str
    ) -> ActionResult:
        if action == "import":
            return ActionResult(
                lab_id=await host.import_lab(await self._topology(session), title=lab.title)
            )
        if lab.id is None:
            raise errors.Gone("the lab has no id yet")
        if action == "tag":
            await self._tag(session, lab.id, host)
        elif action == "start":
            await host.start(lab.id)
        elif action == "stop":
            await host.stop(lab.id)
        elif action == "wipe":
            await host.wipe(lab.id)
        elif action == "delete":
            await host.delete(lab.id)
        elif action in NODE_CALLS and session.status.lab_order is not None:
            await host.operate_node(lab.id, session.status.lab_order.node_id, NODE_CALLS[action])
        else:
            raise AssertionError(f"unknown action {action}")
        return ActionResult()

    async def _tag(self, session: Session, lab_id: str, host: LabHost) -> None:
        """Add the port tags that the import lost to those that the nodes have."""
        nodes = await host.nodes(lab_id)
        lost = session_start.lost_tags(session, nodes)
        for node in nodes:
            missing = lost.get(node.label, ())
            if missing:
                await host.set_tags(lab_id, node.id, (*node.tags, *missing))

    async def _topology(self, session: Session) -> str:
        """Return the definition's topology with this session's title, marker, ports and kept work."""
        definition = self.context.cache.find(refs.definition_of(session))
        pin, lab = session.status.definition, session.status.lab
        if definition is None or lab is None:
            message = f"definition {session.spec.definition} does not exist any more"
            raise errors.Invalid(message)
        if pin is not None and pin.topology_digest != definition.status.topology_digest:
            message = f"definition {definition.name} is not the one that was pinned"
            raise errors.Invalid(message)
        kept = await self._continued(session)
        return topology.personalise(
            definition.spec.topology,
            title=lab.title,
            marker=lab.marker,
            tags=port_numbers.tags(session.status.ports),
            change=None if kept is None else lambda node: kept_lab.put_into(node, kept),
            values={
                name: session.spec.environment[name]
                for name in definition.spec.variables
                if name in session.spec.environment
            },
        )

    async def _continued(self, session: Session) -> dict[str, kept_lab.KeptNode] | None:
        """Return what was configured in the lab that a session goes on with; None when with none."""
        before = session.status.continues
        if before is None:
            return None
        text = await self.kept.kept_content(before.uid)
        if text is None:
            message = (
                f"what was kept of session {before.name} is gone: it was deleted, or is too old"
            )
            raise errors.Invalid(message, reason="KeptLabGone")
        return await self.aside.run(len(text), lambda: kept_lab.configurations(text))


async def next_removal(host: LabHost, lab_id: str) -> Removal | None:
    """Return the next step in removing a lab; None when there is nothing to do now."""
    try:
        lab = await host.lab(lab_id)
        if lab.state == "STARTED":
            return "stop"
        if lab.state == "STOPPED":
            return "wipe" if await host.converged(lab_id) else None
    except errors.Gone:
        return None
    return "delete"

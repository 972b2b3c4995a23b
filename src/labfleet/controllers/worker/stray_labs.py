"""Find labs of ours that are no session's on a worker's server, and take the next step in removing one.

A lab is known by the id that its session recorded. One that no session here has, in two looks one
after the other, is asked once for its notes; one with our marker is asked again now and then, since
people may take the marker away. Labs without nodes hold nothing and are not looked for.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labfleet.controllers.context import BEHIND_SECONDS, Context
from labfleet.controllers.session.act import next_removal
from labfleet.decisions import stray_labs
from labfleet.decisions.hosted_labs import LabName
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.stray_labs import Rules, SeenLab
from labfleet.interfaces.lab_host import LabHost, NodeState
from labfleet.kernel import errors
from labfleet.resources import providers, refs, topology
from labfleet.resources.meta import Key
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.kinds import indices

ASKED = 5
"""The most labs whose notes one look asks for."""
ANEW_SECONDS = 600.0
"""After how long (fleet time) a lab with our marker is asked again."""


@dataclass(slots=True)
class _Known:
    """What this process knows of a server's labs that no session there has.

    `markers` is what notes said, None without our marker, and when they were read; `names` title and
    owner of each that was asked; `unknown` how often asking each other one failed.
    """

    markers: dict[str, tuple[str | None, float]] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    names: dict[str, LabName] = field(default_factory=dict)


class StrayLabs:
    """Looks for stray labs; what it remembers of each server is bounded by the server's labs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[Key, _Known] = {}

    def forget(self, key: Key) -> None:
        """Forget a worker that is gone."""
        self._known.pop(key, None)

    def names(self, key: Key) -> Mapping[str, LabName]:
        """Return title and owner of the labs of no session that were asked on a worker's server."""
        known = self._known.get(key)
        return {} if known is None else known.names

    async def seen(
        self, worker: Worker, host: LabHost, nodes: Sequence[NodeState]
    ) -> tuple[SeenLab, ...] | None:
        """Return every stray lab among these nodes of the whole server; None for a server of others.

        A lab that cannot be asked is no stray yet. On a server of others each is asked once, for its
        name.
        """
        key, theirs = worker.key, phases.observed(worker)
        labs: dict[str, list[NodeState]] = defaultdict(list)
        for node in nodes:
            labs[node.lab_id].append(node)
        for session in self._context.cache.by(indices.SESSIONS_HERE, key.path):
            if session.status.lab is not None and session.status.lab.id is not None:
                labs.pop(session.status.lab.id, None)
        if not labs:
            self._known.pop(key, None)
            return None if theirs else ()
        known = self._known.setdefault(key, _Known())
        for lab in worker.status.stray_labs.labs:  # found by an earlier process, perhaps
            known.markers.setdefault(lab.id, (lab.uid, -ANEW_SECONDS))
        known.markers = {each: read for each, read in known.markers.items() if each in labs}
        known.names = {each: name for each, name in known.names.items() if each in labs}
        before = known.unknown
        known.unknown = {each: before.get(each, 0) for each in labs if each not in known.markers}
        new = [each for each in known.unknown if each in before]
        await self._ask(host, known, new, anew=not theirs)
        if theirs:
            return None
        found = []
        for lab_id, (uid, _) in sorted(known.markers.items()):
            if uid is not None and not _owned(self._context, uid):
                found.append(SeenLab(lab_id, uid, stray_labs.held_by(labs[lab_id])))
        return tuple(found)

    async def _ask(self, host: LabHost, known: _Known, new: Iterable[str], *, anew: bool) -> None:
        now = self._context.clock.monotonic()
        wanted = sorted(new, key=lambda each: (known.unknown[each], each))
        wanted += sorted(
            each for each, (uid, at) in known.markers.items()
            if anew and uid is not None and now - at >= ANEW_SECONDS
        )  # fmt: skip
        for lab_id in wanted[:ASKED]:
            try:
                lab = await host.lab(lab_id)
            except errors.Gone:
                known.markers.pop(lab_id, None)
            except errors.LabfleetError:
                if lab_id in known.unknown:
                    known.unknown[lab_id] += 1
                return  # the next look asks, others first
            else:
                known.unknown.pop(lab_id, None)
                known.markers[lab_id] = topology.marker_of(lab.notes), now
                known.names[lab_id] = LabName(lab.title, lab.owner)

    def rules(self, worker: Worker) -> Rules:
        """Return the rules of this moment, garbage collection's, for a worker's stray labs.

        A marker does not say whose installation it is. What runs on a machine that we launched is
        ours; a server that was there before may be in another installation too, or come from one.
        """
        settings, origin = self._context.settings, worker.spec.origin
        wanted = settings.now().garbage
        hold = settings.paused(refs.pool_of(worker)) or ""
        unreadable = [each.label for each in self._context.cache.quarantined if _is_session(each)]
        if not wanted.enabled:
            hold = hold or "garbage collection is off (garbage.enabled)"
        elif wanted.dry_run:
            hold = hold or "garbage collection is a dry run (garbage.dryRun)"
        elif unreadable:
            hold = hold or f"the record of session {min(unreadable)} cannot be read"
        machine = worker.spec.machine
        made = machine is not None and origin is None and providers.of(machine.provider).makes
        return Rules(grace=float(wanted.grace_seconds), hold=hold, shared=not made)


async def remove(context: Context, worker: Worker, host: LabHost) -> None:
    """Stop, wipe or delete the lab that the open effect names, whichever is next.

    The lab was seen before its intent was stored, and its session would have been stored before the
    lab was imported: once the cache has the intent, it has that session as well, if there is one.
    Raises Temporary when that cannot be told, Invalid when the lab is somebody's.
    """
    effect = worker.status.effect
    if effect is None:
        raise AssertionError("a stray lab is removed without an open effect")
    lab_id, uid = effect.parameters["lab"], effect.parameters["uid"]
    try:
        async with asyncio.timeout(BEHIND_SECONDS):
            await context.cache.reached(worker.revision)
    except TimeoutError:
        raise errors.Temporary("the cache is behind the store", reason="CacheBehind") from None
    if _owned(context, uid):
        raise errors.Invalid(f"lab {lab_id} is a session's", reason="LabInUse")
    lab = await host.lab(lab_id)
    if topology.marker_of(lab.notes) != uid:
        raise errors.Invalid(f"lab {lab_id} has another marker now", reason="MarkerChanged")
    step = await next_removal(host, lab_id)
    if step is not None:
        await {"stop": host.stop, "wipe": host.wipe, "delete": host.delete}[step](lab_id)


def _owned(context: Context, uid: str) -> bool:
    """Tell whether the lab with this marker is that of a session that has not ended."""
    session = context.cache.of_uid(Session, uid)
    return session is not None and session_phases.is_live(session)


def _is_session(key: Key) -> bool:
    return key.kind == "Session"

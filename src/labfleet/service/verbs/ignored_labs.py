"""Leaving a lab on a worker's server alone, as a person says with a reason, and taking that back.

A lab with our marker that is no session's is removed after a grace (`decisions/stray_labs`). One
that somebody needs is ignored: never removed, while what it holds stays counted, and its ports too.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from labfleet.resources.hosted_labs import IGNORED, IgnoredLab
from labfleet.resources.meta import Record
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds.admitted import Admitted, with_spec
from labfleet.service.reads import labs
from labfleet.service.verbs import lifecycle


class IgnoreRequest(Record, frozen=True, kw_only=True):
    """Why a lab that is no session's is left alone.

    reason: Why, in the words of whoever says so.
    """

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


async def ignore(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    lab: str,
    *,
    reason: str,
) -> Worker:
    """Leave a lab of no session alone; ignored already it keeps its first reason.

    Gone when no look has seen it, Refused (LabOfSession) when it is a session's, (BeingRemoved) when
    its removal is under way, and (TooManyIgnored) when the record is full: labs that are not seen
    any more make room by themselves.
    """
    if not reason.strip() or not reason.isprintable():
        raise intake.invalid(("reason", "say why, in a line of printable text"))

    async def change(old: Worker) -> Admitted:
        lifecycle.alive(old)
        if any(each.id == lab for each in old.spec.ignored_labs):
            return Admitted(old)
        await services.fresh()
        labs.nobodys(services, old, lab)
        word = IgnoredLab(id=lab, by=caller.principal.name, at=services.clock.now(), reason=reason)
        return Admitted(with_spec(old, ignored_labs=(*_room(old), word)))

    return await lifecycle.changed(
        services, caller, Worker, (name, namespace), action="operate", reason="LabIgnored",
        change=change,
    )  # fmt: skip


async def heed(
    services: ServiceContext, caller: Caller, name: str, namespace: str, lab: str
) -> Worker:
    """Take back that a lab is left alone: it is as if nobody had said so. Heeded, nothing changes."""

    async def change(old: Worker) -> Admitted:
        kept = tuple(each for each in old.spec.ignored_labs if each.id != lab)
        return Admitted(old if kept == old.spec.ignored_labs else with_spec(old, ignored_labs=kept))

    return await lifecycle.changed(
        services, caller, Worker, (name, namespace), action="operate", reason="LabHeeded",
        change=change,
    )  # fmt: skip


def _room(worker: Worker) -> tuple[IgnoredLab, ...]:
    """Return who is ignored beside one more; Refused when all of so many labs are still there."""
    before, known = worker.spec.ignored_labs, worker.status.hosted_labs
    if len(before) < IGNORED:
        return before
    there = None if known is None else {each.id for each in known}
    kept = [each for each in before if there is None or each.id in there]
    if len(kept) >= IGNORED:
        message = f"{IGNORED} labs of worker {worker.name!r} are ignored: heed or remove some first"
        raise Refused(message, reason="TooManyIgnored")
    return tuple(kept)

"""Idempotency keys: the same key and body give the same answer, another body a conflict.

The answer is remembered by the commit that makes the object, so of twenty equal requests one
makes it and nineteen read what was remembered (facts/fleet-bugs.md#t31). Never check-then-insert.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors, ids
from labfleet.resources import kinds
from labfleet.resources.meta import Resource
from labfleet.service.core.service_context import Caller, Refused, ServiceContext

KEEP_HOURS = 24
_KEY = re.compile(r"[!-~]{1,255}")
_PAGES = 10
_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Memo:
    """What one keyed request is remembered under."""

    key: str
    digest: str

    def write(self, services: ServiceContext, obj: Resource) -> stores.Remember:
        """Return the write that keeps this object as the request's answer."""
        until = services.clock.now() + services.machine_hours(KEEP_HOURS)
        return stores.Remember(self.key, self.digest, kinds.encode(obj), until)


def memo(caller: Caller, key: str | None, *request: object) -> Memo | None:
    """Return what to remember a request under; None without a key.

    `request` is what the caller asked for: verb, kind and body; all of it is in the digest.
    """
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        message = "an idempotency key is 1 to 255 visible ASCII characters"
        raise errors.Invalid(message, problems=(("Idempotency-Key", message),))
    digest = ids.digest(_encode(request).hex())
    return Memo(key=f"{caller.principal.id}/{key}", digest=digest)


async def replayed(services: ServiceContext, found: Memo, kind: str) -> Resource | None:
    """Return the remembered answer, as it was; None when this request is new.

    Refused (reason IdempotencyKeyReused) when the key stands for another request.
    """
    reply = await services.objects.store.reply(found.key)
    if reply is None:
        return None
    if reply.digest != found.digest:
        message = "the idempotency key was used for another request"
        raise Refused(message, reason="IdempotencyKeyReused")
    obj: Resource = kinds.decode(kind, reply.reply, 0)
    return at_version(obj, await _made_at(services, obj))


def at_version(obj: Resource, revision: int) -> Resource:
    """Return the object at the version that its making gave it."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(revision))
    return msgspec.structs.replace(obj, metadata=metadata)


async def _made_at(services: ServiceContext, obj: Resource) -> int:
    """Return the revision of the event that made the object; 0 when it is long gone."""
    before: int | None = None
    for _ in range(_PAGES):
        events = await services.objects.store.events_of(obj.key, before=before)
        for event in events:
            if event.type == "ADDED" and event.uid == obj.metadata.uid:
                return event.revision
        if len(events) < stores.PAGE_LIMIT:
            break
        before = events[-1].revision
    return 0

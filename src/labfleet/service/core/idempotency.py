"""Idempotency keys: the same key and body give the same answer, another body a conflict.

The commit that creates the object also stores the answer, so of twenty equal requests one
creates it and nineteen read the stored answer (facts/fleet-bugs.md#t31), without check-then-insert.
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
    """The key and digest under which a request's answer is stored."""

    key: str
    digest: str

    def write(self, services: ServiceContext, obj: Resource) -> stores.Remember:
        """Return the write that stores this object as the request's answer."""
        until = services.clock.now() + services.machine_hours(KEEP_HOURS)
        return stores.Remember(self.key, self.digest, kinds.encode(obj), until)


def memo(caller: Caller, key: str | None, *request: object) -> Memo | None:
    """Return the memo of a request; None without a key.

    `request` is the verb, kind and body of the request; the digest covers all of it.
    """
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        message = "an idempotency key is 1 to 255 visible ASCII characters"
        raise errors.Invalid(message, problems=(("Idempotency-Key", message),))
    digest = ids.digest(_encode(request).hex())
    return Memo(key=f"{caller.principal.id}/{key}", digest=digest)


async def replayed(services: ServiceContext, found: Memo, kind: str) -> Resource | None:
    """Return the stored answer unchanged; None when this request is new.

    Raises Refused (reason IdempotencyKeyReused) when the key was used for another request.
    """
    reply = await services.replies.reply(found.key)
    if reply is None:
        return None
    if reply.digest != found.digest:
        message = "the idempotency key was used for another request"
        raise Refused(message, reason="IdempotencyKeyReused")
    obj: Resource = kinds.decode(kind, reply.reply, 0)
    return at_version(obj, await _made_at(services, obj))


def at_version(obj: Resource, revision: int) -> Resource:
    """Return the object with the resourceVersion of its creation."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(revision))
    return msgspec.structs.replace(obj, metadata=metadata)


async def _made_at(services: ServiceContext, obj: Resource) -> int:
    """Return the revision of the object's creation event; 0 when that was dropped."""
    before: int | None = None
    for _ in range(_PAGES):
        events = await services.log.events_of(obj.key, before=before)
        for event in events:
            if event.type == "ADDED" and event.uid == obj.metadata.uid:
                return event.revision
        if len(events) < stores.PAGE_LIMIT:
            break
        before = events[-1].revision
    return 0

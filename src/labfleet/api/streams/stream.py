"""The event stream, GET /api/v1/events.

Contract (facts/interface.md#stream-contract): `retry: 1000`; `event: snapshot` in parts (`first`,
`last`), unless `snapshot=false` or the client resumes; then `ADDED`, `MODIFIED`, `DELETED` with
`id: epoch.revision`; a heartbeat comment every 15 s of machine time that also moves the id;
`event: resync` when the client's position is lost, followed by a new snapshot; `event: shutdown`
before an orderly end; `event: unauthorized` when the token expired meanwhile. A session whose worker got
another address, or that starts at another time than was told, comes as `MODIFIED` without an id:
nothing of it was written. Who subscribes to more `frames` gets `samples`, `alerts` and `queue` beside
them, latest states without an id (`latest_state`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from labfleet.api.streams.audience import Audience, Audiences
from labfleet.api.streams.latest_frames import Frames, LatestFrames, frames_of
from labfleet.api.streams.latest_state import NOTHING
from labfleet.api.streams.moves import Moves
from labfleet.api.streams.open_stream import (
    EARLY_SECONDS,
    OpenStream,
    OpenStreams,
    Receive,
    Send,
)
from labfleet.api.streams.ring import Filter, Message, Ring, frame
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS, by_word
from labfleet.resources.meta import Resource
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core import access, views
from labfleet.service.core.access import Principal
from labfleet.service.core.intake import invalid
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.core.tokens import HeldToken
from labfleet.service.kinds import session_outlook

HEARTBEAT_SECONDS = 15.0
FILL_SECONDS = 0.25
"""Machine seconds between two fillings: a busy stream pushes itself through a proxy."""
SNAPSHOT_PART = 200
NAMES_LIMIT = 200


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What a client asked for."""

    filter: Filter
    since: stores.Cursor | None
    snapshot: bool
    bad_place: bool = False
    frames: tuple[Frames, ...] = (Frames.OBJECTS,)
    padding: int = 0
    pace: int = 0
    """Milliseconds between two turns; 0 sends every change as it comes."""


class Stream:
    """What the clients of one process are served from."""

    def __init__(self, services: ServiceContext, ring: Ring, streams: OpenStreams) -> None:
        self._services = services
        self._streams = streams
        self.ring = ring
        self.moves = Moves(services, self.ring.wake)
        self.starts = services.starts
        session_outlook.kept(services).listen(self.ring.wake)
        self._audiences = Audiences(services, ring, self.moves)
        self.latest = LatestFrames(services)

    async def serve(
        self, wish: StreamRequest, receive: Receive, send: Send, token: HeldToken
    ) -> None:
        """Serve one client until it disconnects, the server ends or its token expires.

        Before anything was sent it raises Temporary (TooManyStreams, Starting) or Throttled
        (TooManyStreamsOfToken).
        """
        if not self.ring.ready or self._services.cache.cursor is None:
            raise errors.Temporary("the server is starting", reason="Starting", retry_after=1)
        self.moves.begun()
        kind = PaddedClient if wish.padding else Client
        await self._streams.serve(
            lambda: kind(self, self._services, wish, send, token), token, receive
        )

    def audience(self, wanted: Filter) -> Audience:
        """Return what all clients of one filter and one principal share."""
        return self._audiences.of(wanted)

    def snapshot(self, wanted: Filter) -> list[Resource]:
        """Return what the client sees now, from the cache."""
        names, services = wanted.kinds or frozenset(KINDS), self._services
        rows = [KINDS[name].type for name in KINDS if name in names]
        return [
            self.seen(obj, wanted.principal)
            for kind in rows
            for obj in services.cache.all(kind)
            if wanted.passes(obj)
        ]

    def seen(self, obj: Resource, principal: Principal) -> Resource:
        """Return an object as somebody sees it, a session that waits with when it starts."""
        shown = session_outlook.shown(self._services, obj) if isinstance(obj, Session) else obj
        return views.of(self._services, principal, shown)

    def foreseen(self, since: int) -> list[Session]:
        """Return the sessions of which something else is said than at a number of `starts.end`."""
        cache = self._services.cache
        found = (cache.of_uid(Session, uid) for uid in self.starts.since(since))
        return [each for each in found if each is not None]

    @property
    def at(self) -> stores.Cursor:
        """Return the position in the log to which a snapshot of now belongs."""
        cursor = self._services.cache.cursor
        assert cursor is not None  # noqa: S101 - serve() waits for the first list
        return cursor


class Client(OpenStream):
    """One open stream: an index into the ring, versions of latest states, and nothing queued."""

    __slots__ = (
        "_audience",
        "_generation",
        "_index",
        "_moved",
        "_objects",
        "_pace",
        "_sent",
        "_services",
        "_stream",
        "_told",
        "_turn_at",
        "_turn_set",
        "_versions",
        "_views",
        "_watches",
        "_wish",
    )

    def __init__(
        self,
        stream: Stream,
        services: ServiceContext,
        wish: StreamRequest,
        send: Send,
        token: HeldToken,
    ) -> None:
        super().__init__(send, token, heartbeat=HEARTBEAT_SECONDS)
        self._stream = stream
        self._services = services
        self._wish = wish
        self._audience = stream.audience(wish.filter)
        self._index = 0
        self._generation = stream.ring.generation
        self._sent = stream.at
        self._moved = stream.moves.end
        self._told = stream.starts.end
        self._pace, self._turn_at, self._turn_set = wish.pace / 1000, 0.0, False
        self._objects = Frames.OBJECTS in wish.frames
        self._watches = self._objects and Session.__name__ in (wish.filter.kinds or KINDS)
        stream.starts.watchers += self._watches
        if self._objects:
            stream.ring.listen(self.wake)
        self._views = stream.latest.join(wish.frames, wish.filter, self.wake)
        self._versions = [NOTHING] * len(self._views)

    def close(self) -> None:
        """Drop the timers and listen no longer."""
        super().close()
        self._stream.ring.leave(self.wake)
        self._stream.latest.leave(self._views, self.wake)
        self._views = ()
        self._stream.starts.watchers -= self._watches
        self._watches = False

    async def begin(self) -> None:
        """Send the head, and where the client starts."""
        await self.head()
        await self._write(b"retry: 1000\n\n")
        wish = self._wish
        if not self._objects:
            return
        if wish.since is None and not wish.bad_place:
            await self._restart()
            return
        index = None
        if wish.since is not None and await self._exists(wish.since):
            index = self._stream.ring.after(wish.since)
        if index is None or wish.since is None:
            await self._resync("Expired")
            return
        self._index, self._sent = index, wish.since
        self._moved, self._told = self._stream.moves.after(wish.since.revision), 0

    def _farewell(self) -> bytes:
        return b"event: shutdown\ndata: {}\n\n"

    def _expired(self) -> bytes:
        return b"event: unauthorized\ndata: {}\n\n"

    def _alive(self) -> bytes:
        return (
            f": heartbeat\nid: {self._sent}\n\n".encode() if self._objects else b": heartbeat\n\n"
        )

    async def _more(self) -> bool:
        if self._views and await self._more_latest():
            return True
        if not self._objects or self._rests():
            return False
        ring = self._stream.ring
        lost = ring.generation != self._generation
        if lost or self._index < ring.first:
            await self._resync("Expired" if lost else "SlowReader")
            return True
        if self._index == ring.end:
            return await self._more_moved()
        take = self._audience.turn if self._pace else self._audience.batch
        batch = take(self._index, self._sent.revision)
        self._index, self._sent = batch.end, batch.place
        await self._write(batch.body)
        stream = self._stream
        level = self._index == ring.end and self._moved == stream.moves.end
        level = level and (self._told == stream.starts.end or not self._watches)
        level = level and ring.generation == self._generation
        if level and self._pace:
            # At whole turns of the clock, so that clients of one pace are sent the same bytes.
            now = asyncio.get_running_loop().time()
            self._turn_at = (now // self._pace + 1) * self._pace
        return not level

    def _rests(self) -> bool:
        """Tell whether the next turn of a paced client is still to come; it is woken then."""
        if not self._pace:
            return False
        loop = asyncio.get_running_loop()
        if loop.time() + EARLY_SECONDS >= self._turn_at:
            return False
        if not self._turn_set:
            self._turn_set = True
            loop.call_at(self._turn_at, self._begin_turn)
        return True

    def _begin_turn(self) -> None:
        self._turn_set = False
        self.wake()

    async def _more_latest(self) -> bool:
        """Send what changed of each latest state that the client subscribes to."""
        sent = False
        for number, view in enumerate(self._views):
            if view.behind(self._versions[number]):
                self._versions[number], frames = view.frames(self._versions[number])
                for each in frames:
                    await self._write(each)
                sent = True
        return sent

    async def _more_moved(self) -> bool:
        """Send again what is seen anew of sessions nobody wrote, once all events are sent."""
        stream, frames = self._stream, list[bytes]()
        if self._moved != stream.moves.end:
            found, self._moved = stream.moves.since(self._moved), stream.moves.end
            frames += self._anew(found, "ReachedElsewhere", "it is reached elsewhere now")
        if self._told != stream.starts.end and self._watches:
            told, self._told = stream.foreseen(self._told), stream.starts.end
            frames += self._anew(told, "StartForeseen", "when it starts was worked out anew")
        await self._write(b"".join(frames))
        return bool(frames)

    def _anew(self, found: Iterable[Session], reason: str, message: str) -> Iterable[bytes]:
        wanted = self._wish.filter
        for obj in found:
            # A newer state of it is about to come by itself.
            if obj.revision <= self._sent.revision and wanted.passes(obj):
                shown = self._stream.seen(obj, wanted.principal)
                yield self._again(shown, reason, message)

    def _again(self, obj: Resource, reason: str, said: str) -> bytes:
        message = Message(
            type="MODIFIED",
            kind=obj.kind,
            object=obj,
            revision=self._sent.revision,
            at=self._services.clock.now(),
            actor=access.SYSTEM.name,
            reason=reason,
            message=said,
            request_id="",
        )
        return frame(message.type, msgspec.json.encode(message))

    async def _resync(self, reason: str) -> None:
        said = msgspec.json.encode({"reason": reason, "snapshot": self._wish.snapshot})
        await self._write(frame("resync", said))
        await self._restart()

    async def _exists(self, place: stores.Cursor) -> bool:
        """Tell whether the log has reached a position that a client names."""
        if place.revision <= self._stream.ring.head.revision:
            return True
        try:
            head = await self._services.log.head()
        except errors.Temporary:
            return False
        return place.revision <= head.revision

    async def _restart(self) -> None:
        ring = self._stream.ring
        place = self._stream.at
        index = ring.after(place)
        try:
            if index is None:
                # The cache is behind what the ring has dropped, or in the epoch before.
                await self._services.reached(ring.head.revision)
                place = self._stream.at
                index = ring.after(place)
        except errors.Temporary:
            index = None
        if index is None:
            # Rather end the stream than leave a gap: the client reconnects.
            self._over = True
            return
        self._generation = ring.generation
        self._index = index
        self._sent = place
        self._moved, self._told = self._stream.moves.end, self._stream.starts.end
        self._versions = [NOTHING] * len(self._views)  # with a new state everything is told anew
        if not self._wish.snapshot:
            await self._write(f"id: {place}\n\n".encode())
            return
        objects = self._stream.snapshot(self._wish.filter)
        for part, first, last in _parts_of(objects):
            said = {"items": part, "revision": place.revision, "first": first, "last": last}
            await self._write(frame("snapshot", msgspec.json.encode(said), place if last else None))


class PaddedClient(Client):
    """A client behind proxies that hold back less than so much: each burst is filled up."""

    __slots__ = ("_filled_at", "_fills_later", "_flushed")

    def __init__(self, *made: Any) -> None:
        super().__init__(*made)
        self._flushed, self._filled_at, self._fills_later = True, 0.0, False

    async def _write(self, body: bytes) -> None:
        await super()._write(body)
        self._flushed = self._flushed and not body

    async def _more(self) -> bool:
        return await super()._more() or await self._fill()

    async def _fill(self) -> bool:
        """Fill up what was sent, four times a second at most; tell whether that took a while."""
        if self._flushed:
            return False
        loop = asyncio.get_running_loop()
        if loop.time() < self._filled_at + FILL_SECONDS:
            if not self._fills_later:
                self._fills_later = True
                loop.call_at(self._filled_at + FILL_SECONDS, self.wake)
            return False
        self._filled_at, self._fills_later = loop.time(), False
        await super()._write(b":" + b" " * self._wish.padding + b"\n\n")
        self._flushed = True
        return True


def request_of(
    principal: Principal,
    *,
    kinds: str = "",
    names: str = "",
    namespace: str = "",
    snapshot: bool = True,
    since: str = "",
    frames: str = "",
    padding: int = 0,
    pace: int = 0,
) -> StreamRequest:
    """Return what a request for the stream asks for; Invalid names the parameter.

    Denied when it asks for alerts and its role may not read workers, as for their list.
    """
    subscribed = frames_of(frames)
    if Frames.ALERTS in subscribed:
        access.demand(principal, "read", Worker.__name__)
    try:
        chosen = frozenset(by_word(word).name for word in kinds.split(",") if word)
    except errors.Invalid as problem:
        raise invalid(("kinds", problem.message[:300]), reason="UnknownKind") from None
    only = frozenset(word for word in names.split(",") if word)
    if len(only) > NAMES_LIMIT:
        raise invalid(("names", f"at most {NAMES_LIMIT} names"))
    wanted = Filter(principal=principal, kinds=chosen, namespace=namespace or None, names=only)
    at, bad = None, False
    if since:
        try:
            at = stores.Cursor.parse(since)
        except ValueError:
            bad = True
    return StreamRequest(
        filter=wanted, since=at, snapshot=snapshot, bad_place=bad, frames=subscribed,
        padding=padding, pace=pace,
    )  # fmt: skip


def _parts_of(objects: list[Resource]) -> Iterable[tuple[list[Resource], bool, bool]]:
    starts = range(0, max(1, len(objects)), SNAPSHOT_PART)
    for start in starts:
        part = objects[start : start + SNAPSHOT_PART]
        yield part, start == 0, start + SNAPSHOT_PART >= len(objects)

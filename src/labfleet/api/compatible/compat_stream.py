"""GET /api/events/stream: the event feed under the compatible names and filters.

Its events are those of facts/upstream.md#stream-and-roles:
`connected`, then a snapshot of each active worker, session and definition, then named events;
each event about a worker is followed by its snapshot; metrics of many come in batches.
`heartbeat` every 30 s of machine time, `system.sse.shutdown` before an orderly end,
`auth.session.expired` when the token expired. Like upstream's it cannot be resumed: a client that
reconnects, or was too slow, gets snapshots again. /api/v1/events can be resumed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from labfleet.api.compatible import compat_views
from labfleet.api.streams.open_stream import OpenStream, OpenStreams, Receive, Send
from labfleet.kernel import clock, errors
from labfleet.resources import refs
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.telemetry import Sample
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker
from labfleet.service.core import access, event_types
from labfleet.service.core.access import Principal
from labfleet.service.core.intake import invalid
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.core.tokens import HeldToken
from labfleet.service.kinds import indices

HEARTBEAT_SECONDS = 30.0
METRICS_SECONDS = 1.0
BATCH = 50
LENGTH = 4096
PART = 200
"""Events written, and rendered, in one piece."""
FILTERS = 100
KINDS: tuple[type[Resource], ...] = (Worker, Session, Definition, Template)
_PREFIX = {"Session": "lablet.", "Definition": "lablet.", "Template": "worker."}
_SYSTEM = frozenset({"connected", "heartbeat", "system.sse.shutdown", "auth.session.expired"})


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """What a client asked for; empty means all. Types match by prefix.

    Source: facts/upstream.md#stream-and-roles.
    """

    principal: Principal
    workers: frozenset[str] = frozenset()
    types: tuple[str, ...] = ()
    system: bool = True

    def passes(self, said: SentState) -> bool:
        """Tell whether an event is for this client."""
        if said.name in _SYSTEM:
            return self.system or said.name != "heartbeat"
        if not self._asked(said.name) and not (said.alias and self._asked(said.alias)):
            return False
        if self.workers and not (said.workers & self.workers):
            return False
        return said.obj is None or access.sees(self.principal, said.obj)

    def frame(self, said: SentState) -> bytes:
        """Return an event as this client asked for it: by its alias when only that is meant."""
        if said.alias and not self._asked(said.name):
            return _frame(said.alias, said.body)
        return said.frame

    def _asked(self, name: str) -> bool:
        return not self.types or any(name.startswith(word) for word in self.types)


@dataclass(frozen=True, slots=True)
class SentState:
    """One event: its name, the objects that it is about (for filters), its frame.

    `alias` is another name by which a client may ask for it, which then has the same `body`.
    """

    name: str
    obj: Resource | None
    workers: frozenset[str]
    frame: bytes
    alias: str = ""
    body: bytes = b""


class Moment:
    """A change whose events are rendered when the first client needs them.

    Not rendered at once, because the cache calls in the middle of its own work, where nothing may
    fail. When rendering fails, only the stream of that client ends.
    """

    __slots__ = ("_say", "_words")

    def __init__(self, say: Callable[[], list[SentState]]) -> None:
        self._say = say
        self._words: list[SentState] | None = None

    def words(self) -> list[SentState]:
        """Return the events of this moment."""
        if self._words is None:
            self._words = self._say()
        return self._words


class CompatStream:
    """All clients of the compatible stream in one process."""

    def __init__(self, services: ServiceContext, streams: OpenStreams) -> None:
        self._services = services
        self._streams = streams
        self._clients: set[OpenStream] = set()
        self._ring: deque[Moment] = deque(maxlen=LENGTH)
        self._end = 0
        self._measured: dict[Key, Sample] = {}
        self._holds: dict[str, Key] = {}
        self._held: dict[Key, set[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._batches = 0
        for kind in KINDS:
            services.cache.on_change(kind, self._changed)

    async def serve(
        self, wish: StreamFilter, receive: Receive, send: Send, token: HeldToken
    ) -> None:
        """Serve one client until it disconnects, the server ends or its token expires."""
        if self._services.cache.cursor is None:
            raise errors.Temporary("the server is starting", reason="Starting", retry_after=1)
        await self._streams.serve(lambda: _Client(self, wish, send, token), token, receive)

    def enter(self, client: OpenStream) -> None:
        """Wake a client from now on; the first one begins the measuring."""
        self._clients.add(client)
        if self._timer is None:
            self._begin_measuring()

    def leave(self, client: OpenStream) -> None:
        """Wake a client no more; the last one ends the measuring."""
        self._clients.discard(client)
        if not self._clients and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- what is said ------------------------------------------------------------------------

    def snapshots(self, wish: StreamFilter) -> Iterator[SentState]:
        """Yield a new client's first events: everything active that it may see.

        One by one, so that ten thousand of them are neither held nor rendered at once.
        """
        cache = self._services.cache
        shown: list[Resource] = [*cache.by(indices.WORKERS_LIVING, True)]
        open_ = cache.by(indices.SESSIONS_OPEN, True)
        shown += [each for each in open_ if each.status.phase not in TERMINAL]
        shown += [each for each in cache.all(Definition) if not each.spec.deprecated]
        for each in shown:
            if access.sees(wish.principal, each):
                said = self._snapshot(each)
                if wish.passes(said):
                    yield said

    def since(self, index: int) -> tuple[list[SentState], int] | None:
        """Return the events of a bounded number of moments from an index on, and the next index.

        None when some of these moments were dropped.
        """
        start = self._end - len(self._ring)
        if index < start:
            return None
        after = min(index + PART, self._end)
        moments = [self._ring[at - start] for at in range(index, after)]
        return [said for each in moments for said in each.words()], after

    @property
    def end(self) -> int:
        """Return the index of the next moment."""
        return self._end

    def said(
        self, name: str, data: Mapping[str, Any], obj: Resource | None = None, alias: str = ""
    ) -> SentState:
        """Return an event as every client gets it."""
        stamped = {**data, "timestamp": clock.format_instant(self._services.clock.now())}
        body = msgspec.json.encode(stamped)
        made = SentState(name, obj, _workers(obj), _frame(name, body))
        return replace(made, alias=alias, body=body) if alias else made

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        """Hear of a change from the cache; nothing is rendered while nobody listens."""
        obj = new or old
        if isinstance(obj, Session):
            self._count(obj, new)
        if not self._clients or obj is None:
            return
        self._tell(lambda: self._words(old, new, obj))

    def _words(self, old: Resource | None, new: Resource | None, obj: Resource) -> list[SentState]:
        """Return the events of one change; a worker's are followed by its snapshot."""
        said = []
        for change in event_types.changes(old, new):
            if change.type.startswith(("condition.", "object.")):
                continue  # not names of the compatible API; /api/v1/events and webhooks have them
            name = _PREFIX.get(obj.kind, "") + change.type
            other = event_types.aliases().get(change.type, "")
            said.append(self.said(name, _about(obj) | change.data, obj, other))
        if said and isinstance(new, Worker):
            said.append(self._snapshot(new))
        return said

    def _count(self, session: Session, new: Resource | None) -> None:
        """Track which sessions hold something on which worker, because snapshots name them."""
        uid = session.metadata.uid
        before = self._holds.pop(uid, None)
        if before is not None:
            self._held[before].discard(uid)
            if not self._held[before]:
                del self._held[before]
        worker = refs.worker_of(session)
        if new is None or worker is None or session.status.phase in TERMINAL:
            return
        self._holds[uid] = worker.key
        self._held.setdefault(worker.key, set()).add(uid)

    def _snapshot(self, obj: Resource) -> SentState:
        if isinstance(obj, Worker):
            view = compat_views.worker(self._services, obj, self._held.get(obj.key, ()))
            return self.said("worker.snapshot", view, obj)
        if isinstance(obj, Session):
            return self.said("lablet.session.snapshot", compat_views.session(obj), obj)
        assert isinstance(obj, Definition)  # noqa: S101 - the three kinds with snapshots
        return self.said("lablet.definition.snapshot", compat_views.definition(obj), obj)

    def _say(self, said: SentState) -> None:
        self._tell(lambda: [said])

    def _tell(self, say: Callable[[], list[SentState]]) -> None:
        self._ring.append(Moment(say))
        self._end += 1
        self._wake()

    def _wake(self) -> None:
        for client in self._clients:
            client.wake()

    # --- metrics -----------------------------------------------------------------------------

    def _begin_measuring(self) -> None:
        """Mark the present numbers as sent: the snapshots of the first client have them."""
        samples = self._services.samples
        found = {key: samples.newest(key) for key in samples.workers()}
        self._measured = {key: each for key, each in found.items() if each is not None}
        self._timer = asyncio.get_running_loop().call_later(METRICS_SECONDS, self._measure)

    def _measure(self) -> None:
        """Send the measurements that changed since they were last sent, in batches."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(METRICS_SECONDS, self._measure)
        moved = []
        keys = self._services.samples.workers()
        for key in self._measured.keys() - set(keys):
            del self._measured[key]
        for key in keys:
            sample = self._services.samples.newest(key)
            worker = self._services.cache.get(Worker, key.name, key.namespace)
            if sample is None or worker is None:
                self._measured.pop(key, None)
                continue
            before = self._measured.get(key)
            if before is not None and before.at == sample.at:
                continue
            if before is None or self._far(worker, before, sample):
                moved.append(worker)
            elif (before.health, before.licence) != (sample.health, sample.licence):
                self._say(self.said("worker.data.refreshed", _about(worker), worker))
                self._say(self._snapshot(worker))
            else:
                continue
            self._measured[key] = sample
        self._measured_moved(moved)

    def _far(self, worker: Worker, before: Sample, sample: Sample) -> bool:
        """Tell whether a number changed by at least METRICS_CHANGE_THRESHOLD_PERCENT."""
        was, now = compat_views.metrics(worker, before), compat_views.metrics(worker, sample)
        limit = self._services.settings.now().monitoring.metrics_change_percent
        for name in ("cpu_utilization", "memory_utilization", "disk_utilization"):
            if (was[name] is None) != (now[name] is None):
                return True
            if now[name] is not None and abs(now[name] - was[name]) >= limit:
                return True
        return any(was[name] != now[name] for name in ("labs_count", "running_nodes"))

    def _measured_moved(self, moved: list[Worker]) -> None:
        """Send a single change by itself and many as batches of one name; then the snapshots."""
        told = [
            (worker, compat_views.metrics(worker, self._measured[worker.key])) for worker in moved
        ]
        if len(told) == 1:
            worker, data = told[0]
            self._say(self.said("worker.metrics.updated", data, worker))
        else:
            for start in range(0, len(told), BATCH):
                self._batch(told[start : start + BATCH])
        for worker in moved:
            self._say(self._snapshot(worker))

    def _batch(self, part: list[tuple[Worker, dict[str, Any]]]) -> None:
        self._batches += 1
        events = [data for _, data in part]
        data = {"batch_id": self._batches, "count": len(part), "events": events}
        said = self.said("worker.metrics.updated.batch", data, part[0][0])
        about = frozenset[str]().union(*(_workers(worker) for worker, _ in part))
        self._say(SentState(said.name, said.obj, about, said.frame))


class _Client(OpenStream):
    """One open stream: an index into the ring and nothing queued."""

    __slots__ = ("_index", "_stream", "_wish")

    def __init__(
        self, stream: CompatStream, wish: StreamFilter, send: Send, token: HeldToken
    ) -> None:
        super().__init__(send, token, heartbeat=HEARTBEAT_SECONDS)
        self._stream = stream
        self._wish = wish
        self._index = stream.end
        stream.enter(self)

    def close(self) -> None:
        """Drop the timers and listen no longer."""
        super().close()
        self._stream.leave(self)

    async def begin(self) -> None:
        """Send the head, `connected`, and the state."""
        await self.head()
        await self._say([self._stream.said("connected", {"stream": "/api/v1/events"})])
        await self._begin()

    def _farewell(self) -> bytes:
        return self._stream.said("system.sse.shutdown", {}).frame

    def _expired(self) -> bytes:
        return self._stream.said("auth.session.expired", {}).frame

    def _alive(self) -> bytes:
        said = self._stream.said("heartbeat", {})
        return said.frame if self._wish.passes(said) else b""

    async def _begin(self) -> None:
        self._index = self._stream.end
        snapshots = self._stream.snapshots(self._wish)
        while part := list(itertools.islice(snapshots, PART)):
            await self._say(part)

    async def _more(self) -> bool:
        if self._index == self._stream.end:
            return False
        found = self._stream.since(self._index)
        if found is None:
            await self._begin()  # too slow for the ring: the whole state again
            return True
        said, self._index = found
        await self._write(b"".join(self._wish.frame(e) for e in said if self._wish.passes(e)))
        return True

    async def _say(self, said: list[SentState]) -> None:
        await self._write(b"".join(each.frame for each in said))


def _workers(obj: Resource | None) -> frozenset[str]:
    """Return the names and ids of the worker an object is about, for filters."""
    if isinstance(obj, Worker):
        return frozenset({obj.name, obj.metadata.uid})
    if isinstance(obj, Session) and obj.status.worker is not None:
        return frozenset({obj.status.worker})
    return frozenset()


def _frame(name: str, body: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), body)


def _about(obj: Resource) -> dict[str, Any]:
    kind = obj.kind.lower()
    return {f"{kind}_id": obj.metadata.uid, f"{kind}_name": obj.name}


def filter_of(
    principal: Principal, workers: list[str], types: list[str], *, system: bool
) -> StreamFilter:
    """Return what a request asks for; Invalid names the parameter."""

    def words(name: str, given: list[str]) -> tuple[str, ...]:
        found = [word.strip() for value in given for word in value.split(",")]
        if len(found) > FILTERS:
            raise invalid((name, f"at most {FILTERS} values"))
        return tuple(word for word in found if word)

    return StreamFilter(
        principal=principal,
        workers=frozenset(words("worker_ids", workers)),
        types=words("event_types", types),
        system=system,
    )

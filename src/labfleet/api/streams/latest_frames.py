"""Keeps the latest-state frames of one process: filled while somebody subscribes, else not at all.

One loop for each kind of frame: wait until something has changed, work it out once for all, let each
view look once, and rest a quarter of a second, or ten times as long as that took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum

from labfleet.api.streams.latest_sources import AlertSource, QueueSource, SampleSource, Source
from labfleet.api.streams.latest_state import LatestState, View
from labfleet.api.streams.ring import Filter
from labfleet.engine.wakeup import Pause
from labfleet.service.core.access import Principal
from labfleet.service.core.intake import invalid
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import ServiceContext

REST_SECONDS = 0.25
"""Machine seconds between two frames of a kind at least: four a second."""
REST_TIMES, REST_MOST = 10, 5.0
"""The rest is so many times as long as the work took, so that it takes a tenth of a core at most; no
longer than so many seconds, because most of a long work is waiting."""


class Frames(StrEnum):
    """What a client may subscribe to; `objects` alone is what one gets that does not say."""

    OBJECTS = "objects"
    SAMPLES = "samples"
    ALERTS = "alerts"
    QUEUE = "queue"


def frames_of(text: str) -> tuple[Frames, ...]:
    """Return the kinds of frames of a parameter, in one order; Invalid names an unknown one."""
    words = {word for word in text.split(",") if word} or {Frames.OBJECTS.value}
    known = [each for each in Frames if each in words]
    strange = sorted(words - set(Frames))
    if strange:
        raise invalid(("frames", f"{strange[0][:60]!r} is none of {', '.join(Frames)}"))
    return tuple(known)


class KeptFrames:
    """One kind of frame: its source, its state, and the views that have a client."""

    def __init__(self, frames: Frames, source: Source, pause: Pause) -> None:
        self._frames = frames
        self._source = source
        self._pause = pause
        self._views: dict[Filter, View] = {}
        self._wanted = asyncio.Event()
        self.state = LatestState(frames.value)

    def join(self, wanted: Filter, wake: Callable[[], None]) -> View:
        """Subscribe a client, which is woken when there is something for it; return its view."""
        view = self._views.get(wanted)
        if view is None:
            view = self._views[wanted] = View(self.state, wanted)
        view.wakes.add(wake)
        self._wanted.set()
        return view

    def leave(self, view: View, wake: Callable[[], None]) -> None:
        """Unsubscribe a client; soon after the last one nothing is followed and nothing kept."""
        view.wakes.discard(wake)
        if not view.wakes:
            self._views.pop(view.wanted, None)
        if not self._views:
            self._wanted.clear()
            self._source.note()

    async def run(self) -> None:
        """Keep the state fresh while somebody subscribes, until cancelled."""
        while True:
            await self._wanted.wait()
            self._source.begin()
            try:
                await self._follow()
            finally:
                self._source.end()

    async def _follow(self) -> None:
        """Fill the state until nobody subscribes any more, and drop it then."""
        loop = asyncio.get_running_loop()
        while self._views:
            begun = loop.time()
            await self.fill()
            took = loop.time() - begun
            await self._pause(max(REST_SECONDS, min(REST_MOST, REST_TIMES * took)))
            if self._views:
                await self._source.changed()
        self.state = LatestState(self._frames.value)

    async def fill(self) -> None:
        """Work out once what has changed, and tell each view."""
        state = self.state
        await self._source.fill(state)
        state.ready = True
        for view in tuple(self._views.values()):
            view.step()


class LatestFrames:
    """The kinds of frames beside objects."""

    def __init__(self, services: ServiceContext, pause: Pause = asyncio.sleep) -> None:
        self.kept = {
            Frames.SAMPLES: KeptFrames(Frames.SAMPLES, SampleSource(services), pause),
            Frames.ALERTS: KeptFrames(Frames.ALERTS, AlertSource(services), pause),
            Frames.QUEUE: KeptFrames(Frames.QUEUE, QueueSource(services), pause),
        }

    def join(
        self, frames: Iterable[Frames], wanted: Filter, wake: Callable[[], None]
    ) -> tuple[View, ...]:
        """Subscribe a client to some of them; return its view of each but objects."""
        kept = [self.kept[each] for each in frames if each in self.kept]
        return tuple(each.join(shared(wanted), wake) for each in kept)

    def leave(self, views: Iterable[View], wake: Callable[[], None]) -> None:
        """Unsubscribe a client."""
        for view in views:
            self.kept[Frames(view.state.event)].leave(view, wake)

    async def run(self) -> None:
        """Keep them fresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self.kept.values():
                group.create_task(each.run())


def shared(wanted: Filter) -> Filter:
    """Return a filter that is the same for all callers who may see the same objects.

    Two tokens of one role see alike, unless the role sees only what is its owner's.
    """
    who = wanted.principal
    owned = any(who.role in rules.owned for rules in TABLE.values())
    name = who.name if owned else ""
    return replace(wanted, principal=Principal(name, who.role, name))

"""What is kept free for a request from some instant on, so that no other one delays its start.

Backfill: the first request that cannot start is given the instant at which it can at the latest,
and whatever goes before it must have ended by then or fit beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from labfleet.decisions.queueing.quotas import Account, Level, Quotas
from labfleet.decisions.queueing.requests import Request
from labfleet.decisions.queueing.room import Room
from labfleet.decisions.queueing.runs import Runs
from labfleet.resources.amounts import vector


@dataclass(frozen=True, slots=True)
class Hold:
    """A start that was told as certain: the request starts then, whatever else waits."""

    request: Request
    start: datetime

    @property
    def end(self) -> datetime:
        """Return until when it holds what it needs, at the latest."""
        return self.start + self.request.lasts


@dataclass(slots=True)
class Kept:
    """What is kept free for one request from `start` on.

    request: For whom.
    level: How far it reaches: its queue's limit, also its cohort's, or also the cluster's room.
    start: From when.
    certain: Whether the start was told as certain.
    own: Its queue's account at that instant, with the request.
    shared: Its cohort's account at that instant, with the request.
    room: The cluster at that instant, with the request; None when it does not reach so far.
    """

    request: Request
    level: Level
    start: datetime
    certain: bool
    group: str
    own: Account | None
    shared: Account | None
    room: Room | None

    def allows(self, other: Request, group: str, end: datetime) -> bool:
        """Tell whether another run that starts now and ends by `end` does not delay this one."""
        if end <= self.start:
            return True
        need = vector(other.amounts)
        if self.own is not None and other.queue == self.request.queue and self.own.short(need):
            return False
        if self.level is Level.QUEUE:
            return True
        if self.shared is not None and group == self.group and self.shared.short(need):
            return False
        return self.room is None or self.room.fits(other)

    def count(self, other: Request, group: str, end: datetime) -> None:
        """Count a run that was started meanwhile."""
        if end <= self.start:
            return
        need = vector(other.amounts)
        if self.own is not None and other.queue == self.request.queue:
            self.own.add(need)
        if self.shared is not None and group == self.group:
            self.shared.add(need)
        if self.room is not None:
            self.room.add(other)


@dataclass(slots=True)
class Standing:
    """The cluster as it is during one decision: accounts, runs, room and the instant."""

    quotas: Quotas
    runs: Runs
    room: Room
    now: datetime


def for_hold(hold: Hold, earlier: Iterable[Hold], standing: Standing) -> Kept:
    """Return what is kept free for a certain start, beside the ones that start before it."""
    request = hold.request
    kept = _begin(request, Level.CLUSTER, standing, certain=True)
    kept.start = max(hold.start, standing.now)
    for end, uid in standing.runs.ends("", standing.now):
        if end > kept.start:
            break
        _gone(kept, uid, standing)
    for each in earlier:
        if each.end > kept.start:
            group = standing.quotas.group(each.request.queue)
            kept.count(each.request, group, each.end)
    _take(kept)
    return kept


def for_head(
    request: Request, level: Level, certain: list[tuple[Hold, Kept]], standing: Standing
) -> Kept | None:
    """Return what is kept free for a request that cannot start now; None when it can never.

    Its start is the first instant at which all levels up to `level` let it in, if every run lasts
    as long as its bound, and at which it delays no certain start.
    """
    kept = _begin(request, level, standing, certain=False)
    holds = certain if level is Level.CLUSTER else []
    events = _events(request, level, holds, standing)
    place = 0
    while place < len(events):
        at = events[place][0]
        while place < len(events) and events[place][0] == at:
            _, begins, uid = events[place]
            place += 1
            if not begins:
                _gone(kept, uid, standing)
            else:
                [hold] = [each for each, _ in holds if each.request.uid == uid]
                kept.count(hold.request, standing.quotas.group(hold.request.queue), hold.end)
        kept.start = at
        if _lets_in(kept, holds):
            for hold, other in holds:
                if hold.start > at:
                    other.count(request, kept.group, at + request.lasts)
            _take(kept)
            return kept
    return None


def _events(
    request: Request, level: Level, holds: list[tuple[Hold, Kept]], standing: Standing
) -> list[tuple[datetime, bool, str]]:
    """Return when runs and certain starts end (False) and begin (True), in order."""
    group = standing.quotas.group(request.queue)
    name = {Level.QUEUE: f"in {request.queue}", Level.COHORT: group}.get(level, "")
    events = [(end, False, uid) for end, uid in standing.runs.ends(name, standing.now)]
    if not holds:
        return events
    for hold, _ in holds:
        events += [(hold.start, True, hold.request.uid), (hold.end, False, hold.request.uid)]
    return sorted(events)


def _begin(request: Request, level: Level, standing: Standing, *, certain: bool) -> Kept:
    quotas = standing.quotas
    own, group = quotas.queues.get(request.queue), quotas.group(request.queue)
    shared = quotas.cohorts.get(group)
    return Kept(
        request,
        level,
        standing.now,
        certain,
        group,
        None if own is None else own.copy(),
        None if shared is None else shared.copy(),
        standing.room.copy() if level is Level.CLUSTER else None,
    )


def _gone(kept: Kept, uid: str, standing: Standing) -> None:
    """Take a run that has ended by then out of what is kept."""
    run = standing.runs.of.get(uid)
    if kept.room is not None:
        kept.room.remove(uid)
    if run is None:
        return
    if kept.own is not None and run.request.queue == kept.request.queue:
        kept.own.add(run.need, -1)
    if kept.shared is not None and standing.quotas.group(run.request.queue) == kept.group:
        kept.shared.add(run.need, -1)


def _lets_in(kept: Kept, holds: list[tuple[Hold, Kept]]) -> bool:
    request, need = kept.request, vector(kept.request.amounts)
    if kept.own is not None and kept.own.short(need):
        return False
    if kept.level is Level.QUEUE:
        return True
    if kept.shared is not None and kept.shared.short(need):
        return False
    if kept.room is not None and not kept.room.fits(request):
        return False
    end = kept.start + request.lasts
    return all(
        other.allows(request, kept.group, end) for hold, other in holds if hold.start > kept.start
    )


def _take(kept: Kept) -> None:
    need = vector(kept.request.amounts)
    if kept.own is not None:
        kept.own.add(need)
    if kept.shared is not None:
        kept.shared.add(need)
    if kept.room is not None:
        kept.room.add(kept.request)

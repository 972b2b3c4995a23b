"""Games for the tests of queueing: requests that come, runs that end, in virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from labfleet.decisions.queueing.holding import Hold
from labfleet.decisions.queueing.line import Blocked, Line, Round
from labfleet.decisions.queueing.requests import Request, Terms
from labfleet.decisions.queueing.room import SumRoom
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.queue import QueueOrder

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """The instant so many seconds after the game's beginning."""
    return NOW + timedelta(seconds=seconds)


def cpus(milli: int, memory: int = 0) -> Amounts:
    """So many thousandths of a CPU, and MiB."""
    return Amounts(cpu_milli=milli, memory_mib=memory)


def request(uid: str, milli: int = 1, seconds: float = 10, at: float = 0, **more: Any) -> Request:
    """A request that came `at` seconds after the beginning."""
    return Request(uid=uid, amounts=cpus(milli), seconds=seconds, since=after(at), **more)


@dataclass
class Game:
    """One cluster: a line with its room; runs last as long as `lasts` says of them."""

    line: Line
    room: SumRoom
    lasts: Callable[[Request], float]
    at: float = 0.0
    ends: list[tuple[float, str]] = field(default_factory=list)
    starts: dict[str, float] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    def decide(self) -> Round:
        """Decide once, and start what may."""
        made = self.line.decide(self.room, after(self.at), self.holds)
        for each in made.started:
            self.line.start(each, after(self.at))
            self.room.add(each)
            self.starts[each.uid] = self.at
            self.order.append(each.uid)
            heapq.heappush(self.ends, (self.at + self.lasts(each), each.uid))
            self.holds = [hold for hold in self.holds if hold.request.uid != each.uid]
        self.rounds.append(made)
        return made

    def end_until(self, at: float) -> None:
        """Go on to an instant; runs that end by then are over."""
        self.at = at
        while self.ends and self.ends[0][0] <= at:
            _, uid = heapq.heappop(self.ends)
            self.line.end(uid)
            self.room.remove(uid)

    def play(
        self,
        coming: Iterable[Request],
        *,
        until: Callable[[Game], bool] = lambda game: False,
        check: Callable[[Game], None] = lambda game: None,
        steps: int = 2000,
    ) -> None:
        """Let requests come, decide at each instant at which something happens."""
        rows = sorted(coming, key=lambda each: (each.since, each.uid))
        times = [(each.since - NOW).total_seconds() for each in rows]
        place = 0
        for _ in range(steps):
            due = [hold.start for hold in self.holds]
            next_ = [
                *times[place : place + 1],
                *(row[0] for row in self.ends[:1]),
                *(
                    max(self.at, (each - NOW).total_seconds())
                    for each in due
                    if each > after(self.at)
                ),
            ]
            if not next_:
                return
            self.end_until(max(self.at, min(next_)))
            while place < len(rows) and times[place] <= self.at:
                self.line.wait(rows[place])
                place += 1
            self.decide()
            check(self)
            if until(self):
                return
        raise AssertionError("the game did not end")


def game(
    queues: Sequence[Terms] = (), capacity: Amounts | None = None, *, early: float = 1.0
) -> Game:
    """A game on a cluster of this capacity; runs last `early` of their bound."""
    has = cpus(100) if capacity is None else capacity
    return Game(Line(queues, has), SumRoom(vector(has)), lambda each: (each.seconds or 0.0) * early)


def promises(made: Round) -> dict[str, Blocked]:
    """What was told to those that do not start."""
    return {uid: each for uid, each in made.blocked.items() if each.start is not None}


# --- strategies ----------------------------------------------------------------------------

QUEUES = ("a", "b", "c", "d")
quotas = st.integers(0, 6).map(lambda milli: vector(cpus(milli)))


@st.composite
def some_terms(draw: st.DrawFn) -> list[Terms]:
    """Four queues: cohorts, quotas, borrowing limits, weights and orders as they come."""
    return [
        Terms(
            name=name,
            cohort=draw(st.sampled_from((None, "x", "y"))),
            quota=draw(quotas),
            borrowing=draw(st.none() | quotas),
            weight=draw(st.integers(1, 4)),
            order=draw(st.sampled_from(QueueOrder)),
        )
        for name in QUEUES
    ]


@st.composite
def some_requests(draw: st.DrawFn, most: int = 14, queues: Sequence[str] = QUEUES) -> list[Request]:
    """Requests of few sizes that come within a minute."""
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(queues), st.integers(1, 6), st.integers(1, 30),
                st.integers(0, 60), st.sampled_from((0, 0, 0, 1, 5)),
            ),
            max_size=most,
        )
    )  # fmt: skip
    return [
        request(f"r{number:02d}", milli, seconds, at, queue=queue, priority=priority)
        for number, (queue, milli, seconds, at, priority) in enumerate(rows)
    ]

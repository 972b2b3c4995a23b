"""The rules on pools' sizes: each notices what it is for, as a broken product would commit it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from labfleet.rehearsal.rules.pool_sizes import ACTOR, TURNS, PoolSizes
from labfleet.resources.amounts import Amounts, Claim, Reservation
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.pool import Pool, PoolSpec, Scaling
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)


class Watched:
    """The rules on one pool of two to three workers, and what they noticed."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.sessions: dict[Key, Session] = {}
        self.now = NOW
        self.rules = PoolSizes(lambda rule, text: self.found.append(rule), self.sessions)
        scaling = Scaling(min_workers=1, max_workers=3)
        self.put(Pool(metadata=Metadata(name="p"), spec=PoolSpec(template="t", scaling=scaling)))

    def put(self, new: object, reason: str = "", actor: str = ACTOR) -> None:
        self.rules.put(new, actor, reason, self.now)

    def made(self, *names: str, phase: WorkerPhase = WorkerPhase.READY) -> None:
        for name in names:
            self.put(worker(name, phase=phase))

    def given_back(self, name: str, reason: str = "Empty") -> None:
        self.put(worker(name, desired="Terminated"), f"retired: {reason}")

    def session(
        self, name: str, made: datetime = NOW - timedelta(days=1), **status: object
    ) -> None:
        one = Session(
            metadata=Metadata(name=name, creation_timestamp=made),
            spec=SessionSpec(owner="ann", definition="lab"),
            status=SessionStatus(**status),
        )
        self.sessions[one.key] = one


def worker(name: str, desired: str = "Ready", phase: WorkerPhase = WorkerPhase.READY) -> Worker:
    """A worker of the pool."""
    return Worker(
        metadata=Metadata(name=name),
        spec=WorkerSpec(pool="p", desired=desired),
        status=WorkerStatus(phase=phase),
    )


def claim(place: int) -> Claim:
    """A promise of one place from four minutes from now on."""
    start = NOW + timedelta(minutes=4)
    return Claim(
        pool="p", place=place, amounts=Amounts(labs=1), start=start, end=start + timedelta(hours=1)
    )


def test_a_sound_pool_breaks_nothing():
    """It grows to its maximum, replaces what failed, and gives the empty ones back to its minimum."""
    watched = Watched()
    watched.made("a", "b", "c")
    watched.put(worker("c", phase=WorkerPhase.FAILED), actor="worker-controller")
    watched.made("d")
    watched.given_back("c", "Failed")
    watched.given_back("b")
    watched.given_back("d")
    assert watched.found == []


def test_a_worker_above_the_maximum_is_noticed():
    """The fourth of three."""
    watched = Watched()
    watched.made("a", "b", "c", "d")
    assert watched.found == ["pool-size"]


def test_giving_back_below_the_minimum_is_noticed():
    """The last of one; what people or a failure end is theirs."""
    watched = Watched()
    watched.made("a")
    watched.given_back("a", "Impaired")
    assert watched.found == []
    watched.made("b")
    watched.given_back("b")
    assert watched.found == ["pool-size"]


def test_a_worker_with_sessions_that_is_given_back_is_noticed():
    """A session that is bound there would lose its lab."""
    watched = Watched()
    watched.made("a", "b")
    held = Reservation(holder="s", amounts=Amounts(labs=1), start=NOW)
    watched.session("s", phase=SessionPhase.RUNNING, worker="b", reservation=held)
    watched.given_back("b")
    assert watched.found == ["pool-busy"]


@pytest.mark.parametrize(("places", "noticed"), [(1, []), (2, ["pool-promise"])])
def test_a_worker_that_a_promise_needs_within_minutes_is_noticed(places, noticed):
    """Two places begin in four minutes; of two free workers one may not go, for one place it may."""
    watched = Watched()
    watched.made("a", "b")
    for place in range(places):
        watched.session(f"s{place}", claim=claim(place))
    watched.session("new", made=NOW, claim=claim(2))  # asked for since the pool looked
    watched.given_back("b")
    assert watched.found == noticed


def test_a_pool_that_flaps_is_noticed():
    """Made and given back thirteen times within an hour; the same over a day is none."""
    for minutes, noticed in ((4, ["pool-calm"]), (100, [])):
        watched = Watched()
        watched.made("stays")
        for number in range(TURNS + 1):
            watched.now += timedelta(minutes=minutes)
            watched.made(f"w{number}")
            watched.given_back(f"w{number}")
            gone = msgspec.structs.replace(worker(f"w{number}", desired="Terminated"))
            watched.rules.gone(gone.key)
        assert watched.found == noticed

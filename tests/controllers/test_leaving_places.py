"""What a cycle of the scheduler promises holds whichever of its bindings come to be written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from labfleet.controllers.promises import Promises
from labfleet.decisions.candidates import Candidate
from labfleet.decisions.placement import PlacementRequest
from labfleet.engine.cache import Cache
from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.amounts import Amounts, Claim, Reservation
from labfleet.resources.decision import Decision
from labfleet.resources.machine import CmlSettings, Machine
from labfleet.resources.meta import Metadata, SecretRef
from labfleet.resources.pool import Pool, PoolSpec, Scaling
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus, Slot
from labfleet.resources.template import Template, TemplateSpec
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.service.kinds import indices

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
START, END = NOW + timedelta(minutes=10), NOW + timedelta(minutes=70)
LAB = Amounts(cpu_milli=7000, labs=1)
SIZE = Amounts(cpu_milli=64000, memory_mib=65536, storage_mib=409600, nodes=200, labs=3, ports=500)
REQUEST = PlacementRequest(amounts=LAB, start=START, end=END, track="default")
PLACES, WORKERS = 3, ("w0", "w1", "w2", "w3")


def claim(place: int) -> Claim:
    """A claim of one lab on a place."""
    return Claim(pool="p", place=place, amounts=LAB, start=START, end=END)


def session(name: str, place: int, worker: str | None = None) -> Session:
    """A promised slot, bound to a worker or waiting."""
    held = worker and Reservation(holder=worker, amounts=LAB, start=START, end=END)
    phase = SessionPhase.SCHEDULED if worker else SessionPhase.PENDING
    return Session(
        metadata=Metadata(name=name, uid=name),
        spec=SessionSpec(definition="d", slot=Slot(start=START, end=END)),
        status=SessionStatus(
            phase=phase, worker=worker, reservation=held or None, claim=claim(place)
        ),
    )


class Fleet:
    """The workers that take labs, by name; all are of one pool."""

    def __init__(self, names: Sequence[str]) -> None:
        self.here = {
            name: Candidate(name=name, pool="p", capacity=SIZE, licensed=True) for name in names
        }

    def get(self, name: str) -> Candidate | None:
        """Return one."""
        return self.here.get(name)

    def names(self) -> list[str]:
        """Return all."""
        return list(self.here)


def cache_of(sessions: Sequence[Session]) -> Cache:
    """A cache with a pool of three workers of three labs, four that are there, and sessions."""
    nobody: Any = None
    cache = Cache(nobody)
    cache.declare(*indices.declared())
    machine = Machine(cml=CmlSettings(admin_password=SecretRef(env="P")), capacity=SIZE)
    made: list[Any] = [
        Template(
            metadata=Metadata(name="t", uid="t", namespace="default"),
            spec=TemplateSpec(machine=machine),
        ),
        Pool(
            metadata=Metadata(name="p", uid="p"),
            spec=PoolSpec(template="t", scaling=Scaling(max_workers=PLACES)),
        ),
    ]
    for name in WORKERS:
        ready = WorkerStatus(phase=WorkerPhase.READY, capacity=SIZE)
        spec = WorkerSpec(machine=machine, pool="p")
        made.append(Worker(metadata=Metadata(name=name, uid=name), spec=spec, status=ready))
    for number, each in enumerate([*made, *sessions], start=1):
        cache.event(
            stores.Event(
                revision=number, type="ADDED", key=each.key, uid=each.metadata.uid,
                doc=kinds.encode(each), at=NOW, actor="", request_id="", reason="",
            )
        )  # fmt: skip
    return cache


class Cycle:
    """A cycle of the scheduler without a store: what it binds, and what is written of it."""

    def __init__(self, sessions: list[Session], open_to_labs: Sequence[str]) -> None:
        self.cache = cache_of(sessions)
        self.promises = Promises(self.cache, self.cache.revision, NOW)
        self.fleet = Fleet(open_to_labs)
        self.places = {each.name: _place(each) for each in sessions}
        self.waiting: dict[str, list[tuple[str, int]]] = {}

    def bind(self, session: Session, wish: Sequence[str]) -> None:
        """Bind a session as the scheduler does; it would take the first worker that it wishes for."""

        def place(offered: Sequence[Candidate]) -> Decision:
            found = sorted((each.name for each in offered), key=wish.index)
            return _decided(found[0] if found else None)

        own = self.promises.own(session, REQUEST, self.fleet)
        if own:
            worker, taken = place(own).chosen, session.status.claim
        else:
            best = place(list(self.fleet.here.values()))
            choice = self.promises.judge(session, REQUEST, best, self.fleet, place)
            worker, taken = choice.decision.chosen, choice.claim
        if worker is None or taken is None:
            return
        self.promises.commit(session, taken, binds=True)
        self.promises.took(session, taken, worker)
        self.waiting.setdefault(worker, []).append((session.name, taken.place))

    def write(self, lost: set[str]) -> None:
        """Write the bindings on each worker in a commit of their own, but for the lost ones."""
        for worker, bound in self.waiting.items():
            if worker not in lost:
                self.places.update(bound)
        self.waiting.clear()
        self.promises.written()

    def most(self) -> int:
        """Return how many labs are promised on the fullest place."""
        taken = list(self.places.values())
        return max(map(taken.count, taken))


def _place(session: Session) -> int:
    found = session.status.claim
    assert found is not None
    return found.place


def _decided(worker: str | None) -> Decision:
    return Decision(
        outcome="waiting" if worker is None else "bound", reason="", message="", at=NOW,
        revision=1, requested=LAB, chosen=worker,
    )  # fmt: skip


def test_a_place_that_is_left_is_free_when_that_is_written() -> None:
    """A long seed: one moved off a full place, another took it, and only the second was written."""
    there = [
        session("a", 0, "w0"),  # w0 takes no more; w1 came to serve its place
        session("b", 0, "w1"),
        session("c", 1, "w2"),
        session("leaves", 0),
        session("comes", 2),
    ]
    cycle = Cycle(there, ["w1", "w2"])
    cycle.bind(there[3], ["w2", "w1"])
    cycle.bind(there[4], ["w1", "w2"])
    assert cycle.waiting == {"w2": [("leaves", 1), ("comes", 1)]}
    cycle.write(set())
    more = session("more", 2)
    cycle.bind(more, ["w1", "w2"])
    assert cycle.waiting == {"w1": [("more", 0)]}


drawn = st.tuples(
    st.lists(st.tuples(st.integers(0, PLACES - 1), st.sampled_from(WORKERS)), max_size=5),
    st.lists(
        st.tuples(st.integers(0, PLACES - 1), st.permutations(WORKERS)), min_size=1, max_size=6
    ),
    st.sets(st.sampled_from(WORKERS)),
    st.sets(st.sampled_from(WORKERS)),
)


@given(drawn)
@example(
    (
        [(0, "w0"), (0, "w1"), (1, "w2")],
        [(0, ["w2", "w1", "w3", "w0"]), (2, ["w1", "w2", "w3", "w0"])],
        {"w0", "w3"},
        {"w2"},
    )
)
def test_no_place_is_overfull_whatever_is_written(
    fleet: tuple[list[tuple[int, str]], list[tuple[int, list[str]]], set[str], set[str]],
) -> None:
    """Commits of a cycle may be written or lost, each for itself: a place holds three labs at most."""
    bound, waiting, closed, lost = fleet
    count, there, wishes = dict[int, int](), list[Session](), list[list[str]]()
    for number, (place, worker) in enumerate(bound):
        count[place] = count.get(place, 0) + 1
        if count[place] <= SIZE.labs:
            there.append(session(f"b{number}", place, worker))
    begun = len(there)
    for number, (place, wish) in enumerate(waiting):
        count[place] = count.get(place, 0) + 1
        if count[place] <= SIZE.labs:
            there.append(session(f"s{number}", place))
            wishes.append(wish)
    if len(there) == begun:
        return
    cycle = Cycle(there, [name for name in WORKERS if name not in closed])
    for each, wish in zip(there[begun:], wishes, strict=True):
        cycle.bind(each, wish)
    cycle.write(lost)
    assert cycle.most() <= SIZE.labs

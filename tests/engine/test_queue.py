"""The queue against a model, and its promises one by one."""

from __future__ import annotations

import asyncio

import pytest
from engine_fakes import HandClock, SeededRng, key, pump
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.engine import queue as queues
from labfleet.engine.queue import EVENT, RESYNC, USER, KeyQueue
from labfleet.resources.meta import Key


def make(clock: HandClock | None = None, **options: int) -> tuple[KeyQueue, HandClock]:
    clock = clock or HandClock()
    return KeyQueue(clock, SeededRng("0"), **options), clock


async def take(queue: KeyQueue) -> Key | None:
    """Take a key if one is due, else None."""
    getting = asyncio.create_task(queue.get())
    await pump(4)
    if getting.done():
        return getting.result()
    getting.cancel()
    await pump(4)
    return None


KEYS = st.sampled_from("abcd").map(key)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.sampled_from([0.0, 1.0, 5.0]), st.integers(0, 2)),
        st.tuples(st.just("advance"), st.sampled_from([0.5, 1.0, 4.0])),
        st.tuples(st.just("get")),
        st.tuples(st.just("done"), KEYS),
        st.tuples(st.just("failed"), KEYS),
    ),
    max_size=40,
)


class Model:
    """What the queue should be, as plain as possible."""

    def __init__(self) -> None:
        self.time, self.order = 0.0, 0
        self.waiting: dict[Key, tuple[float, int, int]] = {}
        self.active: dict[Key, tuple[float, int, int] | None] = {}

    def add(self, name: Key, after: float, priority: int) -> None:
        self.order += 1
        rows = self.active if name in self.active else self.waiting
        due, band, order = rows.get(name) or (float("inf"), -1, self.order)
        rows[name] = (min(due, self.time + after), max(band, priority), order)

    def get(self) -> Key | None:
        due = [(-p, d, o, name) for name, (d, p, o) in self.waiting.items() if d <= self.time]
        if not due:
            return None
        name = min(due)[3]
        del self.waiting[name]
        self.active[name] = None
        return name

    def done(self, name: Key) -> None:
        wish = self.active.pop(name)
        if wish is not None:
            self.waiting[name] = wish


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_queue_behaves_as_its_model(steps: list[tuple]) -> None:
    """Any sequence of calls gives out the keys that a naive list would, in the same order."""

    async def play() -> None:
        queue, clock = make()
        model = Model()
        for name, *args in steps:
            if name == "add":
                queue.add(args[0], after=args[1], priority=args[2])
                model.add(*args)
            elif name == "advance":
                await clock.advance(args[0])
                model.time += args[0]
            elif name == "get":
                assert await take(queue) == model.get()
            elif args[0] in model.active:
                if name == "failed":
                    model.add(args[0], queue.failed(args[0]), EVENT)
                queue.done(args[0])
                model.done(args[0])
            assert len(queue) == len(model.waiting)
            assert queue.depth().active == len(model.active)

    asyncio.run(play())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 2)), min_size=1, max_size=60), st.integers(1, 5))
def test_no_key_is_in_two_hands(adds: list[tuple[Key, int]], workers: int) -> None:
    """However many workers take keys while they are added again, none is processed twice."""

    async def play() -> None:
        queue, clock = make()
        busy: set[Key] = set()
        count = 0

        async def work() -> None:
            nonlocal count
            while True:
                name = await queue.get()
                assert name not in busy
                busy.add(name)
                await clock.sleep(1)
                busy.discard(name)
                count += 1
                queue.done(name)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        for name, priority in adds:
            queue.add(name, priority=priority)
            await pump(2)
        await clock.advance(100)
        assert len(queue) == 0
        assert len({name for name, _ in adds}) <= count <= len(adds)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results)

    asyncio.run(play())


@pytest.mark.asyncio
async def test_same_key_is_kept_once() -> None:
    """Adding a key many times hands it out once."""
    queue, _ = make()
    for _ in range(5):
        queue.add(key("a"))
    assert await take(queue) == key("a")
    queue.done(key("a"))
    assert await take(queue) is None


@pytest.mark.asyncio
async def test_priority_goes_before_age() -> None:
    """A user's change overtakes events, and events overtake a resync."""
    queue, _ = make()
    for name, priority in (("r", RESYNC), ("e", EVENT), ("u", USER)):
        queue.add(key(name), priority=priority)
    assert [await take(queue) for _ in range(3)] == [key("u"), key("e"), key("r")]


@pytest.mark.asyncio
async def test_later_wish_never_delays_an_earlier_one() -> None:
    """A resync far away does not push back a key that is due now, and now beats later."""
    queue, _ = make()
    queue.add(key("a"))
    queue.add(key("a"), after=60)
    queue.add(key("b"), after=60)
    queue.add(key("b"))
    assert {await take(queue), await take(queue)} == {key("a"), key("b")}


@pytest.mark.asyncio
async def test_delayed_key_wakes_a_waiting_worker_when_due() -> None:
    """A worker that waits gets the key at its due time, not before."""
    queue, clock = make()
    queue.add(key("a"), after=10)
    getting = asyncio.create_task(queue.get())
    await clock.advance(9.9)
    assert not getting.done()
    await clock.advance(0.2)
    assert await getting == key("a")


@pytest.mark.asyncio
async def test_keys_that_are_due_together_go_to_as_many_workers() -> None:
    """No worker sleeps while a key is due, also when none that is at work comes back."""
    queue, clock = make()
    taken: list[Key] = []

    async def work() -> None:
        taken.append(await queue.get())
        await asyncio.Event().wait()

    workers = [asyncio.create_task(work()) for _ in range(5)]
    await pump(4)
    for each in "abcd":
        queue.add(key(each), after=5)
    await clock.advance(5.1)
    await pump(40)
    assert sorted(taken) == [key(each) for each in "abcd"]
    queue.add(key("e"))
    await pump(8)
    assert len(taken) == 5
    for each in workers:
        each.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


@pytest.mark.asyncio
async def test_earlier_key_wakes_a_worker_that_sleeps_longer() -> None:
    """A worker asleep until a far due time wakes for a nearer one."""
    queue, clock = make()
    queue.add(key("far"), after=1000)
    getting = asyncio.create_task(queue.get())
    await pump()
    queue.add(key("near"), after=5)
    await clock.advance(6)
    assert await getting == key("near")


@pytest.mark.asyncio
async def test_cancelled_worker_loses_no_key() -> None:
    """A wake-up that goes to a worker which is cancelled reaches another one."""
    queue, _ = make()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await pump()
    queue.add(key("a"))
    first.cancel()
    await pump()
    assert await second == key("a")


@pytest.mark.asyncio
async def test_wish_during_processing_waits_for_done() -> None:
    """A change that arrives while its key is processed is looked at afterwards."""
    queue, _ = make()
    queue.add(key("a"))
    assert await take(queue) == key("a")
    queue.add(key("a"), priority=USER)
    assert await take(queue) is None
    assert queue.depth().again == 1
    queue.done(key("a"))
    assert await take(queue) == key("a")


@pytest.mark.asyncio
async def test_back_off_grows_and_forget_resets_it() -> None:
    """Failures in a row wait longer and longer within the limit; forgetting starts afresh."""
    queue, clock = make()
    queue.add(key("a"))
    waits = []
    for _ in range(9):
        assert await take(queue) == key("a")
        waits.append(queue.failed(key("a")))
        queue.done(key("a"))
        assert await take(queue) is None
        await clock.advance(waits[-1])
    for number, wait in enumerate(waits):
        assert min(60.0, 2.0**number) / 2 <= wait <= min(60.0, 2.0**number)
    queue.forget(key("a"))
    assert await take(queue) == key("a")
    assert queue.failed(key("a")) <= 1.0


@pytest.mark.asyncio
async def test_back_off_has_a_floor_in_machine_time() -> None:
    """A demo that runs 1000 times faster does not turn a back-off into a busy loop."""
    queue, _ = make(HandClock(rate=1000.0))
    queue.add(key("a"))
    assert await take(queue) == key("a")
    assert queue.failed(key("a")) / 1000.0 >= queues.FLOOR_SECONDS


@pytest.mark.asyncio
async def test_full_queue_refuses_new_keys_only() -> None:
    """At its bound the queue refuses strangers, but keeps wishes for the keys it has."""
    queue, _ = make(limit=2)
    assert queue.add(key("a"))
    assert queue.add(key("b"))
    assert not queue.add(key("c"))
    assert queue.add(key("a"), priority=USER)
    assert await take(queue) == key("a")
    assert not queue.add(key("c")), "keys in hand count"
    queue.failed(key("a"))
    queue.done(key("a"))
    assert (len(queue), queue.depth().refused) == (2, 2)


@pytest.mark.asyncio
async def test_key_that_leaves_takes_its_failures_along() -> None:
    """A key that is gone for good leaves no failure count behind."""
    queue, clock = make()
    queue.add(key("a"))
    await take(queue)
    queue.failed(key("a"))
    queue.done(key("a"))
    assert queue.failures(key("a")) == 1
    await clock.advance(2)
    await take(queue)
    queue.done(key("a"))
    assert queue.failures(key("a")) == 0


@pytest.mark.asyncio
async def test_merging_for_ever_stays_small() -> None:
    """Ten thousand earlier wishes for one key leave no heap of outdated rows."""
    queue, _ = make()
    for number in range(10_000):
        queue.add(key("a"), after=20_000 - number)
    # private _delayed, _ready: a leak of forgotten entries shows in no answer
    assert len(queue._delayed) + len(queue._ready) < 200


@pytest.mark.asyncio
async def test_depth_says_how_late_the_queue_is() -> None:
    """The depth counts ready and delayed keys, and how long the oldest is overdue."""
    queue, clock = make()
    queue.add(key("a"))
    queue.add(key("b"), after=100)
    await clock.advance(7)
    depth = queue.depth()
    assert (depth.ready, depth.delayed, depth.lateness) == (1, 1, 7.0)

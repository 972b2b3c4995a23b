"""What the idle looks hand on to the workers' steps: the newest, for a short while."""

from __future__ import annotations

from idle_cases import foreign_lab, ready
from virtual_time import play
from world import World, world

from labfleet.controllers.worker.idle import IdleController
from labfleet.controllers.worker.idle_findings import IdleFindings, Look
from labfleet.decisions.lifecycle.worker.idle_finding import FRESH
from labfleet.resources.meta import Key
from labfleet.service.reads.idle_facts import Reading

W1 = Key("Worker", "default", "w1")


def look(w: World, *, nodes: int = 0) -> Look:
    """A look at this moment."""
    return Look(reading=Reading(nodes=nodes), at=w.clock.now())


def test_the_newest_look_is_kept_until_a_step_used_it_up() -> None:
    """A step that used an earlier look does not take the newer one away."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            findings = IdleFindings(process.contexts["worker-controller"])
            assert findings.take(W1) is None
            findings.put(W1, look(w, nodes=1))
            first = findings.take(W1)
            assert first is not None
            assert first.facts.nodes == 1
            assert findings.take(W1) == first
            await w.let_pass(2)
            findings.put(W1, look(w, nodes=2))
            findings.consumed(W1, first)
            second = findings.take(W1)
            assert second is not None
            assert second.facts.nodes == 2
            findings.consumed(W1, second)
            assert findings.take(W1) is None

    play(story)


def test_an_old_look_and_one_of_a_worker_that_is_gone_say_nothing() -> None:
    """Two minutes without a newer look, and what was seen is unknown again."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            findings = IdleFindings(process.contexts["worker-controller"])
            findings.put(W1, look(w))
            await w.let_pass(FRESH.total_seconds() - 10)
            assert findings.take(W1) is not None
            await w.let_pass(20)
            assert findings.take(W1) is None
            other = Key("Worker", "default", "gone")
            findings.put(other, look(w))
            assert findings.take(other) is None

    play(story)


def test_the_facts_of_a_look_are_those_of_the_decision() -> None:
    """A session placed after the look is counted, a look at the server is not repeated."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            findings = IdleFindings(process.contexts["worker-controller"])
            seen = look(w)
            findings.put(W1, seen)
            before = findings.take(W1)
            await w.session()
            await w.until(w.told("s1", "worker='w1'"))
            after = findings.take(W1)
            assert before is not None
            assert after is not None
            assert (before.facts.sessions, after.facts.sessions) == (0, 1)
            assert after.at == seen.at

    play(story)


def test_a_look_that_finds_no_news_takes_an_unused_one_back() -> None:
    """What a lab's owner did and undid before the worker's step is not written at all."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.let_pass(120)
            process = await w.start(run=["worker"])
            context = process.contexts["worker-controller"]
            findings, woken = IdleFindings(context), list[Key]()
            controller = IdleController(context, w.store, findings, woken.append)
            await w.let_pass(60)
            await controller.reconcile(W1)
            assert woken == []
            lab = foreign_lab(w)
            await w.let_pass(50)
            await controller.reconcile(W1)
            assert woken == [W1]
            assert findings.take(W1) is not None
            w.hosts.remove("w1", lab.id)
            await w.let_pass(50)
            await controller.reconcile(W1)
            assert woken == [W1]
            assert findings.take(W1) is None

    play(story)

"""Licence verbs and console, lived by a whole installation in virtual time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from virtual_time import play
from world import ADMIN, MACHINE, World, world

from labfleet.resources import conditions
from labfleet.resources.meta import SecretRef
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import licences as verbs

OTHER = SecretRef(env="OTHER")


async def licensed(w: World, **machine: Any) -> None:
    """A worker that is up, and the definition `two`."""
    await w.start()
    await w.worker(machine={**copy.deepcopy(MACHINE), **machine})
    await w.definition(defaultDurationMinutes=60)
    await w.until(w.in_phase("w1", "READY_UNLICENSED" if machine else "READY"))


def worker(w: World) -> Worker:
    """The worker as stored."""
    found = w.cache.get(Worker, "w1", "default")
    assert found is not None
    return found


async def over(w: World) -> tuple[str, str]:
    """Let time pass until what was asked is done or refused."""
    await w.services.fresh()

    def ended() -> bool:
        order, known = worker(w).spec.licence, worker(w).status.licence.order
        assert order is not None
        return known is not None and known.id == order.id and known.state in {"done", "refused"}

    await w.until(ended)
    known = worker(w).status.licence.order
    assert known is not None
    return known.state, known.message


def test_register_takes_a_licence_beside_a_session() -> None:
    """Without autoLicense; the session is not touched, and at its end the worker is READY."""

    async def story() -> None:
        async with world() as w:
            await licensed(w, autoLicense=False)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            await verbs.register(w.services, ADMIN, "w1", "default")
            assert (await over(w))[0] == "done"
            assert w.phase("s1") == "RUNNING"
            assert w.phase("w1") == "ACTIVE"
            assert worker(w).status.licence.node_capacity == 200
            await w.until(w.ended)
            assert w.phase("s1") == "COMPLETED"
            await w.until(w.in_phase("w1", "READY"))
            w.check()

    play(story)


def test_deregister_is_refused_while_sessions_are_there_and_ends_them_by_force() -> None:
    """In words that name them; with force they end, the licence goes back and stays away."""

    async def story() -> None:
        async with world() as w:
            await licensed(w)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            with pytest.raises(Refused, match="1 session: s1") as caught:
                await verbs.deregister(w.services, ADMIN, "w1", "default")
            assert caught.value.reason == "HostsSessions"
            assert worker(w).spec.licence is None
            await verbs.deregister(w.services, ADMIN, "w1", "default", force=True)
            assert (await over(w))[0] == "done"
            told = w.get_session().status
            assert (w.phase("s1"), told.reason) == ("FAILED", "LicenceReturned")
            assert told.message == "its worker gave its licence back by force"
            assert w.hosts.licences_left() == []
            await w.let_pass(3600)
            assert w.phase("w1") == "READY_UNLICENSED"
            assert w.hosts.licences_left() == []
            w.check()

    play(story)


def test_another_product_and_back_to_service() -> None:
    """Given back, registered as the other, hosting again, with the other's number of nodes."""

    async def story() -> None:
        async with world() as w:
            await licensed(w)
            await verbs.register(w.services, ADMIN, "w1", "default", product="CML_Personal40")
            assert (await over(w))[0] == "done"
            await w.until(w.in_phase("w1", "READY"))
            known = worker(w).status.licence
            assert (known.product, known.node_capacity, known.licensed) == (
                "CML_Personal40", 40, True,
            )  # fmt: skip
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            w.check()

    play(story)


@pytest.mark.parametrize(("text", "state"), [("good-too", "done"), ("bad", "refused")])
def test_another_token_is_registered_with(text: str, state: str) -> None:
    """The reference is stored, never the token; one that is turned down costs no worker."""

    async def story() -> None:
        async with world() as w:
            await licensed(w)
            w.secrets.values["OTHER"] = text
            await verbs.register(w.services, ADMIN, "w1", "default", token=OTHER)
            assert (await over(w))[0] == state
            await w.let_pass(1800)
            assert w.phase("w1") in {"READY", "READY_UNLICENSED"}
            row = await w.store.get(worker(w).key)
            assert row is not None
            assert b"OTHER" in row.doc
            assert text.encode() not in row.doc
            w.check()

    play(story)


def test_a_reference_that_leads_nowhere_is_said() -> None:
    """The order is refused with the words of whoever keeps the secrets."""

    async def story() -> None:
        async with world() as w:
            await licensed(w)
            await verbs.register(w.services, ADMIN, "w1", "default", token=OTHER)
            state, message = await over(w)
            assert (state, "OTHER is not set" in message) == ("refused", True)
            fact = conditions.find(worker(w).status.conditions, "LicenceOrdered")
            assert fact is not None
            assert (fact.status, fact.reason) == ("False", "Refused")
            assert w.phase("w1") == "READY"
            w.check()

    play(story)


def test_renew_asks_once() -> None:
    """And says when; what is not registered is refused at once."""

    async def story() -> None:
        async with world() as w:
            await licensed(w)
            await verbs.renew(w.services, ADMIN, "w1", "default")
            assert (await over(w))[0] == "done"
            assert worker(w).status.licence.renewed_at is not None
            assert w.hosts.calls.count("renew w1") == 1
            await verbs.deregister(w.services, ADMIN, "w1", "default")
            assert (await over(w))[0] == "done"
            with pytest.raises(Refused) as caught:
                await verbs.renew(w.services, ADMIN, "w1", "default")
            assert caught.value.reason == "NotRegistered"
            w.check()

    play(story)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["register", "deregister"])
def test_a_process_that_dies_in_the_call_loses_no_order(verb: str, when: str) -> None:
    """Its successor finds the intent, waits the call out, and comes to the same end."""

    async def story() -> None:
        async with world() as w:
            await licensed(w)
            struck: list[str] = []

            def strike(name: str, _number: int) -> str | None:
                if name == verb and not struck:
                    struck.append(name)
                    return f"crash-{when}"
                return None

            w.strike = strike
            if verb == "register":
                await verbs.register(w.services, ADMIN, "w1", "default", again=True)
            else:
                await verbs.deregister(w.services, ADMIN, "w1", "default")
            await w.until(lambda: bool(struck))
            assert (await over(w))[0] == "done"
            assert bool(w.hosts.licences_left()) == (verb == "register")
            w.check()

    play(story)


def test_console_text_is_read_when_asked() -> None:
    """Each asking once, of a worker that is well; secrets in it are masked."""

    async def story() -> None:
        async with world() as w:
            await licensed(w)
            w.compute.alive("w1")[0].console = f"login: {w.secrets.values['PASSWORD']}"
            for count in (1, 2):
                asked = await verbs.console(w.services, ADMIN, "w1", "default")
                at = asked.spec.console_asked
                await w.until(lambda at=at: worker(w).status.console_handled == at)
                assert worker(w).status.console.splitlines()[1] == "login: ***"
                await w.let_pass(300)
                assert w.compute.calls.count("console_output") == count
            w.check()

    play(story)

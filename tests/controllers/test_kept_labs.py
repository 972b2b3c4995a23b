"""What was configured in a lab is kept before its teardown, and a later session goes on with it."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from test_crashes import striker
from test_session_trouble import nothing_left, ready
from virtual_time import play
from world import ADMIN, World, world

from cml_simulator.core import outside
from labfleet.controllers.session.lab_keeper import in_turn
from labfleet.kernel import errors
from labfleet.resources import conditions, kept_lab
from labfleet.resources.kinds import KINDS
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import kept_labs, objects
from labfleet.service.verbs import lifecycle as verbs

WORK = "hostname R1\nenable secret 5 $1$mERr\n"
OWN = {"keep": "owner", "continuable": True}


def type_in(w: World, label: str = "r1", text: str = WORK) -> None:
    """Configure a node of the one lab as somebody at its console does."""
    server = w.hosts.of("w1")
    [node] = [each for each in server.nodes.values() if each.label == label]
    edit = outside.Edit(action="configure", node_id=node.id, text=text)
    outside.act(server, edit, w.hosts.now)


def configured(w: World, label: str = "r1") -> str:
    """Return the main configuration that a node of the one lab has on its server."""
    [node] = [each for each in w.hosts.of("w1").nodes.values() if each.label == label]
    return node.configuration[0]["content"] if node.configuration else ""


def fact(w: World, name: str = "s1") -> Any:
    return conditions.find(w.get_session(name).status.conditions, "WorkKept")


async def worked(w: World, **definition: Any) -> None:
    """A session in which somebody configured r1, ended by a cancel."""
    await ready(w, **definition)
    await w.session(owner="bob")
    await w.until(w.in_phase("s1", "RUNNING"))
    type_in(w)
    await verbs.cancel(w.services, ADMIN, "s1", "default", reason="enough")


def test_a_session_goes_on_with_what_was_configured_in_an_earlier_one() -> None:
    """Its node has it from the start; the text stands in no event, object or message."""

    async def story() -> None:
        async with world() as w:
            await worked(w, **OWN)
            await w.until(w.ended)
            await nothing_left(w)
            kept = w.get_session().status.kept
            assert (fact(w).status, fact(w).reason, kept.nodes) == ("True", "LabKept", 2)
            assert kept.until - kept.at == timedelta(days=7)
            text = await kept_labs.download(w.services, ADMIN, "s1", "default")
            assert kept_lab.configurations(text)["r1"].configuration[0]["content"] == WORK
            assert w.get_session().metadata.uid.encode() not in text

            await w.session("s2", owner="bob", continueFrom="s1")
            await w.until(w.in_phase("s2", "RUNNING"))
            assert w.get_session("s2").status.continues.name == "s1"
            assert configured(w) == WORK
            for name in ("s1", "s2"):
                for event in await w.store.events_of(w.get_session(name).key):
                    assert b"secret" not in event.doc
                    assert "secret" not in event.reason
            await w.until(w.ended)

    play(story)


def test_nothing_is_read_out_where_no_definition_asks_for_it() -> None:
    """By default a teardown makes not one call more, and nothing is kept."""

    async def story() -> None:
        async with world() as w:
            struck: list[str] = []
            w.strike = lambda name, _: struck.append(name)
            await worked(w)
            await w.until(w.ended)
            assert not {"extract", "download", "keep_lab"} & set(struck)
            assert (w.get_session().status.kept, fact(w)) == (None, None)

    play(story)


def test_what_cannot_be_read_is_said_and_the_rest_is_kept() -> None:
    """A node that does not answer is named; its earlier configuration stands in the kept lab."""

    async def story() -> None:
        async with world() as w:
            w.hosts.fail("extract")
            await worked(w, **OWN)
            await w.until(w.ended)
            assert (fact(w).status, fact(w).reason) == ("True", "KeptInPart")
            assert fact(w).message == "nothing was read out of r1, r2"
            assert w.get_session().status.kept.missing == ("r1", "r2")

    play(story)


@pytest.mark.parametrize("call", ["download", "nodes"])
def test_a_server_that_refuses_costs_a_few_seconds_and_is_said(call: str) -> None:
    """Three attempts, then the teardown goes on; the owner reads why, in no words of the lab."""

    async def story() -> None:
        async with world() as w:
            await ready(w, **OWN)
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            w.hosts.fail(call)
            await verbs.cancel(w.services, ADMIN, "s1", "default")
            await w.until(w.in_phase("s1", "COLLECTING"))
            await w.until(lambda: fact(w).status == "False", hours=0.02)
            assert fact(w).reason == "NotKept"
            assert "the lab could not be read or stored" in fact(w).message
            assert w.get_session().status.kept.tries == 3
            w.hosts.refusals.clear()
            await nothing_left(w)

    play(story)


def test_a_server_that_hangs_holds_a_teardown_up_for_its_time_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of what is promised for a teardown, at most: the next slot starts on time."""

    async def story() -> None:
        async with world() as w:
            w.strike = lambda name, _: "hang-before" if name == "extract" else None
            await worked(w, **OWN, teardownMinutes=1)
            await w.until(w.in_phase("s1", "COLLECTING"))
            begun = w.get_session().status.phase_since
            await w.until(w.in_phase("s1", "STOPPING"))
            assert w.get_session().status.phase_since - begun <= timedelta(seconds=40)
            # The download has its share of the time, so an earlier configuration is kept at least.
            assert w.get_session().status.kept.missing == ("r1", "r2")
            await nothing_left(w)

    play(story)


# Each plays a session for every call of a teardown, two seconds of CPU: it is what point 8 promises.
MODES = ("crash-before", "crash-after", "lost-after", "no-before")


@pytest.mark.parametrize("mode", MODES)
def test_a_strike_at_any_call_of_a_teardown_loses_and_doubles_nothing(mode: str) -> None:
    """Between extraction, download, keeping and the wipe: kept once, with what was configured."""

    async def story() -> None:
        async with world() as w:
            w.hosts.set(stop_seconds=3.0)
            await ready(w, **OWN)
            for number in itertools.count(1):
                name, struck = f"s-{number}", list[str]()
                await w.session(name, owner="bob")
                await w.until(w.in_phase(name, "RUNNING"))
                type_in(w)
                await verbs.cancel(w.services, ADMIN, name, "default")
                w.strikes, w.strike = 0, striker(mode, number, struck)
                await w.until(w.ended)
                w.strike = None
                assert w.phase(name) == "CANCELLED", (struck, w.story())
                assert fact(w, name).status == "True", (struck, fact(w, name))
                text = await kept_labs.download(w.services, ADMIN, name, "default")
                found = kept_lab.configurations(text)["r1"].configuration
                assert found[0]["content"] == WORK, struck
                w.check()
                if not struck:
                    break
            rows = await w.store.kept_labs()
            assert len(rows) == number
            assert number > 5, "a teardown has more calls than that"

    play(story)


def test_a_lab_that_was_kept_is_deleted_by_its_owner_and_at_its_time() -> None:
    """The record stays until then; after it nothing can be asked for, and the content is gone."""

    async def story() -> None:
        async with world() as w:
            await worked(w, **OWN)
            await w.until(w.ended)
            await w.session("s2", owner="bob")
            await w.until(w.in_phase("s2", "COMPLETED"))
            await kept_labs.discard(w.services, ADMIN, "s2", "default")
            with pytest.raises(errors.Gone, match="it was deleted"):
                await kept_labs.download(w.services, ADMIN, "s2", "default")
            assert [each.uid for each in await w.store.kept_labs()] == [
                w.get_session("s1").metadata.uid
            ]
            w.process.kill()
            await w.clock.sleep(8.1 * 24 * 3600)  # with nobody running: days cost no turn
            await w.start()
            await w.let_pass(60)
            assert await w.store.kept_labs() == ()
            with pytest.raises(errors.Gone, match="it was kept until"):
                await kept_labs.download(w.services, ADMIN, "s1", "default")

    play(story)


def test_what_is_gone_by_the_import_is_said_and_no_empty_lab_starts() -> None:
    """Nobody is to find an empty lab where their work should be: the session fails in plain words."""

    async def story() -> None:
        async with world() as w:
            await worked(w, **OWN)
            await w.until(w.ended)
            await verbs.cordon(w.services, ADMIN, "w1", "default")
            await w.session("s2", owner="bob", continueFrom="s1")
            with pytest.raises(Refused, match="'s2' is to begin with"):
                await kept_labs.discard(w.services, ADMIN, "s1", "default")
            # As one whose time was over before the worker took the session.
            await w.store.drop_kept_lab(w.get_session("s1").metadata.uid)
            await verbs.cordon(w.services, ADMIN, "w1", "default", closed=False)
            await w.until(w.in_phase("s2", "FAILED"))
            assert "what was kept of session s1 is gone" in w.get_session("s2").status.message

    play(story)


def test_a_deleted_record_takes_its_kept_lab_along_unless_a_session_waits_for_it() -> None:
    """The content of a deleted session goes with the next round of upkeep."""

    async def story() -> None:
        async with world() as w:
            await worked(w, **OWN)
            await w.until(w.ended)
            await verbs.cordon(w.services, ADMIN, "w1", "default")
            await w.session("s2", owner="bob", continueFrom="s1")
            await objects.delete(w.services, ADMIN, KINDS["Session"], "s1", "default")
            await w.let_pass(2000)
            assert len(await w.store.kept_labs()) == 1
            await verbs.cancel(w.services, ADMIN, "s2", "default")
            await w.let_pass(2000)
            assert await w.store.kept_labs() == ()

    play(story)


def test_a_large_lab_waits_for_its_turn_instead_of_being_lost() -> None:
    """Many large labs end together: what is busy is asked again, other trouble is raised."""

    class Crowded:
        """Busy three times, then free."""

        asked = 0

        async def run(self, size: int, work: Any) -> Any:
            self.asked += 1
            if self.asked <= 3:
                raise errors.Temporary("others are read", reason="Busy")
            return work()

    async def story() -> None:
        crowded = Crowded()
        assert await in_turn(crowded, 9, lambda: b"lab") == b"lab"
        assert crowded.asked == 4

    play(story)

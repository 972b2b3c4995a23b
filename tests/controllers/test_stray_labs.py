"""Labs that a lost life of the installation left on servers: known, counted, and removed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_found_workers import by_hand
from virtual_time import play
from worker_cases import up
from world import ADMIN, MACHINE, Process, World, world

from labfleet.controllers.worker.stray_labs import StrayLabs as Finder
from labfleet.controllers.worker.stray_labs import remove
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import alerts, conditions
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.providers.static import StaticSettings
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import Origin, StrayLabs, Worker
from labfleet.service.kinds import left_behind
from labfleet.service.verbs import adoption, settings_verbs

LOST = "00000000-0000-4000-8000-00000000dead"
NOTES = f"labfleet: {LOST}\nof a session that no store knows"


def fact(w: World, worker: str = "w1") -> tuple[str, str, str]:
    found = conditions.find(w.get_worker(worker).status.conditions, "StrayLabs")
    return ("", "", "") if found is None else (found.status, found.reason, found.message)


def strays(w: World, worker: str = "w1") -> StrayLabs:
    return w.get_worker(worker).status.stray_labs


def raised(w: World, worker: str = "w1") -> list[str]:
    found: Worker = w.get_worker(worker)
    return [each.condition for each in alerts.raised(found.key, found.status.conditions)]


def changes(w: World) -> list[str]:
    """Return what was asked for at labs, in order."""
    return [each for each in w.hosts.calls if each.split()[0] in {"stop", "wipe", "delete"}]


def test_labs_of_a_lost_life_are_told_while_paused_and_removed_after_the_resume() -> None:
    """A restored store is paused: the lab is known and its room is nobody's until the resume."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            full = w.get_worker().status.capacity
            assert full is not None
            await settings_verbs.pause(w.services, ADMIN, reason="restored")
            lab = w.hosts.run("w1", "serial:2000", notes=NOTES, nodes=3)
            theirs = w.hosts.run("w1", "serial:2001", notes="a person's own")
            await w.until(lambda: fact(w)[:2] == ("True", "LeftBehind"), hours=0.1)
            assert lab.id in fact(w)[2]
            assert "restored" in fact(w)[2]
            assert raised(w) == ["StrayLabs"]
            [row] = left_behind.suspects(w.cache, w.clock.now())
            assert (row.suspect.kind, row.suspect.id, row.suspect.name) == ("lab", lab.id, "w1")
            assert "restored" in row.suspect.next
            await w.let_pass(3600)
            assert changes(w) == []
            known, left = strays(w), w.get_worker().status.capacity
            assert [each.uid for each in known.labs] == [LOST]
            assert (known.held.nodes, known.held.labs, known.held.ports) == (3, 1, 1)
            assert left is not None
            assert left + known.held == full
            assert w.get_worker().status.foreign_ports == ("tcp/2000", "tcp/2001")

            await settings_verbs.resume(w.services, ADMIN)
            await w.until(lambda: fact(w)[:2] == ("False", "NoStrays"), hours=0.5)
            asked = list(dict.fromkeys(changes(w)))
            assert asked == [f"{verb} {LOST}" for verb in ("stop", "wipe", "delete")]
            assert w.get_worker().status.capacity == full
            assert strays(w) == StrayLabs()
            assert theirs.id in w.hosts.of("w1").labs
            events = await w.store.events_of(w.get_worker().key)
            assert any(f"removing lab {lab.id}" in each.reason for each in events)
            w.check()

    play(story)


def test_the_lab_of_a_session_that_the_store_lost_is_cleared_and_its_ports_are_free() -> None:
    """A session made after the backup: its record is not there any more, its lab runs on."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            full = w.get_worker().status.capacity
            await w.definition()
            lost = await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            used = [port.number for port in w.get_session().status.ports]
            await w.store.commit(
                stores.Commit(
                    cause=stores.Cause("restore", w.clock.now()),
                    writes=(
                        stores.FreePorts("default/w1", lost.metadata.uid),
                        stores.Delete(lost.key),
                    ),
                )
            )
            await w.until(lambda: fact(w)[:2] == ("True", "LeftBehind"), hours=0.1)
            assert strays(w).held.nodes == len(used) == 2
            await w.session("s2")
            await w.until(w.in_phase("s2", "RUNNING"))
            assert not set(used) & {port.number for port in w.get_session("s2").status.ports}
            await w.until(lambda: fact(w)[0] == "False", hours=0.5)
            assert w.hosts.labs_left() == [w.get_session("s2").metadata.uid]
            assert w.get_worker().status.capacity == full
            assert w.get_worker().status.foreign_ports == ()
            w.check()

    play(story)


def test_nothing_is_done_while_the_cache_may_lack_the_session() -> None:
    """The cache has to have read the intent: what it then does not have is not in the store."""

    async def story() -> None:
        async with world() as w:
            context = (await w.start(run=[])).contexts["worker-controller"]
            made = await w.worker()
            await w.definition()
            session = await w.session()
            named = {"lab": "l1", "uid": session.metadata.uid}
            effect = context.effects.open("remove_lab", deadline=8.0, parameters=named)
            nobody: Any = object()  # any call to the server would fail
            for revision, told in ((10**6, "behind the store"), (session.revision, "a session's")):
                worker = msgspec.structs.replace(
                    made,
                    metadata=msgspec.structs.replace(made.metadata, resource_version=str(revision)),
                    status=msgspec.structs.replace(made.status, effect=effect),
                )
                with pytest.raises(errors.LabfleetError, match=told):
                    await remove(context, worker, nobody)

    play(story)


def test_a_stray_lab_is_never_removed_within_its_grace() -> None:
    """Counted from when this process began to watch: nobody ran to see it before."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.run("w1", notes=NOTES)
            await w.until(lambda: strays(w).count == 1, hours=0.1)
            first = strays(w).labs[0].since
            await w.let_pass(200)
            await w.start()
            await w.let_pass(250)
            assert changes(w) == []
            assert strays(w).labs[0].since == first
            await w.until(lambda: changes(w) != [], hours=0.1)
            w.check()

    play(story)


def test_the_lab_of_a_session_is_never_stray_and_that_of_an_ended_one_is() -> None:
    """From its import to its end no look tells of it; what an ended session left is told."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition()
            told: list[int] = []
            w.cache.on_change(Worker, lambda _, new: told.append(new.status.stray_labs.count))
            made = await w.session()
            await w.until(w.ended)
            assert w.phase("s1") == SessionPhase.COMPLETED
            assert set(told) == {0}
            w.hosts.run("w1", notes=f"labfleet: {made.metadata.uid}")
            await w.until(lambda: fact(w)[0] == "True", hours=0.1)
            await w.until(lambda: fact(w)[0] == "False", hours=0.5)
            w.check()

    play(story)


@pytest.mark.parametrize("mode", ["crash-before", "crash-after", "lost-after", "refuse-before"])
@pytest.mark.parametrize("verb", ["wipe", "delete", "commit"])
def test_a_removal_that_is_struck_ends_all_the_same(mode: str, verb: str) -> None:
    """Each of its calls is safe to repeat, and each has an open effect in the store."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.run("w1", notes=NOTES)
            await w.until(lambda: strays(w).count == 1, hours=0.1)
            struck: list[str] = []

            def strike(name: str, _: int) -> str | None:
                if name == verb and not struck:
                    struck.append(name)
                    return mode
                return None

            w.strike = strike
            await w.until(lambda: w.hosts.labs_left() == [], hours=1)
            await w.until(lambda: strays(w) == StrayLabs(), hours=0.2)
            assert struck == [verb]
            w.check()

    play(story)


def test_a_marker_that_a_person_takes_away_makes_the_lab_theirs() -> None:
    """The notes are read again before each removal, and now and then while nothing is removed."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            lab = w.hosts.run("w1", notes=NOTES)
            await w.until(lambda: strays(w).count == 1, hours=0.1)
            lab.notes = "kept"
            await w.until(lambda: strays(w).count == 0, hours=1)
            await w.let_pass(3600)
            assert changes(w) == []
            assert fact(w)[0] == "False"
            w.check()

    play(story)


def test_a_lab_that_cannot_be_removed_is_told_and_not_hammered() -> None:
    """It is tried once in a grace, the worker works on, and the alert has CML's words."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.run("w1", notes=NOTES)
            w.hosts.fail("stop")
            await w.until(lambda: "stop: 500" in fact(w)[2], hours=0.5)
            await w.let_pass(3000)
            tries = [each for each in await w.store.events_of(w.get_worker().key)
                     if each.reason.startswith("removing lab")]  # fmt: skip
            assert 3 <= len(tries) <= 11
            assert w.phase("w1") == "READY"
            w.hosts.refusals = {}
            await w.until(lambda: fact(w)[0] == "False", hours=0.5)

    play(story)


def test_a_server_at_an_address_is_only_told_of() -> None:
    """Its labs may be another installation's: a marker does not say whose."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            other = await by_hand(w)
            await w.let_pass(1000)
            await w.make("Template", "metal", {"machine": MACHINE})
            await adoption.adopt_server(
                w.services, ADMIN, f"https://{other.public_ip}", template="metal", name="lab-9",
                namespace="default",
            )  # fmt: skip
            await w.until(w.in_phase("lab-9", "READY"))
            w.hosts.run(other.request.worker, notes=NOTES)
            await w.until(lambda: fact(w, "lab-9")[:2] == ("True", "SharedServer"), hours=0.1)
            [alert] = alerts.raised(
                w.get_worker("lab-9").key, w.get_worker("lab-9").status.conditions
            )
            assert "are another installation's" in alert.cause
            await w.let_pass(7200)
            assert changes(w) == []
            assert strays(w, "lab-9").count == 1

    play(story)


def test_a_lost_look_at_the_nodes_forgets_nothing() -> None:
    """An error is not "none there": what is known of stray labs stays, and none is removed."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.run("w1", notes=NOTES)
            await w.until(lambda: strays(w).count == 1, hours=0.1)
            before = w.get_worker().status
            w.hosts.fail("all nodes")
            await w.let_pass(1800)
            assert strays(w) == before.stray_labs
            assert w.get_worker().status.capacity == before.capacity
            assert fact(w)[:2] == ("Unknown", "NotRenewed")
            assert changes(w) == []
            w.hosts.refusals = {}
            await w.until(lambda: w.hosts.labs_left() == [], hours=0.5)
            w.check()

    play(story)


ADDRESS = Origin(kind="external", url="https://cml.lab", managed=True)
TAKEN = Origin(kind="imported", instance_id="i-1", region="r", managed=True)


@pytest.mark.parametrize(
    ("origin", "provider", "shared"),
    [
        (None, AwsSettings(ami_id="ami-1", instance_types=("m",), subnet_ids=("s",)), False),
        (None, StaticSettings(site="lab"), True),
        (TAKEN, AwsSettings(ami_id="ami-1", instance_types=("m",), subnet_ids=("s",)), True),
        (ADDRESS, StaticSettings(site="lab"), True),
    ],
)
def test_labs_are_removed_only_where_we_launched_the_machine(
    origin: Origin | None, provider: Any, shared: bool
) -> None:
    """A server that was there before us may have another installation's labs."""

    async def story() -> None:
        async with world() as w:
            process = await w.start(run=[])
            made = await w.worker()
            machine = msgspec.structs.replace(made.spec.machine, provider=provider)
            spec = msgspec.structs.replace(made.spec, machine=machine, origin=origin)
            rules = finder(process).rules(msgspec.structs.replace(made, spec=spec))
            assert rules.shared is shared
            assert rules.hold == ""

    play(story)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"paused": True}, "paused"),
        ({"garbage": {"enabled": False}}, "garbage.enabled"),
        ({"garbage": {"dryRun": True}}, "garbage.dryRun"),
    ],
)
def test_what_holds_garbage_collection_holds_the_removal_of_labs(
    settings: dict[str, Any], told: str
) -> None:
    """One set of switches for all that is ended because nobody owns it."""

    async def story() -> None:
        async with world() as w:
            process = await w.start(run=[])
            made = await w.worker()
            if "paused" in settings:
                await settings_verbs.pause(w.services, ADMIN)
            else:
                await w.make("Settings", "fleet", settings)
            await w.let_pass(10)
            assert told in finder(process).rules(made).hold

    play(story)


def finder(process: Process) -> Finder:
    return Finder(process.contexts["worker-controller"])

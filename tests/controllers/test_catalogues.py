"""What no server of a track has is known before a machine is launched, where one was seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from fleet_cases import ready
from virtual_time import play
from world import ADMIN, MACHINE, TOPOLOGY, World, world

from cml_simulator.core import definition_store
from labfleet.controllers import catalogues
from labfleet.controllers.definitions import KEY as DEFINITIONS
from labfleet.interfaces.compute import Image as MachineImage
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.definition import Definition, DefinitionCondition
from labfleet.resources.image import Image
from labfleet.resources.kinds import KINDS
from labfleet.resources.worker import Worker
from labfleet.service.reads.explain import explain

OWN = TOPOLOGY.replace("node_definition: alpine", "node_definition: my-own", 1)
IMAGE = TOPOLOGY.replace("x: 9", "x: 9, image_definition: alpine-next", 1)
SCALING = {"minWorkers": 0, "maxWorkers": 3, "emptySeconds": 600, "cooldownUpSeconds": 0}
PATTERN = {**MACHINE["provider"], "amiId": None, "amiNamePattern": "cml-*", "amiOwners": ["self"]}


def judged(definition: Definition) -> tuple[str, str]:
    """The condition of a definition: status and sentence."""
    found = conditions.find(definition.status.conditions, DefinitionCondition.AVAILABLE)
    return ("", "") if found is None else (found.status, found.message)


def available(w: World, name: str) -> tuple[str, str]:
    """The same of the definition of this name, as everybody sees it."""
    definition = w.cache.get(Definition, name, "default")
    return ("", "") if definition is None else judged(definition)


def seen(w: World, name: str = "ami-1") -> Image | None:
    return w.cache.get(Image, name, "default")


def launches(w: World) -> int:
    return sum(each.startswith("launch") for each in w.compute.calls)


async def emptied(w: World, **pool: Any) -> None:
    """A pool without workers whose image was seen: it had one session, and shrank to nothing."""
    await w.start()
    await w.pool(scaling=SCALING, **pool)
    assert judged(await w.definition())[0] == "Unknown"
    await w.session("first")
    await w.until(w.ended)
    assert w.phase("first") == "COMPLETED"
    await w.until(lambda: w.cache.all(Worker) == ())
    await w.until(lambda: available(w, "two") == ("True", ""), hours=0.1)


def add(w: World, name: str) -> None:
    """Add a node definition with an image to the servers that are up now."""
    for server in w.cloud.cml_servers.fleet.servers.values():
        store = server.definition_store
        body = {**store.body("alpine"), "id": name}
        definition_store.put_node_definition(store, body, new=True)
        image = {"id": f"{name}-1", "node_definition_id": name, "label": name}
        definition_store.put_image(store, image, new=True)


def test_an_empty_pool_launches_nothing_for_a_lab_that_its_image_cannot_run() -> None:
    """The definition says so when it is made, the session waits with the cause, nothing is paid."""

    async def story() -> None:
        async with world() as w:
            await emptied(w)
            before = launches(w)
            for name, text, lack in (
                ("own", OWN, "node definition my-own"),
                ("image", IMAGE, "image definition alpine-next"),
            ):
                told = f"no worker of its track has it: pool p1 has no {lack}"
                assert judged(await w.definition(name, topology=text)) == ("False", told)
                await w.session(name, definition=name)
                await w.until(w.told(name, "MissingDefinitions"))
                assert w.get_session(name).status.message == told
                why = await explain(w.services, ADMIN, KINDS["Definition"], name, "default")
                assert f"{told}; its sessions wait" in why.summary
            await w.let_pass(3600)
            assert (launches(w), w.phase("own"), w.phase("image")) == (before, "PENDING", "PENDING")
            await w.session("again")
            await w.until(w.in_phase("again", "COMPLETED"))
            w.check()

    play(story)


def test_an_image_that_was_not_seen_holds_nothing_up() -> None:
    """A pool whose pattern finds a new image boots for the lab: it may have what the old lacked."""

    async def story() -> None:
        async with world() as w:
            await w.make("Template", "newest", {"machine": {**MACHINE, "provider": PATTERN}})
            await emptied(w, template="newest")
            assert judged(await w.definition("own", topology=OWN))[0] == "False"
            before = launches(w)
            w.cloud.images = [MachineImage("ami-2", "cml-2.10", w.clock.now())]
            await w.session(definition="own")
            await w.let_pass(60)
            assert launches(w) == before
            await w.until(lambda: launches(w) > before)
            assert available(w, "own")[0] == "Unknown"
            await w.until(w.ended)
            assert "Node definition not found: my-own" in w.get_session().status.message
            await w.until(lambda: available(w, "own")[0] == "False")
            assert seen(w, "ami-2") is not None
            w.check()

    play(story)


def test_what_people_add_to_a_server_is_found_within_the_hour() -> None:
    """A waiting session is placed once its worker was seen to have the definition."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(lambda: seen(w) is not None)
            await w.definition("own", topology=OWN)
            await w.session(definition="own")
            await w.until(w.told("s1", "MissingDefinitions"))
            add(w, "my-own")
            await w.until(w.in_phase("s1", "RUNNING", "COMPLETED"), hours=1.5)
            assert available(w, "own") == ("True", "")
            w.check()

    play(story)


def test_of_two_images_the_one_that_has_it_gets_the_session() -> None:
    """A worker that lacks a definition is passed over for one that has it, though it is fuller."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            add(w, "my-own")
            provider = {**MACHINE["provider"], "amiId": "ami-2"}
            await w.worker("w0", machine={**MACHINE, "provider": provider})
            await w.until(lambda: seen(w, "ami-2") is not None and w.phase("w0") == "READY")
            await w.until(lambda: available_names(w) >= {"my-own"}, hours=2)
            await w.definition("own", topology=OWN)
            for name in ("s1", "s2"):
                await w.session(name, definition="own")
                await w.until(w.in_phase(name, "RUNNING"))
                assert w.get_session(name).status.worker == "w1"
            w.check()

    def available_names(w: World) -> set[str]:
        image = seen(w)
        return set() if image is None else {*image.status.seen.node_definitions}

    play(story)


def test_a_server_is_asked_once_a_boot_and_then_rarely() -> None:
    """In six hours of one worker: a look each hour, and no write while nothing is new."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(lambda: seen(w) is not None)
            w.hosts.calls.clear()
            before = await w.events("Image", "ami-1")
            await w.let_pass(6 * 3600)
            assert 5 <= sum(each.startswith("catalogue") for each in w.hosts.calls) <= 7
            assert await w.events("Image", "ami-1") == before

    play(story)


def test_a_server_that_does_not_say_is_asked_again_and_counts_as_not_seen() -> None:
    """An error is no empty catalogue: the lab is not held up, and the next look is soon."""

    async def story() -> None:
        async with world() as w:
            w.hosts.refusals["catalogue"] = errors.Protocol("broken answer")
            await ready(w)
            await w.definition("own", topology=OWN)
            await w.let_pass(900)
            assert (seen(w), available(w, "own")[0]) == (None, "Unknown")
            del w.hosts.refusals["catalogue"]
            await w.until(lambda: seen(w) is not None, hours=0.2)
            await w.until(lambda: available(w, "own")[0] == "False", hours=0.1)

    play(story)


def test_an_image_is_forgotten_long_after_its_last_worker() -> None:
    """What is known of an image outlives its workers, and not for ever."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(lambda: seen(w) is not None)
            image = seen(w)
            assert image is not None
            long_ago = w.clock.now() - catalogues.KEPT - timedelta(days=1)
            await w.status(image, last_seen_at=long_ago)
            await w.until(lambda: seen(w) is None, hours=0.1)
            await w.until(lambda: seen(w) is not None, hours=1.5)

    play(story)


def test_a_stored_definition_of_before_gets_its_condition() -> None:
    """A definition without the condition, as earlier revisions stored it, is judged within minutes."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            old = w.cache.get(Definition, "two", "default")
            assert old is not None
            await w.status(old, conditions=())
            assert w.process is not None
            await w.process.reconcile("definition", DEFINITIONS)
            found = w.cache.get(Definition, "two", "default")
            assert found is not None
            assert msgspec.structs.replace(found.status, conditions=()) == (
                msgspec.structs.replace(old.status, conditions=())
            )
            await w.until(lambda: bool(available(w, "two")))

    play(story)

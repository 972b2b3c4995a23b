"""A person's webhook: that person's sessions alone, as that person sees them, and at no cost else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
from datetime import timedelta
from typing import Any

import pytest
from virtual_time import play
from webhook_cases import KEY, FakeDeliveries, begun, hook, rounds
from world import World, world

from labfleet.controllers.webhooks import WebhookController
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import LabStatus, Session
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller
from labfleet.service.reads import notices, raised
from labfleet.service.verbs import lifecycle as verbs

ANN = Caller(Principal("t-ann", Role.USER, "ann"))


async def up(w: World, owner: str, name: str) -> Session:
    """Return a session of an owner whose lab is up."""
    shown = MachineStatus(id="i-1", state="running", public_address="198.51.100.7")
    if w.phase("w1") is None:
        await w.status(await w.worker("w1"), phase="ACTIVE", machine=shown)
        await w.definition("d1")
    made = await w.make("Session", name, {"definition": "d1", "owner": owner})
    lab = LabStatus(title="t", marker="m", id="lab-1", state="STARTED")
    made = await w.status(made, phase="INSTANTIATING", worker="w1", lab=lab)
    stored: Session = await w.status(made, phase="READY", ready_at=w.clock.now())
    return stored


def test_an_owner_hears_of_their_own_sessions_and_nothing_else() -> None:
    """Neither of others' sessions, nor of workers and definitions, whatever the types say."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, owner="ann", types=["*"])
            await up(w, "bob", "theirs")
            await up(w, "ann", "mine")
            await rounds(w, controller)
            assert {each[1]["subject"] for each in sender.posts} == {"sessions/mine"}
            assert {"session.created", "notice.booked", "notice.ready"} <= set(sender.types())

    play(story)


def test_an_owner_sees_in_a_webhook_what_the_policy_shows_them() -> None:
    """The object is that of the owner's own reading: no page of CML under the default policy."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, owner="ann", types=["session.status.changed"])
            await up(w, "ann", "mine")
            await rounds(w, controller)
            access = sender.posts[-1][1]["data"]["object"]["status"]["access"]
            assert access["host"] == "198.51.100.7"
            assert "labUrl" not in access or access["labUrl"] is None

    play(story)


def test_a_notice_has_a_link_to_sign_in_behind_and_no_object() -> None:
    """It may be handed on: recipient, sentence, facts; where the lab is stays behind the link."""

    async def story() -> None:
        async with world() as w:
            fleet = {"notices": {"pagesUrl": "https://fleet.example.org"}}
            await w.make("Settings", "fleet", fleet)
            controller, sender = await begun(w, types=["notice.*"])
            made = await up(w, "ann", "mine")
            await rounds(w, controller)
            assert sender.types() == ["notice.booked", "notice.ready"]
            data = sender.posts[-1][1]["data"]
            page = f"https://fleet.example.org/sessions/mine?uid={made.metadata.uid}"
            assert data["link"] == page
            assert data["recipient"] == {"owner": "ann"}
            assert data["subject"].startswith("Your lab d1 (mine) is ready")
            assert "object" not in data
            assert b"198.51.100.7" not in sender.posts[-1][3]

    play(story)


def test_while_keys_are_changed_either_key_is_right() -> None:
    """With a previous secret there are two signatures, of the new key and of the old one."""

    async def story() -> None:
        async with world() as w:
            keys = {"secret": {"env": "NEW"}, "previousSecret": {"env": "OLD"}}
            controller, sender = await begun(w, **keys)
            w.secrets.values.update(NEW="n3w", OLD="0ld")
            await w.worker("w1")
            await rounds(w, controller)
            _, _, headers, body = sender.posts[0]
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            made = [
                "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
                for key in (b"n3w", b"0ld")
            ]
            assert headers["webhook-signature"] == " ".join(made)

    play(story)


class CountedLog:
    """Counts the pages that are read of a log."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.pages = 0

    async def events(self, after: stores.Cursor, *, limit: int = 1000) -> stores.EventPage:
        """Read a page."""
        self.pages += 1
        found: stores.EventPage = await self.log.events(after, limit=limit)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


def test_what_others_do_costs_a_persons_webhook_no_reading() -> None:
    """Its place moves on with the log unread; what is its owner's is then read, each event once."""

    async def story() -> None:
        async with world() as w:
            process = await w.start(run=())
            await w.make("Webhook", "h", {"url": "https://hooks.example.com/x", "owner": "ann"})
            sender, log = FakeDeliveries(), CountedLog(w.store)
            context = process.contexts["scheduler"]
            controller = WebhookController(context, sender, w.rng, log)
            woken: list[Any] = []
            w.cache.on_change(Session, lambda *pair: woken.extend(controller.woken(*pair)))
            await rounds(w, controller, 2)
            before = log.pages
            await up(w, "bob", "theirs")
            for _ in range(10):
                await rounds(w, controller, 1)
            assert (log.pages, woken) == (before, [])
            await up(w, "ann", "mine")
            assert set(woken) == {KEY}
            await rounds(w, controller, 4)
            assert before < log.pages <= before + 2
            assert sender.types().count("notice.ready") == 1
            assert {each[1]["subject"] for each in sender.posts} == {"sessions/mine"}

    play(story)


def test_a_failed_notice_comes_again_with_its_id_and_nothing_is_passed_over() -> None:
    """A person's webhook that failed is read again from where it stood, whoever else acts."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, owner="ann", types=["notice.*"])
            await up(w, "ann", "mine")
            sender.answers = [500]
            again = await rounds(w, controller, 1)
            await up(w, "bob", "theirs")
            await w.clock.sleep(again + 1)
            await rounds(w, controller)
            assert sender.types() == ["notice.booked", "notice.booked", "notice.ready"]
            assert sender.posts[0][1]["id"] == sender.posts[1][1]["id"]
            assert hook(w).status.failures == 0

    play(story)


def test_a_persons_failing_webhook_is_no_alert_of_the_fleet() -> None:
    """Two hundred people's wrong addresses would hide what the fleet's operators have to mend."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, owner="ann")
            await up(w, "ann", "mine")
            sender.answers = [errors.Unreachable("away")]
            await rounds(w, controller, 1)
            assert hook(w).status.failures == 1
            assert [each for each in raised.standing(w.services) if "webhook" in each.object] == []

    play(story)


def test_an_extension_is_told_once_with_both_ends() -> None:
    """The verb's one commit is one notice, beside the event that programs know."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(
                w, owner="ann", types=["notice.*", "session.timeslot.*"]
            )
            made = await up(w, "ann", "mine")
            end = w.clock.now() + timedelta(hours=1)
            await w.status(made, phase="RUNNING", end=end)
            await rounds(w, controller)
            sender.posts.clear()
            await verbs.extend(w.services, ANN, "mine", "default", by=timedelta(hours=1))
            await rounds(w, controller)
            assert sender.types() == ["session.timeslot.extended", "notice.extended"]
            assert sender.posts[1][1]["data"]["before"] == format_instant(end)

    play(story)


@pytest.mark.parametrize("seed", range(4))
def test_after_kills_and_failures_no_notice_is_lost_and_none_has_two_ids(seed: int) -> None:
    """What arrives, each id once, is what the log says that the owner was to be told."""

    async def story() -> None:
        async with world() as w:
            drawn = random.Random(seed)
            controller, sender = await begun(w, owner="ann", types=["notice.*"])
            arrived: list[tuple[str, str, str]] = []
            made: dict[str, Session] = {}
            for number in range(6):
                owner = drawn.choice(["ann", "bob"])
                made[f"s{number}"] = await up(w, owner, f"s{number}")
                if drawn.random() < 0.5:
                    await w.status(made[f"s{number}"], phase="FAILED", message="no power")
                sender.answers = [drawn.choice([200, 500, 200]) for _ in range(3)]
                await w.clock.sleep(await rounds(w, controller, 1) + 1)
                if drawn.random() < 0.6:  # this process dies; another one leads
                    arrived += _good(sender)
                    sender = FakeDeliveries()
                    context = (await w.start(run=())).contexts["scheduler"]
                    controller = WebhookController(context, sender, w.rng, w.store)
            sender.answers = []
            for _ in range(12):
                await w.clock.sleep(max(1.0, await rounds(w, controller, 1)))
            arrived += _good(sender)
            due = [
                (str(each.notice.type), name)
                for name, session in made.items()
                if session.spec.owner == "ann"
                for each in notices.told(
                    (await w.store.events_of(session.key, limit=50))[::-1],
                    uid=session.metadata.uid,
                )
            ]
            assert sorted({(kind, name) for _, kind, name in arrived}) == sorted(due)
            assert len({each[0] for each in arrived}) == len(due)

    play(story)


def _good(sender: FakeDeliveries) -> list[tuple[str, str, str]]:
    """Return id, type and session of what was posted; what was refused comes again."""
    return [
        (said["id"], said["type"], said["data"]["session"]["name"])
        for _, said, _, _ in sender.posts
    ]

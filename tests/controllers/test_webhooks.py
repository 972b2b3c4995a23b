"""Webhooks: in order, at least once, signed, bounded, and never fed by themselves."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import msgspec
import pytest
from virtual_time import play
from webhook_cases import KEY, FakeDeliveries, begun, hook, rounds
from world import world

from labfleet.controllers import upkeep, webhooks
from labfleet.controllers.webhooks import WebhookController
from labfleet.interfaces import store as stores
from labfleet.interfaces.outside import Answered
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import LabStatus
from labfleet.resources.webhook import Webhook
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller
from labfleet.service.reads import raised
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects

ADMIN = Caller(Principal("ada", Role.ADMIN, "ada"))


def test_events_arrive_in_order_as_cloudevents() -> None:
    """A worker's making, cordon and phase are three named events with their object."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            made = await w.worker("w1")
            await verbs.cordon(w.services, ADMIN, "w1", "default")
            await w.status(made, phase="FAILED", summary="failed")
            await rounds(w, controller)
            assert sender.types() == ["worker.created", "worker.cordoned", "worker.status.updated"]
            _, first, headers, _ = sender.posts[0]
            assert (first["specversion"], first["subject"]) == ("1.0", "workers/w1")
            assert first["data"]["object"]["metadata"]["name"] == "w1"
            versions = [int(each[1]["data"]["object"]["metadata"]["resourceVersion"])
                        for each in sender.posts]  # fmt: skip
            assert versions[0] == made.revision
            assert versions == sorted(set(versions))
            logged = await w.store.events_of(made.key, limit=9)
            assert versions == sorted(each.revision for each in logged)
            assert first["objectuid"] == made.metadata.uid
            assert headers["content-type"] == "application/cloudevents+json"
            assert "webhook-signature" not in headers
            ids = [each[1]["id"] for each in sender.posts]
            assert len(set(ids)) == 3
            assert sender.posts[2][1]["data"]["new_phase"] == "FAILED"

    play(story)


def test_a_session_comes_with_where_its_lab_is_now() -> None:
    """Of the worker's address at the delivery, however old the event is; versions are told too."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, types=["session.status.changed"])
            shown = MachineStatus(id="i-1", state="running", public_address="198.51.100.7")
            worker = await w.status(await w.worker("w1"), phase="ACTIVE", machine=shown)
            await w.definition("d1")
            made = await w.make("Session", "s1", {"definition": "d1"})
            lab = LabStatus(title="t", marker="m", id="lab-1", state="STARTED")
            up = {"worker": "w1", "lab": lab, "ready_at": w.clock.now()}
            await w.status(made, phase="RUNNING", **up)
            again = msgspec.structs.replace(shown, public_address="203.0.113.9")
            await w.status(worker, machine=again)
            await rounds(w, controller)
            obj = sender.posts[-1][1]["data"]["object"]
            assert obj["status"]["phase"] == "RUNNING"
            assert obj["status"]["access"]["labUrl"] == "https://203.0.113.9/lab/lab-1"
            assert obj["metadata"]["resourceVersion"] != ""

    play(story)


def test_only_what_was_subscribed_is_sent() -> None:
    """Types are globs; webhooks' own writes are never events."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, types=["worker.cordon*"])
            await w.worker("w1")
            await verbs.cordon(w.services, ADMIN, "w1", "default")
            await rounds(w, controller, 6)
            assert sender.types() == ["worker.cordoned"]

    play(story)


def test_a_secret_signs_the_body() -> None:
    """The signature is that of the Standard Webhooks scheme, over id, time and body."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, secret={"env": "HOOK"})
            w.secrets.values["HOOK"] = "s3cret"
            await w.worker("w1")
            await rounds(w, controller)
            _, _, headers, body = sender.posts[0]
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            digest = hmac.new(b"s3cret", signed, hashlib.sha256).digest()
            assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
            assert b"s3cret" not in body

    play(story)


@pytest.mark.parametrize("bad", [500, 302, errors.Unreachable("away"), errors.Denied("private")])
def test_a_failed_delivery_is_repeated_with_the_same_id(bad: int | errors.LabfleetError) -> None:
    """It backs off, says why, and goes on at the same event; nothing is skipped."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            await w.worker("w1")
            sender.answers = [bad]
            again = await rounds(w, controller, 1)
            assert 2.5 <= again <= 5.0
            status = hook(w).status
            assert (status.failures, status.conditions[0].status) == (1, "False")
            assert status.last_error
            assert await rounds(w, controller, 1) > 0  # still waiting: nothing is sent
            good = [each for each in sender.posts if each[1]["type"] == "worker.created"]
            before = len(good)
            await w.clock.sleep(again + 1)
            await rounds(w, controller)
            assert [each[1]["type"] for each in sender.posts][before:] == ["worker.created"]
            assert hook(w).status.failures == 0
            assert len({each[1]["id"] for each in sender.posts}) == 1

    play(story)


@pytest.mark.parametrize(
    ("answer", "least", "most"),
    [
        (Answered(429, 120.0), 120.0, 120.0),
        (Answered(503, 120.0), 120.0, 120.0),
        (Answered(429, 1e9), 3600.0, 3600.0),  # an hour, as without being asked
        (Answered(429, 0.0), 2.5, 5.0),  # never earlier than by our own back-off
        (Answered(429), 2.5, 5.0),
    ],
)
def test_a_receiver_says_how_long_it_wants_to_be_left_alone(
    answer: Answered, least: float, most: float
) -> None:
    """Retry-After is kept within bounds: not earlier than our own back-off, at most an hour."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            await w.worker("w1")
            sender.answers = [answer]
            assert least <= await rounds(w, controller, 1) <= most
            tries = len(sender.posts)
            await w.clock.sleep(least - 1)
            await rounds(w, controller)
            assert len(sender.posts) == tries
            await w.clock.sleep(most - least + 2)
            await rounds(w, controller)
            assert len(sender.posts) == tries + 1
            assert hook(w).status.failures == 0

    play(story)


def test_a_receiver_that_is_gone_is_left_alone_until_somebody_says_otherwise() -> None:
    """410 switches the webhook off with its reason and an event; a PATCH takes it up again."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            await w.worker("w1")
            sender.answers = [410]
            assert await rounds(w, controller, 1) == -1.0  # Done: no next round is asked for
            found = hook(w)
            fact = found.status.conditions[0]
            assert (found.spec.enabled, fact.status, fact.reason) == (False, "False", "Gone")
            assert (found.status.last_status, found.status.retry_at) == (410, None)
            newest = (await w.store.events_of(KEY, limit=1))[0]
            assert (newest.actor, newest.reason.partition(":")[0]) == ("webhooks", "Gone")
            assert [each.condition for each in raised.standing(w.services)] == ["Delivering"]
            tries = len(sender.posts)
            await w.clock.sleep(86_000)
            await rounds(w, controller)
            assert len(sender.posts) == tries
            await objects.patch(
                w.services, ADMIN, KINDS["Webhook"], "h", {"spec": {"enabled": True}},
                namespace="default",
            )  # fmt: skip
            await rounds(w, controller)
            assert [each[1]["type"] for each in sender.posts][tries:] == ["worker.created"]
            assert hook(w).status.conditions[0].status == "True"
            assert raised.standing(w.services) == ()

    play(story)


def test_a_changed_url_is_tried_at_once() -> None:
    """Nobody waits an hour for a back-off that belonged to the wrong address."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            await w.worker("w1")
            sender.answers = [500] * 6
            for _ in range(6):
                await w.clock.sleep(await rounds(w, controller, 1))
            fresh = await w.services.objects.get(Webhook, "h", "default")
            assert fresh is not None
            spec = msgspec.structs.replace(fresh.spec, url="https://other.example.com/")
            metadata = msgspec.structs.replace(
                fresh.metadata, generation=fresh.metadata.generation + 1
            )
            changed = msgspec.structs.replace(fresh, spec=spec, metadata=metadata)
            await w.services.objects.save(changed, cause=stores.Cause("ada", w.clock.now()))
            await rounds(w, controller)
            assert sender.posts[-1][0] == "https://other.example.com/"

    play(story)


def test_a_new_process_repeats_and_loses_nothing() -> None:
    """What was delivered after the last stored place comes again, with the same id."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            for name in ("w1", "w2", "w3"):
                await w.worker(name)
                await rounds(w, controller)
            again = FakeDeliveries()
            process = await w.start(run=())
            reborn = WebhookController(process.contexts["scheduler"], again, w.rng, w.store)
            await w.worker("w4")
            await rounds(w, reborn, 4)
            names = [each[1]["subject"] for each in sender.posts + again.posts]
            assert set(names) == {f"workers/w{n}" for n in range(1, 5)}
            first = {each[1]["subject"]: each[1]["id"] for each in sender.posts}
            for each in again.posts:
                assert first.get(each[1]["subject"], each[1]["id"]) == each[1]["id"]

    play(story)


def test_a_receiver_away_for_a_day_loses_the_oldest_and_is_told() -> None:
    """Events older than a day are dropped and counted; the young ones arrive."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            await w.worker("w1")
            sender.answers = [errors.Unreachable("away")]
            await rounds(w, controller, 1)
            await w.clock.sleep(25 * 3600.0)
            await w.worker("w2")
            await rounds(w, controller)
            assert [each[1]["subject"] for each in sender.posts] == ["workers/w2"]
            assert (hook(w).status.dropped, hook(w).status.delivered) == (1, 1)

    play(story)


def test_a_slow_receiver_does_not_hold_the_others_turn() -> None:
    """A round ends after some seconds, whatever is due; the next one goes on where it was."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            for number in range(8):
                await w.worker(f"w{number}")
            quick = sender.post

            async def slow(*args: Any, **how: Any) -> int:
                await w.clock.sleep(9.0)
                return await quick(*args, **how)

            sender.post = slow  # type: ignore[method-assign]
            assert await rounds(w, controller, 1) == 0.0
            assert len(sender.posts) == 2
            await rounds(w, controller, 4)
            assert [each[1]["subject"] for each in sender.posts] == [
                f"workers/w{number}" for number in range(8)
            ]

    play(story)


def test_another_webhook_of_the_same_name_hears_nothing_from_before_it() -> None:
    """Deleted and made again at once: the new receiver has no claim to the old one's backlog."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            await w.worker("w1")
            sender.answers = [500]
            await rounds(w, controller, 1)
            old = hook(w)
            gone = msgspec.structs.replace(
                old.metadata, deletion_timestamp=w.clock.now(), finalizers=()
            )
            cause = stores.Cause("ada", w.clock.now())
            await w.services.objects.save(msgspec.structs.replace(old, metadata=gone), cause=cause)
            await w.make("Webhook", "h", {"url": "https://other.example.com/"})
            sender.posts.clear()
            await rounds(w, controller, 1)
            await w.worker("w2")
            await rounds(w, controller)
            assert [each[1]["subject"] for each in sender.posts] == ["workers/w2"]

    play(story)


def test_a_leader_again_goes_on_where_the_other_one_stopped() -> None:
    """What this process remembers of an earlier time of leading is older than what is stored."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            await w.worker("w1")
            await rounds(w, controller)
            status = msgspec.structs.replace(hook(w).status, cursor=str(await w.store.head()))
            await w.worker("w2")
            status = msgspec.structs.replace(status, cursor=str(await w.store.head()))
            await w.services.objects.save(
                msgspec.structs.replace(hook(w), status=status),
                cause=stores.Cause("the other leader", w.clock.now()),
            )
            controller.context.leadership.fence = stores.Fence("scheduler", 7)  # type: ignore[misc]
            await w.worker("w3")
            await rounds(w, controller, 1)
            assert [each[1]["subject"] for each in sender.posts] == ["workers/w1", "workers/w3"]

    play(story)


def test_an_event_that_cannot_be_read_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another program wrote, in a form that this one refuses, is passed over."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            for name in ("w1", "w2"):
                await w.worker(name)
            await w.services.fresh()
            read = webhooks.kinds.decode

            def decode(kind: str, doc: bytes, revision: int) -> Any:
                if b'"w1"' in doc:
                    raise msgspec.ValidationError("unknown field")
                return read(kind, doc, revision)

            monkeypatch.setattr(webhooks.kinds, "decode", decode)
            await controller.reconcile(KEY)
            monkeypatch.setattr(webhooks.kinds, "decode", read)
            assert [each[1]["subject"] for each in sender.posts] == ["workers/w2"]

    play(story)


def test_the_log_waits_for_webhooks_within_a_bound() -> None:
    """Compaction keeps what a webhook has not got, and never more than its bound."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w)
            place = webhooks.oldest_cursor([hook(w)])
            assert place is not None
            assert upkeep.EVENTS_HELD > upkeep.EVENTS_KEPT
            for name in ("w1", "w2"):
                await w.worker(name)
            await w.store.compact(w.clock.now(), keep=0)
            await rounds(w, controller)
            told = [each.reason for each in hook(w).status.conditions]
            assert told == ["EventsMissed"]
            await w.worker("w3")
            await rounds(w, controller)
            assert sender.posts[-1][1]["subject"] == "workers/w3"

    play(story)


@pytest.mark.parametrize(
    ("types", "names"),
    [
        (["lablet_session.*"], ["lablet_session.observe_resources_requested.v1"]),
        (["session.observe_requested"], ["session.observe_requested"]),
        (["*", "lablet_session.*.v1"], ["session.observe_requested"]),
        (["lablet_session.port_drift_detected.v1"], []),
    ],
)
def test_an_event_is_sent_by_the_name_by_which_it_was_asked_for(types, names) -> None:
    """Upstream's name where only that is meant, else ours; never both."""

    async def story() -> None:
        async with world() as w:
            await w.definition()
            await w.session("s")
            await w.status(w.get_session("s"), phase="RUNNING")
            controller, sender = await begun(w, types=types)
            await verbs.observe(w.services, ADMIN, "s", "default")
            await rounds(w, controller)
            assert sender.types() == names
            if names:
                assert sender.posts[0][1]["data"]["by"] == "ada"

    play(story)

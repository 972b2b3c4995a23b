"""What changes are called: every name is documented, and nothing is said of nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from fleet_world import World

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.alerts import ALERTS, Alert
from labfleet.resources.conditions import Status
from labfleet.resources.kinds import KINDS
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec
from labfleet.resources.worker import (
    CmlStatus,
    Health,
    IdleStatus,
    LicenceOrder,
    LicenceProgress,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerSpec,
)
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.event_types import changes, types
from labfleet.service.core.service_context import Caller
from labfleet.service.kinds.webhook import url_problem
from labfleet.service.verbs import objects

NOW = datetime(2026, 11, 28, 9, tzinfo=UTC)
BASE = Worker(metadata=Metadata(name="w"), spec=WorkerSpec())


def worker(**status: object) -> Worker:
    """Return the base worker with these status fields."""
    return msgspec.structs.replace(BASE, status=msgspec.structs.replace(BASE.status, **status))


def spec(**fields: object) -> Worker:
    """Return the base worker with these spec fields."""
    return msgspec.structs.replace(BASE, spec=msgspec.structs.replace(BASE.spec, **fields))


@pytest.mark.parametrize(
    ("new", "name"),
    [
        (worker(phase=WorkerPhase.READY), "worker.status.updated"),
        (worker(phase=WorkerPhase.TERMINATED), "worker.terminated"),
        (worker(phase=WorkerPhase.DRAINING), "worker.draining"),
        (worker(phase=WorkerPhase.LICENSING), "worker.license.registration.started"),
        (worker(health=Health.DEGRADED), "worker.health.changed"),
        (worker(cml=CmlStatus(url="https://a")), "worker.endpoint.updated"),
        (worker(cml=CmlStatus(labs=3)), "worker.labs.updated"),
        (worker(machine=MachineStatus(public_address="1.2.3.4")), "worker.ec2_details.updated"),
        (worker(licence=LicenceStatus(registered=True)), "worker.license.registration.completed"),
        (worker(licence=LicenceStatus(leak="x")), "worker.license.leaked"),
        (worker(idle=IdleStatus(auto_pauses=1)), "worker.paused"),
        (worker(idle=IdleStatus(manual_resumes=1)), "worker.resumed"),
        (worker(idle=IdleStatus(warned_at=NOW)), "worker.idle.warning"),
        (worker(idle=IdleStatus(last_activity_at=NOW)), "worker.activity.updated"),
        (spec(cordoned=True), "worker.cordoned"),
        (spec(desired="Stopped"), "worker.desired_status.changed"),
        (spec(idle_detection=False), "worker.idle_detection.toggled"),
    ],
)
def test_each_change_of_a_worker_has_its_name(new: Worker, name: str) -> None:
    """The compatible names, and every one of them is in the table."""
    found = [each.type for each in changes(BASE, new)]
    assert name in found
    assert set(found) <= set(types())


OF_ORDERS = {
    ("register", "calling"): ["registration.started"],
    ("register", "refused"): ["order.refused", "registration.failed"],
    ("renew", "done"): ["renewed"],
    ("renew", "refused"): ["order.refused"],
    ("deregister", "refused"): ["order.refused"],
}


@pytest.mark.parametrize("verb", ["register", "deregister", "renew"])
@pytest.mark.parametrize("state", ["waiting", "calling", "asked", "done", "refused"])
def test_what_becomes_of_an_order_for_a_licence_is_told_once(verb: Any, state: Any) -> None:
    """A refusal says why; the rest is told by the licence itself; of an older order, nothing."""
    known = LicenceProgress(id="o", state=state, at=NOW, message="no more seats")

    def ordered(name: str, order: LicenceProgress | None) -> Worker:
        wanted = spec(licence=LicenceOrder(id=name, verb=verb, at=NOW)).spec
        return msgspec.structs.replace(worker(licence=LicenceStatus(order=order)), spec=wanted)

    asked, new = ordered("o", None), ordered("o", known)
    told = changes(asked, new)
    names = [f"worker.license.{each}" for each in OF_ORDERS.get((verb, state), [])]
    assert [each.type for each in told] == names
    for each in told:
        assert "refused" not in each.type or each.data["reason"] == "no more seats"
    assert changes(new, new) == changes(asked, asked) == ()
    assert changes(ordered("next", None), ordered("next", known)) == ()
    assert changes(new, ordered("o", None)) == ()


def test_the_life_of_a_record_is_told() -> None:
    """Made, imported, deleted; nothing when nothing changed."""
    assert [each.type for each in changes(None, BASE)] == ["worker.created"]
    assert [each.type for each in changes(BASE, None)] == ["worker.deleted"]
    assert changes(BASE, BASE) == ()


@pytest.mark.parametrize("row", list(ALERTS.values()), ids=lambda row: row.condition)
def test_raised_is_always_the_bad_news(row: Alert) -> None:
    """Each alert of a worker is raised with its own status and cleared with the other."""
    other: Status = "False" if row.when == "True" else "True"
    sick = worker(conditions=conditions.put((), row.condition, row.when, "R", now=NOW))
    well = worker(conditions=conditions.put((), row.condition, other, "R", now=NOW))
    assert [each.type for each in changes(BASE, sick)] == ["condition.raised"]
    assert [each.type for each in changes(sick, well)] == ["condition.cleared"]
    assert [each.type for each in changes(BASE, well)] == []


def test_an_ordinary_life_raises_nothing() -> None:
    """A lab that boots and a worker that comes up ask for nobody."""
    facts = conditions.put((), "CMLReady", "False", "NotReady", now=NOW)
    assert changes(BASE, worker(conditions=facts)) == ()
    base = Session(metadata=Metadata(name="s"), spec=SessionSpec(definition="d"))
    facts = conditions.put((), "LabStarted", "False", "Booting", now=NOW)
    booting = msgspec.structs.replace(
        base, status=msgspec.structs.replace(base.status, conditions=facts)
    )
    assert changes(base, booting) == ()


def test_a_sessions_phase_end_and_extension_are_told() -> None:
    """Generic status change, the end, and the new end of its slot."""
    base = Session(metadata=Metadata(name="s"), spec=SessionSpec(definition="d"))

    def made(**status: object) -> Session:
        return msgspec.structs.replace(base, status=msgspec.structs.replace(base.status, **status))

    ended = [each.type for each in changes(base, made(phase=SessionPhase.FAILED))]
    assert ended == ["session.status.changed", "session.terminated", "notice.failed"]
    later = changes(made(end=NOW), made(end=NOW + timedelta(hours=1)))
    assert [each.type for each in later] == ["session.timeslot.extended"]


ADMIN = Caller(Principal("ada", Role.ADMIN, "ada"))
OPERATOR = Caller(Principal("olga", Role.OPERATOR, "olga"))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "ftp://example.com/", "https://", "https://u:p@example.com/",
        "https://127.0.0.1/", "https://10.1.2.3/", "https://168.63.129.16/", "https://[3fff::1]/", "https://169.254.169.254/", "https://[::1]/",
        "https://[::ffff:169.254.169.254]/", "https://localhost/", "https://x.internal/",
        "https://2130706433/", "https://0x7f.1/", "https://a b/", "https://[bad/",
        "https://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/", "https://169\u3002254\u3002169\u3002254/",
        "https://127.0.0.1\u3002/", "https://\uff11\uff12\uff17.0.0.1/", "https://\u24dbocalhost/",
    ],
)  # fmt: skip
def test_an_address_inside_is_refused_when_it_is_named(url: str) -> None:
    """What can be told from the text alone is told at once (facts/fleet-bugs.md#t45)."""
    assert url_problem(url, allow_private=False)


def test_a_refused_receiver_inside_is_told_who_may_allow_it():
    """Without TLS or with an address inside: an admin may, by the field that is named."""
    for url in ("http://hooks.example.com/", "https://10.0.0.1/"):
        said = url_problem(url, allow_private=False)
        assert "an admin may set spec.allowPrivate for a receiver inside" in (said or "")
        assert url_problem(url, allow_private=True) is None


@pytest.mark.asyncio
async def test_only_an_admin_opens_the_way_inside(world: World) -> None:
    """An operator makes webhooks to the outside only, and cannot move one that looks inside."""
    body = {"metadata": {"name": "h"}, "spec": {"url": "http://10.0.0.1/", "allowPrivate": True}}
    row = KINDS["Webhook"]
    with pytest.raises(errors.Denied):
        await objects.create(world.services, OPERATOR, row, body)
    made = await objects.create(world.services, ADMIN, row, body)
    moved = {**body, "metadata": {"name": "h", "resourceVersion": made.metadata.resource_version}}
    moved["spec"] = {**body["spec"], "url": "http://10.0.0.2/"}
    with pytest.raises(errors.Denied):
        await objects.replace(world.services, OPERATOR, row, "h", moved, namespace="default")
    signed = {"spec": {"secret": {"env": "ANOTHER"}}}
    with pytest.raises(errors.Denied, match="secret"):
        await objects.patch(world.services, OPERATOR, row, "h", signed, namespace="default")
    await objects.patch(
        world.services, OPERATOR, row, "h", {"spec": {"enabled": False}}, namespace="default"
    )
    wrong = {
        "metadata": {"name": "h2"},
        "spec": {"url": "https://example.com/", "types": ["wrk.*"]},
    }
    with pytest.raises(errors.Invalid, match="no event type matches"):
        await objects.create(world.services, ADMIN, row, wrong)
    never = {**wrong, "spec": {**wrong["spec"], "types": ["worker.metrics.*"]}}
    with pytest.raises(errors.Invalid, match="stream only"):
        await objects.create(world.services, ADMIN, row, never)
    for endless in ("*" * 101, ""):
        long = {**wrong, "spec": {**wrong["spec"], "types": [endless]}}
        with pytest.raises(errors.Invalid, match=r"length|must not be empty"):
            await objects.create(world.services, ADMIN, row, long)


def test_a_condition_is_cleared_once_and_only_when_it_was_raised() -> None:
    """Dropped with its phase or unknown again is cleared; unknown in between is no news."""

    def with_fact(status: conditions.Status) -> Worker:
        return worker(conditions=conditions.put((), "Silent", status, "R", now=NOW))

    raised, doubted, good = with_fact("True"), with_fact("Unknown"), with_fact("False")
    assert changes(good, doubted) == changes(doubted, good) == ()
    assert [each.type for each in changes(doubted, raised)] == ["condition.raised"]
    for after in (doubted, BASE, good):
        assert [each.type for each in changes(raised, after)] == ["condition.cleared"]

"""What a stream tells beside objects: samples, alerts and places in the queue, as latest states."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from api_caller import Api, Stream
from fleet_world import ADMIN, MACHINE, who
from loop_time import leap, locks
from waiting_fleet import fleet, looked, waits

from labfleet.api.streams.latest_frames import Frames, LatestFrames
from labfleet.api.streams.ring import Filter
from labfleet.interfaces.store import Cause, SeriesRow
from labfleet.kernel import errors
from labfleet.resources import conditions, series
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.telemetry import Room, Sample, SystemStats
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason
from labfleet.service.core.access import Principal, Role
from labfleet.service.reads import measured, raised
from labfleet.service.verbs import objects

EVENTS = "/api/v1/events"


def sample(api: Api, name: str = "w", cpu: float = 0.5, **more: Any) -> Sample:
    """Return what a look at a worker measured now."""
    room = Room(total=100, free=40, used=55)
    stats = SystemStats(cpu_count=48, cpu_percent=cpu, memory=room, controller_disk=room)
    given = {"worker": name, "at": api.world.clock.now(), "boot": "i-1", "stats": stats, **more}
    return Sample(**given)


async def worker(api: Api, name: str = "w") -> Worker:
    """Make a worker that the cache knows."""
    made = await api.world.make("Worker", name, {"machine": MACHINE})
    await api.world.services.fresh()
    return made


async def lab(api: Api, name: str, owner: str, *minutes: float) -> Session:
    """Make a lab that runs, with so many stored minutes, each of so many milli-CPU."""
    world = api.world
    if world.services.cache.get(KINDS["Definition"].type, "two", "default") is None:
        await world.definition()
        await world.services.fresh()
    made = await world.session(name, caller=who("user", owner))
    made = await world.status(made, phase=SessionPhase.RUNNING)
    await used(api, made, *minutes)
    await world.services.fresh()
    return made


async def used(api: Api, session: Session, *minutes: float) -> None:
    """Store what a lab used in the newest minutes."""
    buckets: dict[Any, Any] = {}
    for back, value in enumerate(minutes):
        at = api.world.clock.now() - timedelta(minutes=back)
        series.add(buckets, "Session", at, {"cpu": value})
    owner = series.Owner("Session", session.metadata.uid)
    rows = [
        SeriesRow(owner, step, at, series.pack("Session", bucket))
        for (step, at), bucket in buckets.items()
    ]
    await api.world.store.merge_series(rows)


async def told(events: Stream, name: str) -> Any:
    """Return the data of the next event of this name; an object's events pass by."""
    while True:
        leap(0.3)
        found, place, data = await events.next()
        assert found != "end"
        if found == name:
            assert place == ""  # only objects move the place from which a client resumes
            return data


def names(data: Any) -> list[str]:
    """Return the names in a frame."""
    return sorted(each["name"] for each in data["items"])


@pytest.mark.asyncio
async def test_who_asks_for_nothing_gets_what_it_always_got(api: Api) -> None:
    """Without `frames` come objects alone, and a measurement tells nobody anything."""
    await worker(api)
    async with api.stream(f"{EVENTS}?kinds=workers") as events:
        assert (await events.next())[0] == "snapshot"
        await api.measured(sample(api))
        await locks()
        leap(1)
        await worker(api, "v")
        assert (await events.next())[0] == "ADDED"


@pytest.mark.asyncio
async def test_samples_come_whole_and_then_as_they_change(api: Api) -> None:
    """Each number with source, instant and until when it holds; null with the reason, never 0."""
    await worker(api, "v")
    await worker(api)
    await api.measured(sample(api))
    async with api.stream(f"{EVENTS}?frames=samples") as events:
        first = await told(events, "samples")
        assert (first["whole"], first["first"], first["last"], first["gone"]) == (
            True, True, True, [],
        )  # fmt: skip
        by_name = {each["name"]: each["values"] for each in first["items"]}
        cpu, none = by_name["w"]["cpu"], by_name["v"]["cpu"]
        assert (cpu["value"], cpu["unit"], cpu["source"]) == (0.5, "percent", "cml")
        assert cpu["at"] < cpu["until"]
        assert (none["value"], none["until"]) == (None, None)
        assert "no sample: v is PENDING" in none["reason"]
        await api.measured(sample(api, cpu=7.0))
        changed = await told(events, "samples")
        assert (changed["whole"], names(changed)) == (False, ["w"])
        assert changed["items"][0]["values"]["cpu"]["value"] == 7.0
        kept = await api.world.services.objects.get(Worker, "v", "default")
        await objects.delete(api.world.services, ADMIN, KINDS["Worker"], kept.name, "default")
        await worker(api, "x")
        while names(changed) != ["x"]:
            changed = await told(events, "samples")


@pytest.mark.asyncio
async def test_a_value_that_is_not_renewed_is_unknown_by_itself(api: Api) -> None:
    """Nobody measures it again: when its time is over it is null, with its age as the reason."""
    await worker(api)
    await api.measured(sample(api))
    async with api.stream(f"{EVENTS}?frames=samples") as events:
        await told(events, "samples")
        api.world.clock.forward(600)
        leap(600)
        changed = await told(events, "samples")
        cpu = changed["items"][0]["values"]["cpu"]
        assert (cpu["value"], cpu["reason"]) == (None, "last measured 600 s ago")


@pytest.mark.asyncio
async def test_labs_are_told_from_the_stored_minutes_to_their_owners(api: Api) -> None:
    """A user gets its own lab's numbers, and none of others' nor of workers."""
    await worker(api)
    await api.measured(sample(api))
    mine = await lab(api, "mine", "kim", 500.0)
    await lab(api, "other", "lee", 700.0)
    async with (
        api.stream(f"{EVENTS}?frames=samples", role="user", owner="kim") as kims,
        api.stream(f"{EVENTS}?frames=samples") as all_,
    ):
        found = await told(kims, "samples")
        assert names(found) == ["mine"]
        cpu = found["items"][0]["values"]["cpu"]
        assert (cpu["value"], cpu["unit"]) == (500.0, series.METRICS["Session"]["cpu"])
        assert names(await told(all_, "samples")) == ["mine", "other", "w"]
        api.world.clock.forward(60)
        await used(api, mine, 900.0)
        leap(20)
        changed = await told(kims, "samples")
        assert [each["values"]["cpu"]["value"] for each in changed["items"]] == [900.0]


@pytest.mark.asyncio
async def test_what_is_given_away_is_told_to_its_new_owner_alone(api: Api) -> None:
    """The former owner is told that it is gone from what they see, at once and without a number."""
    session = await lab(api, "seat", "kim", 500.0)
    async with (
        api.stream(f"{EVENTS}?frames=samples", role="user", owner="kim") as kims,
        api.stream(f"{EVENTS}?frames=samples", role="user", owner="lee") as lees,
    ):
        assert names(await told(kims, "samples")) == ["seat"]
        assert names(await told(lees, "samples")) == []
        spec = msgspec.structs.replace(session.spec, owner="lee")
        cause = Cause("t", api.world.clock.now())
        await api.world.services.objects.save(
            msgspec.structs.replace(session, spec=spec), cause=cause
        )
        await api.world.services.fresh()
        lost, got = await told(kims, "samples"), await told(lees, "samples")
        assert (lost["items"], [each["name"] for each in lost["gone"]]) == ([], ["seat"])
        assert (names(got), got["gone"]) == (["seat"], [])


async def hot(api: Api, *, status: str) -> None:
    """Have a worker say whether its CPU is high."""
    services = api.world.services
    kept = await services.objects.get(Worker, "w", "default")
    facts = conditions.put(
        kept.status.conditions, WorkerCondition.CPU_HIGH, status, WorkerReason.OVER_THRESHOLD
        if status == "True" else WorkerReason.BELOW_THRESHOLD,
        now=api.world.clock.now(),
        measured=conditions.Measured(value=97, unit="percent", limit=95),
    )  # fmt: skip
    await api.world.status(kept, conditions=facts)
    await services.fresh()


@pytest.mark.asyncio
async def test_alerts_come_as_the_list_has_them_and_go_by_name(api: Api) -> None:
    """First what is raised, none being a frame too; then what is raised, and what is cleared."""
    await worker(api)
    async with api.stream(f"{EVENTS}?frames=alerts") as events:
        first = await told(events, "alerts")
        assert (first["whole"], first["items"]) == (True, [])
        await hot(api, status="True")
        new = await told(events, "alerts")
        assert new["items"] == (await api.call("GET", "/api/v1/fleet/alerts")).json["items"]
        assert new["items"][0]["condition"] == "CpuHigh"
        await hot(api, status="False")
        over = await told(events, "alerts")
        assert (over["items"], over["gone"]) == (
            [], [{"object": "worker/w", "namespace": "default", "condition": "CpuHigh"}],
        )  # fmt: skip


@pytest.mark.asyncio
async def test_alerts_are_refused_to_whom_their_list_is_refused(api: Api) -> None:
    """403 before anything is sent, rather than a state that looks as if all were well."""
    for role in ("user", "runner"):
        reply = await api.call("GET", f"{EVENTS}?frames=objects,alerts", role=role)
        assert (reply.status, reply.json["reason"]) == (403, "Forbidden")
    reply = await api.call("GET", f"{EVENTS}?frames=objects,beans")
    assert (reply.status, reply.json["problems"][0]["where"]) == (400, "frames")
    assert (await api.call("GET", f"{EVENTS}?padding=99999")).status == 400


@pytest.mark.asyncio
async def test_places_in_the_queue_follow_who_waits(api: Api) -> None:
    """Each who waits sees its own place; who waits no more is gone from the state."""
    world = api.world
    await fleet(world)
    await waits(world, "one", caller=who("user", "kim"))
    await waits(world, "two", caller=who("user", "lee"))
    await looked(world)
    async with api.stream(f"{EVENTS}?frames=queue", role="user", owner="lee") as events:
        (two,) = (await told(events, "queue"))["items"]
        assert (two["name"], two["line"], two["position"], two["waiting"]) == (
            "two", "exam-eu", 2, 2,
        )  # fmt: skip
        assert world.services.starts.watchers == 1
        await api.call("POST", "/api/v1/sessions/one/cancel", {"reason": "no"})
        leap(60)
        await looked(world)
        changed = await told(events, "queue")
        while [each["position"] for each in changed["items"]] != [1]:
            changed = await told(events, "queue")
        assert "'one'" not in str(changed)
        await api.call("POST", "/api/v1/sessions/two/cancel", {"reason": "no"})
        leap(60)
        await looked(world)
        while not changed["gone"]:
            changed = await told(events, "queue")
        assert [each["name"] for each in changed["gone"]] == ["two"]
    leap(1)
    await locks()
    assert world.services.starts.watchers == 0


@pytest.mark.asyncio
async def test_simulations_that_wait_have_a_place_too(api: Api) -> None:
    """A run in a queue without room is told its place, by the queue's name."""
    await api.world.make("Cluster", "default", {"capacity": {"cpu": 1}})
    await api.world.make("Queue", "night", {"cluster": "default"})
    await api.world.services.fresh()
    run = {"cost": {"cpu": "700m"}, "queue": "night", "duration_seconds": 600}
    for _ in range(2):
        reply = await api.call("POST", "/request_run", run)
        assert reply.status == 200, reply.raw
    await api.world.services.fresh()
    async with api.stream(f"{EVENTS}?frames=queue") as events:
        found = await told(events, "queue")
        while not found["items"]:
            found = await told(events, "queue")
        (row,) = found["items"]
        assert (row["kind"], row["line"], row["position"], row["waiting"]) == (
            "Simulation", "night", 1, 1,
        )  # fmt: skip


@pytest.mark.asyncio
async def test_after_a_resume_objects_go_on_and_the_rest_begins_anew(api: Api) -> None:
    """Objects from the cursor, without a snapshot; samples whole, as on a first connection."""
    await worker(api)
    await api.measured(sample(api))
    both = f"{EVENTS}?frames=objects,samples&kinds=workers"
    async with api.stream(both) as events:
        _, place, _ = await events.next()
        assert (await told(events, "samples"))["whole"]
    await worker(api, "v")
    async with api.stream(both, Last_Event_ID=place) as events:
        seen = {}
        while len(seen) < 2:
            leap(0.3)
            name, _, data = await events.next()
            seen[name] = data
        assert seen.keys() == {"ADDED", "samples"}
        assert seen["samples"]["whole"]
    async with api.stream(both, Last_Event_ID="other.5") as events:
        assert [(await events.next())[0] for _ in range(2)] == ["resync", "snapshot"]
        assert (await told(events, "samples"))["whole"]


@pytest.mark.asyncio
async def test_each_change_is_worked_out_and_encoded_once_for_all(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten clients with five tokens of one role share the work; a filter of its own costs one look."""
    await worker(api)
    worked: list[str] = []
    of_worker = measured.of_worker
    monkeypatch.setattr(
        measured, "of_worker", lambda *given: worked.append(given[1].name) or of_worker(*given)
    )
    latest = api.app.events.latest
    kept = latest.kept[Frames.SAMPLES]
    wakes = []
    filters = [Filter(Principal(f"t{n}", Role.ADMIN, f"a{n}")) for n in range(5)] * 2
    filters.append(Filter(Principal("t0", Role.ADMIN, "a0"), names=frozenset({"w"})))
    views = [
        latest.join((Frames.SAMPLES,), each, lambda n=n: wakes.append(n))[0]
        for n, each in enumerate(filters)
    ]
    assert len({id(each) for each in views}) == 2
    await locks()
    assert (worked, sorted(wakes)) == (["w"], list(range(11)))
    at = [view.frames(-1)[0] for view in views]
    assert not any(view.behind(each) for view, each in zip(views, at, strict=True))
    await api.measured(sample(api, cpu=9.0))
    leap(1)
    await locks()
    assert worked == ["w", "w"]
    sent = [view.frames(each)[1] for view, each in zip(views, at, strict=True)]
    assert len({id(each) for each in sent}) == 2
    assert kept.state.version == at[0] + 1


@pytest.mark.asyncio
async def test_a_thousand_idle_clients_cost_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing changes for ten minutes, none of them is woken and nothing is worked out."""
    await worker(api)
    latest, wakes, worked = api.app.events.latest, [], []
    for each in (measured, raised):
        name = "of_worker" if each is measured else "standing"
        real = getattr(each, name)
        monkeypatch.setattr(each, name, lambda *given, real=real: worked.append(1) or real(*given))
    every = (Frames.SAMPLES, Frames.ALERTS, Frames.QUEUE)
    wanted = Filter(Principal("t", Role.ADMIN, "ada"))
    clients = [(latest.join(every, wanted, wake), wake) for wake in _wakes(wakes, 1000)]
    await locks()
    assert (len(wakes), len(worked)) == (3000, 2)
    for _ in range(60):
        leap(10)
        await locks(5)
    assert (len(wakes), len(worked)) == (3000, 2)
    for views, wake in clients:
        latest.leave(views, wake)


def _wakes(into: list[int], count: int) -> list[Any]:
    return [lambda n=n: into.append(n) for n in range(count)]


@pytest.mark.asyncio
async def test_nothing_is_worked_out_for_nobody(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first subscriber and after the last: no numbers, no alerts, no places."""
    worked: list[int] = []
    monkeypatch.setattr(measured, "of_worker", lambda *_: worked.append(1))
    monkeypatch.setattr(raised, "standing", lambda _: worked.append(2) or ())
    await worker(api)
    await api.measured(sample(api))
    await hot(api, status="True")
    leap(60)
    await locks()
    latest: LatestFrames = api.app.events.latest
    assert worked == []
    async with api.stream(f"{EVENTS}?frames=alerts") as events:
        await told(events, "alerts")
    assert worked == [2]
    leap(60)
    await locks()
    await hot(api, status="False")
    await api.measured(sample(api, cpu=3.0))
    leap(60)
    await locks()
    assert worked == [2]
    assert api.world.services.starts.watchers == 0
    assert not any(kept.state.ready for kept in latest.kept.values())


@pytest.mark.asyncio
async def test_a_burst_is_filled_up_on_demand(api: Api) -> None:
    """With `padding` a comment of so many bytes follows what was sent, once, and heartbeats too."""
    async with api.stream(f"{EVENTS}?frames=alerts&padding=500") as events:
        blocks = [await events.block() for _ in range(2)]
        assert blocks[0] == "retry: 1000"
        assert (len(blocks[1]), blocks[1].strip()) == (501, ":")
        leap(16)
        blocks = [await events.block() for _ in range(4)]
        assert [each[:10] for each in blocks if len(each) < 500] == ["event: ale", ": heartbea"]
        assert sum(len(each) == 501 for each in blocks) >= 1
    async with api.stream(f"{EVENTS}?snapshot=false") as events:
        assert (await events.block(), (await events.block())[:4]) == ("retry: 1000", "id: ")


@pytest.mark.asyncio
async def test_what_the_store_cannot_tell_is_said_and_stays_as_it_was(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store in trouble takes no lab's number away and is no reason to call it current."""
    await lab(api, "mine", "kim", 500.0)
    async with api.stream(f"{EVENTS}?frames=samples", role="user", owner="kim") as events:
        assert names(await told(events, "samples")) == ["mine"]

        async def down(_: Any) -> Any:
            raise errors.Temporary("the database is away")

        monkeypatch.setattr(measured, "used", down)
        leap(20)
        lost = await told(events, "samples")
        assert (lost["items"], lost["gone"]) == ([], [])
        assert lost["unknown"].endswith("the store does not answer")
        monkeypatch.undo()
        leap(20)
        assert (await told(events, "samples"))["unknown"] == ""


@pytest.mark.asyncio
async def test_a_defect_ends_the_loop_and_the_next_one_reads_everything_anew(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor runs it again: clients stay, and what went meanwhile is gone."""
    for name in ("v", "w"):
        await worker(api, name)
        await api.measured(sample(api, name))
    async with api.stream(f"{EVENTS}?frames=samples") as events:
        assert names(await told(events, "samples")) == ["v", "w"]
        running = api.world.listeners.pop()
        monkeypatch.setattr(measured, "of_worker", lambda *_: 1 / 0)
        await api.measured(sample(api, cpu=3.0))
        leap(1)
        with pytest.raises(ExceptionGroup):
            await running
        monkeypatch.undo()
        cause = Cause("t", api.world.clock.now())
        kept = await api.world.services.objects.get(Worker, "v", "default")
        metadata = msgspec.structs.replace(
            kept.metadata, deletion_timestamp=api.world.clock.now(), finalizers=()
        )
        await api.world.services.objects.save(
            msgspec.structs.replace(kept, metadata=metadata), cause=cause
        )
        await api.world.services.fresh()
        again = asyncio.get_running_loop().create_task(api.app.events.latest.run())
        api.world.listeners.append(again)
        changed = await told(events, "samples")
        assert [each["name"] for each in changed["gone"]] == ["v"]
        assert changed["items"][0]["values"]["cpu"]["value"] == 3.0


@pytest.mark.asyncio
async def test_a_busy_stream_is_filled_up_four_times_a_second_at_most(api: Api) -> None:
    """What padding costs is bounded by time, not by how much happens."""
    target = f"{EVENTS}?kinds=clusters&snapshot=false&padding=500"
    async with api.stream(target) as events:
        for number in range(40):
            await api.world.make("Cluster", f"c{number}", {"capacity": {"cpu": 1}})
            await locks(10)
        leap(1)
        blocks = [await events.block()]
        while "c39" not in blocks[-1]:
            blocks.append(await events.block())
        assert sum(len(each) == 501 for each in blocks) <= 20
        assert len(await events.block()) == 501

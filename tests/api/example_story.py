"""A story of requests that touches every operation: the examples of the OpenAPI document.

`python tests/api/example_story.py` writes them to src/labfleet/api/core/examples.json; the test
beside it plays the story again and compares.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "service"), str(HERE)]
from api_caller import Api, Reply
from api_caller import api as opened
from fleet_world import TOPOLOGY

from labfleet.interfaces import store as stores
from labfleet.kernel.clock import format_instant
from labfleet.resources import series
from labfleet.resources.held_ports import HeldPorts
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.hosted_labs import HostedLab
from labfleet.resources.image import Catalogue, Image, ImageStatus
from labfleet.resources.kept_work import KeptWork
from labfleet.resources.kinds import KINDS
from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Metadata
from labfleet.resources.region import Region
from labfleet.resources.session import LabStatus, SessionPhase
from labfleet.resources.worker import CmlStatus, LicenceStatus, WorkerPhase

FILE = HERE.parents[1] / "src" / "labfleet" / "api" / "core" / "examples.json"
LONGEST = 6000
"""Characters of a reply's example; a longer one helps nobody."""
FEW = 2
MACHINE = {
    "provider": {"kind": "aws", "region": "eu-west-1", "amiNamePattern": "CML-2.9*"},
    "cml": {"adminPassword": {"env": "CML_ADMIN_PASSWORD"}},
}
SPECS: dict[str, dict[str, Any]] = {
    "Template": {"machine": MACHINE, "description": "bare metal in Ireland"},
    "Definition": {"title": "Two routers", "topology": TOPOLOGY, "defaultDurationMinutes": 120},
    "Pool": {"template": "metal", "track": "exam", "scaling": {"minWorkers": 1, "maxWorkers": 4}},
    "Worker": {"template": "metal", "track": "exam"},
    "Session": {"definition": "two", "owner": "kim@example.org"},
    "Group": {
        "definition": "two",
        "size": 3,
        "seats": [{"person": "kim@example.org", "factor": 1.5}],
        "slot": {"start": "2026-12-14T08:00:00Z", "end": "2026-12-14T10:00:00Z"},
    },
    "Course": {
        "definition": "two",
        "repeat": "FREQ=WEEKLY;COUNT=2",
        "size": 2,
        "slot": {"start": "2027-03-22T09:00", "end": "2027-03-22T11:00", "zone": "Europe/Zurich"},
    },
    "Cluster": {"capacity": {"cpu": 64, "memory": "256Gi", "network": 10000}},
    "Queue": {"cohort": "lab", "quota": {"cpu": 32, "memory": "128Gi"}, "weight": 2},
    "Webhook": {"url": "https://hooks.example.org/labfleet", "types": ["worker.*"]},
    "Settings": {"thresholds": {"diskPercent": 85}},
}
NAMES = {
    "Template": "metal", "Definition": "two", "Pool": "exam", "Worker": "w1", "Session": "s1", "Group": "exam-monday",
    "Course": "ccnp",
    "Cluster": "default", "Queue": "research", "Webhook": "chat", "Image": "ami-0123456789abcdef0", "Region": "eu-west-1", "Leak": "w9", "Settings": "fleet",
}  # fmt: skip
UNUSED = {**NAMES, "Leak": "w8", "Definition": "old", "Template": "spare", "Pool": "unused"}
"""Objects that nothing uses at the end of the story."""
CHANGES: dict[str, dict[str, Any]] = {
    "Template": {"spec": {"description": "bare metal in Ireland, for exams"}},
    "Definition": {"spec": {"title": "Two routers and a link"}},
    "Pool": {"spec": {"scaling": {"maxWorkers": 6}}},
    "Worker": {"spec": {"cordoned": True}},
    "Session": {"spec": {"priority": 10}},
    "Group": {"spec": {"slot": {"end": "2026-12-14T10:30:00Z"}}},
    "Course": {"spec": {"repeat": "FREQ=WEEKLY;COUNT=3"}},
    "Cluster": {"spec": {"cpuPercent": 70}},
    "Queue": {"spec": {"order": "SHORTEST_FIRST"}},
    "Webhook": {"spec": {"enabled": True}},
    "Region": {"metadata": {"labels": {"team": "exam"}}},
    "Image": {"metadata": {"labels": {"team": "exam"}}},
    "Leak": {"metadata": {"labels": {"team": "exam"}}},
    "Settings": {"spec": {"idle": {"enabled": True, "timeoutMinutes": 45}}},
}
FOUND = {"instance_id": "i-0123456789abcdef0", "state": "running", "image_id": "ami-1",
         "instance_type": "m5zn.metal", "private_ip": "10.0.0.7"}  # fmt: skip
Step = tuple[str, str, Any]
TOKEN = {"env": "LABFLEET_SECRET_CML_TOKEN"}


def licences() -> Iterator[Step]:
    """Yield what people do with licences, and with a machine's console."""
    at = "/api/v1/workers/w2"
    yield "POST", f"{at}/register-licence", {"token": TOKEN, "product": "CML_Enterprise"}
    yield "POST", f"{at}/deregister-licence", {"force": True}
    yield "GET", f"{at}/licence", None
    yield "GET", f"{at}/ports", None
    sent = {"first": 5041, "reason": "that lab is switched off"}
    yield "POST", f"{at}/ports/release", sent
    yield "GET", f"{at}/labs", None
    said = {"reason": "the reference lab of the course"}
    yield "POST", f"{at}/labs/lab-9/ignore", said
    yield "DELETE", f"{at}/labs/lab-9/ignore", None
    yield "POST", f"{at}/labs/lab-9/order", {"order": "stop"}
    yield "POST", f"{at}/console", {}
    region = "/api/workers/region/eu-west-1/workers/w2/license"
    yield "POST", region, {"token": TOKEN}
    yield "DELETE", region, None
    yield "POST", "/api/v1/workers/w6/renew-licence", {}


def worker_verbs() -> Iterator[Step]:
    """Yield what people do with workers."""
    at = "/api/v1/workers/w1"
    yield "POST", f"{at}/drain", {"deadlineSeconds": 3600, "reason": "a new image"}
    yield "POST", f"{at}/change-drain", {"force": True}
    yield "POST", f"{at}/cancel-drain", {}
    yield "POST", f"{at}/cordon", {}
    yield "POST", f"{at}/uncordon", {}
    yield "POST", f"{at}/idle-detection", {"enabled": False}
    for name in ("idle", "logs", "series", "telemetry"):
        yield "GET", f"{at}/{name}", None
    yield "POST", f"{at}/desired", {"desired": "Stopped"}
    for name in ("idle", "vitals", "alerts", "leaders", "garbage", "discovery"):
        yield "GET", f"/api/v1/fleet/{name}", None
    url = {"url": "https://cml.example.org", "template": "metal", "name": "lab-server"}
    yield "POST", "/api/v1/fleet/adopt", url
    yield "POST", "/api/v1/leaks/w9/resolve", {"note": "freed in the portal"}


def past_runs() -> Iterator[Step]:
    """Yield how past runs come in from elsewhere, and are read."""
    run = {
        "kind": "Simulation", "uid": "waku-50-2026-11-20", "family": "waku", "owner": "kim",
        "place": "default", "parameters": {"nodecount": 50, "publisher_delay": 10},
        "use": {"cpu_milli": {"peak": 9250, "mean": 7100}, "memory_mib": {"peak": 2560}},
        "durationSeconds": 300, "endedAt": "2026-11-20T10:00:00Z",
    }  # fmt: skip
    yield "POST", "/api/v1/history/import", {"runs": [run]}
    yield "GET", "/api/v1/history", None
    yield "GET", "/api/history", None


def settings_and_tokens() -> Iterator[Step]:
    """Yield what admins do."""
    change = {"set": {"discovery.template": "metal", "discovery.regions": ["eu-west-1"]},
              "reason": "import what runs already"}  # fmt: skip
    yield "POST", "/api/v1/settings/change", change
    yield "GET", "/api/v1/settings/effective", None
    yield "POST", "/api/v1/settings/pause", {"reason": "work on the network"}
    yield "POST", "/api/v1/settings/resume", {"reason": "the network is back"}
    yield "POST", "/api/v1/settings/confirm-clock", {"reason": "the host was asleep"}
    yield "POST", "/api/v1/pools/exam/pause", {"reason": "firmware"}
    yield "POST", "/api/v1/pools/exam/resume", {"reason": "done"}
    yield "POST", "/api/v1/tokens", {"role": "user", "owner": "kim@example.org"}
    yield "GET", "/api/v1/tokens", None
    for path in ("/api/v1/kinds", "/api/v1/version", "/healthz", "/readyz"):
        yield "GET", path, None
    template = {"kind": "Template", "metadata": {"name": "spare"}, "spec": {"machine": MACHINE}}
    yield "POST", "/api/v1/apply", {"items": [template]}


def compatible() -> Iterator[Step]:
    """Yield requests under the names of earlier systems."""
    inside, region = "/api/internal/workers", "/api/workers/region/eu-west-1"
    yield "GET", inside, None
    yield "GET", f"{inside}/w1", None
    yield "GET", f"{inside}/w1/cml-data", None
    report = {"discovered_instances": [FOUND], "aws_region": "eu-west-1", "source": "scanner"}
    yield "POST", f"{inside}/bulk-import", report
    yield "POST", f"{inside}/scale-up", {"template": "metal", "reason": "an exam at nine"}
    yield "POST", f"{inside}/cleanup", {"retention_days": 30, "dry_run": True}
    yield "GET", "/api/internal/discovery", None
    yield "POST", f"{inside}/w1/status", {"status": "running"}
    yield "POST", f"{inside}/w1/metrics", {"ec2": {"cpu_utilization": 12.5}}
    yield "POST", f"{inside}/w1/cml-data", {"cml_version": "2.9.0", "ready": True}
    yield "POST", f"{inside}/w1/ec2-details", {"public_ip": "203.0.113.7"}
    yield "POST", f"{inside}/w1/recalculate-capacity", None
    event = {"category": "start_lab", "timestamp": "2026-11-27T08:30:00+00:00", "data": {}}
    yield "POST", f"{inside}/w1/detect-idle", {"raw_telemetry_events": [event]}
    for name in ("idle-detection/enable", "idle-detection/disable"):
        yield "POST", f"/api/workers/w1/{name}", None
    for name in ("idle-status", "activity"):
        yield "GET", f"/api/workers/w1/{name}", None
    yield "GET", "/api/settings", None
    yield "PUT", "/api/settings", {"idle_detection": {"enabled": False}}
    yield "GET", "/api/settings/discovery", None
    yield "PATCH", "/api/settings/discovery", {"scan_interval_seconds": 600}
    yield "GET", "/api/internal/settings/discovery", None
    yield "POST", f"{region}/workers", {"name": "w3", "template": "metal"}
    body = {"instance_id": "i-0123456789abcdef1", "template": "metal", "name": "w4"}
    yield "POST", f"{region}/workers/import", body
    yield "GET", f"{region}/workers", None
    yield "GET", f"{region}/instance/i-0123456789abcdef0", None
    for name in ("", "/status", "/resources"):
        yield "GET", f"{region}/workers/w3{name}", None
    yield "POST", f"{region}/workers/w3/refresh", None
    yield "POST", f"{region}/workers/w3/tags", {"tags": {"team": "exam"}}
    yield "POST", f"{region}/workers/w3/drain", {"reason": "a new image"}
    yield "POST", f"{region}/workers/w3/cancel-drain", None
    yield "POST", f"{region}/workers/w3/stop", None
    yield "POST", f"{region}/workers/w3/start", None
    yield "POST", f"{inside}/w2/drain", {"reason": "a new image", "requested_by": "ops"}
    yield "POST", f"{inside}/w3/terminate", {"reason": "too old"}
    yield "POST", f"{inside}/w5/mark-terminated", {"terminated_by": "scanner"}
    yield "DELETE", f"{region}/workers/w3", None


def runs_and_sessions() -> Iterator[Step]:
    """Yield simulations, then what happens to a session."""
    yield "POST", "/request_run", {"chart": "waku", "nodecount": 8, "owner": "trainer"}
    at = "/api/v1/sessions/s1"
    seen = {"observed_ports": {"r1_serial": 5001}}
    yield "POST", "/api/internal/lablet-sessions/s1/resource-observations", seen
    yield "GET", "/api/lablet-definitions/two/resource-observations", None
    yield "POST", f"{at}/observe", {}
    yield "POST", "/api/lablet-sessions/s1/observe-resources", None
    yield "POST", f"{at}/check-in", {}
    yield "POST", f"{at}/hand-over", {"to": "admin", "studentEmail": "kim@example.org"}
    yield "POST", f"{at}/take", {"environment": {"POD": "7"}}
    yield "POST", f"{at}/extend", {"bySeconds": 1800}
    yield "POST", f"{at}/shorten", {"bySeconds": 600}
    yield "POST", f"{at}/cancel", {"reason": "the course ends early"}


async def what_a_person_holds(ask: Recorder) -> None:
    """End a token, and a calendar's address from beginning to end."""
    token = (await ask.ask("GET", "/api/v1/tokens")).json["items"][-1]["id"]
    await ask.ask("DELETE", f"/api/v1/tokens/{token}")
    for method in ("POST", "GET", "DELETE"):
        await ask.ask(method, "/api/v1/calendar-feed")


async def a_moved_slot(ask: Recorder) -> None:
    """Book a slot and move it to the afternoon."""
    slot = {"start": "2026-12-01T09:00:00Z", "end": "2026-12-01T10:00:00Z", "zone": "Europe/Warsaw"}
    booked = {"metadata": {"name": "s8"}, "spec": {**SPECS["Session"], "slot": slot}}
    await ask.ask("POST", "/api/v1/sessions", booked)
    await ask.ask("POST", "/api/v1/sessions/s8/move", {"start": "2026-12-01T13:00:00Z"})


async def a_groups_times(ask: Recorder) -> None:
    """Let all seats of a class last longer, end earlier, and begin an hour later."""
    at = "/api/v1/groups/exam-monday"
    await ask.ask("POST", f"{at}/extend", {"end": "2026-12-14T11:00:00Z"})
    await ask.ask("POST", f"{at}/shorten", {"end": "2026-12-14T10:30:00Z"})
    await ask.ask("POST", f"{at}/move", {"start": "2026-12-14T09:00:00Z"})


async def what_it_should_ask_for(ask: Recorder) -> None:
    """Let six sessions of a definition be over, and apply what they used; undo and apply again."""
    world = ask.api.world
    await world.definition("campus", resources={"cpu": 8, "memory": "4Gi"})
    use = {"cpu_milli": Use(peak=500.0), "memory_mib": Use(peak=700.0)}
    writes = tuple(
        stores.Teach(
            Run(kind=RunKind.SESSION, uid=f"campus-{number}", family="campus", use=use,
                duration_seconds=3600.0, ended_at=world.clock.now())
        )
        for number in range(6)
    )  # fmt: skip
    await world.store.commit(stores.Commit(stores.Cause("test", world.clock.now()), writes))
    at = "/api/v1/definitions/campus/recommendation"
    proposed = {"value": "bound", "reason": "its sessions use a quarter"}
    await ask.ask("POST", f"{at}/propose", proposed)
    await ask.ask("GET", at)
    await ask.ask("POST", f"{at}/apply", {"value": "proposed"})
    await ask.ask("POST", f"{at}/undo", {"reason": "the exam needs more"})
    await ask.ask("POST", "/api/lablet-definitions/campus/apply", {"value": "bound"})


async def what_is_used(ask: Recorder, run: str) -> None:
    """Let a run, its cluster and a lab be measured once, and ask what they use."""
    services = ask.api.world.services
    used = {
        "cpu": 1500.0,
        "memory": 4800.0,
        "networkIn": 120000.0,
        "networkOut": 95000.0,
        "pods": 8,
    }
    named = (
        ("Simulation", run, used),
        ("Cluster", "default", {**used, "othersCpu": 400.0}),
        ("Session", "s1", {"cpu": 640.0, "memory": 1480.0, "storage": 2900.0}),
    )
    for kind, name, values in named:
        found = await services.objects.get(KINDS[kind].type, name, "default")
        assert found is not None
        packed = series.pack(kind, series.single(kind, values))
        at = series.bucket_start(services.clock.now(), 60)
        owner = series.Owner(kind, found.metadata.uid)
        await services.series.merge_series([stores.SeriesRow(owner, 60, at, packed)])
        plural = KINDS[kind].plural
        await ask.ask("GET", f"/api/v1/{plural}/{name}/series?since=1h&metric=cpu,memory")
        await ask.ask("GET", f"/api/v1/fleet/{plural}/usage")


class Recorder:
    """Asks, and keeps the first good answer of each operation."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.found: dict[str, dict[str, Any]] = {}

    async def ask(self, method: str, target: str, body: Any = None) -> Reply:
        """Ask once; the answer has to be a good one."""
        reply = await self.api.call(method, target, body)
        assert reply.status < 300, (method, target, reply.status, reply.raw)
        route = self._route(method, target)
        if route.name not in self.found:
            kept: dict[str, Any] = {} if body is None else {"request": body}
            shown = _short(reply.json)
            if len(json.dumps(shown)) <= LONGEST:
                kept |= {"status": reply.status, "reply": shown}
            self.found[route.name] = kept
        return reply

    def _route(self, method: str, target: str) -> Any:
        path = unquote(urlsplit(target).path)
        fits = [
            each
            for each in self.api.app.routes.values()
            if each.method == method
            and re.fullmatch(re.sub(r"\\{\w+:str\\}", "[^/]+", re.escape(each.path)), path)
        ]
        return min(fits, key=lambda each: each.path.count("{"))  # fmt: skip


def _shown_once(key: str, value: Any) -> Any:
    """Return an answer without the token in a calendar feed's address."""
    feed = key == "url" and isinstance(value, str) and "?feed=" in value
    return value.partition("?feed=")[0] + "?feed=lf_..." if feed else value


def _short(value: Any) -> Any:
    """Return an answer with short lists, and without the secret that a new token has."""
    if isinstance(value, dict):
        value = {key: _shown_once(key, each) for key, each in value.items()}
        return {key: "lf_..." if key == "token" and isinstance(each, str) else _short(each)
                for key, each in value.items()}  # fmt: skip
    return [_short(each) for each in value[:FEW]] if isinstance(value, list) else value


async def _kinds(ask: Recorder) -> AsyncIterator[str]:
    """Create one object of each kind, read it in every way, and change it."""
    world = ask.api.world
    cause = stores.Cause("worker-controller", world.clock.now(), reason="LicenceLeaked")
    now = world.clock.now()
    for name in ("w9", "w8"):
        meta = Metadata(name=name, uid=world.ids.uid(), creation_timestamp=now)
        leak = Leak(metadata=meta, spec=LeakSpec(worker=name, since=now, why="Timeout"))
        await world.services.objects.save(leak, cause=cause)
    meta = Metadata(name=NAMES["Region"], uid=world.ids.uid(), creation_timestamp=now)
    await world.services.objects.save(Region(metadata=meta), cause=cause)
    meta = Metadata(name=NAMES["Image"], uid=world.ids.uid(), creation_timestamp=now)
    has = Catalogue(node_definitions=("iosv", "server"), image_definitions=("iosv-159-3-m8",))
    status = ImageStatus(seen=has, since=now, last_seen_at=now, worker="w1", version="2.9.1")
    await world.services.objects.save(Image(metadata=meta, status=status), cause=cause)
    for kind, spec in SPECS.items():
        body = {"metadata": {"name": NAMES[kind]}, "spec": spec}
        await ask.ask("POST", f"/api/v1/{KINDS[kind].plural}", body)
    for kind, name in NAMES.items():
        at = f"/api/v1/{KINDS[kind].plural}"
        if kind in CHANGES:
            await ask.ask("PATCH", f"{at}/{name}", CHANGES[kind])
        for below in ("", f"/{name}", f"/{name}/events", f"/{name}/explain"):
            await ask.ask("GET", at + below)
        if kind in CHANGES:
            read = (await ask.ask("GET", f"{at}/{name}")).json
            again = {"metadata": {"name": name, "labels": {"team": "exam"}}, "spec": read["spec"]}
            await ask.ask("PUT", f"{at}/{name}", again)
        yield kind


async def life_of_a_run(ask: Recorder, run: str) -> None:
    """Ask what can be asked of an approved run, up to its end."""
    at = "/api/v1/simulations"
    for below in ("", f"/{run}", f"/{run}/events", f"/{run}/explain"):
        await ask.ask("GET", at + below)
    await ask.ask("PATCH", f"{at}/{run}", {"metadata": {"labels": {"team": "exam"}}})
    spec = (await ask.ask("GET", f"{at}/{run}")).json["spec"]
    await ask.ask("PUT", f"{at}/{run}", {"metadata": {"name": run}, "spec": spec})
    await ask.ask("POST", "/simulation_heartbeat", {"simulation_id": run})
    await what_is_used(ask, run)
    ended = {"simulation_id": run, "observed": {"cpuMilli": 1700, "memoryMib": 5200}}
    await ask.ask("POST", "/simulation_complete", ended)
    await ask.ask("GET", "/api/v1/predictions")
    await ask.ask("GET", "/api/v1/calendar")
    for below in ("", "/statement", "/prices"):
        await ask.ask("GET", f"/api/v1/cost{below}")
    day = format_instant(ask.api.world.clock.now() + timedelta(days=7))
    exam = f"at={day}&sessions=2&definition=two"
    await ask.ask("GET", f"/api/v1/pools/exam/plan?{exam}")
    await ask.ask("DELETE", f"/api/v1/simulations/{run}")


async def a_lab_that_runs(ask: Recorder, session: Any) -> None:
    """Order something of the lab of a session, which runs for that while."""
    status = ask.api.world.status
    lab = LabStatus(title="s9", marker=session.metadata.uid, id="lab-s9", state="STARTED")
    await status(session, phase=SessionPhase.RUNNING, lab=lab)
    await ask.ask("POST", "/api/v1/sessions/s9/lab", {"order": "restart", "node": "r1"})
    await ask.ask("GET", "/api/v1/sessions/s9/consoles")
    await status(session, phase=SessionPhase.FAILED, lab=None)


async def play(api: Api) -> dict[str, dict[str, Any]]:
    """Play the story; return the examples by operation."""
    ask, world = Recorder(api), api.world
    async for _ in _kinds(ask):
        pass
    for name in ("w2", "w5", "w6"):
        await world.make("Worker", name, {"template": "metal"})
    workers = {each: await world.services.objects.get(KINDS["Worker"].type, each, "default")
               for each in ("w2", "w5", "w6")}  # fmt: skip
    machine = MachineStatus(id="i-0123456789abcdef2", state="running")
    ready = {"phase": WorkerPhase.READY, "summary": "running", "machine": machine}
    held = HeldPorts(transport="tcp", first=5041, last=5042, lab="lab-9", owner="kim",
                     since=world.clock.now())  # fmt: skip
    lab = HostedLab(id="lab-9", title="ospf", owner="kim", state="STARTED", nodes=4, running=3,
                    since=world.clock.now())  # fmt: skip
    seen = {"held_ports": (held,), "hosted_labs": (lab,), "cml": CmlStatus(labs=1)}
    await world.status(workers["w2"], **ready, **seen)
    licence = LicenceStatus(registration="COMPLETED", registered=True, licensed=True)
    await world.status(workers["w6"], **ready, licence=licence)
    await world.status(workers["w5"], phase=WorkerPhase.TERMINATED, summary="terminated")
    for steps in (
        settings_and_tokens(), licences(), worker_verbs(), compatible(), past_runs(),
    ):  # fmt: skip
        for step in steps:
            reply = await ask.ask(*step)
            if step[1].endswith("/bulk-import"):
                found = reply.json["imported"][0]
                await ask.ask("POST", f"/api/v1/workers/{found}/adopt", {"template": "metal"})
    session = await world.services.objects.get(KINDS["Session"].type, "s1", "default")
    await world.status(
        session, phase=SessionPhase.RUNNING, worker="w1", start=world.clock.now(),
        end=world.clock.now(),
    )  # fmt: skip
    for step in runs_and_sessions():
        reply = await ask.ask(*step)
        if step[1] == "/request_run":
            await life_of_a_run(ask, reply.json["record"])
    await ask.ask(
        "POST", "/api/v1/sessions", {"metadata": {"name": "s9"}, "spec": SPECS["Session"]}
    )
    await a_moved_slot(ask)
    await a_groups_times(ask)
    await what_it_should_ask_for(ask)
    failed = await world.services.objects.get(KINDS["Session"].type, "s9", "default")
    await world.status(failed, phase=SessionPhase.FAILED, reason="WorkerLost")
    await ask.ask("POST", "/api/v1/sessions/s9/retry", {"reason": "the worker was lost"})
    await a_lab_that_runs(ask, failed)
    await what_a_person_holds(ask)
    at = world.clock.now()
    kept = KeptWork(
        readers="owner", tries=1, at=at, until=at + timedelta(days=7), size=2048, nodes=2
    )
    await world.status(failed, kept=kept)
    await ask.ask("DELETE", "/api/v1/sessions/s9/kept-lab")
    await world.definition("old")
    # Pool exam has promised its places to the group's seats, so it is not the one that goes.
    await world.make("Pool", "unused", {"template": "metal", "track": "unused"})
    for kind, name in UNUSED.items():
        await ask.ask("DELETE", f"/api/v1/{KINDS[kind].plural}/{name}")
    return ask.found


def written(found: dict[str, dict[str, Any]]) -> str:
    """Return the file: one operation a line."""
    rows = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in sorted(found.items())]
    return "{\n" + ",\n".join(rows) + "\n}\n"


async def record() -> str:
    """Play the story in an installation of its own; return the file."""
    async with opened() as api:
        return written(await play(api))


if __name__ == "__main__":
    FILE.write_text(asyncio.run(record()), encoding="utf-8")

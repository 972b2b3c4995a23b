"""Records a revision, for tests that later ones must pass: run it with that revision's code.

    .venv/bin/python tests/recorded/record.py NAME [--seeds 50..50] [--hours 1.3] [--most 5]

writes `tests/recorded/NAME`: what clients see (`record_surface`), and databases of rehearsals
at instants at which, over the set, every kind of effect was open and every phase was had, each
with the worlds' truth of that instant (`recorded_worlds`). Seeds make it repeatable. Every secret
in it is a throw-away one of a rehearsal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "stores")]

import databases
import record_surface
import recorded_worlds
import recording
from postgres_server import PostgresServer
from rare_events import RareEvents, rush_hours
from receiver import URLS, Receiver

from labfleet.rehearsal import faults
from labfleet.rehearsal.people.people import Demand, People
from labfleet.rehearsal.replicas.fleet_client import ADMIN, DirectClient
from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.seeds.run import Options
from labfleet.rehearsal.stage import scheduled_faults
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.service.core.access import Role
from labfleet.service.core.tokens import Tokens
from labfleet.service.verbs import admission
from labfleet.stores.postgres import PostgresDatabase

LEFT_OUT = ("tag_taken", "cleaner")
"""Somebody else's acts with a second half that a recording cannot play."""
WORKERS, SESSIONS = 6, 160
CALLS = {"call_lost_after": 0.06, "call_lost_before": 0.02, "call_late": 0.03, "call_slow": 0.25}
"""Calls of which many are slow or lost, so that many effects are open at once."""
EFFECT = "effect "
DELAYS = (0.0, 0.02, 0.3, 1.0, 5.0)
"""Seconds after a commit at which it is looked: before its call, during and after it."""


@dataclass
class Recorder:
    """Watches one rehearsal: first what is to be seen at each look, then takes the chosen looks."""

    stage: Stage
    receiver: Receiver
    chosen: frozenset[int] | None
    sights: dict[frozenset[str], int] = field(default_factory=dict)
    taken: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    ready: bool = False
    commits: int = 0
    looks: int = 0

    def committed(self, *_: object) -> None:
        """Look again in a moment."""
        self.commits += 1
        delay = DELAYS[self.commits % len(DELAYS)]
        self.stage.loop.call_later(delay, self.look)

    def look(self) -> None:
        """Note what is to be seen, or take it."""
        self.looks += 1
        if self.ready and self.chosen is None:
            self.sights.setdefault(frozenset(self.shows()), self.looks)
        elif self.chosen is not None and self.looks in self.chosen:
            self.take()

    def shows(self) -> set[str]:
        """Return what is to be seen now: open effects, phases, and rarer things."""
        known, now = self.stage.invariants, self.stage.loop.time()
        found = set()
        for each in [*known.workers.values(), *known.sessions.values()]:
            status = each.status
            found.add(f"{each.kind} {status.phase}")
            if status.effect is not None:
                age = now - (status.effect.begun - EPOCH).total_seconds()
                found.add(f"{EFFECT}{each.kind} {status.effect.kind}, {_age(age)}")
        workers = known.workers.values()
        found |= {f"origin {w.spec.origin.kind}" for w in workers if w.spec.origin is not None}
        found |= {"drain" for w in workers if w.spec.drain is not None}
        found |= {"licence lost" for w in workers if w.status.licence.leak}
        found |= {"leak" for _ in range(self.leaks())}
        found |= {"leftover" for _ in self.stage.cloud.waste}
        return found

    def leaks(self) -> int:
        """Return how many leaks are on record."""
        database = self.stage.shared.inner
        return len(database.rows("SELECT 1 FROM objects WHERE kind = 'Leak'"))

    def take(self) -> None:
        """Write down database and worlds of this instant."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "copy.db"
            self.stage.shared.inner.backup(str(path))
            dump = databases.dumped(path)
        self.taken.append({
            "name": f"seed{self.stage.seed}-{self.stage.loop.time():.0f}s",
            "shows": sorted(self.shows()),
            "sql": dump,
            # Through JSON at once: the worlds go on, and what they hold changes in place.
            "worlds": json.loads(json.dumps(recorded_worlds.described(self.stage))),
            "tokens": list(self.tokens),
            "requests": list(self.requests),
            "received": {name: list(ids) for name, ids in self.receiver.got.items()},
        })  # fmt: skip


async def office(recorder: Recorder, people: People) -> None:
    """Make what the people of a rehearsal do not: tokens, webhooks, simulations, known requests."""
    send, desk = people.operators.send, DirectClient()
    while not any(each.cache.cursor for each in recorder.stage.living()):
        await asyncio.sleep(1)
    for name, url in URLS.items():
        spec = {"url": url, "types": ["*"], "secret": {"env": "HOOK_SECRET"}}
        await send(desk.create("Webhook", name, spec, f"hook-{name}"))
    await send(desk.create("Cluster", "default", {"capacity": {"cpu": 8, "memory": "32Gi"}}, "c"))
    for number, cpu in enumerate((2, 2, 64)):
        body = {
            "cluster": "default",
            "cost": {"cpu": cpu, "memory": "1Gi"},
            "durationSeconds": 7200,
        }
        made = await send(_run(body, f"run-{number}"))
        recorder.requests.append({"body": body, "key": f"run-{number}", "name": made.name})
        if number == 1:
            await send(_over(made.name))
    for role in Role:
        for state in ("good", "revoked", "expired"):
            recorder.tokens.append(await _token(send, role, state))
    await asyncio.sleep(600)
    for name in ("kept", "kept-too"):
        spec = {"definition": "pod", "owner": "office", "slot": {"zone": "UTC"}}
        made = await send(desk.create("Session", name, spec, f"session-{name}"))
        recorder.requests.append({"spec": spec, "key": f"session-{name}", "name": name,
                                  "uid": made.metadata.uid})  # fmt: skip
    recorder.ready = True


def _age(seconds: float) -> str:
    return "just committed" if seconds < 0.2 else "under way or lost"


def _run(body: dict[str, Any], key: str) -> Any:
    return lambda at: at.ask(
        lambda parts: admission.request_run(parts, ADMIN, body, key=key, namespace="default")
    )


def _over(name: str) -> Any:
    return lambda at: at.ask(
        lambda parts: admission.simulation_complete(parts, ADMIN, name, "default")
    )


async def _token(send: Any, role: Role, state: str) -> dict[str, Any]:
    def make(at: Replica) -> Any:
        async def verb(parts: Any) -> Any:
            tokens = Tokens(parts.objects.store, parts.clock, parts.ids)
            soon = parts.clock.now() + timedelta(minutes=5) if state == "expired" else None
            made = await tokens.create(ADMIN.principal, role=role, owner=f"{role}-x", expires=soon)
            if state == "revoked":
                await tokens.revoke(ADMIN.principal, made.row.id)
            return made

        return at.ask(verb)

    made = await send(make)
    return {"role": str(role), "owner": f"{role}-x", "text": made.text, "state": state}


def play(seed: int, hours: float, chosen: frozenset[int] | None = None) -> Recorder:
    """Play one seed and return who watched it."""
    made: list[Recorder] = []

    async def main(loop: loops.Loop) -> None:
        plan = faults.draw(seed, hours).without(LEFT_OUT)
        plan = replace(plan, rates=plan.rates | CALLS)
        receiver = Receiver()
        stage = Stage(loop, seed, plan, deliveries=receiver)
        recorder = Recorder(stage, receiver, chosen)
        made.append(recorder)
        stage.shared.heard += [RareEvents(stage).committed, recorder.committed]
        for number in range(Options().replicas):
            stage.begin(f"r{number + 1}")
        demand, rng = Demand(WORKERS, SESSIONS, 0, hours), stage.rng.stream("people")
        people = People(demand, rng, stage.living, DirectClient(), adopted=stage.invariants.adopted)
        people.operators.put_up = stage.server_at_an_address
        stage.settle_strangers()
        stage.named("the crowd", people.run())
        stage.named("the office", office(recorder, people))
        rush = rush_hours(stage, people.operators, CALLS["call_lost_after"])
        stage.named("the rush hours", rush)
        stage.named("the caretaker", people.operators.care())
        for each in plan.scheduled:
            stage.named(each.word, scheduled_faults.play(stage, each))
        await asyncio.sleep(hours * 3600)
        assert not stage.invariants.found, stage.invariants.found

    loops.run(seed, main)
    return made[0]


def cover(sights: dict[int, dict[frozenset[str], int]], most: int) -> dict[int, set[int]]:
    """Choose so many looks (by seed) that together show most, and each kind of effect in any case.

    Recordings of a seed share their log, so one more of a seed that is chosen costs little.
    """
    left = {word for found in sights.values() for shows in found for word in shows}
    effects = {_kind(word) for word in left if word.startswith(EFFECT)}
    chosen: dict[int, set[int]] = {}
    while effects or sum(map(len, chosen.values())) < most:
        seed, look, shows = max(
            ((seed, look, shows) for seed, found in sights.items() for shows, look in found.items()),
            key=lambda each: 5 * len({*map(_kind, each[2])} & effects) + len(each[2] & left)
            + 3 * (each[0] in chosen),
        )  # fmt: skip
        chosen.setdefault(seed, set()).add(look)
        left -= shows
        effects -= {*map(_kind, shows)}
    print(f"not shown: {sorted(left)}")
    return chosen


def _kind(word: str) -> str:
    return word.partition(",")[0]


def main() -> None:
    """Record everything."""
    ask = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    ask.add_argument("name", help="the revision whose code this is")
    ask.add_argument("--seeds", default="50..50")
    ask.add_argument("--hours", type=float, default=1.3)
    ask.add_argument("--most", type=int, default=5, help="recordings (default 5)")
    given = ask.parse_args()
    first, last = map(int, given.seeds.split(".."))
    folder, root = HERE / given.name, HERE.parent.parent
    surface = {"openapi": record_surface.openapi(root), "manifests": record_surface.manifests(root),
               "objects": record_surface.fullest()}  # fmt: skip
    recording.write(folder / "surface.json.xz", surface)
    with PostgresServer() as server:
        url = server.new_database()
        PostgresDatabase(url, new_epoch=lambda: "recorded", readers=1).close()
        (folder / "postgres.sql").write_text(databases.postgres_schema(server, url))
    sights = {seed: play(seed, given.hours).sights for seed in range(first, last + 1)}
    for seed, looks in sorted(cover(sights, given.most).items()):
        taken = play(seed, given.hours, frozenset(looks)).taken
        path = folder / f"seed{seed}.json.xz"
        recording.write(path, taken)
        print(f"{path.name}: {path.stat().st_size} bytes")
        for each in taken:
            print(f"  {each['name']}: {', '.join(each['shows'])}")


if __name__ == "__main__":
    main()

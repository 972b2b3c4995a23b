"""The invariants I1 to I9, as pure functions of journal and state.

They are described in docs/reference/aws-simulator.md as well.

I1, I4, I6 and I7 need only AWS data. The others need facts that the caller gives, or that the
linked CML simulator gave at the time of the call; without the fact an invariant is not judged.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from aws_simulator import buckets
from aws_simulator.journal import Entry, Minutes

Found = dict[str, str]
Periods = list[list[float | None]]
HAZARDS = ("StopInstances", "TerminateInstances")
OPEN = "RunInstances"


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts known to the program under test; times are simulated Unix seconds.

    owner: value of our owner tag (I2, I5, I6). workers: worker uid → its instance ids, the records
    that exist (I2). grace: instances younger than this are not judged (I2). intents: client tokens
    that were written down before a launch (I4). busy: instance → periods with running labs (I3).
    licences: instance → periods with a registered licence (I8). checks: instance → times of busy
    checks (I9), `fresh` the most seconds before a stop. forced: instances that a person forced (I3,
    I8, I9). adopted: instances taken over by hand (I5). kept: volumes and addresses meant to stay
    (I6). keys: judge only calls of these access keys (I3, I5, I8, I9). budget: share of the
    buckets' refill that calls may use (I7). cml: use what the CML link recorded (I3, I8, I9).
    """

    owner: str | None = None
    workers: dict[str, list[str]] | None = None
    grace: float = 0.0
    intents: list[str] | None = None
    busy: dict[str, Periods] = dataclasses.field(default_factory=dict)
    licences: dict[str, Periods] = dataclasses.field(default_factory=dict)
    checks: dict[str, list[float]] | None = None
    fresh: float = 60.0
    forced: list[str] = dataclasses.field(default_factory=list)
    adopted: list[str] = dataclasses.field(default_factory=list)
    kept: list[str] = dataclasses.field(default_factory=list)
    keys: list[str] = dataclasses.field(default_factory=list)
    budget: float | None = None
    cml: bool = False


@dataclasses.dataclass(frozen=True)
class Books:
    """The simulator's own records: calls, real state, counters."""

    entries: Iterable[Entry] = ()
    instances: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    volumes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    addresses: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    doubles: Iterable[str] = ()
    minutes: Minutes = dataclasses.field(default_factory=collections.Counter)
    now: float = 0.0
    owner_tag: str = ""
    worker_tag: str = ""


def parse(body: dict[str, Any]) -> Facts:
    """Build facts from JSON; ValueError for an unknown key."""
    known = {field.name for field in dataclasses.fields(Facts)}
    unknown = sorted(set(body) - known)
    if unknown:
        raise ValueError(f"unknown facts: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return Facts(**body)


def check(books: Books, facts: Facts) -> list[Found]:
    """Return the violations found; an empty list when every invariant holds."""
    entries = [
        entry
        for entry in books.entries
        if entry.source == "api" and (not facts.keys or entry.key in facts.keys)
    ]
    found = list(_doubles(books))
    found += _strangers(books, facts)
    found += _launches(books, entries, facts)
    found += _left(books, facts)
    found += _rates(books.minutes, facts.budget)
    for entry in entries:
        if entry.status < 400 and not entry.dry_run:
            found += [] if facts.owner is None else _foreign(entry, facts, facts.owner)
            if entry.action in HAZARDS:
                found += _hazards(entry, facts)
    return found


def _broken(name: str, message: str) -> Found:
    return {"invariant": name, "message": message}


def _doubles(books: Books) -> Iterator[Found]:
    """I1: no worker ever had, or has now, two living instances."""
    living = collections.Counter(
        item["tags"][books.worker_tag]
        for item in books.instances
        if item["state"] != "terminated" and books.worker_tag in item["tags"]
    )
    twice = [worker for worker, count in living.items() if count > 1]
    for worker in dict.fromkeys([*books.doubles, *twice]):
        yield _broken("I1", f"worker {worker} had two live instances")


def _strangers(books: Books, facts: Facts) -> Iterator[Found]:
    """I2: no living instance with our owner tag without a worker's record."""
    if facts.owner is None or facts.workers is None:
        return
    recorded = {instance for ids in facts.workers.values() for instance in ids}
    for item in books.instances:
        ours = item["tags"].get(books.owner_tag) == facts.owner
        old = books.now - item.get("launched", 0.0) >= facts.grace
        living = item["state"] not in ("terminated", "shutting-down")
        if ours and old and living and item["id"] not in recorded:
            yield _broken("I2", f"instance {item['id']} has our tag and no worker")


def _launches(books: Books, entries: list[Entry], facts: Facts) -> Iterator[Found]:
    """I4: each launch has a token, each token launched once, and each token was an intent."""
    tokens = collections.Counter((item["zone"], item["token"]) for item in books.instances)
    for (_, token), count in tokens.items():
        if token and count > 1:
            yield _broken("I4", f"token {token} launched {count} instances")
    for item in books.instances:
        if not item["token"]:
            yield _broken("I4", f"instance {item['id']} was launched without a token")
    if facts.intents is None:
        return
    asked = {entry.token for entry in entries if entry.action == OPEN and not entry.dry_run}
    for token in sorted(asked - set(facts.intents)):
        yield _broken("I4", f"RunInstances was called with token {token!r} and no intent")


def _left(books: Books, facts: Facts) -> Iterator[Found]:
    """I6: no volume and no elastic address outlives its instance."""
    alive = {item["id"] for item in books.instances if item["state"] != "terminated"}
    for what, things in (("volume", books.volumes), ("address", books.addresses)):
        for thing in things:
            owner = thing.get("tags", {}).get(books.owner_tag)
            ours = facts.owner is None or owner == facts.owner
            if ours and thing["instance"] not in alive and thing["id"] not in facts.kept:
                yield _broken("I6", f"{what} {thing['id']} was left behind")


def _foreign(entry: Entry, facts: Facts, owner: str) -> Iterator[Found]:
    """I5: no call changes what does not carry our owner tag."""
    for resource, tag in zip(entry.ids, entry.owners, strict=False):
        if tag != owner and resource not in facts.adopted:
            whose = f"of {tag}" if tag else "without an owner"
            yield _broken("I5", f"{entry.action} touched {resource} {whose}")


def _hazards(entry: Entry, facts: Facts) -> Iterator[Found]:
    """I3, I8, I9: what must hold when an instance is stopped or terminated."""
    for instance in entry.ids:
        if instance in facts.forced:
            continue
        told = entry.facts.get(instance, {}) if facts.cml else {}
        labs = int(told.get("labs_running", 0)) if told.get("on") else 0
        if labs or _during(facts.busy.get(instance, []), entry.time):
            yield _broken("I3", f"{entry.action} of {instance} while labs were running")
        licensed = bool(told.get("licensed"))
        if entry.action == "TerminateInstances" and (
            licensed or _during(facts.licences.get(instance, []), entry.time)
        ):
            yield _broken("I8", f"{instance} was terminated with its licence registered")
        if entry.action == "StopInstances" and not _fresh(entry, instance, told, facts):
            yield _broken(
                "I9", f"{instance} was stopped without a busy check in the last {facts.fresh:.0f} s"
            )


def _during(periods: Periods, at: float) -> bool:
    return any((since or 0.0) <= at and (until is None or at < until) for since, until in periods)


def _fresh(entry: Entry, instance: str, told: dict[str, Any], facts: Facts) -> bool:
    """Tell whether a busy check came shortly before a stop; True when nothing is known of checks."""
    known = False
    if facts.checks is not None:
        known = True
        times = facts.checks.get(instance, [])
        if any(0 <= entry.time - at <= facts.fresh for at in times):
            return True
    if told.get("on"):
        known = True
        ago = told.get("checked_ago")
        if ago is not None and ago <= facts.fresh:
            return True
    return not known


def _rates(minutes: Minutes, budget: float | None) -> Iterator[Found]:
    """I7: no action is called more often in a minute than its bucket, or the budget, passes."""
    worst: dict[tuple[str, str], tuple[int, float]] = {}
    for (_, region, action, narrowed, _), calls in minutes.items():
        maximum, refill = buckets.limit(action, narrowed=narrowed)
        allowed = maximum + 60 * refill if budget is None else max(1.0, 60 * refill * budget)
        if calls > allowed and calls > worst.get((region, action), (0, 0.0))[0]:
            worst[region, action] = (calls, allowed)
    for (region, action), (calls, allowed) in worst.items():
        message = f"{action} was called {calls} times in a minute in {region}, {allowed:.0f} fit"
        yield _broken("I7", message)

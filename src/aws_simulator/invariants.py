"""What must never happen on the cloud's side, as one pure function over journal and state.

Only those of facts/aws.md section 3.2 that need nothing but AWS: I1, I4, I6 and I7. The others
need the manager's records and are checked where those are.
"""

import collections
from collections.abc import Iterable
from typing import Any

from aws_simulator import buckets
from aws_simulator.journal import Entry


def check(
    entries: Iterable[Entry],
    instances: list[dict[str, Any]],
    volumes: list[dict[str, Any]],
    doubles: Iterable[str],
) -> list[dict[str, str]]:
    """Return the violations found; an empty list is the good answer."""
    found = [_broken("I1", f"worker {worker} had two live instances") for worker in doubles]
    found += _launches(instances)
    alive = {item["id"] for item in instances if item["state"] != "terminated"}
    found += [
        _broken("I6", f"volume {volume['id']} was left behind")
        for volume in volumes
        if volume["instance"] not in alive
    ]
    return found + _rates(entries)


def _broken(name: str, message: str) -> dict[str, str]:
    return {"invariant": name, "message": message}


def _launches(instances: list[dict[str, Any]]) -> list[dict[str, str]]:
    """I4 as far as AWS sees it: each launch carries a token and each token launched once."""
    tokens = collections.Counter((item["zone"], item["token"]) for item in instances)
    broken = [
        _broken("I4", f"token {token} launched {count} instances")
        for (_, token), count in tokens.items()
        if token and count > 1
    ]
    return broken + [
        _broken("I4", f"instance {item['id']} was launched without a token")
        for item in instances
        if not item["token"]
    ]


def _rates(entries: Iterable[Entry]) -> list[dict[str, str]]:
    """I7: no action is called more often in a minute than its bucket could ever pass."""
    minutes: collections.Counter[tuple[str, str, int]] = collections.Counter()
    for entry in entries:
        if entry.source == "api":
            minutes[entry.region, entry.action, int(entry.time // 60)] += 1
    worst: dict[tuple[str, str], tuple[int, float]] = {}
    for (region, action, _), calls in minutes.items():
        maximum, refill = buckets.limit(action, narrowed=True)
        allowed = maximum + 60 * refill
        if calls > allowed and calls > worst.get((region, action), (0, 0.0))[0]:
            worst[region, action] = (calls, allowed)
    return [
        _broken(
            "I7", f"{action} was called {calls} times in a minute in {region}, {allowed:.0f} fit"
        )
        for (region, action), (calls, allowed) in worst.items()
    ]

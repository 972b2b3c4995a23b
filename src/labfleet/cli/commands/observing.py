"""`observe`: have a running session's lab looked at now, and say what was seen of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from labfleet.cli.commands import waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import backoff
from labfleet.resources.session_conditions import SessionCondition

_USED = (("cpu_milli", "mCPU"), ("memory_mib", "MiB of memory"), ("storage_mib", "MiB of disk"))
_GAPS = 5


@click.command("observe", short_help="Look at a running session's lab now.")
@click.argument("name", metavar="SESSION", shell_complete=completing.of_kind("session"))
@click.option("--no-wait", is_flag=True, help="Only ask; the session shows it later.")
@click.option("--timeout", default="60s", show_default=True, help="How long to wait for the look.")
@connected
def observe(call: Call, *, name: str, no_wait: bool, timeout: str) -> int:
    """Look at a running session's lab now: its nodes, what it has and uses, and its ports.

    A look that fails changes nothing of what was known, and says why (exit 3).
    """
    target = targets.one(name, "session")
    seconds = calls.seconds(timeout, "--timeout")
    asked = call.api.post(f"{target.path}/observe", {}, namespace=call.settings.namespace)
    if not no_wait:
        asked = _answered(call, target, asked, seconds)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(asked, "")
    elif no_wait:
        output.say(f"{target}: an observation is asked for")
        return exits.OK
    else:
        for line in _told(asked, call.out.now()):
            output.say(human_units.printable(line))
    fact = _fact(asked, SessionCondition.COLLECTED)
    if not no_wait and fact.get("status") == "False":
        raise exits.Failure(exits.UNMET, f"{target} was not observed: {fact.get('message')}")
    return exits.OK


def _answered(call: Call, target: targets.Target, asked: Any, seconds: float) -> Any:
    """Return the session once its lab was looked at; Failure when that takes too long."""
    wanted, uid = paths.simple(asked, "spec.observeRequested"), waiting.uid_of(asked)
    deadline, looks = call.environment.monotonic() + seconds, 0
    while True:
        obj = targets.fetch(call, target)
        if obj is None or waiting.uid_of(obj) != uid:
            raise exits.Failure(exits.NOT_FOUND, f"{target} is gone")
        handled = human_units.instant(paths.simple(obj, "status.observeHandled"))
        since = human_units.instant(wanted)
        if handled is not None and since is not None and handled >= since:
            return obj
        left = deadline - call.environment.monotonic()
        if left <= 0:
            why = _fact(obj, SessionCondition.HOST_REACHABLE).get("message") or "no look yet"
            cause = f"{target} was not looked at within {human_units.span(seconds)}: {why}"
            raise exits.Failure(exits.TIMEOUT, cause, hint="It is asked for and comes later.")
        looks += 1
        call.environment.sleep(min(left, backoff.delay(looks, 1.0, base=0.2, limit=2.0)))


def _told(obj: Any, now: datetime) -> Iterator[str]:
    """Yield what was seen, a line for each thing."""
    seen = paths.simple(obj, "status.observedResources") or {}
    if seen:
        yield f"Observed:   {human_units.when(seen.get('observedAt'), now)} by {seen.get('observer')}"
        yield f"Nodes:      {seen.get('actualNodeCount')}"
        has = [(seen.get("totalCpuCores"), "cores"), (seen.get("totalMemoryMb"), "MB of memory")]
        yield "Allocation: " + _amounts(has)
    used = paths.simple(obj, "status.used") or {}
    peaks = [((used.get(key) or {}).get("peak"), unit) for key, unit in _USED]
    yield "Peak use:   " + _amounts(peaks)
    yield "Ports:      " + _ports(obj)
    gaps = seen.get("gaps") or []
    for gap in gaps[:_GAPS]:
        yield f"Not seen:   {gap}"
    if len(gaps) > _GAPS:
        yield f"Not seen:   {len(gaps) - _GAPS} things more (get -o yaml)"


def _amounts(values: list[tuple[Any, str]]) -> str:
    known = [f"{value:g} {unit}" for value, unit in values if value is not None]
    return ", ".join(known) or "unknown"


def _ports(obj: Any) -> str:
    if paths.simple(obj, "status.observedPorts") is None:
        return "unknown: not seen yet"
    drift = _fact(obj, SessionCondition.PORT_DRIFT)
    if drift.get("status") == "True":
        return f"drift: {drift.get('message')}"
    return "as given"


def _fact(obj: Any, name: str) -> dict[str, Any]:
    found = paths.simple(obj, "status.conditions") or []
    return next((each for each in found if each.get("type") == name), {})

"""`wait`: until a phase, a condition or deletion; ends early when that cannot come any more.

It polls instead of watching: level-triggered, so no lost event can make it miss what it waits
for. Ctrl-C ends only the waiting; the server goes on.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, paths, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import backoff
from labfleet.resources import spellings
from labfleet.resources.session import TERMINAL

_LINE = ("PENDING", "SCHEDULED", "INSTANTIATING", "READY", "RUNNING")
_ENDS = {
    "Session": TERMINAL,
    "Worker": {"TERMINATED", "FAILED"},
    "Pool": {"TERMINATED", "FAILED"},
    "Simulation": {"DENIED", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"},
}
READY_PHASE = {"Session": "READY", "Worker": "READY", "Pool": "READY"}


class WaitVerdict(enum.Enum):
    """The result of one poll: met, may come, or cannot come any more."""

    MET = "met"
    OPEN = "open"
    HOPELESS = "hopeless"


@dataclass(frozen=True)
class WaitTarget:
    """What is waited for: `phase`, `condition`, `create` or `delete`, and its value."""

    what: str
    name: str = ""
    value: str = ""

    def __str__(self) -> str:
        if self.what == "condition":
            return f"condition {self.name}={self.value}"
        named = {"delete": "its deletion", "create": "its creation"}
        return named.get(self.what) or f"phase {self.value}"

    @property
    def missed(self) -> str:
        """Return what did not happen, for a sentence about the object."""
        named = {"delete": "was not deleted", "create": "was not created"}
        return named.get(self.what) or f"did not reach {self}"


def parse(text: str) -> WaitTarget:
    """Return the wish of `phase=X`, `condition=Y[=True]`, `create` or `delete`."""
    what, _, rest = text.partition("=")
    if what in {"create", "delete"} and not rest:
        return WaitTarget(what)
    if what == "phase" and rest:
        return WaitTarget("phase", value=rest.upper())
    if what == "condition" and rest:
        name, _, value = rest.partition("=")
        status = {"true": "True", "false": "False", "unknown": "Unknown"}.get(
            (value or "true").lower()
        )
        if name and status:
            return WaitTarget("condition", spellings.condition(name), status)
    hint = "Write phase=READY, condition=Ready[=True|False|Unknown], create or delete."
    raise exits.usage(f"cannot wait for {text!r}", hint)


def check(wish: WaitTarget, kind: str) -> None:
    """Refuse a phase that the kind never has: waiting for it would only time out."""
    from labfleet.resources import pool, session, simulation, worker

    phases: dict[str, type[enum.StrEnum]] = {
        "Worker": worker.WorkerPhase,
        "Session": session.SessionPhase,
        "Pool": pool.PoolPhase,
        "Simulation": simulation.SimulationPhase,
    }
    known = phases.get(kind)
    if wish.what == "phase" and known is not None and wish.value not in set(known):
        hint = "The phases are " + ", ".join(known) + "."
        raise exits.usage(f"a {kind.lower()} is never {wish.value}", hint)


def judge(kind: str, obj: Any, wish: WaitTarget) -> WaitVerdict:
    """Return whether the wish is met, may yet be, or cannot be any more.

    READY counts as met while RUNNING, because a look may come after the step; not once the
    session is on its way out.
    """
    phase = str(paths.simple(obj, "status.phase") or "")
    if wish.what == "create":
        return WaitVerdict.MET
    if wish.what == "phase":
        if phase == wish.value or _passed(kind, phase, wish.value):
            return WaitVerdict.MET
        leaving = kind == "Session" and phase in {"COLLECTING", "STOPPING"}
        if phase in _ENDS.get(kind, ()) or (leaving and wish.value in _LINE):
            return WaitVerdict.HOPELESS
        return WaitVerdict.OPEN
    if wish.what == "condition":
        for each in paths.simple(obj, "status.conditions") or ():
            if each.get("type") == wish.name and each.get("status") == wish.value:
                return WaitVerdict.MET
        return WaitVerdict.HOPELESS if phase in _ENDS.get(kind, ()) else WaitVerdict.OPEN
    return WaitVerdict.OPEN


def _passed(kind: str, phase: str, wanted: str) -> bool:
    if kind == "Worker":
        return (phase, wanted) == ("ACTIVE", "READY")
    if kind == "Session" and phase in _LINE and wanted in _LINE:
        return _LINE.index(phase) > _LINE.index(wanted)
    return False


def outcome(target: targets.Target, obj: Any, wish: WaitTarget) -> exits.Failure:
    """Return the failure for a wish that cannot be met any more."""
    phase = paths.simple(obj, "status.phase")
    message = paths.simple(obj, "status.message") or ""
    decision = paths.simple(obj, "status.decision") or {}
    refused = phase == "FAILED" and decision.get("outcome") in {"refused", "denied"}
    why = str(message or decision.get("message") or paths.simple(obj, "status.reason") or "")
    cause = f"{target} is {phase} and cannot reach {wish} any more"
    return exits.Failure(
        exits.REFUSED if refused or phase == "DENIED" else exits.UNMET,
        f"{cause}: {why}" if why else cause,
        hint=f"See labfleet explain {target}.",
        reason=str(paths.simple(obj, "status.reason") or ""),
    )


def uid_of(obj: Any) -> str | None:
    """Return which of the objects that have had a name this is."""
    found = paths.simple(obj, "metadata.uid")
    return str(found) if found else None


def until(
    call: Call, target: targets.Target, wish: WaitTarget, seconds: float, *, uid: str | None = None
) -> Any:
    """Return the object once the wish is met (None for a delete); Failure otherwise.

    It is one object, the one with `uid` or the first that is seen: another one that gets its name
    means that it is gone.
    """
    deadline = call.environment.monotonic() + seconds
    seen: Any = None
    shown, looks, silent = "", 0, False
    while True:
        try:
            obj = targets.fetch(call, target)
            silent = False
        except exits.Failure as failure:
            if failure.code != exits.UNREACHABLE:
                raise
            if not silent:
                call.out.note(f"{failure.cause}; still waiting.")
            obj, silent = seen, True
        if not silent:
            uid = uid or uid_of(obj)
            another = obj is not None and uid_of(obj) != uid
            if (obj is None and wish.what != "create") or another:
                return _gone(target, seen, wish, another=another)
        if not silent and obj is not None:
            verdict = judge(target.kind.name, obj, wish)
            if verdict is WaitVerdict.MET:
                return obj
            if verdict is WaitVerdict.HOPELESS:
                raise outcome(target, obj, wish)
            shown = _progress(call, target, obj, shown)
            seen = obj
        left = deadline - call.environment.monotonic()
        if left <= 0:
            raise _late(target, seen, wish, seconds, unreachable=silent and seen is None)
        looks += 1
        call.environment.sleep(min(left, backoff.delay(looks, 1.0, base=0.2, limit=2.0)))


def _gone(target: targets.Target, seen: Any, wish: WaitTarget, *, another: bool) -> None:
    if wish.what == "delete":
        return
    if seen is None and not another:
        raise exits.Failure(exits.NOT_FOUND, f"{target} does not exist")
    cause = f"{target} was deleted and cannot reach {wish} any more"
    hint = "Another object has its name now, which was not waited for." if another else ""
    raise exits.Failure(exits.UNMET, cause, hint=hint)


def _late(
    target: targets.Target, seen: Any, wish: WaitTarget, seconds: float, *, unreachable: bool
) -> exits.Failure:
    if unreachable:
        state = "the server never answered"
    else:
        state = "it does not exist" if seen is None else f"it is {_state(seen)}"
    cause = f"{target} {wish.missed} within {human_units.span(seconds)}; {state}"
    return exits.Failure(
        exits.UNREACHABLE if unreachable else exits.TIMEOUT,
        cause,
        hint="Wait longer with --timeout."
        if seen is None
        else f"See labfleet explain {target}; wait longer with --timeout.",
    )


def _state(obj: Any) -> str:
    return str(paths.simple(obj, "status.phase") or "there")


def _progress(call: Call, target: targets.Target, obj: Any, shown: str) -> str:
    """Print each new phase once, as a plain line; and each new place of one that waits."""
    message = paths.simple(obj, "status.message")
    said = f" ({message})" if message else ""
    place = paths.simple(obj, "status.outlook.position")
    known = f"{target}: {_state(obj)}{said} {place or ''}"
    if known != shown:
        foreseen = paths.simple(obj, "status.outlook.words")
        starts = f", {foreseen}" if foreseen else ""
        call.out.note(human_units.printable(f"{target}: {_state(obj)}{starts}{said}"))
    return known


def for_each(
    call: Call,
    meant: Iterable[tuple[targets.Target, WaitTarget, str | None]],
    seconds: float,
    told: Callable[[targets.Target, Any], str],
) -> tuple[int, list[Any]]:
    """Wait for one object after the other, all within one deadline; `meant` has their uids.

    Return the exit code, which is another than 0 when somebody interrupts, and the objects that
    are there. `told` makes the line that is said of each; "" says nothing.
    """
    deadline = call.environment.monotonic() + seconds
    found: list[Any] = []
    for target, wish, uid in meant:
        try:
            left = max(0.0, deadline - call.environment.monotonic())
            obj = until(call, target, wish, left, uid=uid)
        except KeyboardInterrupt:
            detached(target)
            return exits.INTERRUPTED, found
        line = told(target, obj)
        if line:
            call.out.note(line)
        if obj is not None:
            found.append(obj)
    return exits.OK, found


def detached(target: object) -> None:
    """Say that Ctrl-C ended only the waiting."""
    click.echo(f"\nStopped waiting; {target} goes on. labfleet wait takes it up again.", err=True)


@click.command("wait", short_help="Wait until an object has a phase or condition, or is gone.")
@click.argument("args", nargs=-1, metavar="KIND/NAME...",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option("--for", "wanted", required=True, metavar="WISH",
              help="phase=X, condition=Y[=True|False|Unknown], create or delete.")  # fmt: skip
@click.option("--timeout", default="20m", show_default=True, help="Give up after (exit 8).")
@connected
def wait(call: Call, *, args: tuple[str, ...], wanted: str, timeout: str) -> int:
    """Wait until objects have a phase or condition, exist, or are gone.

    An object is followed, not its name: when it is deleted, another one that gets its name is not
    waited for.

    Exit 0 met, 3 cannot be met any more, 4 not found, 7 refused or denied, 8 timed out,
    9 no answer from the server. Ctrl-C stops the waiting and nothing else (exit 130).
    """
    wish = parse(wanted)
    seconds = calls.seconds(timeout, "--timeout")
    wanted_targets = targets.parse(args)
    for target in wanted_targets:
        check(wish, target.kind.name)
    # Which objects are meant is settled now, and not when the turn comes to each.
    many = len(wanted_targets) > 1
    meant = [(each, wish, _uid_now(call, each) if many else None) for each in wanted_targets]
    met = "is there" if wish.what == "create" else f"reached {wish}"
    code, found = for_each(
        call, meant, seconds, lambda target, obj: f"{target} {'is gone' if obj is None else met}."
    )
    if code != exits.OK:
        return code
    if not call.out.structured and call.out.format not in {"name", "jsonpath"}:
        return exits.OK
    if len(wanted_targets) == 1 and found:
        call.out.show(wanted_targets[0].kind, found[0])
    else:
        call.out.objects([each.kind for each in wanted_targets], found, spaces=False)
    return exits.OK


def _uid_now(call: Call, target: targets.Target) -> str | None:
    """Return which object has the name now; None when there is none, or nobody answers."""
    try:
        return uid_of(targets.fetch(call, target))
    except exits.Failure as failure:
        if failure.code != exits.UNREACHABLE:
            raise
        return None

"""`extend`, `shorten` and `move` of groups: all seats at once, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from labfleet.cli.commands import waiting
from labfleet.cli.kit import exits, human_units, output, paths, safety, targets
from labfleet.cli.kit.call import Call
from labfleet.kernel import clock
from labfleet.resources.group import LABEL

Wanted = Callable[[datetime], datetime]
"""The time that is asked for, by the present one."""


def wanted(to: datetime | None, by: timedelta) -> Wanted:
    """Return the time that is asked for: a given one, or the present one moved by a span."""
    return lambda present: present + by if to is None else to


def named(names: Sequence[str], selector: str | None) -> list[str]:
    """Return the groups that a command names; none when it names sessions. Failure for both at once."""
    found = [each for each in names if _is_group(each)]
    if found and (selector or len(found) < len(names)):
        raise exits.usage("name groups alone, without sessions and -l")
    return found


def _is_group(name: str) -> bool:
    """Tell whether a name is KIND/NAME of a group."""
    kind, slash, _ = name.partition("/")
    return bool(slash) and targets.kind_of(kind).name == "Group"


def refuse_seats(call: Call, selector: str | None, ask: str) -> None:
    """Raise the refusal of a command that would move seats chosen by their group, and not the group.

    Its seats would start then and the group would say another time; `ask` is the rest of the command.
    """
    if not selector or LABEL not in selector:
        return
    kind = targets.kind_of("session")
    seats = [obj for _, obj in safety.selected(call, kind, selector)]
    groups = sorted(
        {str(each) for obj in seats if (each := paths.simple(obj, "status.seat.group"))}
    )
    if groups:
        which = " ".join(f"group/{each}" for each in groups)
        cause = f"-l {selector} would move seats, and their group would still say the old start"
        hint = f"Move all of them with their group: labfleet move {which} {ask}"
        raise exits.usage(cause, hint)


def change(call: Call, names: Sequence[str], verb: str, field: str, at: Wanted) -> int:
    """Ask for another start or end of each group; the server changes all seats of one, or none."""
    pairs = safety.each_target(
        call, [targets.one(each, "group") for each in names], missing_ok=False
    )

    def changed(target: targets.Target, obj: Any) -> Any:
        present = human_units.instant(paths.simple(obj, f"status.{field}"))
        if present is None:
            raise exits.Failure(exits.CONFLICT, f"{target} has no {field} yet", reason="NoSlot")
        body = {field: clock.format_instant(at(present))}
        space = targets.space(call, target)
        uid = waiting.uid_of(obj)
        answer = call.api.post(f"{target.path}/{verb}", body, namespace=space, uid=uid)
        _tell(call, target, answer, verb)
        return answer

    answers, failed = safety.asked_of_each(pairs, changed)
    if call.out.structured and answers:
        many = {"kind": "List", "items": answers}
        call.out.value(answers[0] if len(pairs) == 1 else many, "")
    call.raise_last(failed)
    return exits.OK


def _tell(call: Call, target: targets.Target, group: Any, verb: str) -> None:
    """Say when a group is now, and of seats with times of their own that there are some."""
    if call.out.structured:
        return
    if call.out.quiet:
        output.say(target.name)
        return
    start, end = (
        human_units.when(paths.simple(group, f"status.{each}"), call.now())
        for each in ("start", "end")
    )
    output.say(
        f"{target} starts {start} and ends {end}" if verb == "move" else f"{target} ends {end}"
    )
    differ = paths.simple(group, "status.times.differ") or 0
    if differ:
        have = "seat has times of its own" if differ == 1 else "seats have times of their own"
        call.out.note(f"{differ} {have}: labfleet explain {target}")

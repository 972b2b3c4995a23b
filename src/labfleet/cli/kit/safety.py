"""Finds who would be cut off, and asks before anything that ends other people's labs.

Source: facts/interface.md#ask-before-harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labfleet.cli.kit import deeds, exits, human_units, output, paths, targets
from labfleet.cli.kit.call import Call
from labfleet.resources import course, kinds
from labfleet.resources.group import LABEL
from labfleet.resources.session import TERMINAL

_CONNECTED = frozenset({"READY", "RUNNING"})
_NAMED = 3


def connected_people(call: Call, target: targets.Target, obj: Any) -> list[Any]:
    """Return the sessions in use that would end with this object."""
    kind = target.kind.name
    if kind == "Session":
        return [obj] if paths.simple(obj, "status.phase") in _CONNECTED else []
    if kind == "Group":
        seats, _, _ = call.api.items(
            kinds.KINDS["Session"].plural, namespace=targets.space(call, target), group=target.name
        )
        return [each for each in seats if paths.simple(each, "status.phase") in _CONNECTED]
    if kind == "Course":
        seats, _, _ = call.api.items(
            kinds.KINDS["Session"].plural,
            namespace=targets.space(call, target),
            labelSelector=f"{course.LABEL}={target.name}",
        )
        return [each for each in seats if paths.simple(each, "status.phase") in _CONNECTED]
    if kind not in {"Worker", "Pool"}:
        return []
    workers = {target.name}
    if kind == "Pool":
        found, _, _ = call.api.items("workers", namespace=call.settings.namespace)
        workers = {
            output.name_of(each) for each in found if paths.simple(each, "spec.pool") == target.name
        }
    sessions, _, _ = call.api.items(
        kinds.KINDS["Session"].plural, namespace=call.settings.namespace
    )
    return [
        each
        for each in sessions
        if paths.simple(each, "status.phase") in _CONNECTED
        and paths.simple(each, "status.worker") in workers
    ]


def ask(
    call: Call, action: str, target: targets.Target, obj: Any, *, yes: bool, effect: str = "ends"
) -> None:
    """Ask when people are connected; refuse where nobody can answer and --yes was not said."""
    if yes:
        return
    sessions = connected_people(call, target, obj)
    if not sessions:
        return
    shown = ", ".join(_person(call, each) for each in sessions[:_NAMED])
    rest = f" and {len(sessions) - _NAMED} more" if len(sessions) > _NAMED else ""
    question = (
        f"{action} {target} {effect} {human_units.count(len(sessions), 'lab')} that people use now: "
        f"{shown}{rest}."
    )
    call.confirm(question, yes=yes)


def _person(call: Call, session: Any) -> str:
    owner = paths.simple(session, "spec.owner") or "somebody"
    end = human_units.when(paths.simple(session, "status.end"), call.now())
    return human_units.printable(f"{output.name_of(session)} of {owner} until {end}")


def each_target(
    call: Call, wanted: list[targets.Target], *, missing_ok: bool
) -> list[tuple[targets.Target, Any]]:
    """Return the targets with their objects; Failure for the first that does not exist."""
    pairs = []
    for target in wanted:
        obj = targets.fetch(call, target)
        if obj is None:
            if missing_ok:
                call.out.note(f"{target} does not exist.")
                continue
            rest = "; nothing was changed" if len(wanted) > 1 else ""
            raise exits.Failure(
                exits.NOT_FOUND, f"{target} does not exist{rest}",
                hint=f"See what there is: labfleet get {target.kind.plural}.",
            )  # fmt: skip
        pairs.append((target, obj))
    return pairs


def workers(call: Call, names: tuple[str, ...]) -> list[tuple[targets.Target, Any]]:
    """Return the named workers as they are before a verb; Failure for one that does not exist.

    To who may not read them they are unknown: the verb's own refusal says what is not allowed.
    """
    wanted = [targets.one(each, "worker") for each in names]
    try:
        return each_target(call, wanted, missing_ok=False)
    except exits.Failure as failure:
        if failure.code != exits.DENIED:
            raise
        return [(target, deeds.UNKNOWN) for target in wanted]


def is_over(session: Any) -> bool:
    """Tell whether a session has ended, so that nothing of it can be ended or prolonged."""
    return paths.simple(session, "status.phase") in TERMINAL


def over(target: targets.Target, session: Any) -> exits.Failure:
    """Return the refusal of what cannot be done with a session that has ended."""
    phase = paths.simple(session, "status.phase")
    cause = f"{target} is over already ({phase}); nothing was changed"
    return exits.Failure(exits.CONFLICT, cause, reason="AlreadyOver")


def selected(
    call: Call, kind: kinds.Kind, selector: str | None
) -> list[tuple[targets.Target, Any]]:
    """Return all objects of a kind with these labels, in the command line's namespace.

    Seats chosen by their group are those that are seats: an earlier release let anybody set the label.
    """
    items, _, _ = call.api.items(
        kind.plural, namespace=call.settings.namespace, labelSelector=selector
    )
    if kind.name == "Session" and f"{LABEL}=" in (selector or "").replace(" ", ""):
        items = [each for each in items if paths.simple(each, "status.seat") is not None]
    return [(targets.Target(kind, output.name_of(each)), each) for each in items]


def many(pairs: list[tuple[targets.Target, Any]], what: str) -> str:
    """Return the question before something is done with all sessions of a selector."""
    used = sum(paths.simple(obj, "status.phase") in _CONNECTED for _, obj in pairs)
    said = f"{human_units.count(len(pairs), 'session')} would be {what}"
    return f"{said}, {used} of them used by people now." if used else f"{said}."


def chosen_sessions(
    call: Call,
    names: tuple[str, ...],
    selector: str | None,
    *,
    meant: Callable[[Any], bool] = lambda session: not is_over(session),
) -> list[tuple[targets.Target, Any]]:
    """Return the named sessions, or those with these labels that are `meant`: not over."""
    if bool(names) == bool(selector):
        raise exits.usage("name sessions, or choose them by -l LABELS", "For example -l exam=ccnp.")
    if not selector:
        return each_target(call, [targets.one(each, "session") for each in names], missing_ok=False)
    found = selected(call, kinds.KINDS["Session"], selector)
    return [(target, obj) for target, obj in found if meant(obj)]


def asked_of_each(
    pairs: list[tuple[targets.Target, Any]], ask: Callable[[targets.Target, Any], Any]
) -> tuple[list[Any], list[exits.Failure]]:
    """Ask for each; return the answers, and the failures with whose they are.

    Goes on after a refusal, and stops where the next would be refused for the same reason.
    """
    answers: list[Any] = []
    failed: list[exits.Failure] = []
    for target, obj in pairs:
        try:
            answers.append(ask(target, obj))
        except exits.Failure as failure:
            named = (str(target), repr(target.name))
            if len(pairs) > 1 and not any(each in failure.cause for each in named):
                failure.cause = f"{target}: {failure.cause}"
            failed.append(failure)
            if failure.code in {exits.UNREACHABLE, exits.DENIED}:
                break
    return answers, failed

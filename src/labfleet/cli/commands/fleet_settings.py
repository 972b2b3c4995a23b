"""`settings`, `pause` and `resume`: the settings of the whole fleet, and stopping automation."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.kit import completing, deeds, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.resources import fleet_settings, kinds, meta

PATH = "/api/v1/settings"
FLEET = targets.Target(kinds.KINDS["Settings"], fleet_settings.NAME)
GIST = 40
_reason = click.option(
    "--reason", "--message", "-m", "reason", default="", help="Why, for the record."
)


@click.group("settings", short_help="Show and change what holds for the whole fleet.",
             invoke_without_command=True)  # fmt: skip
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@connected
def settings(call: Call) -> int:
    """Show every setting's value in force, and where the value comes from.

    The source is settings (somebody set it), environment with the variable, or default.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return exits.OK
    call.mute_pause()
    answer = call.api.get(f"{PATH}/effective")
    if not isinstance(answer, dict) or not isinstance(answer.get("settings"), list):
        raise call.api.unexpected("settings were expected")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    rows = answer["settings"]
    if call.out.quiet or call.out.format == "name":
        output.write("".join(f"{each['setting']}\n" for each in rows))
        return exits.OK
    titles = ["SETTING", "VALUE", "UNIT", "SOURCE"]
    whole = call.out.format in {"wide", "csv"}
    shown = [
        [
            each["setting"],
            _text(each["value"]) if whole else _gist(_text(each["value"])),
            each["unit"] or "-",
            human_units.printable(_source(each)),
        ]
        for each in rows
    ]
    if whole:
        titles.append("DEFAULT")
        shown = [[*row, _text(each["default"])] for row, each in zip(shown, rows, strict=True)]
    call.out.table(titles, shown)
    for each in rows:
        if each.get("note"):
            call.out.note(f"{each['setting']}: {human_units.printable(str(each['note']))}")
    for each in answer.get("pauses") or ():
        call.out.note(_sentence(human_units.printable(str(each.get("text")))))
    return exits.OK


@settings.command("set", short_help="Set settings; what is not named stays.")
@click.argument("pairs", nargs=-1, required=True, metavar="SETTING=VALUE...")
@_reason
@connected
def set_(call: Call, *, pairs: tuple[str, ...], reason: str) -> int:
    """Set settings, for example idle.timeoutMinutes=30; lists are separated by commas."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise exits.usage(f"{pair!r} is not SETTING=VALUE", "For example idle.enabled=true.")
        try:
            values[name] = fleet_settings.from_text(name, text)
        except ValueError as problem:
            raise exits.usage(str(problem), "labfleet settings shows all of them.") from None
    said = ", ".join(f"{name}={_text(value)}" for name, value in values.items())
    return _changed(call, {"set": values, "reason": reason}, f"settings changed: {said}")


@settings.command("unset", short_help="Let settings fall back to environment or default.")
@click.argument("names", nargs=-1, required=True, metavar="SETTING...")
@_reason
@connected
def unset(call: Call, *, names: tuple[str, ...], reason: str) -> int:
    """Let settings fall back to the environment's value, or to the default."""
    for name in names:
        try:
            fleet_settings.field_at(name)
        except ValueError as problem:
            raise exits.usage(str(problem), "labfleet settings shows all of them.") from None
    said = f"settings fall back: {', '.join(names)}"
    return _changed(call, {"unset": list(names), "reason": reason}, said)


@click.command("pause", short_help="Stop every automatic action, of the fleet or of a pool.")
@click.option("--pool", metavar="POOL", help="Only on this pool and its workers.",
              shell_complete=completing.of_kind("pool"))  # fmt: skip
@_reason
@connected
def pause(call: Call, *, pool: str | None, reason: str) -> int:
    """Stop every automatic action at once, until resume; a restart changes nothing.

    Nothing is scaled, replaced, stopped for idleness, collected, imported or renewed. What
    people ask for, running sessions and workers on their way go on.
    """
    code = _switched(call, pool, "pause", reason)
    mine = meta.Key("Pool", call.settings.namespace, pool or "")
    again = "labfleet resume" + (f" --pool {mine.argument}" if pool else "")
    call.out.note(f"What people ask for and what runs goes on. It ends with: {again}")
    return code


@click.command("resume", short_help="Let automatic actions go on.")
@click.option("--pool", metavar="POOL", help="Only on this pool and its workers.",
              shell_complete=completing.of_kind("pool"))  # fmt: skip
@_reason
@connected
def resume(call: Call, *, pool: str | None, reason: str) -> int:
    """Let automatic actions go on; a pool that was paused by itself is resumed by its name.

    The command names what stays paused. Resuming what is not paused changes nothing, and says so.
    """
    before = _pauses(call)
    mine = None if not pool else meta.Key("Pool", call.settings.namespace, pool)
    code = _switched(call, pool, "resume", reason)
    for each in sorted({*before} - {mine}, key=str):
        if not call.out.structured:
            told = "Everything is" if each is None else f"Pool {each.label} is"
            again = "labfleet resume" + ("" if each is None else f" --pool {each.argument}")
            call.out.note(f"{told} still paused; it ends with: {again}")
    return code


@click.command("confirm-clock", short_help="Say that the server's clock is right after a jump.")
@_reason
@connected
def confirm_clock(call: Call, *, reason: str) -> int:
    """Say that the clock of the server's host is right, when an alert says that it jumped.

    The fleet follows it again, on every host whose clock shows the same within five minutes.
    What is over by that time then ends.
    """
    answer = call.api.post(f"{PATH}/confirm-clock", {"reason": reason})
    if call.out.structured:
        call.out.show(kinds.KINDS["Settings"], answer)
        return exits.OK
    output.say("fleet" if call.out.quiet else "clock confirmed")
    call.out.note("Servers follow it within 10 s; labfleet alerts says which do not.")
    return exits.OK


def _pauses(call: Call) -> set[meta.Key | None]:
    """Return what is paused now: keys of pools, and None for the whole fleet."""
    call.mute_pause()
    answer = call.api.get(f"{PATH}/effective")
    return {
        meta.Key("Pool", each.get("namespace") or meta.DEFAULT_NAMESPACE, each["pool"])
        if each.get("pool")
        else None
        for each in answer.get("pauses") or ()
    }


def _switched(call: Call, pool: str | None, verb: str, reason: str) -> int:
    """Switch, and say what was done, or that it was so already."""
    call.mute_pause()
    target = FLEET if pool is None else targets.Target(kinds.KINDS["Pool"], pool)
    path = PATH if pool is None else target.path
    space = None if pool is None else call.settings.namespace
    before = _before(call, target)
    answer = call.api.post(f"{path}/{verb}", {"reason": reason}, namespace=space)
    what = "automatic actions" if pool is None else str(target)
    were = "were" if pool is None else "was"
    already = f"{were} paused already" if verb == "pause" else f"{were} not paused"
    _told(call, target, before, answer, (f"{what} {verb}d", f"{what} {already}"))
    return exits.OK


def _changed(call: Call, body: dict[str, Any], said: str) -> int:
    before = _before(call, FLEET)
    answer = call.api.post(f"{PATH}/change", body)
    _told(call, FLEET, before, answer, (said, "the settings are so already"))
    return exits.OK


def _before(call: Call, target: targets.Target) -> Any:
    """Return the object before a verb, None when it was never made; unknown without the right."""
    try:
        return targets.fetch(call, target)
    except exits.Failure as failure:
        if failure.code != exits.DENIED:
            raise
        return deeds.UNKNOWN


def _told(
    call: Call, target: targets.Target, before: Any, after: Any, words: tuple[str, str]
) -> None:
    if call.out.structured:
        call.out.show(target.kind, after)
    elif call.out.quiet:
        output.say(target.name)
    else:
        said, already = words
        same = deeds.unchanged(before, after)
        output.say(f"{already}; {deeds.NOTHING}" if same else said)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return human_units.printable(",".join(str(each) for each in value)) or "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None or value == "" else human_units.printable(str(value))


def _gist(text: str) -> str:
    """Return a long value shortened; -o wide shows it whole."""
    return text if len(text) <= GIST else text[: GIST - 1] + "…"


def _source(row: dict[str, Any]) -> str:
    variable = row.get("variable")
    return f"{row['source']} {variable}" if variable else str(row["source"])


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."

"""One command's call: its settings, its output and its client, and the options of all commands.

`connected` gives a click command the options that every command has; each may stand before
or after the verb, the later place wins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import click

from labfleet.cli.kit import client, exits, fleet, human_units, options, output, settings
from labfleet.cli.kit.environment import CommandEnvironment
from labfleet.kernel import clock


@dataclass
class Call:
    """What a command works with."""

    environment: CommandEnvironment
    settings: settings.Settings
    out: output.Output
    api: client.Client
    muted: bool = False

    def mute_pause(self) -> None:
        """Print no notice of a pause, for commands that are themselves about pauses."""
        self.muted = True

    def tell_warnings(self) -> None:
        """Say on stderr what was accepted and will not do what it seems to, each once."""
        for each in () if self.out.structured else self.api.warnings:
            self.out.note(f"Warning: {human_units.printable(each)}")
        self.api.warnings.clear()

    def tell_pause(self) -> None:
        """Say once, on stderr, that automatic actions are paused."""
        if self.api.paused and not self.muted and not self.out.structured:
            said = human_units.printable(self.api.paused)
            self.out.note(f"{said[:1].upper()}{said[1:]}")
            self.muted = True

    def tell_server(self) -> None:
        """Say on stderr which server answers, when an option or a variable leads to another one."""
        chosen = self.settings
        if chosen.standing and not self.environment.terminal_out():
            return  # a script that exports its server says nothing new with each command
        if chosen.elsewhere and not self.out.structured:
            said = f"Server: {self.settings.url} ({self.settings.source})"
            self.out.note(human_units.printable(said))

    def now(self) -> datetime:
        """Return the fleet's time."""
        return self.out.now()

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on a terminal; without one and without --yes refuse, never hang."""
        if yes:
            return
        if not self.environment.terminal_in():
            raise exits.usage(question, "Nothing was changed. Say --yes to go on.")
        if not click.confirm(f"{question} Go on?", default=False, err=True):
            raise exits.Failure(exits.ERROR, "nothing was changed")

    def raise_last(self, failed: Sequence[exits.Failure]) -> None:
        """Tell all failures and raise the last one, whose code the command has; none is fine."""
        for each in failed[:-1]:
            self.out.note("\n".join(each.lines()))
        if failed:
            raise failed[-1]


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command its `Call` as first argument, made from the shared options."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        context = click.get_current_context()
        flags = {key: kwargs.pop(key, None) for key in options.SHARED}
        call = make(context, flags, kwargs.pop("no_headers", False))
        try:
            return command(call, *args, **kwargs)
        finally:
            call.api.close()
            call.tell_warnings()
            call.tell_pause()

    return options.shared(run)


def make(context: click.Context, flags: dict[str, Any], no_headers: bool = False) -> Call:  # noqa: FBT001, FBT002 - click hands it over by position
    """Return the call for flags given at the command, then at a command above it."""
    root, above = context.find_root(), context.parent
    while above is not None:
        for key in options.SHARED:
            if flags.get(key) is None:
                flags[key] = above.params.get(key)
        above = above.parent
    environment = root.obj if isinstance(root.obj, CommandEnvironment) else CommandEnvironment()
    chosen = settings.resolve(environment, flags)
    api = client.Client(chosen, environment, keep=True)
    out = output.choose(
        environment,
        chosen.output,
        headers=not no_headers,
        quiet=bool(flags.get("quiet")),
        color=flags.get("color") or "auto",
        clock=fleet.FleetTime(api).now,
    )
    call = Call(environment, chosen, out, api)
    api.heard = call.tell_server
    return call


def instant(text: str, option: str) -> datetime:
    """Return the instant that an option names, as programs write it or as this one prints it."""
    try:
        return human_units.moment(text)
    except ValueError as error:
        hint = f"For example {option} 2026-11-27T18:00:00Z."
        raise exits.usage(f"{option}: {error}", hint) from None


def deadline(text: str, option: str, now: datetime) -> datetime:
    """Return the instant that an option names, itself or by a duration from now on; not yet past."""
    return ahead(_moved(text, option, now, 1), option, now)


def since(text: str, option: str, now: datetime) -> datetime:
    """Return the instant that an option names, itself or by a duration back from now."""
    return _moved(text, option, now, -1)


def _moved(text: str, option: str, now: datetime, way: int) -> datetime:
    if human_units.is_duration(text):
        return now + way * timedelta(seconds=seconds(text, option))
    try:
        return human_units.moment(text)
    except ValueError:
        hint = f"For example {option} 90m, or {option} 2026-11-27T18:00:00Z."
        cause = f"{option}: {text[:60]!r} is neither a duration nor an instant with a zone"
        raise exits.usage(cause, hint) from None


def ahead(found: datetime, option: str, now: datetime) -> datetime:
    """Return an instant that lies ahead; Failure for one that is past, before anybody is asked."""
    if found <= now:
        told = human_units.when(clock.format_instant(found), now)
        raise exits.usage(f"{option}: {told} is past", "Nothing was changed.")
    return found


def seconds(text: str, option: str) -> float:
    """Return the seconds of a duration option; Failure when it is none."""
    try:
        return human_units.duration(text)
    except ValueError as error:
        raise exits.usage(f"{option}: {error}") from None

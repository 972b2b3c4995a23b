"""The root command: names every command, loads one on use, turns errors into exit codes."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from labfleet.cli.kit import environment, examples, exits, options
from labfleet.kernel import errors

Starter = Callable[[str, Sequence[str]], int]

# Name -> module, the command in it, one line of help.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "get": ("labfleet.cli.commands.read", "get", "List objects, or show some of them."),
    "describe": (
        "labfleet.cli.commands.describe",
        "describe",
        "Show everything about an object, for people.",
    ),
    "explain": (
        "labfleet.cli.commands.explain",
        "explain",
        "Say why an object is as it is, and what is short.",
    ),
    "events": (
        "labfleet.cli.commands.events",
        "events",
        "Show what happened to an object, by whom and why.",
    ),
    "calendar": (
        "labfleet.cli.commands.calendar",
        "calendar",
        "Show what pools have promised, and when places are free.",
    ),
    "plan": (
        "labfleet.cli.commands.plan",
        "plan",
        "Say what sessions at one time would need of a pool, and cost.",
    ),
    "cost": (
        "labfleet.cli.commands.cost",
        "cost",
        "Show what the fleet costs: now, today, this month.",
    ),
    "top": (
        "labfleet.cli.commands.top",
        "top",
        "Show what workers, clusters or runs use, and what pools cost.",
    ),
    "leaders": ("labfleet.cli.commands.top", "leaders", "Show which process leads each role."),
    "alerts": ("labfleet.cli.commands.top", "alerts", "List what asks for somebody, with its fix."),
    "ports": (
        "labfleet.cli.commands.ports",
        "ports",
        "Show which ports of workers are used, held and free.",
    ),
    "labs": (
        "labfleet.cli.commands.labs",
        "labs",
        "List the labs on a worker's server, and whose they are.",
    ),
    "lab": (
        "labfleet.cli.commands.lab_orders",
        "lab",
        "Start, stop, restart or wipe a session's lab.",
    ),
    "consoles": (
        "labfleet.cli.commands.consoles",
        "consoles",
        "Show how the nodes of a session's lab are reached.",
    ),
    "ignore-lab": (
        "labfleet.cli.commands.labs",
        "ignore_lab",
        "Leave a lab that is no session's alone.",
    ),
    "recommend": (
        "labfleet.cli.commands.recommending",
        "recommend",
        "Show and apply what a definition should ask for.",
    ),
    "logs": ("labfleet.cli.commands.logs", "logs", "Show the console text kept of a worker."),
    "watch": ("labfleet.cli.commands.watching", "watch", "Follow objects as they change (get -w)."),
    "wait": (
        "labfleet.cli.commands.waiting",
        "wait",
        "Wait until an object has a phase or condition, or is gone.",
    ),
    "admit": (
        "labfleet.cli.commands.admit",
        "admit",
        "Start a command when its run may start, and report its end.",
    ),
    "apply": (
        "labfleet.cli.commands.applying",
        "apply",
        "Create or change objects from manifests.",
    ),
    "diff": (
        "labfleet.cli.commands.applying",
        "diff",
        "Show what apply would change; exit 10 when something.",
    ),
    "book": (
        "labfleet.cli.commands.booking",
        "book",
        "Book seats for a class, an exam or a course together.",
    ),
    "delete": ("labfleet.cli.commands.ending", "delete", "Delete objects."),
    "cancel": ("labfleet.cli.commands.ending", "cancel", "End a session before its time."),
    "extend": ("labfleet.cli.commands.verbs", "extend", "Give a session or a group more time."),
    "shorten": (
        "labfleet.cli.commands.slots",
        "shorten",
        "End a session or a group earlier; what it frees is free.",
    ),
    "check-in": (
        "labfleet.cli.commands.slots",
        "check_in",
        "Say that a session's person has come.",
    ),
    "hand-over": (
        "labfleet.cli.commands.handing",
        "hand_over",
        "Give a session to another person.",
    ),
    "take": (
        "labfleet.cli.commands.handing",
        "take",
        "Take a session that somebody offers to you.",
    ),
    "move": (
        "labfleet.cli.commands.slots",
        "move",
        "Move a session's slot, or a group, to another start.",
    ),
    "calendar-file": (
        "labfleet.cli.commands.calendar_files",
        "calendar_file",
        "Write sessions as a calendar file (ICS).",
    ),
    "calendar-feed": (
        "labfleet.cli.commands.calendar_files",
        "calendar_feed",
        "Make, show or end the address of your calendar.",
    ),
    "observe": (
        "labfleet.cli.commands.observing",
        "observe",
        "Look at a running session's lab now.",
    ),
    "retry": (
        "labfleet.cli.commands.retrying",
        "retry",
        "Try a session again that failed or expired.",
    ),
    "kept": (
        "labfleet.cli.commands.kept_labs",
        "kept",
        "Read or delete what was kept of an ended session's lab.",
    ),
    "continue": (
        "labfleet.cli.commands.kept_labs",
        "go_on",
        "Begin a new session with what was kept of an ended one.",
    ),
    "drain": (
        "labfleet.cli.commands.verbs",
        "drain",
        "Empty a worker by a deadline, or stop doing so.",
    ),
    "cordon": ("labfleet.cli.commands.verbs", "cordon", "Place nothing more on a worker."),
    "uncordon": ("labfleet.cli.commands.verbs", "uncordon", "Place sessions on a worker again."),
    "license": (
        "labfleet.cli.commands.licences",
        "license",
        "Register, renew or give back workers' licences.",
    ),
    "console": (
        "labfleet.cli.commands.logs",
        "console",
        "Read the console text of a worker's machine.",
    ),
    "stop": (
        "labfleet.cli.commands.verbs",
        "stop",
        "Stop a worker once it is empty; its disk stays.",
    ),
    "start": ("labfleet.cli.commands.verbs", "start", "Start a stopped worker."),
    "adopt": ("labfleet.cli.commands.adopting", "adopt", "Manage a server that is there already."),
    "discovery": (
        "labfleet.cli.commands.adopting",
        "discovery",
        "Show what discovery does and found.",
    ),
    "garbage": (
        "labfleet.cli.commands.adopting",
        "garbage",
        "Show what seems left behind and what happens next.",
    ),
    "resolve": (
        "labfleet.cli.commands.adopting",
        "resolve",
        "Close a licence leak once the licence was freed.",
    ),
    "settings": (
        "labfleet.cli.commands.fleet_settings",
        "settings",
        "Show and change what holds for the whole fleet.",
    ),
    "pause": (
        "labfleet.cli.commands.fleet_settings",
        "pause",
        "Stop every automatic action, of the fleet or of a pool.",
    ),
    "resume": ("labfleet.cli.commands.fleet_settings", "resume", "Let automatic actions go on."),
    "confirm-clock": (
        "labfleet.cli.commands.fleet_settings",
        "confirm_clock",
        "Say that the server's clock is right after a jump.",
    ),
    "history": (
        "labfleet.cli.commands.history",
        "history",
        "Show past runs; write them as CSV, read them back.",
    ),
    "idle": (
        "labfleet.cli.commands.idle",
        "idle",
        "Show which workers nobody uses; switch the idle rule.",
    ),
    "token": ("labfleet.cli.commands.tokens", "token", "Make, list and revoke API tokens."),
    "context": ("labfleet.cli.commands.contexts", "context", "Choose among servers."),
    "version": (
        "labfleet.cli.commands.about",
        "version",
        "Show the versions of client and server.",
    ),
    "completion": (
        "labfleet.cli.commands.about",
        "completion",
        "Print a shell's completion script.",
    ),
}


class Root(click.Group):
    """A group whose commands are imported when they are run."""

    programs: Mapping[str, str] = {}
    start: Starter | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return all names, commands before programs."""
        return [*COMMANDS, *self.programs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return the command, imported now; None when there is no such name."""
        if cmd_name in self.programs:
            return self._program(cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), attribute)
        if not isinstance(found, click.Command):
            return None
        found.epilog = examples.epilog(cmd_name)
        for name, below in found.commands.items() if isinstance(found, click.Group) else ():
            below.epilog = examples.epilog(f"{cmd_name} {name}")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one gets the nearest name as a hint."""
        if args[:1] == ["help"]:
            # `labfleet help get` is what `labfleet get --help` is.
            args = [*args[1:], "--help"]
            if args[0].startswith("-"):
                click.echo(ctx.get_help())
                ctx.exit()
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(ctx):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"there is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write both lists from the tables, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])
        if self.programs:
            with formatter.section("Programs"):
                formatter.write_dl(list(self.programs.items()))

    def _program(self, name: str) -> click.Command:
        def run(argv: tuple[str, ...]) -> int:
            return self.start(name, argv) if self.start is not None else exits.ERROR

        return click.Command(
            name,
            callback=run,
            params=[click.Argument(["argv"], nargs=-1, type=click.UNPROCESSED)],
            context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
            add_help_option=False,
            help=self.programs[name],
        )


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 error, 2 usage, 3 not placed or not met, 4 not found, "
    "5 conflict, 6 denied, 7 refused, 8 timed out, 9 unreachable, 130 interrupted; "
    "diff: 0 same, 10 changes, 20 and more error; admit: also the command's own, 126 and 127.",
)
@click.version_option(package_name="labfleet", message="labfleet %(version)s")
@options.shared
def root(**_: Any) -> None:
    """Run fleets of network labs on CML workers."""


def run(
    argv: Sequence[str],
    *,
    programs: Mapping[str, str] | None = None,
    start: Starter | None = None,
    base: environment.CommandEnvironment | None = None,
) -> int:
    """Run one command line and return its exit code; writes to stdout and stderr only."""
    standing = base or environment.real()
    root.programs, root.start = programs or {}, start
    wants_json = options.wants_json(argv, standing.env)
    try:
        code = root.main(list(argv), prog_name="labfleet", standalone_mode=False, obj=standing)
        _hand_over()
        return code if isinstance(code, int) else exits.OK
    except exits.Failure as failure:
        return _report(failure, standing, wants_json=wants_json)
    except click.UsageError as error:
        return _usage(error, standing, wants_json=wants_json)
    except click.ClickException as error:
        return _report(
            exits.Failure(exits.ERROR, error.format_message()), standing, wants_json=wants_json
        )
    except errors.LabfleetError as error:
        return _report(_ours(error), standing, wants_json=wants_json)
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except (BrokenPipeError, exits.ReaderGoneError):
        _close_quietly()
        return exits.OK


def _ours(error: errors.LabfleetError) -> exits.Failure:
    """Return the failure for an error of the pure packages: it is about the user's input."""
    found = error.problems if isinstance(error, errors.Invalid) else ()
    places = [{"where": where, "what": what} for where, what in found]
    code = exits.USAGE if isinstance(error, errors.Invalid) else exits.ERROR
    return exits.Failure(code, error.message, reason=error.reason, problem={"problems": places})


def _report(
    failure: exits.Failure, standing: environment.CommandEnvironment, *, wants_json: bool
) -> int:
    _flush()
    if wants_json:
        import json

        print(json.dumps(failure.document(), ensure_ascii=False), file=sys.stderr)
    else:
        from labfleet.cli.kit import human_units

        # A server's words may hold what somebody else typed.
        print(human_units.harmless("\n".join(failure.lines())), file=sys.stderr)
    return failure.code + standing.error_base


def _usage(
    error: click.UsageError, standing: environment.CommandEnvironment, *, wants_json: bool
) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show(sys.stderr)
        return exits.USAGE + standing.error_base
    command = error.ctx.command_path if error.ctx is not None else "labfleet"
    failure = exits.usage(error.format_message(), f"See {command} --help.")
    return _report(failure, standing, wants_json=wants_json)


def _flush() -> None:
    try:
        _hand_over()
    except (BrokenPipeError, exits.Failure):
        _close_quietly()


def _hand_over() -> None:
    """Flush stdout; Failure when it cannot be written, for example on a full disk."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise exits.Failure(exits.ERROR, f"cannot write the answer: {error.strerror}") from None


def _close_quietly() -> None:
    """Redirect stdout after its reader has gone, because Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

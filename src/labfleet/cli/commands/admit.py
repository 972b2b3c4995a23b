"""`admit`: ask whether a run may start, start it, keep its lease, report its end.

The command is started directly, without a shell, and has this terminal: nothing but what it says
goes to stdout.
"""

from __future__ import annotations

import math
import shlex
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import exits, gate, human_units, output, run_requests
from labfleet.cli.kit.call import Call, connected
from labfleet.cli.kit.interruptions import Interrupted, Interruptions, named
from labfleet.cli.kit.lease import Lease
from labfleet.cli.kit.processes import Child

ID = "{id}"
ID_VARIABLE = "LABFLEET_SIMULATION_ID"
LOOK_SECONDS = 60.0
"""How long one look of --until-gone may take."""
GONE_LOOKS = 2
"""So many looks in a row have to say that the thing is gone: one failed look ends nothing."""
STOP_SECONDS = 30.0
"""How long a command that is stopped for its lost lease has to end."""


@click.command(
    "admit",
    short_help="Start a command when its run may start, and report its end.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--param", "params", multiple=True, metavar="K=V",
              help="What makes the run what it is; numbers and true/false count as such.")  # fmt: skip
@click.option("--params-file", metavar="FILE", help="The same from a JSON or YAML file.")
@click.option("--cluster", metavar="NAME", help="Cluster that it runs on (else default).")
@click.option("--cost", multiple=True, metavar="K=V,...",
              help="What it needs, for example cpu=4,memory=8Gi; else that is predicted.")  # fmt: skip
@click.option("--duration", metavar="TIME", help="How long it may take; else that is predicted.")
@click.option("--queue", is_flag=False, flag_value="", metavar="[NAME]",
              help="Wait in a queue when there is no room: your own, or the one of this name.")  # fmt: skip
@click.option("--priority", type=int, metavar="N", help="Greater comes first in the queue.")
@click.option("--owner", metavar="NAME", help="Whose run it is (else yours).")
@click.option("--key", metavar="TEXT", help="The same key finds the same run, once.")
@click.option("--ttl", default="60s", show_default=True, metavar="TIME",
              help="How often the run is reported to live; lost after three times that.")  # fmt: skip
@click.option("--timeout", default="1h", show_default=True, metavar="TIME",
              help="How long to wait in the queue (then exit 8).")  # fmt: skip
@click.option("--hold", metavar="TIME",
              help="Keep the run for so long after the command returned.")  # fmt: skip
@click.option("--until-gone", metavar="CMD",
              help="Keep the run after the command returned until CMD fails twice in a row.")  # fmt: skip
@click.option("--every", default="10s", show_default=True, metavar="TIME",
              help="How often CMD of --until-gone is run.")  # fmt: skip
@click.option("--on-lost", type=click.Choice(["stop", "go-on"]), default="go-on",
              show_default=True, help="What to do when the server has ended the run.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED,
                metavar="-- COMMAND [ARGUMENT]...")  # fmt: skip
@connected
def admit(call: Call, *, command: tuple[str, ...], key: str | None, timeout: str,
          hold: str | None, until_gone: str | None, every: str, on_lost: str,
          **asked: Any) -> int:  # fmt: skip
    """Start COMMAND when its run may start on a cluster, and report how it ended.

    The run's id replaces {id} in the arguments and stands in LABFLEET_SIMULATION_ID. While COMMAND
    runs, and for --hold or --until-gone, the server is told that the run lives. Then it is reported
    as completed (exit 0), failed, or cancelled (SIGINT, SIGTERM or SIGHUP, which are passed on to
    COMMAND; the second one kills it). COMMAND goes on when the server cannot be reached.

    Exit: COMMAND's own code once it was started. Before that 2 wrong input, 3 the approval was over
    at once, 6 may not ask, 7 not admitted, 8 waited too long, 9 no answer from the server,
    126 cannot be started, 127 no such program, 130 or 143 interrupted.
    """
    body = run_requests.body(asked)
    stay = _Stay(
        hold=None if hold is None else calls.seconds(hold, "--hold"),
        look=_look(call, until_gone),
        every=max(0.1, calls.seconds(every, "--every")),
        stop=on_lost == "stop",
    )
    waits = calls.seconds(timeout, "--timeout")
    _program(call, command[0], exits.NO_PROGRAM)
    call.api.seconds = gate.PATIENCE
    door = gate.Gate(call.api, call.out.note, call.settings.namespace)
    with Interruptions() as signals:
        approved = None
        try:
            approved = door.enter(body, key=key, seconds=waits)
            call.out.note(_approved(approved))
            return _Guarded(call, door, signals, approved.id, stay).run(command, body)
        except Interrupted as stopped:
            if approved is not None:
                door.withdraw(approved.id)
            call.out.note(f"{stopped}: the command was not started.")
            return stopped.code


@dataclass(frozen=True)
class _Stay:
    """How a run is kept after its command returned, and whether a lost lease stops it."""

    hold: float | None
    look: tuple[str, ...]
    every: float
    stop: bool


@dataclass
class _Guarded:
    """One admitted run and its command."""

    call: Call
    gate: gate.Gate
    signals: Interruptions
    id: str
    stay: _Stay
    child: Child | None = None
    returned: threading.Event = field(default_factory=threading.Event)

    def run(self, command: Sequence[str], body: dict[str, Any]) -> int:
        """Run the command under a lease, report the end, and return the exit code."""
        status = "cancelled"
        try:
            self.signals.keep()
            ttl = int(body["ttl_seconds"])
            with Lease(self.gate, self.id, ttl_seconds=ttl, on_lost=self._lost) as lease:
                code, status = self._command(command)
                self.signals.raise_again()
                if self.signals.count:
                    status = "cancelled"
                elif status == "completed":
                    code = self._stays(lease)
        except Interrupted as stopped:
            code, status = stopped.code, "cancelled"
        self._report(status)
        return code

    def _command(self, command: Sequence[str]) -> tuple[int, str]:
        """Run the command; return the exit code of a shell, and how the run ended."""
        environment = self.call.environment
        argv = [command[0], *(each.replace(ID, self.id) for each in command[1:])]
        try:
            self.child = environment.processes.start(argv, self._variables())
        except OSError as error:
            said = f"Error: cannot start {command[0]}: {error.strerror or error}"
            output.note(human_units.printable(said))
            return exits.CANNOT_START, "cancelled"
        self.signals.hand_on(self._pass_on)
        code = self.child.wait()
        self.returned.set()
        return _as_shells(code), "completed" if code == 0 else "failed"

    def _pass_on(self, number: int) -> None:
        """Give a signal to the command; the second one kills it."""
        assert self.child is not None  # noqa: S101 - signals are handed on once it is started
        if self.signals.count > 1:
            self.child.kill()
        elif number != signal.SIGINT or not self.call.environment.processes.foreground():
            self.child.send_signal(number)  # a terminal's Ctrl-C reaches it without us
        self._note(f"{named(number)}: waiting for the command to end; a second signal kills it.")

    def _lost(self, why: str) -> None:
        """Say that the run holds nothing any more; called in the lease's thread."""
        goes = "it is stopped" if self.stay.stop else "it goes on without a place on its cluster"
        output.note(human_units.printable(f"LOST: the server ended {self.id}: {why}; {goes}."))
        child = self.child
        if not self.stay.stop or child is None or self.returned.is_set():
            return
        child.send_signal(signal.SIGTERM)
        if not self.call.environment.pause(self.returned, STOP_SECONDS):
            child.kill()

    def _stays(self, lease: Lease) -> int:
        """Keep the run after its command returned; 3 when it is lost and that stops it."""
        stay, environment = self.stay, self.call.environment
        if stay.hold is None and not stay.look:
            return exits.OK
        began, gone, silent = environment.monotonic(), 0, False
        argv = [each.replace(ID, self.id) for each in stay.look]
        lost = lease.over if stay.stop else threading.Event()
        self._note(f"{self.id} is kept{_how_long(stay)}.")
        while True:
            left = math.inf if stay.hold is None else began + stay.hold - environment.monotonic()
            if left <= 0:
                return exits.OK
            if argv:
                code = environment.processes.look(argv, self._variables(), LOOK_SECONDS)
                gone = gone + 1 if code else 0
                if gone == GONE_LOOKS:
                    return exits.OK
                if code is None and not silent:
                    self._note(f"{argv[0]} gave no answer; that counts as still there.")
                silent, left = code is None, min(left, stay.every)
            if environment.pause(lost, left):
                return exits.UNMET

    def _report(self, status: str) -> None:
        """Report the end; what cannot be reported is said, the exit code stays."""
        try:
            heard = self.gate.end(self.id, status)
        except (exits.Failure, Interrupted) as trouble:
            why = trouble.cause if isinstance(trouble, exits.Failure) else str(trouble)
            said = f"{self.id} was not reported as {status}, it ends when its lease does: {why}"
            output.note(human_units.printable(said))
            return
        was = "" if heard == status else f" before it was reported as {status}"
        self._note(f"{self.id} ended: {heard}{was}.")

    def _variables(self) -> dict[str, str]:
        return {**self.call.environment.env, ID_VARIABLE: self.id}

    def _note(self, text: str) -> None:
        self.call.out.note(human_units.printable(text))


def _approved(run: gate.Approved) -> str:
    """Return what is said of an approval: its id, and what it is expected to need."""
    predicted = run.reply.get("predicted")
    rows = predicted.items() if isinstance(predicted, dict) else ()
    needs = ", ".join(human_units.amount(name, value) for name, value in rows)
    said = f"{run.id} is admitted" + (f"; expected to need at most {needs}" if needs else "")
    return human_units.printable(said + ".")


def _how_long(stay: _Stay) -> str:
    """Return for how long a run is kept, as it stands after `is kept`."""
    longest = "" if stay.hold is None else f" for {human_units.span(stay.hold)}"
    if not stay.look:
        return longest
    return f"{longest} at most, until gone" if longest else " until gone"


def _as_shells(code: int) -> int:
    return code if code >= 0 else 128 - code


def _program(call: Call, name: str, code: int) -> None:
    """Refuse a program that is not there, before anything is asked."""
    if call.environment.processes.find(name, call.environment.env) is None:
        cause = human_units.printable(f"there is no program {name[:200]!r}")
        raise exits.Failure(code, cause, hint="Nothing was asked.", reason="NoProgram")


def _look(call: Call, text: str | None) -> tuple[str, ...]:
    """Return the words of --until-gone, whose program is there."""
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise exits.usage(f"--until-gone: {error}") from None
    if not words:
        raise exits.usage("--until-gone: no command is given")
    _program(call, words[0], exits.USAGE)
    return words

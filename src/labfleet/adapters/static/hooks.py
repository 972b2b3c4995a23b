"""Run a site's command for one server: no shell, a bare environment, bounded time and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from labfleet.adapters.static.sites import Command, Server
from labfleet.kernel.errors import Ambiguous, Invalid, Protocol, Temporary
from labfleet.resources.machine import MachineState

OUTPUT_BYTES = 4096
TOLD_CHARACTERS = 200
TOGETHER = 8
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
STATES: dict[str, MachineState] = {
    "booting": "booting", "running": "running", "stopping": "stopping", "stopped": "stopped",
}  # fmt: skip
"""Words that a status command may print."""


class Hooks:
    """Switches servers by the commands of their site; at most `TOGETHER` run at once."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(TOGETHER)

    async def start(self, server: Server) -> None:
        """Have the server switched on; Ambiguous when the command did not end in time."""
        if server.power is not None:
            await self._run(server, server.power.start, late=Ambiguous)

    async def stop(self, server: Server) -> None:
        """Have the server switched off."""
        if server.power is not None:
            await self._run(server, server.power.stop, late=Ambiguous)

    async def state(self, server: Server) -> MachineState:
        """Return what the status command says; without one the server always runs."""
        if server.power is None:
            return "running"
        told = (await self._run(server, server.power.status, late=Temporary)).strip().lower()
        if told not in STATES:
            words = ", ".join(STATES)
            raise Protocol(f"status of {server.name} is {told[:40]!r}, none of {words}")
        return STATES[told]

    async def _run(
        self, server: Server, command: Command, *, late: type[Ambiguous | Temporary]
    ) -> str:
        power = server.power
        assert power is not None  # noqa: S101 - only asked for servers with commands
        async with self._room:
            try:
                process = await asyncio.create_subprocess_exec(
                    *_filled(command, server),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    env=ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as problem:
                raise Invalid(f"{command[0]}: {problem.strerror}", reason="NoCommand") from None
            try:
                async with asyncio.timeout(power.timeout):
                    told = await _read(process)
                    code = await process.wait()
            except TimeoutError:
                what = f"{command[0]} for {server.name} took over {power.timeout:g} s"
                raise late(what, reason="CommandLate") from None
            finally:
                _end(process)
                await process.wait()
        if code != 0:
            what = f"{command[0]} for {server.name} ended with {code}: {told[:TOLD_CHARACTERS]!r}"
            raise Temporary(what, reason="CommandFailed")
        return told


def _filled(command: Command, server: Server) -> list[str]:
    """Return the arguments with the server's names; each stays one argument whatever it holds."""
    names = {"{server}": server.name, "{address}": server.address, "{site}": server.site}
    made = []
    for each in command:
        word = each
        for mark, value in names.items():
            word = word.replace(mark, value)
        made.append(word)
    return made


async def _read(process: asyncio.subprocess.Process) -> str:
    """Return the first bytes of the output, and read the rest away so that nothing blocks."""
    assert process.stdout is not None  # noqa: S101 - asked for above
    kept = b""
    while piece := await process.stdout.read(OUTPUT_BYTES):
        kept += piece[: OUTPUT_BYTES - len(kept)]
    return kept.decode("utf-8", "replace")


def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the command with all that it started; none of it outlives the call."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)

"""Commands that switch servers: no shell, nothing of our environment, bounded time and output."""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path

import pytest

from labfleet.adapters.static.hooks import OUTPUT_BYTES, Hooks
from labfleet.adapters.static.sites import Power, Server
from labfleet.kernel import errors


def server(folder: Path, script: str, *arguments: str, timeout: float = 10.0) -> Server:
    """Return a server all of whose commands are this script."""
    path = folder / "hook"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    command = (str(path), *arguments)
    power = Power(start=command, stop=command, status=command, timeout=timeout)
    return Server("lab-a", "cml-1", "10.0.0.5", power)


def test_the_servers_names_are_arguments_and_the_environment_is_bare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks are replaced inside arguments; no variable of ours is seen, no shell reads them."""
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    out = tmp_path / "out"
    made = server(
        tmp_path,
        f'echo "$1|$2|$SECRET_OF_OURS|$(pwd)|$(cat)" > {out}',
        "{server} ; rm",
        "{address}",
    )
    asyncio.run(Hooks().start(made))
    assert out.read_text() == "cml-1 ; rm|10.0.0.5||/|\n"


@pytest.mark.parametrize("word", ["running", "stopped", " Booting\n", "stopping"])
def test_a_state_is_one_of_four_words(tmp_path: Path, word: str) -> None:
    """Case and blanks do not matter."""
    made = server(tmp_path, f"printf '{word}'")
    assert asyncio.run(Hooks().state(made)) == word.strip().lower()


def test_another_word_is_no_state(tmp_path: Path) -> None:
    """What is not understood is an error, never a state."""
    with pytest.raises(errors.Protocol, match="none of"):
        asyncio.run(Hooks().state(server(tmp_path, "echo on")))


def test_a_failure_tells_code_and_output(tmp_path: Path) -> None:
    """The end of a command with another code than 0 is worth another try."""
    with pytest.raises(errors.Temporary, match="ended with 3: 'no BMC"):
        asyncio.run(Hooks().stop(server(tmp_path, "echo no BMC >&2; exit 3")))


def test_a_missing_command_is_for_a_person(tmp_path: Path) -> None:
    """It is not tried again by itself."""
    made = server(tmp_path, "true")
    (tmp_path / "hook").unlink()
    with pytest.raises(errors.Invalid) as caught:
        asyncio.run(Hooks().start(made))
    assert caught.value.reason == "NoCommand"


def test_output_is_bounded(tmp_path: Path) -> None:
    """A command that prints without end of line for a megabyte neither blocks nor fills memory."""
    made = server(tmp_path, "head -c 1000000 /dev/zero | tr '\\0' x")
    with pytest.raises(errors.Protocol) as caught:
        asyncio.run(Hooks().state(made))
    assert len(caught.value.message) < OUTPUT_BYTES


def test_a_late_command_ends_with_all_its_children(tmp_path: Path) -> None:
    """A status that hangs is Temporary, a switch whose outcome is unknown is Ambiguous."""
    pid = tmp_path / "pid"
    made = server(tmp_path, f"sleep 60 & echo $! > {pid}; wait", timeout=0.5)
    with pytest.raises(errors.Temporary):
        asyncio.run(Hooks().state(made))
    with pytest.raises(errors.Ambiguous):
        asyncio.run(Hooks().start(made))
    assert _ends(int(pid.read_text()))


def _ends(pid: int) -> bool:
    """Tell whether the process ends long before its own minute is over.

    A killed grandchild is gone some time after the signal, not with it: the kernel says when.
    """
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 30)[0])
    finally:
        os.close(watched)


def test_a_server_without_commands_always_runs() -> None:
    """Nothing is run for it."""
    made, hooks = Server("lab-a", "cml-2", "10.0.0.6"), Hooks()
    asyncio.run(hooks.start(made))
    asyncio.run(hooks.stop(made))
    assert asyncio.run(hooks.state(made)) == "running"

"""Processes that play seeds end with the one that began them, however it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

DEADLINE_MS = 30_000
PARENT = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from labfleet.rehearsal.seeds import children

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=children.begin)
    print(pool.submit(os.getpid).result(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_when_its_parent_was_killed(how: signal.Signals, tmp_path: object) -> None:
    """It waits for its next seed and would go on to, for the pipe of seeds is never closed."""
    script = f"{tmp_path}/parent.py"
    with open(script, "w", encoding="utf-8") as file:
        file.write(PARENT)
    parent = subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    try:
        over = select.poll()
        over.register(child, select.POLLIN)
        assert not over.poll(0), "it waits"
        parent.send_signal(how)
        parent.wait()
        assert over.poll(DEADLINE_MS), "it goes on without its parent"
    finally:
        os.close(child)
        for pipe in (parent.stdin, parent.stdout):
            assert pipe is not None
            pipe.close()

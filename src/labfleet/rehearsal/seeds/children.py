"""Child processes that play seeds and plans: when they end, and which signals are theirs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def begin() -> None:
    """Leave Ctrl-C to the parent, which ends its children, and end when the parent has gone.

    Killed, it ends nobody. A child that waits for its next seed would wait for ever: it holds both
    ends of the pipe that seeds come through, so it never sees the pipe closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # not by an exception: this is not the thread that plays

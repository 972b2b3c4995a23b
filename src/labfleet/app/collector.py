"""How Python's garbage collector runs in a server; the benchmarks' servers run it the same way."""

from __future__ import annotations

import gc

CYCLES = (20_000, 20, 50)
"""After how many new objects garbage is looked for, and how often among older ones.

By default each few requests had all of a server's objects looked at; cycles are rare here.
"""


def collect_rarely() -> None:
    """Leave out what is loaded by now for good, and look for cycles as seldom as `CYCLES` says.

    For a process that only serves: its modules stay, and a full look at them found nothing each time.
    """
    gc.freeze()
    gc.set_threshold(*CYCLES)

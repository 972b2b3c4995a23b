"""The demo: the real product over real sockets against the three simulators, in one command.

It works from outside: it starts the programs, uses the API like any client, and at the end reads
the event log and the simulators' own records. Start at `command`.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run `labfleet demo`; exit code 0 only if everything is as it must be."""
    from labfleet.app.demo.command import main as play

    return play(argv)

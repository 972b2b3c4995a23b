"""The demo: the real product over real sockets against the two simulators, in one command.

It is an outsider: it starts the programs, speaks the API like anybody, and reads the truth at
the end from the event log and from the simulators' own books. Start at `command`.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run `labfleet demo`; exit code 0 only if everything is as it must be."""
    from labfleet.app.demo.command import main as play

    return play(argv)

"""The program `labfleet`: dispatches to commands and programs, importing only what is run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from labfleet.cli import main as cli

PROGRAMS = {
    "server": "Run the server (all roles on SQLite by default).",
    "demo": "Run the main job on this machine against the simulators.",
    "backup": "Write a consistent copy of the store.",
    "restore": "Put a copy back as a new store.",
    "rehearse": "Run the product itself in virtual time, with faults.",
    "cml-simulator": "Stand in for CML servers.",
    "aws-simulator": "Stand in for EC2 and CloudWatch.",
}
_MODULES = {
    "server": "labfleet.app.main",
    "demo": "labfleet.app.demo",
    "backup": "labfleet.app.maintenance",
    "restore": "labfleet.app.maintenance",
    "rehearse": "labfleet.rehearsal.main",
    "cml-simulator": "cml_simulator.shell.main",
    "aws-simulator": "aws_simulator.main",
}
# One module serves both; it is told which by the first word.
_SHARED = frozenset({"backup", "restore"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return cli.run(words, programs=PROGRAMS, start=start)


def start(name: str, argv: Sequence[str]) -> int:
    """Run a program with its own arguments; 1 when this installation lacks it."""
    module = _MODULES[name]
    try:
        program = importlib.import_module(module)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"Error: labfleet {name} needs the module {error.name}.\n")
        sys.stderr.write("Install what is missing, for example labfleet[simulators].\n")
        return 1
    rest = [name, *argv] if name in _SHARED else list(argv)
    return int(program.main(rest) or 0)

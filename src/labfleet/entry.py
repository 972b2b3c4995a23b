"""The program `labfleet`: dispatches to commands and programs, importing only what is run."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from labfleet.cli import main as cli

PROGRAMS = {
    "server": "Run the server (all roles on SQLite by default).",
    "demo": "Run the main job on this machine against the simulators.",
    "backup": "Write a consistent copy of the store.",
    "restore": "Put a copy back as a new store.",
    "rehearse": "Run the product itself in virtual time, with faults.",
    "cml-simulator": "Stand in for CML servers.",
    "aws-simulator": "Stand in for EC2 and CloudWatch.",
    "kubernetes-simulator": "Stand in for a Kubernetes cluster and its metrics.",
}
_MODULES = {
    "server": "labfleet.app.main",
    "demo": "labfleet.app.demo",
    "backup": "labfleet.app.maintenance",
    "restore": "labfleet.app.maintenance",
    "rehearse": "labfleet.rehearsal.main",
    "cml-simulator": "cml_simulator.shell.main",
    "aws-simulator": "aws_simulator.main",
    "kubernetes-simulator": "kubernetes_simulator.shell.main",
}
# One module serves both; it is told which by the first word.
_SHARED = frozenset({"backup", "restore"})
# What a program imports that only the extra `simulators` brings. The demo imports none of it
# itself, but its children do.
_OF_SIMULATORS = {
    "demo": ("cryptography", "flask", "flask_cors", "moto"),
    "cml-simulator": ("cryptography",),
    "aws-simulator": ("flask", "flask_cors", "moto"),
    "kubernetes-simulator": ("cryptography",),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return cli.run(words, programs=PROGRAMS, start=start)


def start(name: str, argv: Sequence[str]) -> int:
    """Run a program with its own arguments; 1 when this installation lacks what it needs.

    That is seen before anything is started or written; --help works without.
    """
    if not {"-h", "--help"} & set(argv):
        missing = [each for each in _OF_SIMULATORS.get(name, ()) if find_spec(each) is None]
        if missing:
            return _incomplete(name, missing, "labfleet[simulators]")
    # What a program imports stays: to look for garbage in it took a fifth of the CPU time of a
    # start, and would take a third of a second at each full collection.
    gc.disable()
    try:
        program = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        return _incomplete(name, [str(error.name)], "labfleet")
    finally:
        gc.freeze()
        gc.enable()
    rest = [name, *argv] if name in _SHARED else list(argv)
    return int(program.main(rest) or 0)


def _incomplete(name: str, missing: Sequence[str], package: str) -> int:
    said = f"labfleet {name} needs what is not installed here ({', '.join(missing)})"
    sys.stderr.write(f"Error: {said}: pip install '{package}'\n")
    return 1

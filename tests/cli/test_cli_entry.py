"""The entry: what it dispatches to, and that help imports next to nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from labfleet import entry
from labfleet.cli import main
from labfleet.cli.kit import exits

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import sys
from labfleet import entry
code = entry.main(["--help"])
heavy = {"aiohttp", "litestar", "boto3", "yaml", "msgspec", "ssl", "asyncio", "http.client"}
print("loaded:", sorted(heavy & set(sys.modules)), "code:", code)
"""


def test_help_imports_nothing_heavy():
    """`labfleet --help` loads click and our tables, and lists every command and program."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=30, check=True
    )
    assert "loaded: [] code: 0" in done.stdout
    for name in [*main.COMMANDS, *entry.PROGRAMS]:
        assert f"  {name} " in done.stdout


def test_every_command_exists():
    """Each row of the table names a command that can be loaded and helps."""
    context = main.root.make_context("labfleet", ["version"])
    for name in main.COMMANDS:
        command = main.root.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str() if name != "completion" else command


@pytest.mark.parametrize("argv", [["server", "--port", "0", "-h"], ["cml-simulator", "--http"]])
def test_programs_get_their_own_arguments(argv):
    """What follows a program's name is passed on as it is, its --help too."""
    called = []

    def start(name, rest):
        called.append([name, *rest])
        return 5

    assert main.run(argv, programs=entry.PROGRAMS, start=start) == 5
    assert called == [argv]


def test_a_program_that_is_not_installed_is_told(monkeypatch, capsys):
    """A missing extra is a sentence, not a trace."""
    # private _MODULES: an installation without the optional package
    monkeypatch.setitem(entry._MODULES, "aws-simulator", "no_such_module.main")
    assert entry.start("aws-simulator", []) == 1
    assert "(no_such_module): pip install 'labfleet'" in capsys.readouterr().err


@pytest.fixture
def nothing_starts(monkeypatch):
    """No extra is installed; a program that is started all the same is an error."""

    def started(argv):
        raise AssertionError(argv)

    monkeypatch.setattr(entry, "find_spec", lambda name: None)
    loaded = SimpleNamespace(import_module=lambda name: SimpleNamespace(main=started))
    monkeypatch.setattr(entry, "importlib", loaded)


@pytest.mark.parametrize(
    "program", ["demo", "cml-simulator", "aws-simulator", "kubernetes-simulator"]
)
def test_a_missing_extra_is_told_with_the_pip_line(nothing_starts, capsys, program):
    """Before a program is loaded one sentence names what is missing and the line that brings it."""
    assert entry.start(program, []) == exits.ERROR
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(": pip install 'labfleet[simulators]'\n")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_needs_no_extra(nothing_starts, option):
    """Somebody who asks what a program does need not install it first."""
    with pytest.raises(AssertionError, match=option):
        entry.start("demo", [option])


def test_the_extra_declares_what_is_looked_for():
    """The modules looked for are those of the packages that the extra `simulators` names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        re.split(r"[\[<>=]", each)[0] for each in project["optional-dependencies"]["simulators"]
    }
    # private _OF_SIMULATORS: the table that the sentence is made of must name the whole extra
    assert {each for names in entry._OF_SIMULATORS.values() for each in names} == {
        each.replace("-", "_") for each in named
    }


@pytest.mark.parametrize("size", [1, 2000])
def test_a_closed_pipe_is_no_error(stub, size):
    """`labfleet get | head` ends quietly, however much was to come."""
    for number in range(size):
        stub.put("Session", f"s-{number}", spec={"owner": "x" * 100})
    done = subprocess.run(
        ["sh", "-c", f"{{ {sys.executable} -m labfleet get sessions --json; echo $? >&2; }} | true"],
        env={"LABFLEET_URL": stub.url, "HOME": "/nonexistent"},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stderr == "0\n"


def test_help_is_a_command_too(run):
    """`labfleet help get` is `labfleet get --help`, with examples; unknown ones are told."""
    said = run("help", "get")
    assert (said.code, "labfleet get sessions" in said.out) == (0, True)
    assert "Commands:" in run("help").out
    assert run("help", "nope").code == 2

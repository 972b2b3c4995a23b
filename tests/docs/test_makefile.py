"""What the Makefile installs and when: real make, with a Python that only writes down its calls."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Stands in for python3 and for the environment's own. `-m venv DIR` makes DIR/bin as venv does, with
# pip unless HALF is set; `-m pip` and `labfleet` leave a line each.
PYTHON = """#!{sh}
case "$*" in
  "-m venv "*)
    echo "venv" >> "{calls}"
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    [ -n "$HALF" ] && exit 1
    touch "$3/bin/has-pip" ;;
  "-c import pip") [ -e "$(dirname "$0")/has-pip" ] ;;
  "-c import sys;"*) exit ${{OLD:-0}} ;;
  "--version") echo "Python 3.10.1" ;;
  "-m pip install "*)
    for word; do :; done
    echo "pip $word" >> "{calls}"
    printf '#!{sh}\\necho "labfleet $*" >> "{calls}"\\n' > "$(dirname "$0")/labfleet"
    chmod +x "$(dirname "$0")/labfleet" ;;
  "-m pytest "*) echo "pytest" >> "{calls}" ;;
esac
"""


class Checkout:
    """A copy of the Makefile and pyproject.toml with an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy2(ROOT / name, folder / name)
        self.python = folder / "python"
        self.python.write_text(PYTHON.format(sh=shutil.which("sh"), calls=self.calls))
        self.python.chmod(0o755)

    def make(self, *words: str, **environment: str) -> tuple[int, list[str], str]:
        """Run make; return its exit code, the calls it made and its stderr."""
        self.calls.write_text("")
        # What `make test ARGS=...` was given would reach this make too.
        outer = ("MAKE", "MFLAGS", "ARGS", "VENV", "PYTHON")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
        done = subprocess.run(
            ["make", *words, f"PYTHON={self.python}"],
            cwd=self.folder, env={**kept, **environment},
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        return done.returncode, self.calls.read_text().splitlines(), done.stderr

    def change_dependencies(self) -> None:
        """Make pyproject.toml newer than every installation."""
        for stamp in (self.folder / ".venv").glob(".current-*"):
            os.utime(stamp, (0, 0))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_demo_installs_the_simulators_and_nothing_for_developers(checkout: Checkout) -> None:
    """`make demo` on a new machine makes an environment for the demo alone, and once."""
    code, calls, said = checkout.make("demo", "ARGS=--once")
    assert (code, calls) == (0, ["venv", "pip .[simulators]", "labfleet demo --once"]), said
    assert checkout.make("demo")[:2] == (0, ["labfleet demo"])


def test_tests_add_to_what_the_demo_installed(checkout: Checkout) -> None:
    """From demo to test the environment stays and grows; back again nothing is installed."""
    checkout.make("demo")
    assert checkout.make("test")[:2] == (0, ["pip .[dev]", "pytest"])
    assert checkout.make("test")[:2] == (0, ["pytest"])
    assert checkout.make("demo")[:2] == (0, ["labfleet demo"])


def test_tests_first_serve_the_demo_too(checkout: Checkout) -> None:
    """`make test` on a new machine is one installation, after which a demo needs none."""
    assert checkout.make("test")[:2] == (0, ["venv", "pip .[dev]", "pytest"])
    assert checkout.make("demo")[:2] == (0, ["labfleet demo"])


def test_changed_dependencies_are_installed_again(checkout: Checkout) -> None:
    """A newer pyproject.toml brings one installation of what is asked for, in the same place."""
    checkout.make("test")
    checkout.change_dependencies()
    assert checkout.make("demo")[1] == ["pip .[simulators]", "labfleet demo"]


def test_an_interrupted_environment_is_made_whole(checkout: Checkout) -> None:
    """A venv that failed half-way leaves a Python without pip: the next run completes it."""
    assert checkout.make("demo", HALF="1")[:2] == (2, ["venv"])
    assert checkout.make("demo")[1] == ["venv", "pip .[simulators]", "labfleet demo"]


def test_an_old_python_is_refused_before_anything_is_made(checkout: Checkout) -> None:
    """One sentence says what is needed, what was found and how to name another."""
    code, calls, said = checkout.make("demo", OLD="1")
    assert (code, calls) == (2, [])
    assert "needs Python 3.11 or newer; Python 3.10.1 found. Set PYTHON=" in said
    assert not (checkout.folder / ".venv").exists()


def test_every_extra_that_the_makefile_names_exists() -> None:
    """What pip is asked for is declared in pyproject.toml; pip itself would only warn."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = set(re.findall(r"'\.\[(\w+)\]'", (ROOT / "Makefile").read_text()))
    assert named == {"dev", "simulators"}
    assert named <= set(declared["optional-dependencies"])

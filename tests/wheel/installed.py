"""The wheel in an environment of its own, where nothing of the checkout can be imported by chance."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def pip(*words: str) -> None:
    """Run the tests' own pip, which reaches the registry as this machine is set up to."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words],
        cwd="/", capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def build(folder: Path) -> Path:
    """Build the wheel of the checkout and return its file."""
    pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("labfleet-*.whl")
    return wheel


@dataclass(frozen=True)
class Installed:
    """One environment, and an empty folder beside it that its programs run in."""

    folder: Path

    @property
    def here(self) -> Path:
        """Return the folder that programs run in."""
        return self.folder / "here"

    @property
    def environment(self) -> dict[str, str]:
        """Return variables that lead to this environment only."""
        return {
            "PATH": os.pathsep.join((str(self.folder / "bin"), os.defpath)),
            "HOME": str(self.here),
            "LANG": "C.UTF-8",
        }

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end."""
        return subprocess.run(
            [self.folder / "bin" / words[0], *words[1:]],
            cwd=self.here, env={**self.environment, **more},
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a program of the environment; the caller ends it."""
        return subprocess.Popen(
            [self.folder / "bin" / words[0], *words[1:]],
            cwd=self.here, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip


def install(folder: Path, wheel: Path, extra: str = "") -> Installed:
    """Make an empty environment, without even pip, and install the wheel with an extra in it."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = str(folder / "bin" / "python")
    pip("--python", python, "install", "--quiet", "--no-compile",
        f"labfleet{extra} @ {wheel.as_uri()}")  # fmt: skip
    made = Installed(folder)
    made.here.mkdir()
    return made

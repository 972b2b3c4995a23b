"""`make check` on a machine without Node.js: the real scripts, with tools that only say yes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tidy_source import ROOT

TOOLS = ("sh", "dirname", "mktemp", "rm", "cat", "sed")


def check(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the check where nothing but a few tools of the system is found."""
    tools, ours = folder / "tools", folder / "venv" / "bin"
    for each in (tools, ours):
        each.mkdir(parents=True)
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None, name
        (tools / name).symlink_to(found)
    for name in ("python", "lint-imports"):
        (ours / name).write_text(f"#!{tools / 'sh'}\n")
        (ours / name).chmod(0o755)
    return subprocess.run(
        [tools / "sh", ROOT / "scripts" / "check.sh"],
        env={"PATH": str(tools), "VENV": str(ours.parent), **environment},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def test_without_node_the_check_says_what_it_skipped(tmp_path: Path) -> None:
    """The rest is checked; one line says that the scripts were not, and what to install."""
    done = check(tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "ok      types" in lines
    told = lines[lines.index("skipped javascript") + 1]
    assert "not checked" in told
    assert "nodejs npm" in told


def test_without_node_the_check_fails_in_ci(tmp_path: Path) -> None:
    """What CI did not check is not taken for good."""
    done = check(tmp_path, CI="true")
    assert done.returncode == 1
    assert "FAILED  javascript" in done.stdout.splitlines()
    assert done.stderr == "check failed: javascript\n"

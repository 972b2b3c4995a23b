"""What `make dev` takes for a change, and that it ends what it began."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import develop


def test_a_change_is_a_file_of_the_program_that_differs(tmp_path: Path) -> None:
    """New, gone and rewritten sources count; caches, notes and what stayed the same do not."""
    for name in ("a.py", "b.html", "same.css", "notes.txt"):
        (tmp_path / name).write_text("1", encoding="utf-8")
    old = develop.state(tmp_path)
    (tmp_path / "b.html").unlink()
    (tmp_path / "new.js").write_text("1", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("2", encoding="utf-8")
    new = develop.state(tmp_path) | {tmp_path / "a.py": 1}
    found = [each.name for each in develop.changed(old, new)]
    assert found == ["a.py", "b.html", "new.js"]
    assert develop.changed(new, new) == []


def test_the_server_is_ended() -> None:
    """Its child gets SIGTERM and is waited for."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        develop.ended(child)
        assert child.returncode == -15
        develop.ended(child)

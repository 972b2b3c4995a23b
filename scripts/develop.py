"""Runs a server for whoever changes the program, and restarts it when a file of it changes.

    .venv/bin/python scripts/develop.py [ARGUMENTS OF labfleet]

Without arguments it is `labfleet server`. Pages that are open load themselves anew when the server is
back with other scripts, styles or templates. Ctrl-C ends both.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WATCHED = ROOT / "src"
ENDINGS = frozenset({".py", ".js", ".css", ".html", ".svg"})
LOOK_SECONDS = 0.5
END_SECONDS = 10.0


def state(folder: Path) -> dict[Path, int]:
    """Return when each file of the program was changed last, in nanoseconds."""
    found = {}
    for each in folder.rglob("*"):
        if each.suffix in ENDINGS:
            try:
                found[each] = each.stat().st_mtime_ns
            except FileNotFoundError:
                continue  # an editor replaces it just now
    return found


def changed(old: dict[Path, int], new: dict[Path, int]) -> list[Path]:
    """Return the files that came, went or changed, by name."""
    return sorted(each for each in old.keys() | new.keys() if old.get(each) != new.get(each))


def begun(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a server."""
    return subprocess.Popen(command, cwd=ROOT)  # noqa: S603 - our own program


def ended(child: subprocess.Popen[bytes]) -> None:
    """End a server as an operator does; kill one that does not end."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def main(arguments: list[str]) -> int:
    """Run until Ctrl-C."""
    command = [sys.executable, "-m", "labfleet", *(arguments or ["server"])]
    known = state(WATCHED)
    child = begun(command)
    try:
        while True:
            time.sleep(LOOK_SECONDS)
            now = state(WATCHED)
            files = changed(known, now)
            if not files:
                continue
            known = now
            shown = ", ".join(str(each.relative_to(WATCHED)) for each in files[:3])
            sys.stderr.write(f"changed: {shown}{' ...' if files[3:] else ''}; restarting\n")
            ended(child)
            child = begun(command)
    except KeyboardInterrupt:
        return 0
    finally:
        ended(child)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

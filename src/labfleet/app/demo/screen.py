"""The demo's live view in a terminal; plain lines when it is not one."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from typing import Any, TextIO

from labfleet.app.demo.play import Scene
from labfleet.app.demo.runs import LIVE, learned_from
from labfleet.decisions.admission.targets import NEVER_FITS
from labfleet.kernel.quantity import count
from labfleet.resources.simulation import FAMILY_PARAMETER

LINE_SECONDS = 5.0
ROWS, RUNS = 24, 6
NAMED, CAUSES = 3, 8
"""How many names of a cause, and how many causes, the last words name."""
_MARKS = {
    "READY": "●", "ACTIVE": "●", "RUNNING": "●", "COMPLETED": "✓", "TERMINATED": "·",
    "FAILED": "✗", "CANCELLED": "✗", "EXPIRED": "✗", "DENIED": "✗",
}  # fmt: skip


class Screen:
    """Draws scenes; redraws in place on a terminal, else says one line every few seconds."""

    def __init__(self, *, quiet: bool, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty() and not quiet
        self._height = 0
        self._said = 0.0
        self._last = ""

    def say(self, line: str) -> None:
        """Print one line that stays."""
        self._erase()
        self._stream.write(line + "\n")
        self._stream.flush()

    def show(self, scene: Scene) -> None:
        """Draw the scene."""
        if not self._live:
            self._line(scene)
            return
        width, height = shutil.get_terminal_size()
        lines = fitted(_picture(scene), width - 1, max(height - 2, 3))
        self._erase()
        self._stream.write("\n".join(lines) + "\n")
        self._stream.flush()
        self._height = len(lines)

    def result(self, result: dict[str, Any]) -> None:
        """Say how it ended."""
        verdict = "everything is as it must be" if result["ok"] else "NOT as it must be"
        self.say("")
        made = count(result["workers_provisioned"], "worker")
        self.say(
            f"{result['sessions_completed']} of {result['sessions_requested']} sessions completed, "
            f"{result['sessions_refused']} refused, {result['sessions_failed']} failed, "
            f"{result['sessions_cancelled']} cancelled; "
            f"{made} made, {result['workers_terminated']} ended"
        )
        self.say(
            f"{count(result['simulations_approved'], 'run')} admitted "
            f"({result['simulations_learned']} by learned cost, "
            f"{result['simulations_queued']} from the queue), "
            f"{result['simulations_denied']} denied, {result['simulations_crashed']} crashed"
        )
        self.say(
            f"left over: {count(result['instances_left'], 'instance')}, "
            f"{count(result['licences_left'], 'licence')}, "
            f"{count(result['labs_left'], 'lab')}, {count(result['ports_left'], 'port')}, "
            f"{count(result['pods_left'], 'pod')}; "
            f"{count(result['invariant_violations'], 'violation')}"
        )
        self.say(
            f"{count(round(result['simulated_s'] / 60), 'simulated minute')} in "
            f"{result['wall_s']:.0f} s: {verdict}"
        )
        visitors = result.get("sessions_of_visitors")
        if visitors:
            self.say(f"besides {visitors} that you asked for")
        for words, found in (
            ("refused", result["refusals"]),
            ("failed", result["failures"]),
            ("yours did not complete:", result.get("failures_of_visitors") or {}),
        ):
            for line in grouped(words, found):
                self.say(line)
        for each in result["violations"]:
            self.say(f"  violation: {each}")

    def _line(self, scene: Scene) -> None:
        now = time.monotonic()
        words = "; ".join((
            f"{scene.act}: {_counts('workers', scene.workers)}",
            _counts("sessions", scene.sessions),
            _counts("runs", scene.simulations),
        ))  # fmt: skip
        if words != self._last and (scene.act not in self._last or now - self._said > LINE_SECONDS):
            self._last, self._said = words, now
            self._stream.write(words + "\n")
            self._stream.flush()

    def _erase(self) -> None:
        if self._height:
            self._stream.write(f"\x1b[{self._height}A\x1b[J")
            self._height = 0


def fitted(lines: list[str], columns: int, rows: int) -> list[str]:
    """Return the lines within a terminal; … stands where a line, or the rest of them, is cut off."""
    cut = [line if len(line) <= columns else line[: columns - 1] + "…" for line in lines]
    return cut if len(cut) <= rows else [*cut[: rows - 1], "…"]


def grouped(words: str, found: dict[str, str]) -> list[str]:
    """Return a line for each cause, with the names that it is true of, not one for each name."""
    by_cause: dict[str, list[str]] = {}
    for name, why in found.items():
        by_cause.setdefault(why, []).append(name)
    lines = []
    for why, names in list(by_cause.items())[:CAUSES]:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"  {words} {', '.join(names[:NAMED])}{more}: {why}")
    if len(by_cause) > CAUSES:
        lines.append(
            f"  {words} for {count(len(by_cause) - CAUSES, 'more reason')} (--json lists all)"
        )
    return lines


def _counts(word: str, objects: list[dict[str, Any]]) -> str:
    counts = Counter(each["status"]["phase"] for each in objects)
    told = ", ".join(f"{count} {phase}" for phase, count in sorted(counts.items()))
    return f"{len(objects)} {word}" + (f" ({told})" if told else "")


def _picture(scene: Scene) -> list[str]:
    killed = f"   server killed {scene.kills}x" if scene.kills else ""
    # The address has a line of its own: terminals of 80 columns cut the rest of a line off.
    lines = [f"Labfleet demo — {scene.act}{killed}", scene.url, ""]
    lines.append(_counts("workers", scene.workers))
    lines += [_row(each, each["status"].get("message") or "") for each in scene.workers[:8]]
    lines += ["", _counts("simulations", scene.simulations)]
    # Before the sessions, of which a small terminal shows as many as fit.
    shown = [each for each in scene.simulations if each["status"]["phase"] != "COMPLETED"]
    shown.sort(key=lambda each: each["status"]["phase"] not in LIVE)
    lines += [_row(each, run_words(each)) for each in shown[:RUNS]]
    lines += ["", _counts("sessions", scene.sessions)]
    busy = [each for each in scene.sessions if each["status"]["phase"] != "COMPLETED"]
    for each in (busy or scene.sessions)[:ROWS]:
        where = each["status"].get("worker") or "-"
        lines.append(_row(each, f"{where:<14} {each['status'].get('message') or ''}"))
    if len(busy) > ROWS:
        lines.append(f"  … and {len(busy) - ROWS} more")
    return lines


def run_words(run: dict[str, Any]) -> str:
    """Return what is to be said of a run in a few words: its family, and by what it was judged."""
    status, spec = run["status"], run["spec"]
    phase, decision = status["phase"], status.get("decision") or {}
    whose = str((spec.get("params") or {}).get(FAMILY_PARAMETER) or spec.get("owner") or "")
    if phase == "DENIED":
        said = "too large" if decision.get("reason") == NEVER_FITS else "denied"
    elif phase == "FAILED":
        said = "failed" if status.get("reported") else "its pods failed"
    elif spec.get("queue"):
        said = "waits for room" if phase == "QUEUED" else "was queued"
    elif learned_from(run):
        said = "learned cost"
    else:
        said = "declared cost" if spec.get("cost") else "default cost"
    return f"{whose}: {said}"


def _row(each: dict[str, Any], words: str) -> str:
    phase = each["status"]["phase"]
    return f"  {_MARKS.get(phase, '○')} {each['metadata']['name']:<28} {phase:<17} {words}"

"""Plays many seeds, some at a time, in child processes; stores their results and sums them up.

A row is the result of one seed, as plain values. Rows of other options or of other code are
not reused: a seed gives the same run only with the same options and code.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import itertools
import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import labfleet
from labfleet.kernel import errors
from labfleet.rehearsal import faults
from labfleet.rehearsal.people.run_scripts import PLACES
from labfleet.rehearsal.rules.overload import CONFIDENCE, least_share
from labfleet.rehearsal.seeds import children
from labfleet.rehearsal.seeds.run import Options, Report, rehearse

CODE = frozenset({".py", ".sql", ".json", ".yaml"})
"""What a seed's run depends on besides the seed and its options."""
SEEDS_A_PROCESS = 20
Row = dict[str, Any]


def played(
    seeds: list[int],
    options: Options,
    *,
    jobs: int,
    until: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Row]:
    """Yield a row for each seed, as they finish; begin none once `clock` has passed `until`."""

    def due() -> Iterator[tuple[int, Options]]:
        for seed in seeds:
            if until is not None and clock() >= until:
                return
            yield seed, options

    if jobs <= 1:
        yield from map(_one, due())
        return
    waiting = due()
    # Fresh processes: what a run leaves behind must not weigh on the next.
    pool = concurrent.futures.ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=children.begin,
        max_tasks_per_child=SEEDS_A_PROCESS,
    )
    try:
        # No more are handed out than are played: `until` counts for each of them.
        running = {pool.submit(_one, job) for job in itertools.islice(waiting, jobs)}
        while running:
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for each in done:
                yield each.result()
                running |= {pool.submit(_one, job) for job in itertools.islice(waiting, 1)}
    finally:
        for child in list((pool._processes or {}).values()):  # noqa: SLF001 - a seed takes minutes
            child.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


def _one(job: tuple[int, Options]) -> Row:
    seed, options = job
    return row_of(rehearse(seed, options), options)


def row_of(report: Report, options: Options) -> Row:
    """Return a report as plain values, each violation with the command that replays it."""
    return {
        "seed": report.seed,
        "violations": [
            {
                "seed": report.seed,
                "rule": each.rule,
                "at_hours": round(each.at / 3600, 4),
                "text": each.text,
                "replay": command(report.seed, options),
            }
            for each in report.violations
        ],
        "log": report.log,
        "schedule": report.schedule,
        "virtual_hours": report.virtual_hours,
        "settle_hours": report.settle_hours,
        "seconds": report.seconds,
        "commits": report.commits,
        "steps": report.steps,
        "faults": dict(report.faults),
        "outcomes": dict(report.outcomes),
        "sessions": dict(report.phases),
        "calls": dict(report.calls),
        "runs": dict(report.runs),
        "simulations": dict(report.simulations),
        "booked": dict(report.booked),
        "learned": dict(report.learned),
    }


def command(seed: int, options: Options, keep: Iterable[int] | None = None) -> str:
    """Return the one command that plays a seed again."""
    if options.book is not None:
        return f"labfleet rehearse --seeds {seed} --book"
    words = ["labfleet rehearse", f"--seeds {seed}", f"--hours {options.hours:g}"]
    words += [f"--workers {options.workers}", f"--sessions {options.sessions}"]
    if options.exam:
        words.append(f"--exam {options.exam}")
    if options.replicas != Options().replicas:
        words.append(f"--replicas {options.replicas}")
    if options.harshness != faults.HARSH:
        words.append(f"--faults {options.harshness}")
    if options.without:
        words.append(f"--without {','.join(options.without)}")
    if options.namespaces != Options().namespaces:
        words.append(f"--namespaces {','.join(options.namespaces)}")
    if options.static:
        words.append(f"--static {options.static}")
    if options.simulations:
        words.append(f"--simulations {options.simulations}")
    if options.learned:
        words.append(f"--learned {options.learned}")
    if options.wire:
        words.append("--wire")
    kept = options.keep if keep is None else tuple(keep)
    if kept is not None:
        words.append(f"--keep {','.join(str(number) for number in kept) or '-1'}")
    return " ".join(words)


def answer(rows: list[Row], options: Options, seconds: float, asked: int) -> Row:
    """Return the whole answer: what scripts read (`violations`, `hashes`, ...), and sums."""
    hours = sum(row["virtual_hours"] for row in rows)
    cpu = sum(row["seconds"] for row in rows)
    totals: dict[str, Counter[str]] = {}
    for name in (
        "faults",
        "outcomes",
        "sessions",
        "calls",
        "runs",
        "simulations",
        "booked",
        "learned",
    ):
        total: Counter[str] = Counter()
        for row in rows:
            total.update(row[name])
        totals[name] = total
    struck = totals["faults"]
    return {
        "seeds": len(rows),
        "asked": asked,
        "violations": [each for row in rows for each in row["violations"]],
        "hashes": {str(row["seed"]): row["log"] for row in rows},
        "schedules": {str(row["seed"]): row["schedule"] for row in rows},
        "virtual_hours": round(hours, 2),
        "real_seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "speed": round(hours * 3600 / cpu, 1) if cpu else None,
        "commits": sum(row["commits"] for row in rows),
        "steps": sum(row["steps"] for row in rows),
        "faults": {
            word: struck.get(word, 0)
            for word in faults.KINDS
            if options.simulations or word not in faults.OF_RUNS
        },
        "outcomes": dict(sorted(totals["outcomes"].items())),
        "sessions": dict(sorted(totals["sessions"].items())),
        "calls": dict(sorted(totals["calls"].items())),
        "runs": dict(sorted(totals["runs"].items())),
        "simulations": dict(sorted(totals["simulations"].items())),
        "booked": dict(sorted(totals["booked"].items())),
        "learned": dict(sorted(totals["learned"].items())),
        "overload": _overload(totals["simulations"]),
        "longest_settle_hours": round(max((row["settle_hours"] for row in rows), default=0), 2),
        "hours": options.hours,
    }


def _overload(seen: Counter[str]) -> dict[str, Row]:
    """Return by cluster how often its true load was over a target, over all seeds.

    `at_least` is the lower end of the interval at overload.CONFIDENCE, for so many independent
    minutes.
    """
    found = {}
    for name, _, _ in PLACES:
        minutes, over = seen[f"{name} minutes"], seen[f"{name} over"]
        sample = seen[f"{name} independent"]
        if minutes:
            share = over / minutes
            found[name] = {
                "minutes": minutes,
                "over": over,
                "share": round(share, 5),
                "independent": sample,
                "at_least": round(least_share(int(share * sample), sample), 5),
                "confidence": CONFIDENCE,
            }
    return found


# --- what was played before ---------------------------------------------------------------


def code() -> str:
    """Return a name of the code's version: the same seed runs differently in another one."""
    root = Path(labfleet.__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    for room in ("labfleet", "cml_simulator", "kubernetes_simulator"):
        files = (path for path in (root / room).rglob("*") if path.suffix in CODE)
        for path in sorted(files):
            digest.update(f"{path.relative_to(root)} ".encode() + path.read_bytes())
    return digest.hexdigest()


class Kept:
    """The file in which finished seeds are kept; without a path nothing is kept.

    Invalid, before anything is played, when it can be neither read nor written.
    """

    def __init__(self, path: Path | None, options: Options) -> None:
        self._path = path
        self._name = f"{options!r} {code()}"
        self.others = 0
        self.rows: dict[int, Row] = {}
        if path is None:
            return
        try:
            with path.open("a+", encoding="utf-8") as file:
                file.seek(0)
                line = "\n"
                for line in file:
                    self._take(line)
                if not line.endswith("\n"):
                    file.write("\n")  # the next row must not be added to a torn one
        except (OSError, UnicodeDecodeError) as problem:
            why = getattr(problem, "strerror", None) or "it is no text"
            raise errors.Invalid(
                f"--state {path}: {why}; name a file that can be written"
            ) from None

    def _take(self, line: str) -> None:
        try:
            row = json.loads(line)
        except ValueError:
            return  # the last line of a run that was killed
        if isinstance(row, dict) and row.get("played") == self._name:
            self.rows[row["seed"]] = row
        else:
            self.others += 1

    def add(self, row: Row) -> None:
        """Keep a row for good."""
        self.rows[row["seed"]] = row
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "played": self._name}) + "\n")
            file.flush()
            os.fsync(file.fileno())

"""The program `labfleet rehearse`: many seeds, some at a time, and one verdict.

Progress goes to stderr, the answer to stdout; with --json it is the last line. Exit code 0:
every seed held; 1: a rule was broken; 2: wrong use. Finished seeds are kept in --state, so that
a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from labfleet.rehearsal import asking, faults
from labfleet.rehearsal.run import Options, Report, rehearse
from labfleet.rehearsal.shrinking import shrink

SHOWN = 20
CODE = frozenset({".py", ".sql", ".json", ".yaml"})
"""What a seed's story depends on beside the seed and its options."""
RARELY = (50_000, 20, 100)
"""Thresholds of the garbage collector during a seed: a tenth of its CPU time (measured)."""


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        prog="labfleet rehearse",
        description="Run the product in virtual time, with faults, against small worlds.",
    )
    add = made.add_argument
    add("--seeds", type=_seeds, default=(1,), metavar="A..B", help="which seeds (default 1)")
    add("--hours", type=float, default=24.0, help="virtual hours with faults (default 24)")
    add("--workers", type=int, default=8, help="most workers of the pool (default 8)")
    add("--sessions", type=int, default=40, help="sessions a day (default 40)")
    add("--exam", type=int, default=0, help="sessions of an exam at 09:00 (default none)")
    add("--replicas", type=int, default=2, help="processes of the product (default 2)")
    add("--faults", choices=(faults.HARSH, faults.MILD, faults.NONE), default=faults.HARSH,
        help="how much goes wrong (default harsh)")  # fmt: skip
    add("--without", type=_words, default=(), metavar="KINDS", help="leave these faults out")
    add("--keep", type=_numbers, metavar="N,N", help="keep only these happenings of the plan")
    add("--wire", action="store_true",
        help="talk to the worlds through the real adapters, HTTP and all (slower)")  # fmt: skip
    add("--every-fault", action="store_true",
        help="fail when a kind of fault struck nothing in all the seeds")  # fmt: skip
    add("--jobs", type=int, default=1, help="seeds at a time (default 1)")
    add("--minutes", type=float, help="begin no new seed after so many real minutes")
    add("--state", type=Path, metavar="FILE", help="keep finished seeds here and go on from it")
    add("--no-shrink", action="store_true", help="do not look for the smallest failing plan")
    add("--plan", type=Path, metavar="FILE", help="answer a what-if plan instead of playing seeds")
    add("--json", action="store_true", help="print the answer as JSON on the last line")
    return made


def _seeds(text: str) -> Sequence[int]:
    first, dots, last = text.partition("..")
    try:
        begin = int(first)
        end = int(last) if dots else begin
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not N or A..B") from None
    if not 0 <= begin <= end or end - begin > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds")
    return range(begin, end + 1)


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    odd = [word for word in words if word not in faults.KINDS]
    if odd:
        raise argparse.ArgumentTypeError(f"unknown faults {odd}; known: {', '.join(faults.KINDS)}")
    return words


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None


def main(argv: Sequence[str]) -> int:
    """Run the seeds; 0 when all held, 1 when a rule was broken."""
    given = parser().parse_args(argv)
    if given.plan is not None:
        return asking.main(given.plan, as_json=given.json, jobs=given.jobs)
    options = Options(
        hours=given.hours,
        workers=given.workers,
        sessions=given.sessions,
        exam=given.exam,
        replicas=given.replicas,
        harshness=given.faults,
        without=given.without,
        keep=given.keep,
        wire=given.wire,
    )
    begun = time.monotonic()
    played = f"{options!r} {_code()}"
    rows = _kept(given.state, played)
    wanted = [seed for seed in given.seeds if seed not in rows]
    until = None if given.minutes is None else begun + given.minutes * 60
    for row in _played(wanted, options, jobs=given.jobs, until=until):
        rows[row["seed"]] = row
        _keep(given.state, played, row)
        _progress(len(rows), len(given.seeds), row)
    asked = [rows[seed] for seed in given.seeds if seed in rows]
    if not given.no_shrink:
        _shrunk(asked, options)
    answer = _answer(asked, options, time.monotonic() - begun)
    _show(answer, as_json=given.json)
    missed = [word for word, count in answer["faults"].items() if not count]
    if given.every_fault and missed:
        sys.stderr.write(f"no seed met {', '.join(missed)}\n")
        return 1
    return 1 if answer["violations"] else 0


def _played(
    seeds: list[int], options: Options, *, jobs: int, until: float | None
) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed, as they finish; in child processes when jobs allow."""

    def due() -> Iterator[tuple[int, Options]]:
        for seed in seeds:
            if until is not None and time.monotonic() >= until:
                return
            yield seed, options

    if jobs <= 1:
        yield from map(_one, due())
        return
    # Fresh processes: what a run leaves behind must not weigh on the next.
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, maxtasksperchild=50) as pool:
        yield from pool.imap_unordered(_one, due())


def _one(job: tuple[int, Options]) -> dict[str, Any]:
    seed, options = job
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        return row_of(rehearse(seed, options), options)
    finally:
        gc.set_threshold(*before)


def row_of(report: Report, options: Options) -> dict[str, Any]:
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
    }


def command(seed: int, options: Options, keep: Iterable[int] | None = None) -> str:
    """Return the one command that plays a seed again."""
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
    if options.wire:
        words.append("--wire")
    kept = options.keep if keep is None else tuple(keep)
    if kept is not None:
        words.append(f"--keep {','.join(str(number) for number in kept) or '-1'}")
    return " ".join(words)


def _shrunk(rows: list[dict[str, Any]], options: Options) -> None:
    """Find the smallest failing plan of the first broken seed."""
    broken = next((row for row in rows if row["violations"]), None)
    if broken is None:
        return
    seed, rule = broken["seed"], broken["violations"][0]["rule"]

    def tell(tried: int, of: int, plan: Options) -> None:
        kept = "all" if plan.keep is None else len(plan.keep)
        told = f"{len(plan.without)} kinds left out, {kept} happenings kept"
        sys.stderr.write(f"shrinking seed {seed}: try {tried} of at most {of}, {told}\n")

    smaller = shrink(seed, options, rule, tell=tell)
    for each in broken["violations"]:
        each["shrunk"] = command(broken["seed"], smaller)


def _answer(rows: list[dict[str, Any]], options: Options, seconds: float) -> dict[str, Any]:
    hours = sum(row["virtual_hours"] for row in rows)
    cpu = sum(row["seconds"] for row in rows)
    totals: dict[str, Counter[str]] = {}
    for name in ("faults", "outcomes", "sessions", "calls"):
        total: Counter[str] = Counter()
        for row in rows:
            total.update(row[name])
        totals[name] = total
    struck = totals["faults"]
    return {
        "seeds": len(rows),
        "violations": [each for row in rows for each in row["violations"]],
        "hashes": {str(row["seed"]): row["log"] for row in rows},
        "schedules": {str(row["seed"]): row["schedule"] for row in rows},
        "virtual_hours": round(hours, 2),
        "real_seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "speed": round(hours * 3600 / cpu, 1) if cpu else None,
        "commits": sum(row["commits"] for row in rows),
        "steps": sum(row["steps"] for row in rows),
        "faults": {word: struck.get(word, 0) for word in faults.KINDS},
        "outcomes": dict(sorted(totals["outcomes"].items())),
        "sessions": dict(sorted(totals["sessions"].items())),
        "calls": dict(sorted(totals["calls"].items())),
        "longest_settle_hours": round(max((row["settle_hours"] for row in rows), default=0), 2),
        "hours": options.hours,
    }


def _show(answer: dict[str, Any], *, as_json: bool) -> None:
    out = sys.stdout
    if as_json:
        out.write(json.dumps(answer) + "\n")
        return
    out.write(
        f"{answer['seeds']} seeds, {answer['virtual_hours']:g} virtual hours, "
        f"{answer['commits']} commits, {answer['cpu_seconds']:g} s of CPU "
        f"({answer['speed'] or 0:g} x real time)\n"
    )
    told = [f"{word} {count}" for word, count in answer["faults"].items()]
    out.write("faults: " + ", ".join(told) + "\n")
    for each in answer["violations"][:SHOWN]:
        out.write(f"BROKEN {each['rule']} in seed {each['seed']} at {each['at_hours']} h\n")
        out.write(f"  {each['text']}\n  replay: {each['replay']}\n")
        if "shrunk" in each:
            out.write(f"  smallest: {each['shrunk']}\n")
    out.write(f"{len(answer['violations'])} violations\n")


def _progress(done: int, of: int, row: dict[str, Any]) -> None:
    bad = f" BROKEN {row['violations'][0]['rule']}" if row["violations"] else ""
    if bad or done == of or done % 10 == 0 or sys.stderr.isatty():
        speed = row["virtual_hours"] / max(row["seconds"], 0.001)
        told = f"{done}/{of} seed {row['seed']} {speed:.1f} h/s{bad}\n"
        sys.stderr.write(told)


def _code() -> str:
    """Return what names the code: a seed is a story only together with it."""
    root = Path(__file__).parents[2]
    digest = hashlib.blake2b(digest_size=8)
    for room in ("labfleet", "cml_simulator"):
        files = (path for path in (root / room).rglob("*") if path.suffix in CODE)
        for path in sorted(files):
            digest.update(f"{path.relative_to(root)} ".encode() + path.read_bytes())
    return digest.hexdigest()


def _kept(state: Path | None, played: str) -> dict[int, dict[str, Any]]:
    """Return the finished seeds of an earlier run with the same options and the same code."""
    if state is None or not state.exists():
        return {}
    rows = {}
    with state.open(encoding="utf-8") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was killed
            if row.get("played") == played:
                rows[row["seed"]] = row
    return rows


def _keep(state: Path | None, played: str, row: dict[str, Any]) -> None:
    if state is None:
        return
    with state.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**row, "played": played}) + "\n")
        file.flush()
        os.fsync(file.fileno())

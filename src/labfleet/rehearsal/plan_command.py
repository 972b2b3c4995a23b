"""`labfleet rehearse --plan`: reads the plan, plays its variants, prints the answer.

Exit codes: 0 answered; 1 a rule was broken while it was played; 2 the plan or the use is wrong.
The progress goes to stderr, the answer to stdout; with --json it is the last line.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from labfleet.kernel import errors
from labfleet.rehearsal.answers import report
from labfleet.rehearsal.answers.report import Question
from labfleet.rehearsal.figures import tally
from labfleet.rehearsal.plans import (
    demand,
    demand_file,
    feasibility,
    plan,
    planned_fleet,
    recording,
    variations,
)
from labfleet.rehearsal.plans.demand import Crowd
from labfleet.rehearsal.plans.plan_words import Wrong
from labfleet.rehearsal.seeds import children
from labfleet.rehearsal.whatif import breakdown
from labfleet.rehearsal.whatif.what_if import WAITERS, Answer, Case, Fleet, Progress, play

DEFAULT_SPAN = 86400.0
SHOW_EVERY = 0.5
TELL_EVERY = 30.0
"""Seconds between two lines of progress where no terminal can redraw one."""
OF_SEEDS = (
    "seeds", "hours", "workers", "sessions", "exam", "namespaces", "static", "simulations", "learned",
    "book", "replicas", "faults", "without", "keep", "wire", "every_fault", "minutes", "state",
    "no_shrink",
)  # fmt: skip
"""Options that say how seeds are played, by their names in the parser."""
_shares: Any = None


def ignored(given: argparse.Namespace) -> list[str]:
    """Return the options of seeds that were given beside --plan, which reads none of them.

    None, False and empty mean that an option was not given: the parser must have no other
    defaults for them.
    """
    found = [name for name in OF_SEEDS if getattr(given, name, None) not in (None, False, ())]
    return [f"--{name.replace('_', '-')}" for name in found]


def main(path: Path, *, as_json: bool, jobs: int, csv_file: Path | None = None) -> int:
    """Answer one plan; `csv_file` also gets every figure of every variant and draw."""
    begun = time.monotonic()
    try:
        if csv_file is not None and not csv_file.absolute().parent.is_dir():
            raise errors.Invalid(f"cannot write {csv_file}: there is no such folder")
        asked = plan.load(path)
        cases, real = cases_of(asked, path.parent)
        for note in cases[0].crowd.notes:
            sys.stderr.write(f"labfleet rehearse: warning: {note}\n")
        question = question_of(asked, cases, real, path)
        answers = list(_played(cases, jobs))
        if csv_file is not None:
            _write(csv_file, report.csv_text(question, answers))
    except errors.LabfleetError as problem:
        sys.stderr.write(f"labfleet rehearse: {problem.message}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(
            "\nlabfleet rehearse: stopped; a what-if keeps nothing of what it played\n"
        )
        return 130
    extra: dict[str, Any] = {
        "real_seconds": round(time.monotonic() - begun, 1),
        "period_hours": round(question.hours, 3),
        "telemetry_minutes": asked.fidelity.telemetry_minutes,
        "warnings": list(cases[0].crowd.notes),
    }
    if as_json:
        found = report.answer(question, answers, extra)
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else report.WIDTH
        sys.stdout.write(report.text(question, answers, max(width, report.WIDTH // 2)))
    return 1 if any(each.violations for each in answers) else 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise errors.Invalid(f"cannot write {path}: {problem.strerror}") from None


def question_of(
    asked: plan.WhatIfPlan, cases: list[Case], real: recording.Recording | None, path: Path
) -> Question:
    """Return what the answer has to repeat of the plan, and the recorded period's figures."""
    swept, sizes, _ = variations.swept(asked)
    first = cases[0]
    return Question(
        name=asked.name,
        rule=asked.best,
        hours=first.crowd.seconds / 3600,
        recorded=None if real is None else recorded_figures(real, first.limit),
        behind={} if real is None else _behind(real, first.limit),
        sizes=sizes,
        swept=swept,
        origin=None if real is None else real.begin,
        notes=first.crowd.notes,
        replay=f"labfleet rehearse --plan {shlex.quote(str(path))}",
    )


def recorded_figures(real: recording.Recording, limit: float) -> tally.Figures:
    """Return the recorded period's own figures, up to the same end as the played ones."""
    return tally.figures(real.tally, real.crowd.seconds, limit=limit)


def _behind(real: recording.Recording, limit: float) -> dict[str, Any]:
    """Return who waited in the recorded period and why, and its figures by pool, lab and day."""
    end = real.crowd.seconds
    return {
        "waiters": breakdown.waiters(real.tally, end, WAITERS, limit=limit),
        "reasons": breakdown.reasons(real.tally, end, turned_away={}),
        **breakdown.details(real.tally, end, limit=limit),
    }


def cases_of(asked: plan.WhatIfPlan, folder: Path) -> tuple[list[Case], recording.Recording | None]:
    """Return a case for each variant and draw, and the recording when the plan names one.

    Mistakes that can be found before anything is played are refused here, with their line.
    """
    with asked.placing(), variations.placing(asked):
        seeds = variations.seeds(asked)
        spelt = variations.spelt(asked)
        source = asked.demand.recorded
        real = None if source is None else recording.of_store(source, folder)
        fleet = planned_fleet.whole(spelt, folder, {} if real is None else real.fleet)
        variants = planned_fleet.variants(spelt, fleet)
        crowds = {seed: _crowd(asked, folder, fleet, real, seed) for seed in seeds}
        first = crowds[seeds[0]]
        notes = feasibility.notes(spelt, folder, variants, list(crowds.values()))
    crowds[seeds[0]] = replace(first, notes=(*first.notes, *notes))
    cases = [
        Case(
            name=each.name,
            seed=seed,
            fleet=changed,
            crowd=crowds[seed],
            fidelity=asked.fidelity,
            timings=asked.timings,
            begin=asked.warmup_minutes * 60,
            limit=asked.best.max_wait_p95_minutes * 60,
        )
        for each, changed in variants
        for seed in seeds
    ]
    return cases, real


def _crowd(
    asked: plan.WhatIfPlan, folder: Path, fleet: Fleet, real: recording.Recording | None, seed: int
) -> Crowd:
    minutes = demand.usual_minutes(fleet)
    if real is not None:
        return real.crowd
    if asked.demand.file is not None:
        path = folder / asked.demand.file
        if not path.is_file():
            raise Wrong(f"there is no file {path}", "demand", "file")
        return demand_file.read(path, asked.start, minutes, asked.span)
    if asked.demand.generated is None:
        raise AssertionError("a plan without a demand was accepted")
    return demand.draw(asked.demand.generated, minutes, asked.span or DEFAULT_SPAN, seed)


# --- playing ---------------------------------------------------------------------------


def _played(cases: list[Case], jobs: int) -> Iterator[Answer]:
    if jobs <= 1 or len(cases) == 1:
        last = [time.monotonic()]
        for number, case in enumerate(cases):
            name = f"{case.name}, seed {case.seed}"
            yield play(case, _shower(number, len(cases), name, last))
        _clear()
        return
    context = multiprocessing.get_context("spawn")
    shares = context.Array("d", len(cases))
    with context.Pool(min(jobs, len(cases)), initializer=_share, initargs=(shares,)) as pool:
        yield from _watched(pool, cases, shares)
    _clear()


def _watched(pool: Pool, cases: list[Case], shares: Any) -> Iterator[Answer]:
    waiting = pool.map_async(_one, list(enumerate(cases)), chunksize=1)
    while not waiting.ready():
        waiting.wait(_pause())
        if waiting.ready():
            break
        _show(sum(shares) / len(cases), f"{len(cases)} runs")
    yield from waiting.get()


def _share(shares: Any) -> None:
    global _shares  # noqa: PLW0603 - how a child of a pool is given what cannot be sent later
    _shares = shares
    children.begin()


def _one(job: tuple[int, Case]) -> Answer:
    number, case = job

    def progress(share: float) -> None:
        _shares[number] = share

    return play(case, progress)


def _shower(number: int, of: int, name: str, last: list[float]) -> Progress:
    def progress(share: float) -> None:
        now = time.monotonic()
        if now - last[0] >= _pause():
            last[0] = now
            _show((number + share) / of, name)

    return progress


def _pause() -> float:
    return SHOW_EVERY if sys.stderr.isatty() else TELL_EVERY


def _show(share: float, title: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(report.bar(share, title))
    else:
        sys.stderr.write(f"{share * 100:.0f} % played ({title})\n")
    sys.stderr.flush()


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r" + " " * 79 + "\r")

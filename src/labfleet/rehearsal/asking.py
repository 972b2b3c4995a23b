"""`labfleet rehearse --plan`: reads the plan, plays its variants, prints the answer.

Exit codes: 0 answered; 1 a rule was broken while it was played; 2 the plan is wrong. The
progress bar goes to stderr, the answer to stdout; with --json it is the last line.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from labfleet.kernel import errors
from labfleet.rehearsal import demand, demand_file, plan, recording, report, tally
from labfleet.rehearsal.demand import Crowd
from labfleet.rehearsal.what_if import Answer, Case, Fleet, Progress, play
from labfleet.stores import opening

DEFAULT_SPAN = 86400.0
SHOW_EVERY = 0.5
_shares: Any = None


def main(path: Path, *, as_json: bool, jobs: int) -> int:
    """Answer one plan."""
    begun = time.monotonic()
    try:
        asked = plan.load(path)
        cases, real = cases_of(asked, path.parent)
        answers = list(_played(cases, jobs))
    except errors.LabfleetError as problem:
        sys.stderr.write(f"labfleet rehearse: {problem.message}\n")
        return 2
    extra: dict[str, Any] = {
        "real_seconds": round(time.monotonic() - begun, 1),
        "period_hours": round(cases[0].crowd.seconds / 3600, 3),
        "telemetry_minutes": asked.fidelity.telemetry_minutes,
    }
    if real is not None:
        extra["recorded"] = recorded_figures(real)
    found = report.answer(asked.name, answers, asked.best, extra)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(report.text(asked.name, answers, asked.best))
    return 1 if found["violations"] else 0


def recorded_figures(real: recording.Recording) -> dict[str, Any]:
    """Return what the recorded period really came to, in the same words."""
    found = tally.figures(real.tally, real.crowd.seconds)
    return {name: getattr(found, name) for name in found.__slots__}


def cases_of(asked: plan.Plan, folder: Path) -> tuple[list[Case], recording.Recording | None]:
    """Return a case for each variant, and the recording when the plan names one."""
    real = None
    source = asked.demand.recorded
    if source is not None:
        real = recording.read(opening.recorded(_url(source.store, folder)), source.begin, source.to)
    fleet = _fleet(asked, folder, real)
    crowd = _crowd(asked, folder, fleet, real)
    variants = asked.variants or (plan.Variant(name="as planned"),)
    if len({each.name for each in variants}) < len(variants):
        raise errors.Invalid("two variants have one name")
    cases = [
        Case(
            name=each.name,
            seed=asked.seed,
            fleet=plan.changed(fleet, each),
            crowd=crowd,
            fidelity=asked.fidelity,
            timings=asked.timings,
            begin=asked.warmup_minutes * 60,
        )
        for each in variants
    ]
    return cases, real


def _url(store: str, folder: Path) -> str:
    """Return the store's URL; a relative SQLite path counts from the plan's folder."""
    scheme, _, rest = store.partition(":///")
    if scheme == "sqlite" and rest and not rest.startswith("/"):
        return f"sqlite:///{(folder / rest).absolute()}"
    return store


def _fleet(asked: plan.Plan, folder: Path, real: recording.Recording | None) -> Fleet:
    found = {(kind, name): spec for kind, name, spec in plan.bodies(asked, folder)}
    if real is not None:
        found = {**real.fleet, **found}
    if not any(kind == "Pool" for kind, _ in found):
        raise errors.Invalid("the plan has no pool; add one under pools or manifests")
    order = ("Template", "Pool", "Definition")
    return [
        (kind, name, found[kind, name])
        for kind, name in sorted(found, key=lambda each: (order.index(each[0]), each[1]))
    ]


def _crowd(asked: plan.Plan, folder: Path, fleet: Fleet, real: recording.Recording | None) -> Crowd:
    minutes = demand.usual_minutes(fleet)
    if real is not None:
        return real.crowd
    if asked.demand.file is not None:
        return demand_file.read(folder / asked.demand.file, asked.start, minutes, asked.span)
    if asked.demand.generated is None:
        raise AssertionError("a plan without a demand was accepted")
    return demand.draw(asked.demand.generated, minutes, asked.span or DEFAULT_SPAN, asked.seed)


# --- playing ---------------------------------------------------------------------------


def _played(cases: list[Case], jobs: int) -> Iterator[Answer]:
    if jobs <= 1 or len(cases) == 1:
        for number, case in enumerate(cases):
            yield play(case, _shower(number, len(cases), case.name))
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
        waiting.wait(SHOW_EVERY)
        _show(sum(shares) / len(cases), f"{len(cases)} variants")
    yield from waiting.get()


def _share(shares: Any) -> None:
    global _shares  # noqa: PLW0603 - how a child of a pool is given what cannot be sent later
    _shares = shares


def _one(job: tuple[int, Case]) -> Answer:
    number, case = job

    def progress(share: float) -> None:
        _shares[number] = share

    return play(case, progress)


def _shower(number: int, of: int, name: str) -> Progress:
    last = [0.0]

    def progress(share: float) -> None:
        now = time.monotonic()
        if now - last[0] >= SHOW_EVERY or share >= 1.0:
            last[0] = now
            _show((number + share) / of, name)

    return progress


def _show(share: float, title: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(report.bar(share, title))
        sys.stderr.flush()


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r" + " " * 70 + "\r")

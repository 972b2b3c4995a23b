"""The program `labfleet rehearse`: many seeds, some at a time, and one verdict.

Progress goes to stderr, the answer to stdout; with --json it is the last line. Exit code 0:
no seed that was played broke a rule; 1: one did, or a fault that was required to occur did not; 2:
wrong use, or no seed was played; 130: stopped by hand. Finished seeds are kept in --state, so that
a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from labfleet.cli.kit import examples
from labfleet.kernel import errors, ids
from labfleet.rehearsal import faults, plan_command
from labfleet.rehearsal.seeds import playing
from labfleet.rehearsal.seeds.booked_exam import Exam
from labfleet.rehearsal.seeds.run import Options, plan_of
from labfleet.rehearsal.seeds.shrinking import shrink

SHOWN = 20
WIDTH = 79
STOPPED = 130


def parser() -> argparse.ArgumentParser:
    """Return the parser. None, False and () mean: not given (`plan_command.ignored`)."""
    made = argparse.ArgumentParser(
        prog="labfleet rehearse",
        description="Run the product in virtual time, with faults, against small worlds.",
        epilog=examples.lines("rehearse"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--seeds", type=_seeds, metavar="A..B", help="which seeds (default 1)")
    add("--hours", type=_number(0.01, 8784), help="virtual hours with faults (default 24)")
    add("--workers", type=_whole(1, 10_000), help="most workers of the pool (default 8)")
    add("--sessions", type=_whole(0, 100_000), help="sessions a day (default 40)")
    add("--exam", type=_whole(0, 10_000), help="sessions of an exam at 09:00 (default none)")
    add("--namespaces", type=_spaces, metavar="NAME,NAME",
        help="people, a pool and workers in each of these namespaces (default: default)")  # fmt: skip
    add("--static", type=_whole(0, 200), metavar="N",
        help="as many workers on people's own servers besides (default 0)")  # fmt: skip
    add("--simulations", type=_whole(0, 100_000), metavar="N",
        help="run scripts a day that ask for clusters (default none)")  # fmt: skip
    add("--learned", type=_whole(0, 100_000), metavar="N",
        help="sessions a day that are counted with what past ones used (default none)")  # fmt: skip
    add("--book", action="store_true",
        help="play an exam booked two weeks ahead by 50 callers at once instead of a day")  # fmt: skip
    add("--replicas", type=_whole(1, 9), help="processes of the product (default 2)")
    add("--faults", choices=(faults.HARSH, faults.MILD, faults.NONE),
        help="how much goes wrong (default harsh)")  # fmt: skip
    add("--without", type=_words, default=(), metavar="KINDS", help="leave these faults out")
    add("--keep", type=_numbers, metavar="N,N",
        help="keep only these scheduled faults of the plan; -1 keeps none")  # fmt: skip
    add("--wire", action="store_true",
        help="talk to the worlds through the real adapters, HTTP and all (slower)")  # fmt: skip
    add("--every-fault", action="store_true",
        help="fail when a kind of fault struck nothing in all the seeds")  # fmt: skip
    add("--jobs", type=_whole(1, 256), default=1, help="seeds at a time (default 1)")
    add("--minutes", type=_number(0.01, 525_600),
        help="begin no new seed after so many real minutes; those begun are finished")  # fmt: skip
    add("--state", type=Path, metavar="FILE", help="keep finished seeds here and go on from it")
    add("--no-shrink", action="store_true", help="do not look for the smallest failing plan")
    add("--plan", type=Path, metavar="FILE", help="answer a what-if plan instead of playing seeds")
    add("--csv", type=Path, metavar="FILE", help="with --plan: write every figure here as well")
    add("--json", action="store_true", help="print the answer as JSON on the last line")
    return made


def _number(least: float, most: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not from {least:g} to {most:g}")
        return value

    return number


def _whole(least: int, most: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not from {least} to {most}")
        return value

    return whole


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


def _spaces(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    odd = [name for name in names if not ids.is_name(name)]
    if odd or not names:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of namespaces")
    return names


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None


def main(argv: Sequence[str]) -> int:
    """Play seeds, or answer a plan; the exit code is the module's."""
    made = parser()
    given = made.parse_args(argv)
    if given.plan is not None:
        useless = plan_command.ignored(given)
        if useless:
            made.error(f"{', '.join(useless)}: a plan reads none of it; say it in the plan")
        return plan_command.main(
            given.plan, as_json=given.json, jobs=given.jobs, csv_file=given.csv
        )
    if given.csv is not None:
        made.error("--csv goes with --plan")
    names = {"harshness": "faults"}
    options = Options(**{
        name: value
        for name in Options.__dataclass_fields__
        if name != "book"
        and (value := getattr(given, names.get(name, name))) is not None
        and value is not False
        and value != ()
    })  # fmt: skip
    if given.book and options != Options():
        made.error("--book plays a fleet and a day of its own; leave fleet, day and faults out")
    if given.book:
        options = Options(book=Exam())
    seeds = (1,) if given.seeds is None else given.seeds
    if options.keep is not None and len(seeds) > 1:
        made.error("--keep goes with one seed: each has scheduled faults of its own")
    odd = _unknown(seeds[0], options)
    if odd:
        made.error(f"--keep: the plan of seed {seeds[0]} has no happening {odd}")
    try:
        kept = playing.Kept(given.state, options)
    except errors.Invalid as problem:
        made.error(problem.message)
    return _rehearsed(given, seeds, options, kept)


def _unknown(seed: int, options: Options) -> list[int]:
    """Return the fault numbers of --keep that the seed's plan does not have; -1 keeps no fault."""
    if options.keep is None:
        return []
    whole = replace(options, keep=None, without=())
    known = {each.number for each in plan_of(seed, whole).scheduled}
    return sorted({*options.keep} - known - {-1})


def _rehearsed(
    given: argparse.Namespace, seeds: Sequence[int], options: Options, kept: playing.Kept
) -> int:
    begun = time.monotonic()
    wanted = [seed for seed in seeds if seed not in kept.rows]
    if given.state is not None:
        told = f"{len(seeds) - len(wanted)} of {len(seeds)} seeds are kept in {given.state}"
        more = f"; {kept.others} rows of other options or other code are left alone"
        _tell(told + (more if kept.others else ""))
    until = None if given.minutes is None else begun + given.minutes * 60
    stopped = False
    try:
        for row in playing.played(wanted, options, jobs=given.jobs, until=until):
            kept.add(row)
            _progress(sum(seed in kept.rows for seed in seeds), len(seeds), row)
    except KeyboardInterrupt:
        stopped = True
    except BrokenExecutor:
        stopped = True
        _tell("a process that played a seed was killed; was there enough memory?")
    asked = [kept.rows[seed] for seed in seeds if seed in kept.rows]
    if stopped:
        goes_on = "" if given.state is None else "; the same command goes on from here"
        _tell(f"\nstopped: {len(asked)} of {len(seeds)} seeds were played{goes_on}")
    if not given.no_shrink and not stopped and options.book is None:
        _shrunk(asked, options)
    answer = playing.answer(asked, options, time.monotonic() - begun, len(seeds))
    _show(answer, as_json=given.json)
    missed = [word for word, count in answer["faults"].items() if not count]
    if given.every_fault and missed and not stopped:
        _tell(f"no seed met {', '.join(missed)}")
        return 1
    if answer["violations"]:
        return 1
    return STOPPED if stopped else 0 if asked else 2


def _shrunk(rows: list[playing.Row], options: Options) -> None:
    """Find the smallest failing plan of the first broken seed; each try is a whole run."""
    broken = [row for row in rows if row["violations"]]
    if not broken:
        return
    row = broken[0]
    seed, rule = row["seed"], row["violations"][0]["rule"]
    if len(broken) > 1:
        _tell(f"shrinking the first of {len(broken)} broken seeds; --no-shrink leaves it out")

    def tell(tried: int, of: int, plan: Options) -> None:
        scheduled = "all" if plan.keep is None else len(plan.keep)
        told = f"{len(plan.without)} kinds left out, {scheduled} scheduled faults kept"
        if plan.harshness == faults.NONE:
            told = "no faults at all"
        _tell(f"shrinking seed {seed}: try {tried} of at most {of}, {told}")

    smaller = shrink(seed, options, rule, tell=tell)
    for each in row["violations"]:
        each["shrunk"] = playing.command(seed, smaller)


def _show(answer: dict[str, Any], *, as_json: bool) -> None:
    out = sys.stdout
    if as_json:
        out.write(json.dumps(answer) + "\n")
        return
    played = f"{answer['seeds']} of {answer['asked']} seeds"
    out.write(
        f"{played}, {answer['virtual_hours']:g} virtual hours, {answer['commits']} commits,\n"
        f"{answer['cpu_seconds']:g} s of CPU ({answer['speed'] or 0:g} x real time)\n"
    )
    struck = sorted(answer["faults"].items(), key=lambda item: (-item[1], item[0]))
    told = ", ".join(f"{word} {count}" for word, count in struck if count)
    never = ", ".join(word for word, count in struck if not count)
    out.write(_wrapped(f"faults: {told or 'none'}"))
    if never:
        out.write(_wrapped(f"struck nothing: {never}"))
    if answer["booked"]:
        told = ", ".join(f"{word} {many}" for word, many in answer["booked"].items())
        out.write(_wrapped(f"booked: {told}"))
    for name, seen in answer["overload"].items():
        out.write(
            f"cluster {name}: over a target in {seen['share']:.2%} of {seen['minutes']} minutes\n"
            f"  ({seen['independent']} independent; surely at least {seen['at_least']:.2%})\n"
        )
    for each in answer["violations"][:SHOWN]:
        out.write(f"BROKEN {each['rule']} in seed {each['seed']} at {each['at_hours']} h\n")
        out.write(f"  {each['text']}\n  replay: {each['replay']}\n")
        if "shrunk" in each:
            out.write(f"  smallest: {each['shrunk']}\n")
    if len(answer["violations"]) > SHOWN:
        out.write(f"and {len(answer['violations']) - SHOWN} more; --json has all\n")
    out.write(f"{len(answer['violations'])} violations\n")


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _progress(done: int, of: int, row: playing.Row) -> None:
    bad = f" BROKEN {row['violations'][0]['rule']}" if row["violations"] else ""
    if bad or done == of or done % 10 == 0 or row["seconds"] > 10 or sys.stderr.isatty():
        speed = row["virtual_hours"] / max(row["seconds"], 0.001)
        _tell(f"{done}/{of} seed {row['seed']}: {speed:.1f} virtual hours a CPU second{bad}")


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")

"""`history`: past runs as a table, as CSV out, and as CSV in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from labfleet.cli.kit import exits, human_units, output
from labfleet.cli.kit.call import Call, connected
from labfleet.resources import history_table
from labfleet.resources.history import LEARNED, Run, nodes_of, used

PATH = "/api/v1/history"
PAGE = 1000
AT_ONCE = 256
"""Runs of one request, which the server keeps whole or not at all."""
LOT_BYTES = 2**20
SHOWN_PROBLEMS = 20
TITLES = [
    "ENDED", "KIND", "FAMILY", "NAME", "NODES", "DURATION", "CPU", "MEMORY(MiB)", "SOURCE", "CUT OFF",
]  # fmt: skip

_kind = click.option("--kind", type=click.Choice([each.value for each in LEARNED], case_sensitive=False),
                     help="Only runs of this kind.")  # fmt: skip
_family = click.option("--family", metavar="NAME", help="Only runs of this family.")


@click.group("history", short_help="Show past runs; write them as CSV, read them back.",
             invoke_without_command=True)  # fmt: skip
@_kind
@_family
@click.option("--limit", type=click.IntRange(1, PAGE), default=50, show_default=True,
              help="How many of the newest.")  # fmt: skip
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of every namespace.")
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@connected
def history(
    call: Call, *, kind: str | None, family: str | None, limit: int, everywhere: bool
) -> int:
    """Show the newest past runs: how long they took and the most that they used.

    A dash is a figure that nobody measured. SOURCE says by whose word the figures are: measured by
    Labfleet, reported by the run's caller, or imported. Runs are kept longer than the objects that ran.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return exits.OK
    space = None if everywhere else call.settings.namespace
    answer = call.api.get(PATH, kind=kind, family=family, limit=limit, namespace=space)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    runs = _runs(call, answer)
    if call.out.quiet or call.out.format == "name":
        output.write("".join(f"{each.uid}\n" for each in runs))
        return exits.OK
    call.out.table(TITLES, [_row(call, each) for each in runs])
    if not runs:
        call.out.note("there is no past run")
    return exits.OK


@history.command("export", short_help="Write past runs as CSV, the oldest first.")
@_kind
@_family
@click.option("--write", "file", metavar="FILE", type=click.Path(dir_okay=False),
              help="Into this new file; default: to stdout.")  # fmt: skip
@connected
def export(call: Call, *, kind: str | None, family: str | None, file: str | None) -> int:
    """Write past runs of every namespace as CSV, which `labfleet history import` reads.

    A cell that a spreadsheet would compute has an apostrophe before it.
    """
    count = 0
    with _target(file) as write:
        write(history_table.text((), heading=True))
        for runs in _pages(call, kind=kind, family=family):
            write(history_table.text(runs, heading=False))
            count += len(runs)
    call.out.note(f"{count} runs" + (f" written to {file}." if file else "."))
    return exits.OK


@history.command("import", short_help="Bring past runs from a CSV file in.")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@connected
def import_(call: Call, *, file: str) -> int:
    """Bring past runs of a CSV file into the history; their source becomes `imported`.

    The whole file is checked first, and nothing is sent when a line of it is wrong. Then at
    most 256 runs at a time are kept, each lot whole or not at all. Runs that are known stay as they
    are, so an import that broke off may be repeated.
    """
    latest = call.now() + timedelta(minutes=1)
    with _lines(file) as lines:
        wrong = list(islice((each for each in lines(latest) if each.run is None), SHOWN_PROBLEMS))
    if wrong:
        said = [f"{file}:{each.number}: {_problem(*why)}" for each in wrong for why in each.wrong]
        shown = "\n".join(human_units.printable(each) for each in said[:SHOWN_PROBLEMS])
        raise exits.usage(f"{file} cannot be imported; nothing was sent\n{shown}")
    added = known = 0
    with _lines(file) as lines:
        runs = (each.run for each in lines(latest) if each.run is not None)
        for lot in _lots(runs):
            done = call.api.post(f"{PATH}/import", {"runs": lot})
            added, known = added + int(done["added"]), known + int(done["known"])
    call.out.value({"added": added, "known": known}, f"{added} runs added, {known} known already")
    return exits.OK


def _runs(call: Call, answer: Any) -> list[Run]:
    try:
        return [msgspec.convert(each["run"], Run) for each in answer["items"]]
    except (msgspec.ValidationError, KeyError, TypeError):
        raise call.api.unexpected("past runs were expected") from None


def _pages(call: Call, **wanted: str | None) -> Iterator[list[Run]]:
    cursor: str | None = None
    while True:
        page = call.api.get(PATH, limit=PAGE, cursor=cursor, oldestFirst="true", **wanted)
        yield _runs(call, page)
        cursor = page.get("next")
        if cursor is None:
            return


@contextmanager
def _target(file: str | None) -> Iterator[Any]:
    """Give what writes text: to stdout, or to a new file."""
    if file is None:
        yield output.write
        return
    try:
        with Path(file).open("x", encoding="utf-8", newline="") as made:
            yield made.write
    except FileExistsError:
        raise exits.usage(f"{file} exists already", "Name another file.") from None
    except OSError as error:
        raise exits.Failure(exits.ERROR, f"cannot write {file}: {error.strerror}") from None


@contextmanager
def _lines(file: str) -> Iterator[Any]:
    """Give what reads a file's lines, of runs that ended by an instant."""
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as opened:
            yield lambda latest: history_table.read(_bounded(opened), latest)
    except OSError as error:
        raise exits.usage(f"cannot read {file}: {error.strerror}", "Nothing was sent.") from None


def _bounded(opened: IO[str]) -> Iterable[str]:
    """Yield lines without ever holding more of one than a line may have."""
    while line := opened.readline(history_table.LINE_LIMIT + 1):
        yield line


def _lots(runs: Iterable[Run]) -> Iterator[list[Any]]:
    """Yield runs as they are sent: so many, or so large, as one request may be."""
    lot: list[Any] = []
    size = 0
    for run in runs:
        more = len(msgspec.json.encode(run))
        if lot and (len(lot) == AT_ONCE or size + more > LOT_BYTES):
            yield lot
            lot, size = [], 0
        lot.append(msgspec.to_builtins(run))
        size += more
    if lot:
        yield lot


def _problem(field: str, why: str) -> str:
    return f"{field} {why}" if field else why


def _row(call: Call, run: Run) -> list[str]:
    cpu, memory, nodes = used(run, "cpu_milli"), used(run, "memory_mib"), nodes_of(run)
    return [
        call.out.when(msgspec.to_builtins(run.ended_at)),
        run.kind.value,
        human_units.printable(run.family),
        output.label(run.namespace, run.name),
        output.NOTHING if nodes is None else str(nodes),
        call.out.span(run.duration_seconds),
        output.NOTHING if cpu is None else f"{cpu / 1000:.2f}",
        output.NOTHING if memory is None else f"{memory:.0f}",
        run.source.value,
        human_units.printable(run.censored) or output.NOTHING,
    ]

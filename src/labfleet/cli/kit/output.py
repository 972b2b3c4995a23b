"""How objects are shown: table, wide, json, yaml, name, csv, jsonpath=, custom-columns=.

Data goes to stdout and everything for people to stderr. JSON is indented on a terminal and
one line elsewhere, so that a program finds it on the last line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from labfleet.cli.kit import exits, human_units, options, paths
from labfleet.cli.kit.environment import CommandEnvironment
from labfleet.kernel import spreadsheet
from labfleet.resources import yamltext
from labfleet.resources.declaration import Column
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import DEFAULT_NAMESPACE, Key

NOTHING = "-"
"""The cell of what is unknown or absent, in a table for people."""
CUT = 40
"""Characters of a sentence in a list that a terminal is too narrow for; `describe` has all of it."""
_PLAIN = frozenset({"table", "wide", "json", "yaml", "name", "csv"})
_GOOD = frozenset({"READY", "ACTIVE", "RUNNING", "COMPLETED", "APPROVED"})
_BAD = frozenset({"FAILED", "EXPIRED", "DENIED", "Unreachable"})
_COMMAND_ALONE = re.compile(r"`([^`]+)`\.?")
# JSON's own rules leave these as they are: DEL, C1 and what turns the direction of the text.
_MOVING = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class OutputColumn:
    """One column: heading and how its cell is made of an object."""

    title: str
    cell: Callable[[Any], str]


@dataclass(frozen=True)
class Output:
    """The chosen format and its switches; `argument` is what stands after `jsonpath=`."""

    environment: CommandEnvironment
    format: str
    argument: str = ""
    headers: bool = True
    quiet: bool = False
    color: bool = False
    clock: Callable[[], datetime] | None = None

    @property
    def structured(self) -> bool:
        """Tell whether programs read stdout."""
        return self.format in {"json", "yaml"}

    def now(self) -> datetime:
        """Return the time that ages count from."""
        return self.environment.now() if self.clock is None else self.clock()

    def show(self, kind: Kind, obj: Any) -> None:
        """Print one object."""
        if self.quiet:
            say(name_of(obj))
        elif self.format == "json":
            self.json(obj)
        elif self.format == "yaml":
            write(yamltext.dump(obj))
        elif self.format == "jsonpath":
            say(self._shown(_understood(paths.render, obj, self.argument)))
        else:
            self.listing([kind], [obj], spaces=False)

    def objects(self, kinds: Sequence[Kind], items: list[Any], *, spaces: bool) -> None:
        """Print a list; `spaces` adds the namespace column."""
        listed = {"apiVersion": "labfleet.dev/v1", "kind": "List", "items": items}
        if self.quiet:
            write("".join(f"{name_of(each)}\n" for each in items))
        elif self.format == "json":
            self.json(listed)
        elif self.format == "yaml":
            write("---\n".join(yamltext.dump(each) for each in items))
        elif self.format == "jsonpath":
            say(self._shown(_understood(paths.render, listed, self.argument)))
        else:
            self.listing(kinds, items, spaces=spaces)

    def listing(self, kinds: Sequence[Kind], items: list[Any], *, spaces: bool) -> None:
        """Print rows: name, csv, custom columns or table, one block for each kind."""
        if self.format == "name":
            write("".join(f"{full_name(each)}\n" for each in items))
            return
        blocks = []
        for kind in kinds:
            mine = [each for each in items if each.get("kind", kind.name) == kind.name]
            if mine or len(kinds) == 1:
                blocks.append(self._rows(self._columns(kind, spaces=spaces), mine))
        write("\n".join(blocks))

    def json(self, value: Any) -> None:
        """Print a value as JSON, on one line unless a person watches."""
        say(json_text(value, indent=self.environment.terminal_out()))

    def value(self, value: Any, text: str) -> None:
        """Print something that is no object: as JSON or YAML when asked for, else as text."""
        if self.format == "json":
            self.json(value)
        elif self.format == "yaml":
            write(yamltext.dump(value))
        elif self.format == "jsonpath":
            say(self._shown(_understood(paths.render, value, self.argument)))
        else:
            say(self._shown(text))

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under headings, as csv when that was asked for."""
        if self.format != "csv":
            write(self._text(titles, rows))
            return
        # As `get` writes it: a spreadsheet takes a dash for a word.
        bare = [["" if each == NOTHING else each for each in row] for row in rows]
        write(self._csv(titles, bare))

    def when(self, value: Any) -> str:
        """Return an instant's cell: with how far away it is for people, alone as csv."""
        if self.format == "csv":
            return str(value) if human_units.instant(value) else ""
        return human_units.when(value, self.now())

    def age(self, value: Any) -> str:
        """Return the cell of how long ago an instant was: in seconds as csv."""
        then = human_units.instant(value)
        if self.format != "csv" or then is None:
            return human_units.age(value, self.now())
        return f"{max(0.0, (self.now() - then).total_seconds()):.0f}"

    def span(self, seconds: float | None) -> str:
        """Return a duration's cell: in seconds as csv."""
        if seconds is None:
            return NOTHING
        return f"{seconds:.0f}" if self.format == "csv" else human_units.span(seconds)

    def text(self, value: Any) -> str:
        """Return a sentence's cell: the marks of commands in it are for people."""
        said = human_units.printable(str(value)) if value else NOTHING
        if self.format != "csv":
            return said
        alone = _COMMAND_ALONE.fullmatch(said)  # a program may run it: without the full stop
        return alone[1] if alone else said.replace("`", "")

    def left_out(self, answer: dict[str, Any], what: str) -> None:
        """Say how many rows the server left out of its answer, if any."""
        if answer.get("leftOut"):
            self.note(f"and {answer['leftOut']} more {what} that are not listed")

    def note(self, text: str) -> None:
        """Tell a person something, on stderr."""
        if not self.quiet:
            note(text)

    def _rows(self, columns: list[OutputColumn], items: list[Any]) -> str:
        titles = [each.title for each in columns]
        rows = [[column.cell(item) for column in columns] for item in items]
        if self.format == "csv":
            return self._csv(titles, rows)
        return self._text(titles, self._narrowed(titles, rows))

    def _narrowed(self, titles: Sequence[str], rows: list[list[str]]) -> list[list[str]]:
        """Return rows whose sentences are cut where a terminal is too narrow for them.

        Names, times and numbers stay whole, and so does everything that a program reads.
        """
        if not rows or not self.environment.terminal_out():
            return rows
        width = self.environment.columns()
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            return rows
        return [
            [f"{each[: CUT - 1]}…" if len(each) > CUT and " " in each else each for each in row]
            for row in rows
        ]

    def _columns(self, kind: Kind, *, spaces: bool) -> list[OutputColumn]:
        if self.format == "custom-columns":
            return _custom(self.argument)
        bare = self.format == "csv"
        cell = _raw if bare else human_units.plain
        wide = self.format in {"wide", "csv"}
        columns = [OutputColumn("NAME", _at("metadata.name", cell))]
        if spaces:
            columns.insert(0, OutputColumn("NAMESPACE", _at("metadata.namespace", cell)))
        columns += [
            OutputColumn(each.title, _at(each.path, cell)) if bare else _readable(each)
            for each in kind.columns
            if wide or not each.wide
        ]
        if self.format == "csv":
            return [*columns, OutputColumn("CREATED", _at("metadata.creationTimestamp", cell))]
        return [*columns, OutputColumn("AGE", _age(self.now()))]

    def _text(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        # Here and not where rows are made: no cell of any table may move the cursor.
        cells = [[human_units.printable(each) for each in row] for row in rows]
        shown = ([list(titles)] if self.headers else []) + cells
        if not shown:
            return ""
        widths = [max(len(row[at]) for row in shown) for at in range(len(titles))]
        lines = []
        for number, row in enumerate(shown):
            # A heading such as READY is no state.
            paint = self._paint if number or not self.headers else _plain
            painted = [
                paint(cell, cell.ljust(width)) for cell, width in zip(row, widths, strict=True)
            ]
            lines.append("  ".join(painted).rstrip() + "\n")
        return "".join(lines)

    def _csv(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Return rows as CSV: no formulas for a spreadsheet, no escapes for a terminal."""
        text = spreadsheet.rows([*([titles] if self.headers else []), *rows])
        return self._shown(text)

    def _shown(self, text: str) -> str:
        """Return what programs get as it is, without control characters when a person watches."""
        return human_units.harmless(text) if self.environment.terminal_out() else text

    def _paint(self, cell: str, padded: str) -> str:
        if not self.color or cell not in _GOOD | _BAD:
            return padded
        return f"\x1b[{32 if cell in _GOOD else 31}m{padded}\x1b[0m"


def _plain(_cell: str, padded: str) -> str:
    return padded


def choose(
    environment: CommandEnvironment,
    text: str,
    *,
    headers: bool = True,
    quiet: bool = False,
    color: str = "auto",
    clock: Callable[[], datetime] | None = None,
) -> Output:
    """Return the output that `-o TEXT` names; Failure when there is no such format."""
    name, _, argument = text.partition("=")
    if name not in _PLAIN | {"jsonpath", "custom-columns"}:
        raise exits.usage(f"unknown output format {text!r}", f"The formats: {options.FORMATS}")
    if (name in _PLAIN) == bool(argument):
        raise exits.usage(f"-o {name} takes {'no' if name in _PLAIN else 'an'} argument")
    if name == "custom-columns":
        _custom(argument)
    elif name == "jsonpath":
        _understood(paths.render, {}, argument)
    painted = color == "always" or (
        color == "auto" and environment.terminal_out() and not environment.env.get("NO_COLOR")
        and environment.env.get("TERM") != "dumb"
    )  # fmt: skip
    return Output(
        environment, name, argument, headers=headers, quiet=quiet, color=painted, clock=clock
    )


def write(text: str) -> None:
    """Write to stdout as it is; characters that its encoding lacks are replaced."""
    if sys.stdout is None:  # stdout was closed by the caller: `>&-`
        raise exits.Failure(exits.ERROR, "cannot write the answer: stdout is closed")
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    except BrokenPipeError:
        raise exits.ReaderGoneError from None
    except OSError as error:
        raise _unwritable(error) from None


def flush() -> None:
    """Flush, so that the reader of a watch gets each change at once."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise exits.ReaderGoneError from None
    except OSError as error:
        raise _unwritable(error) from None


def _unwritable(error: OSError) -> exits.Failure:
    """Return the failure for output that cannot be written, for example on a full disk."""
    return exits.Failure(exits.ERROR, f"cannot write the answer: {error.strerror}")


def say(text: str) -> None:
    """Write a line to stdout."""
    write(text if text.endswith("\n") else text + "\n")


def note(text: str) -> None:
    """Write a line to stderr at once, without control characters: people read it."""
    print(human_units.harmless(text), file=sys.stderr, flush=True)


def json_text(value: Any, *, indent: bool = False) -> str:
    """Return JSON text, on one line unless indented; what moves a cursor is written as an escape."""
    if indent:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _MOVING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def label(namespace: Any, name: Any) -> str:
    """Return a name for a list of all namespaces: with its namespace unless that is `default`."""
    return Key("", str(namespace or DEFAULT_NAMESPACE), str(name)).label


def name_of(obj: Any) -> str:
    """Return the object's bare name."""
    return str(paths.simple(obj, "metadata.name") or "")


def full_name(obj: Any) -> str:
    """Return `session/x`."""
    return f"{str(obj.get('kind', '')).lower()}/{name_of(obj)}"


def _at(path: str, cell: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda obj: cell(paths.simple(obj, path))


def _readable(column: Column) -> OutputColumn:
    """Return a column for people: its amounts with units, so that the title needs none."""
    key = column.path.rpartition(".")[2]
    if column.absent:
        return OutputColumn(
            column.title,
            lambda obj: human_units.plain(paths.simple(obj, column.path) or column.absent),
        )
    if key not in human_units.COLUMN_UNITS:
        return OutputColumn(column.title, _at(column.path, human_units.plain))
    title = column.title.partition("(")[0]
    return OutputColumn(title, _at(column.path, lambda value: human_units.cell(key, value)))


def _age(now: datetime) -> Callable[[Any], str]:
    return lambda obj: human_units.age(paths.simple(obj, "metadata.creationTimestamp"), now)


def _raw(value: Any) -> str:
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
        return ",".join(str(each) for each in value)
    return value if isinstance(value, str) else json_text(value)


def _custom(argument: str) -> list[OutputColumn]:
    columns = []
    for item in argument.split(","):
        title, colon, path = item.partition(":")
        if not colon or not title or not path:
            hint = "For example -o custom-columns=NAME:.metadata.name,PHASE:.status.phase."
            raise exits.usage(f"{item!r} is not TITLE:PATH", hint)
        _understood(paths.select, {}, path)
        columns.append(OutputColumn(title, _selected(path)))
    return columns


def _selected(path: str) -> Callable[[Any], str]:
    def cell(obj: Any) -> str:
        found = paths.select(obj, path)
        return ",".join(human_units.plain(each) for each in found) if found else "<none>"

    return cell


def _understood(how: Callable[[Any, str], Any], value: Any, text: str) -> Any:
    try:
        return how(value, text)
    except ValueError as error:
        raise exits.usage(str(error)) from None

"""What a kind declares of itself for everything that shows it: tables, pages, filters, runbook.

One `KIND` per kind, in the module of its fields or beside it. `kinds.KINDS` collects them; REST,
OpenAPI, CLI, pages, reference and runbook read them there. What may be done with an object is the
other half, in `service/kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from labfleet.resources.conditions import ConditionType, Measured, Reason, Status
from labfleet.resources.meta import Record

Severity = Literal["critical", "warning", "info"]
OVER = 6
"""States with an order from this number on are over, and are sorted by time, newest first."""


class Column(Record, frozen=True, kw_only=True):
    """One column of a table for people: heading, dotted path, only in wide output or not.

    `absent` is what stands there for no value, where that means something.
    """

    title: str
    path: str
    wide: bool = False
    absent: str = ""


class Entry(Record, frozen=True, kw_only=True):
    """A row of the runbook: what it is about, why it may last or be so, how to see more, the help.

    NAME stands for the object in the command.

    kind: Kind of the objects that it is about.
    subject: The phase or condition that it is about.
    limit: How long a phase may last, in words.
    cause: Why it may last or be so.
    command: Command that shows more, with NAME for the object.
    fix: What helps.
    """

    kind: str
    subject: str
    limit: str = ""
    cause: str
    command: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What replaces a runbook row's cause and fix for one reason: of a decision, or of a condition.

    `subject` is the row's phase or condition. `waits` says what an object of that phase waits for,
    as it stands after "It waits for"; "" leaves that to whoever explains it. `fix` is for those who
    run the fleet, `others` for those who may not change pools; "" means that it is the same.
    """

    subject: str
    reason: str
    cause: str
    fix: str
    waits: str = ""
    others: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """How a phase is shown on a page: never by colour alone. `group` is what the summary counts."""

    group: str
    order: int
    tone: str
    shape: str


@dataclass(frozen=True, slots=True)
class PageColumn:
    """One column of a page's table: heading, how to show it, where the value is.

    `show` is name, link:<plural>, state, health, text, why, flag, time, load or live. Paths after
    `|` are tried one after the other. `absent` is what stands there without a value;
    `unknown: why` is shown as unknown with its reason. `measured` is the metric that stands beside
    a load: what is used of it, with its age.
    """

    title: str
    show: str
    path: str = ""
    absent: str = "unknown: not reported"
    wide: int = 1
    measured: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The table of a kind on the first page; `place` is where among the tables it stands.

    `since` is the instant by which objects that are over are sorted, `groups` what the summary
    counts, in its order. An empty table says `none`, and each hint: a sentence and a command, in
    which BASE stands for the server's address.
    """

    place: int
    title: str
    columns: tuple[PageColumn, ...]
    since: str = "metadata.creationTimestamp"
    groups: tuple[str, ...] = ()
    none: str = "None"
    hints: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Loud:
    """A condition that raises an alert of a kind other than Worker, whose table is in `alerts`.

    `measure` returns the number behind it, of the object as it is now; `unless` tells of which
    objects it is no matter of whoever runs the fleet.
    """

    condition: ConditionType
    when: Status
    severity: Severity
    measure: Callable[[Any], Measured | None] | None = None
    unless: Callable[[Any], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One row of the table of kinds: names, type, and all that is shown of it.

    `frozen` lists spec fields (snake_case) that may not change after creation, `kept` further
    fields (camelCase) that a PUT may leave out because only a verb changes them, `partial` those of
    which it may leave out parts, `asked` what a verb asked of this one object: its printed form
    applies without it, so that it may get another name. `amounts` lists (path, is_supply) of
    Amounts blocks where friendly quantities are accepted, `*` for each key of a map. `filters` lists (name, path) by which a
    list can be filtered; an index is kept of each; `tags` is the path of the mapping by which
    `tag=KEY=VALUE` chooses. `creatable` False means: objects appear through a verb, never by POST.
    `text_limit` is how long (bytes) the one long text or list of a spec may be. `named_by` is the spec
    field after which an object without a name is named by us. `single` means: the one object is
    made by its first PATCH. `news` lists conditions that need a person, with the status that does;
    `resting` phases may last for ever, the others have a row in `runbook`; `advice` has what such a
    row says for one reason. `words` are further lists of words that pages show as states.
    `navigable`: pages lead to its list in the navigation. `derived` are paths that are worked out
    when an object is read: nothing is sorted by them. In `waiting` phases an object is not decided
    yet: a reader may wait for that.
    """

    name: str
    plural: str
    type: Any
    summary: str
    short: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    filters: tuple[tuple[str, str], ...] = ()
    tags: str = ""
    frozen: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    amounts: tuple[tuple[str, bool], ...] = ()
    creatable: bool = True
    text_limit: int = 0
    named_by: str = ""
    single: bool = False
    conditions: type[ConditionType] | None = None
    reasons: type[Reason] | None = None
    news: tuple[tuple[ConditionType, Status], ...] = ()
    loud: tuple[Loud, ...] = ()
    resting: tuple[str, ...] = ()
    runbook: tuple[Entry, ...] = ()
    advice: tuple[Advice, ...] = ()
    states: Mapping[str, State] = field(default_factory=dict)
    words: Mapping[str, Mapping[str, State]] = field(default_factory=dict)
    page: Page | None = None
    followed: bool = False
    navigable: bool = False
    derived: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    @property
    def one(self) -> str:
        """Return what people call any one of them: `a session`, `an image`."""
        word = self.name.lower()
        return f"an {word}" if word[0] in "aeio" else f"a {word}"


def columns(*rows: str) -> tuple[Column, ...]:
    """Return the columns of `TITLE=path` texts; a `*` at the end means: only in wide output.

    `TITLE=path?words` has words for no value.
    """
    made = []
    for row in rows:
        title, path = row.removesuffix("*").split("=")
        path, _, absent = path.partition("?")
        made.append(Column(title=title, path=path, wide=row.endswith("*"), absent=absent))
    return tuple(made)


def filters(*rows: str) -> tuple[tuple[str, str], ...]:
    """Return the filters of `name=path` texts."""
    return tuple([(name, path) for name, _, path in (row.partition("=") for row in rows)])


def runbook(kind: str, *rows: tuple[str, str, str, str, str]) -> tuple[Entry, ...]:
    """Return the runbook of (phase or condition, limit, cause, command, fix) rows."""
    return tuple(
        [
            Entry(kind=kind, subject=subject, limit=limit, cause=cause, command=command, fix=fix)
            for subject, limit, cause, command, fix in rows
        ]
    )

"""Writes docs/reference/*.md from the code, so that the pages can never go stale.

    python scripts/reference.py          write the pages
    python scripts/reference.py --check  say which differ; exit 1 when one does

What things mean stands with them in the code; `tests/docs` fails when something says nothing.
The glossary and the maps from the upstream names are written by hand.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import inspect

from labfleet import entry
from labfleet.api.core import problems
from labfleet.app import aliases, settings
from labfleet.cli import main as cli
from labfleet.cli.kit import examples
from labfleet.kernel import errors
from labfleet.resources import (
    alerts,
    descriptions,
    fleet_settings,
    kinds,
    runbook,
    server_alerts,
    setting_units,
)
from labfleet.resources.conditions import ANY_ERROR
from labfleet.resources.session_conditions import PhaseReason, WaitReason
from labfleet.service.core import event_types

sys.path.insert(0, str(Path(__file__).parent))
from reference_clients import page_clients
from reference_queries import page_queries
from reference_source import (
    calls,
    error_reasons,
    error_types,
    metrics,
    sentence,
    texts,
)

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
WRITTEN = "<!-- Written by scripts/reference.py from the code; do not edit. -->"

# --- the pages ---------------------------------------------------------------------------------


def table(*rows: tuple[str, ...]) -> str:
    """Return a table; the first row is its heading."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def code(words: Any) -> str:
    """Return words as code, sorted."""
    return ", ".join(f"`{word}`" for word in sorted(words))


def first_line(thing: Any) -> str:
    """Return the first line of a docstring."""
    return (thing.__doc__ or "").strip().split("\n")[0]


def page_settings() -> str:
    """Return the page of settings."""
    told = descriptions.fields(settings.Settings)
    rows = [("setting", "variable", "default", "what it is")]
    for field in msgspec.structs.fields(settings.Settings):
        default = msgspec.json.encode(field.default).decode()
        variable = f"`{settings.PREFIX}{field.name.upper()}`"
        rows.append((f"`{field.name}`", variable, f"`{default}`", told.get(field.name, "")))
    return (
        "# Settings\n\n## Settings of the server\n\n"
        "A TOML file (`--config`, or `LABFLEET_SERVER_CONFIG`), then variables, then options of "
        "the command line; the last one that says something wins. Unknown keys are refused.\n\n"
        f"{table(*rows)}\n{_fleet_settings()}\n{_aliases()}"
    )


def _fleet_settings() -> str:
    """Return the section of what people change while the server runs."""
    sections: Mapping[str, Any] = fleet_settings.SECTIONS
    rows = [("setting", "type", "unit", "default", "what it is")]
    described = {
        f"{name}.{field.encode_name}": field.type
        for name, section in sections.items()
        for field in inspect.type_info(section).fields  # type: ignore[attr-defined]  # structs
    }
    for path, _, field in fleet_settings.settings_fields():
        default = msgspec.json.encode(field.default).decode()
        unit = setting_units.unit_of(path)
        said = descriptions.fields(sections[path.partition(".")[0]]).get(field.encode_name, "")
        rows.append((f"`{path}`", _type(described[path]), unit, f"`{default}`", said))
    told = [
        f"- `{name}`: {' '.join(descriptions.about(each).split())}"
        for name, each in sections.items()
    ]
    return (
        "## Settings of the fleet\n\n"
        "Changed while the server runs, in force at the next round, and written into the log with "
        "who, what and why: `labfleet settings` shows each with its value and where that is from, "
        "`labfleet settings set idle.timeoutMinutes=30 --reason TEXT` and `labfleet settings unset "
        "idle.timeoutMinutes` change them (admins only). They are one object, `settings/fleet`, "
        "which `labfleet apply` takes too. What nobody has set falls back to the environment "
        "(below), then to the default. Durations are fleet time.\n\n"
        + "\n".join(told)
        + f"\n\n{table(*rows)}"
    )


def _aliases() -> str:
    """Return the section of the compatible environment variables."""
    rows = [("variable", "default or example there", "what it sets here")]
    rows += [
        (f"`{each.variable}`", f"`{each.there}`", aliases.told(each)) for each in aliases.TABLE
    ]
    return (
        "## Upstream variables\n\n"
        "The variables that upstream 001 and 002 name, and those for the clusters of upstream 004, are read as other names for "
        "settings of ours. An empty one counts as not set; a wrong value stops the start and names "
        "the variable. Our own settings win over them: `LABFLEET_*` and the command line over the "
        "server's, `labfleet settings set` over the fleet's, a template or pool over what it would "
        "get. They are read once, at the start. Defaults are those of the table above, not those "
        "there: nothing is discovered, stopped for idleness or measured at a price before somebody "
        f"says so.\n\n{table(*rows)}"
    )


def page_commands() -> str:
    """Return the page of commands."""
    parts = ["# Commands\n", (cli.root.help or "") + "\n", (cli.root.epilog or "") + "\n"]
    parts.append("Every command also takes:\n\n" + _options(cli.root))
    shared = {option for each in cli.root.params for option in each.opts}
    for name, (module, attribute, line) in cli.COMMANDS.items():
        command = getattr(importlib.import_module(module), attribute)
        parts.append(f"## labfleet {name}\n\n{line}\n\n" + _command(command, shared, name))
        parts.append(_examples(name))
    for name, line in entry.PROGRAMS.items():
        parts.append(f"## labfleet {name}\n\n{line}\n\n" + _program(name))
        if name in examples.EXAMPLES:
            parts.append(_examples(name))
    return "\n".join(parts)


def _examples(name: str) -> str:
    return "```sh\n" + "\n".join(examples.EXAMPLES[name]) + "\n```\n"


def _command(command: click.Command, shared: set[str], path: str) -> str:
    words = [each.name or "" for each in command.params if isinstance(each, click.Argument)]
    lines = [f"Arguments: {' '.join(word.upper() for word in words)}\n"] if words else []
    options = _options(command, shared)
    lines += [options] if options else []
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            inner = f"{path} {name}"
            lines.append(
                f"### {name}\n\n{below.get_short_help_str(200)}\n\n"
                f"{_command(below, shared, inner)}\n{_examples(inner)}"
            )
    return "\n".join(lines)


def _options(command: click.Command, shared: set[str] | None = None) -> str:
    rows = [
        (", ".join(f"`{opt}`" for opt in each.opts), each.help or "")
        for each in command.params
        if isinstance(each, click.Option) and not (set(each.opts) & (shared or set()))
    ]
    return table(("option", "what it does"), *rows) if rows else ""


def _program(name: str) -> str:
    """Return the options of a program that runs by itself, read from its source."""
    module = entry._MODULES[name]
    path = ROOT / "src" / Path(*module.split("."))
    files = [*sorted(path.glob("*.py"))] if path.is_dir() else [path.with_suffix(".py")]
    rows: list[tuple[str, ...]] = []
    for file in files:
        for node in calls(ast.parse(file.read_text(encoding="utf-8"))):
            names = [text for each in node.args for text in texts(each) if text.startswith("--")]
            helps = [each.value for each in node.keywords if each.arg == "help"]
            first = node.args[0] if node.args else None
            declares = isinstance(first, ast.Constant) and str(first.value).startswith("-")
            if names and declares and node.keywords:
                rows.append((code(names), sentence(helps[0]) if helps else ""))
    return table(("option", "what it does"), *rows) if rows else ""


def page_kinds() -> str:
    """Return the page of kinds, with the fields of their specs and statuses."""
    parts = ["# Kinds\n", "One table of kinds makes REST, OpenAPI, the CLI and this page.\n"]
    rows = [("kind", "plural", "short", "what it is")]
    rows += [(k.name, k.plural, ", ".join(k.short), k.summary) for k in kinds.KINDS.values()]
    parts.append(table(*rows))
    for kind in kinds.KINDS.values():
        parts.append(f"## {kind.name}\n\n{descriptions.about(kind.type)}\n")
        if kind.frozen:
            fixed = [msgspec_name(kind.type, name) for name in kind.frozen]
            parts.append(f"May not change after creation: {code(fixed)}.\n")
        if not kind.creatable:
            parts.append("Appears through a verb, never by a plain create.\n")
        for side in ("spec", "status"):
            heads = ("field", "type", "default", "what it is")
            rows = [heads, *_fields(_type_of(kind.type, side), "")]
            if len(rows) > 1:
                parts.append(f"### {kind.name}: {side}\n\n{table(*rows)}")
            elif side == "spec":
                parts.append(f"### {kind.name}: {side}\n\nNo fields.\n")
    return "\n".join(parts)


def msgspec_name(owner: Any, name: str) -> str:
    """Return the outside name of a spec's field."""
    fields = msgspec.structs.fields(_type_of(owner, "spec"))
    return next((each.encode_name for each in fields if each.name == name), name)


def _type_of(owner: Any, side: str) -> Any:
    return next(each.type for each in msgspec.structs.fields(owner) if each.name == side)


def _fields(struct: Any, above: str) -> Iterator[tuple[str, ...]]:
    """Yield path, type, default and meaning of each field; structs of a spec are opened up once."""
    described = inspect.type_info(struct)
    if not isinstance(described, inspect.StructType):
        return
    told = descriptions.fields(struct)
    for field in described.fields:
        path = f"{above}{field.encode_name}"
        below = field.type.cls if isinstance(field.type, inspect.StructType) else None
        default = "required" if field.required else _default(field)
        shown = "" if below and not field.required else default
        yield f"`{path}`", _type(field.type), shown, told.get(field.encode_name, "")
        if below is not None and path.count(".") < 3:
            yield from _fields(below, path + ".")
        for each in _tagged(field.type):
            yield from _fields(each.cls, f"{path} ({each.tag}).")


def _tagged(described: Any) -> list[inspect.StructType]:
    """Return the records of a union that a tag tells apart."""
    options = described.types if isinstance(described, inspect.UnionType) else ()
    return [each for each in options if isinstance(each, inspect.StructType) and each.tag_field]


def _default(field: Any) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default).decode()}`"
    if field.default_factory in {dict, list, tuple}:
        return "empty"
    return ""


def _type(described: Any) -> str:
    match described:
        case inspect.UnionType():
            return " or ".join(_type(each) for each in described.types)
        case inspect.StructType():
            return described.cls.__name__
        case inspect.EnumType():
            return described.cls.__name__
        case inspect.LiteralType():
            return ", ".join(str(each) for each in described.values)
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType():
            return f"list of {_type(described.item_type)}"
        case inspect.TupleType():
            return "list of " + ", ".join(_type(each) for each in described.item_types)
        case inspect.DictType():
            return f"map of {_type(described.value_type)}"
        case inspect.IntType() | inspect.FloatType():
            return _number(described)
        case inspect.Metadata():
            return _type(described.type)
    name = type(described).__name__.removesuffix("Type").lower()
    return {"none": "null", "str": "text", "datetime": "instant", "bool": "true/false"}.get(
        name, name
    )


def _number(described: Any) -> str:
    kind = "integer" if isinstance(described, inspect.IntType) else "number"
    low = [(described.ge, "≥"), (described.gt, ">"), (described.le, "≤"), (described.lt, "<")]
    return kind + "".join(f" {sign} {value:g}" for value, sign in low if value is not None)


def page_conditions() -> str:
    """Return the page of conditions and of session reasons."""
    parts = [
        "# Conditions\n",
        (
            "Conditions are the facts about an object; its phase is their summary. Each has a "
            "type, a status (True, False, Unknown), a reason and a sentence. "
            "`lastTransitionTime` moves only when the status flips.\n"
        ),
    ]
    for row in sorted(kinds.KINDS.values(), key=lambda each: each.name):
        if row.conditions is None or row.reasons is None:
            continue
        rows = [("type", "what it tells", "reasons")]
        for each in sorted(row.conditions):
            closed = code(word for word in each.reasons if word != ANY_ERROR)
            more = ", any reason of an error"
            rows.append(
                (f"`{each}`", each.sentence, closed + (more if ANY_ERROR in each.reasons else ""))
            )
        words = [("reason", "what it says")]
        words += [(f"`{each}`", each.sentence) for each in sorted(row.reasons)]
        parts.append(f"## {row.name}\n\n{table(*rows)}\n{table(*words)}")
    ends = [("reason", "what it says")]
    ends += [(f"`{each}`", each.sentence) for each in sorted(PhaseReason)]
    parts.append(
        f"## Reasons of a session's phase\n\n`status.reason` of a session.\n\n{table(*ends)}"
    )
    waits = [("reason", "what it says")]
    waits += [(f"`{each}`", each.sentence) for each in sorted(WaitReason)]
    parts.append(
        "## Reasons of a decision to wait\n\n`status.decision.reason` of a session that no place was "
        f"found for.\n\n{table(*waits)}"
    )
    return "\n".join(parts)


def page_errors() -> str:
    """Return the page of error types and reasons."""
    rows = [("type", "what it means", "is a", "HTTP")]
    for kind in error_types():
        above = kind.__mro__[1].__name__ if kind is not errors.LabfleetError else ""
        status = str(problems.status_of(kind("")) if not _needs_more(kind) else "")
        rows.append((f"`{kind.__name__}`", first_line(kind), above, status))
    reasons = [("reason", "types", "says")]
    for word, (types, said) in sorted(error_reasons().items()):
        reasons.append((f"`{word}`", code(types), "; ".join(sorted(said - {""}))))
    return (
        "# Errors\n\nEvery failure is one of a few types; the queue and the API decide by type, "
        "programs by reason (the `reason` of a problem document).\n\n"
        f"## Types\n\n{table(*rows)}\n## Reasons\n\n{table(*reasons)}"
    )


def _needs_more(kind: type[errors.LabfleetError]) -> bool:
    try:
        kind("")
    except TypeError:
        return True
    return False


def page_metrics() -> str:
    """Return the page of metrics."""
    rows = [("metric", "type", "labels", "what it counts")]
    for name, (kind, text, labels) in sorted(metrics().items()):
        rows.append((f"`{name}`", kind, code(labels), text))
    return f"# Metrics\n\nRead them at `/metrics`.\n\n{table(*rows)}"


def page_events() -> str:
    """Return the page of named events."""
    rows, other = [("type", "what happened")], event_types.aliases()
    rows += [
        (f"`{name}`", text + (f"; also `{other[name]}`" if name in other else ""))
        for name, text in event_types.types().items()
    ]
    return (
        "# Events\n\nWhat changes of objects are called: the `type` of a webhook's CloudEvents and "
        "the event names of `/api/events/stream`, which puts `lablet.` before those of sessions "
        "and definitions as upstream 002 does. Where another name stands too, it is upstream 000's: "
        "who asks for that one alone is sent the event under it."
        f"\n\n{table(*rows)}"
    )


def page_runbook() -> str:
    """Return the runbook: each alert, each condition and each phase that may last."""
    alert = [("alert", "severity", "cause", "see", "fix")]
    for row in alerts.ALERTS.values():
        name = row.condition if row.when == "True" else f"{row.condition} {row.when}"
        alert.append((f"`{name}`", row.severity, row.cause, _shell(row.command), row.fix))
    server = [alert[0]]
    server += [
        (f"`{row.condition}`", row.severity, row.cause, _shell(row.command), row.fix)
        for row in server_alerts.SERVER_ALERTS.values()
    ]
    parts = [
        "# Runbook\n",
        (
            "Each alert, condition and phase that may last, with its cause, what shows more, and what "
            "helps. `labfleet explain` shows the rows that matter for one object.\n"
        ),
        f"## Alerts of workers\n\n{table(*alert)}",
        f"## Alerts of the server\n\n{table(*server)}",
    ]
    for kind in kinds.KINDS.values():
        rows = [("phase", "until", "why it lasts", "see", "fix")]
        rows += [
            (f"`{each.subject}`", each.limit, each.cause, _shell(each.command), each.fix)
            for each in runbook.phases(kind)
        ]
        if len(rows) > 1:
            name = kind.name.lower()
            parts.append(f"## A {name} that stays in a phase\n\n{table(*rows)}")
        if kind.advice:
            parts.append(f"### By the reason\n\n{_ADVICE}\n\n{table(*_advice(kind))}")
    rows = [("kind", "condition", "what it says", "see", "fix")]
    rows += [
        (each.kind, f"`{each.subject}`", each.cause, _shell(each.command), each.fix)
        for row in kinds.KINDS.values()
        for each in runbook.conditions(row)
    ]
    parts.append(f"## Other conditions\n\n{table(*rows)}")
    return "\n".join(parts)


_ADVICE = (
    "What `explain` and alerts say instead of the row of the phase or condition when they know the "
    "reason; NAME and POOL stand for names."
)


def _advice(kind: kinds.Kind) -> list[tuple[str, ...]]:
    rows = [("of", "reason", "why", "fix", "for who may not change pools")]
    rows += [
        (f"`{each.subject}`", f"`{each.reason}`", each.cause, each.fix, each.others or "the same")
        for each in kind.advice
    ]
    return rows


def _shell(text: str) -> str:
    return ", ".join(f"`{each.strip()}`" for each in text.split(";"))


def pages() -> dict[str, str]:
    """Return every page by file name."""
    made = {
        "kinds.md": page_kinds(),
        "conditions.md": page_conditions(),
        "errors.md": page_errors(),
        "settings.md": page_settings(),
        "commands.md": page_commands(),
        "metrics.md": page_metrics(),
        "events.md": page_events(),
        "runbook.md": page_runbook(),
        "metrics-queries.md": page_queries(),
        "kubernetes-simulator.md": page_clients(ROOT),
    }
    return {name: f"{WRITTEN}\n\n{text.rstrip()}\n" for name, text in made.items()}


def main(argv: list[str]) -> int:
    """Write the pages, or only compare them."""
    stale = []
    for name, text in pages().items():
        path = PAGES / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in argv:
        sys.stderr.write(f"stale: {', '.join(stale)}; run python scripts/reference.py\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

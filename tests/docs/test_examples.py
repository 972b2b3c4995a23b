"""The examples in the texts are true: commands parse, links resolve, diagrams are the tables.

Nothing is run: that the main commands work is tests/e2e's and tests/cli's.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from labfleet.app import aliases, settings
from labfleet.cli.kit import environment, examples
from labfleet.cli.main import COMMANDS, root
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.entry import PROGRAMS
from labfleet.resources import manifests, topology_check

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROOMS = "kernel|resources|decisions|interfaces|engine|service|controllers|stores|adapters|api|app"
# Variables of the command line and of tests; those of the server are its settings.
CLI_VARIABLES = {
    "URL", "TOKEN", "TOKEN_FILE", "CONTEXT", "NAMESPACE", "OUTPUT", "SERVER_CONFIG",
    "SIMULATION_ID",
}  # fmt: skip


def pages() -> list[Path]:
    """Every text but the generated reference."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page for page in found if REFERENCE not in page.parents)


PAGES = pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in FENCE.findall(page.read_text()) if language in languages]


def lines(page: Path) -> Iterator[str]:
    """The shell lines of a page, continued ones joined, also those within quotes."""
    for block in blocks(page, "sh"):
        held = ""
        for line in block.replace("\\\n", " ").splitlines():
            held = f"{held}\n{line}" if held else line
            if is_closed(held):
                yield held
                held = ""
        assert not held, f"{page.name}: a quote is not closed: {held[:80]}"


def is_closed(line: str) -> bool:
    """Whether every quote of a line is closed."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    try:
        for _ in lexer:
            pass
    except ValueError:
        return False
    return True


def commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, each as words, without assignments before them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;><")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;"):
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words.pop(0)
            if words:
                yield words
            words = []
        elif set(word) <= set("<>"):
            words.append("<>")
        else:
            words.append(word)


def labfleet(page: Path) -> Iterator[list[str]]:
    """The arguments of each labfleet command of a page, and of make demo's ARGS."""
    for line in lines(page):
        for words in commands(line):
            if words[0] == "labfleet":
                yield words[1 : words.index("<>") if "<>" in words else None]
            if words[:2] == ["make", "demo"]:
                given = " ".join(word.removeprefix("ARGS=") for word in words[2:])
                yield ["demo", *shlex.split(given)]


@cache
def program_options(name: str) -> frozenset[str]:
    """The options of a program, as its reference page lists them."""
    text = (REFERENCE / "commands.md").read_text()
    section = re.split(rf"^## labfleet {name}$", text, flags=re.MULTILINE)[1]
    return frozenset(re.findall(r"`(--[a-z-]+)`", section.split("\n## ")[0])) | {"--help"}


def check(words: list[str]) -> None:
    """Resolve command and options as the command line does, and run nothing."""
    root.programs = PROGRAMS
    context = root.make_context("labfleet", list(words), obj=environment.real())
    # private _protected_args: click keeps the name of a subcommand nowhere else
    rest = [*context._protected_args, *context.args]
    name, command, rest = root.resolve_command(context, rest)
    assert command is not None
    if name in PROGRAMS:
        unknown = {word for word in rest if word.startswith("--")} - program_options(name)
        assert not unknown, unknown
        return
    while isinstance(command, click.Group):
        context = command.make_context(name, rest, parent=context)
        rest = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            return
        name, command, rest = command.resolve_command(context, rest)
        assert command is not None
    command.make_context(name, rest, parent=context)


@every_page
def test_every_command_line_parses(page: Path) -> None:
    """Each labfleet command of a shell block has its command, options and arguments."""
    for words in labfleet(page):
        try:
            check(words)
        except click.ClickException as problem:
            pytest.fail(f"labfleet {shlex.join(words)}: {problem.format_message()}")


@pytest.mark.parametrize("name", [*COMMANDS, "server", "demo", "backup", "restore", "rehearse"])
def test_every_command_has_examples_that_parse(name: str) -> None:
    """Help shows them, and each is a command line of that command."""
    for line in examples.EXAMPLES[name]:
        plain = re.sub(r'^eval "\$\((.*)\)"$', r"\1", line)
        found = [words[1:] for words in commands(plain) if words[0] == "labfleet"]
        assert any(words[0] == name or "--context" in words for words in found), line
        for words in found:
            check(words)


def test_every_command_below_a_command_has_examples_of_its_own() -> None:
    """Its help is where people look for its form; each example is a line of that command."""
    context = root.make_context("labfleet", ["version"], obj=environment.real())
    below = {
        f"{name} {each}": command.commands[each]
        for name in COMMANDS
        if isinstance(command := root.get_command(context, name), click.Group)
        for each in command.commands
    }
    assert {"settings set", "token create", "context set"} <= {*below}
    for name, command in below.items():
        for line in examples.EXAMPLES[name]:
            assert line.startswith(f"labfleet {name}"), line
            assert line in (command.epilog or ""), line
            check(shlex.split(line)[1:])
    known = {*below, *COMMANDS, *PROGRAMS}
    assert {*examples.EXAMPLES} <= known


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_no_example_of_help_is_wider_than_80_columns(name: str) -> None:
    """A line that a terminal wraps is copied wrong."""
    shown = [*(examples.epilog(name) or "").splitlines(), *examples.lines(name).splitlines()]
    assert max(len(line) for line in shown) <= 80


def test_there_are_commands_to_check() -> None:
    """The reader of shell blocks finds the commands; else the test above checks nothing."""
    found = [words for page in PAGES for words in labfleet(page)]
    assert len(found) > 40
    assert ["wait", "session/mine", "--for", "phase=RUNNING", "--timeout", "5m"] in found


@every_page
def test_every_link_resolves(page: Path) -> None:
    """Each relative link leads to a file or folder of the repository."""
    prose = FENCE.sub("", page.read_text())
    links = [link.partition("#")[0] for link in LINK.findall(prose) if "://" not in link]
    broken = [link for link in links if link and not (page.parent / link).exists()]
    assert not broken


@every_page
def test_every_manifest_loads(page: Path) -> None:
    """Each YAML block is a valid manifest, each JSON block JSON, each Python block Python."""
    lab = (ROOT / "docs/tutorials/first-lab/two-routers.yaml").read_text()
    for text in blocks(page, "yaml"):
        assert manifests.load(text, topology_file=lambda _: lab)
    for text in blocks(page, "json"):
        json.loads(text)
    for text in blocks(page, "python"):
        compile(text, str(page), "exec")


def test_the_tutorials_files_are_good() -> None:
    """The lab of the tutorial is accepted, and its manifests name it."""
    folder = ROOT / "docs/tutorials/first-lab"
    assert len(topology_check.check((folder / "two-routers.yaml").read_text()).nodes) == 2
    for name, kind in (("definition.yaml", "Definition"), ("session.yaml", "Session")):
        read: Any = lambda file: (folder / file).read_text()  # noqa: E731
        found = manifests.load((folder / name).read_text(), topology_file=read)
        assert [each.kind for each in found] == [kind]


def drawn(text: str) -> tuple[str, dict[str, set[str]]]:
    """The first phase and the edges of a diagram; `[*]` stands for begin and end."""
    edges: dict[str, set[str]] = {}
    first = ""
    for before, after in re.findall(r"^ +(\S+) --> (\S+)$", text, re.MULTILINE):
        if before == "[*]":
            first = after
            continue
        edges.setdefault(before, set())
        if after != "[*]":
            edges[before].add(after)
    return first, edges


def test_the_diagrams_are_the_tables() -> None:
    """Both diagrams have exactly the edges that the decisions allow."""
    found = blocks(ROOT / "docs/explanation/lifecycles.md", "mermaid")
    for text, phases in zip(found, (worker_phases, session_phases), strict=True):
        wanted = {str(a): {str(b) for b in after} for a, after in phases.EDGES.items()}
        assert drawn(text) == ("PENDING", wanted)


def test_every_phase_is_explained() -> None:
    """The page of lifecycles says what each phase means."""
    text = (ROOT / "docs/explanation/lifecycles.md").read_text()
    cells = re.findall(r"^\| ([A-Z].*?) \|", text, re.MULTILINE)
    told = {phase for cell in cells for phase in cell.split(", ")}
    phases = {str(each) for table in (worker_phases, session_phases) for each in table.EDGES}
    assert phases <= told


@every_page
def test_every_variable_and_setting_exists(page: Path) -> None:
    """LABFLEET_* names and `..._seconds` settings are ones that something reads.

    LABFLEET_SECRET_... is anybody's to name: manifests do.
    """
    text, known = page.read_text(), set(settings.Settings.__struct_fields__)
    variables = {name.upper() for name in known} | CLI_VARIABLES
    variables |= {each.variable.removeprefix("LABFLEET_") for each in aliases.TABLE}
    named = set(re.findall(r"LABFLEET_(?!SECRET(?:_|\b))([A-Z_]+[A-Z])", text))
    assert named <= variables
    assert set(re.findall(r"`([a-z]+_seconds)`", text)) <= known


@every_page
def test_every_option_named_in_prose_exists(page: Path) -> None:
    """An option in backquotes is one of a command's."""
    listed = (REFERENCE / "commands.md").read_text()
    known = set(re.findall(r"`(--?[a-z][a-z-]*)`", listed)) | {"--help", "--http"}
    prose = FENCE.sub("", page.read_text())
    named = re.findall(r"`(--[a-z][a-z-]*)", prose)
    assert [option for option in named if option not in known] == []


@every_page
def test_every_name_of_the_code_exists(page: Path) -> None:
    """A dotted name in backquotes that begins with a room leads to something."""
    prose = FENCE.sub("", page.read_text())
    for name in re.findall(rf"`((?:{ROOMS})\.[a-z]\w*(?:\.\w+)*)`", prose):
        if not name.endswith((".py", ".md")):
            assert resolves(f"labfleet.{name}"), name


def resolves(name: str) -> bool:
    """Tell whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for cut in range(len(parts), 1, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False

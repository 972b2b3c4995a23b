"""What people can set, type, read and branch on is documented, and the pages are never stale.

The pages are written by scripts/reference.py; what it cannot read from the code fails here.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import click
import msgspec
import pytest

from labfleet import entry
from labfleet.app.settings import Settings
from labfleet.cli.main import COMMANDS
from labfleet.resources import descriptions, fleet_settings
from labfleet.resources.conditions import ANY_ERROR
from labfleet.resources.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    sys.path.insert(0, str(ROOT / "scripts"))  # as a script has its own folder
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that writes the pages."""
    return load()


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def test_the_pages_are_what_the_code_says(reference: ModuleType) -> None:
    """Every page is what the script would write now."""
    stale = [name for name, text in reference.pages().items() if page(name[:-3]) != text]
    assert not stale, f"run python scripts/reference.py and commit: {stale}"


def test_every_setting_says_what_it_is() -> None:
    """Each setting of the server and of the fleet has its sentence, in its record's docstring."""
    for record in (Settings, *fleet_settings.SECTIONS.values()):
        names = {each.encode_name for each in msgspec.structs.fields(record)}
        told = descriptions.fields(record)
        assert {name for name, text in told.items() if text.endswith(".")} == names, record


def test_every_field_of_a_kind_says_what_it_is() -> None:
    """No row of the pages of kinds and settings is without a sentence."""
    for name in ("kinds", "settings"):
        rows = [line for line in page(name).splitlines() if line.startswith("| `")]
        assert len(rows) > 60
        assert [row for row in rows if row.endswith("|  |")] == []


def test_every_command_is_on_its_page() -> None:
    """Each command and program has a heading."""
    text = page("commands")
    names = [*COMMANDS, *entry.PROGRAMS]
    assert [name for name in names if f"## labfleet {name}\n" not in text] == []


def test_every_option_says_what_it_does() -> None:
    """Each option of each command, and of each command below one, has a line of help."""
    silent = []
    for name, (module, attribute, _) in COMMANDS.items():
        waiting = [(name, getattr(importlib.import_module(module), attribute))]
        while waiting:
            path, command = waiting.pop()
            if isinstance(command, click.Group):
                waiting += [(f"{path} {key}", each) for key, each in command.commands.items()]
            options = [each for each in command.params if isinstance(each, click.Option)]
            silent += [f"{path} {each.opts[0]}" for each in options if not each.help]
    assert not silent, silent


def test_every_option_of_a_program_says_what_it_does() -> None:
    """No row of a program's options is empty."""
    rows = [line for line in page("commands").splitlines() if line.startswith("| `--")]
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_kind_is_on_its_page() -> None:
    """Each kind has a heading and its spec's fields."""
    text = page("kinds")
    assert [name for name in KINDS if f"\n## {name}\n" not in text] == []
    assert [name for name in KINDS if f"\n### {name}: spec\n" not in text] == []


def test_every_condition_says_what_it_tells() -> None:
    """Each condition type has a sentence and reasons, and no reason is nobody's."""
    for row in KINDS.values():
        if row.conditions is None or row.reasons is None:
            continue
        for each in row.conditions:
            assert each.sentence
            assert each.reasons
            assert f"| `{each}` | {each.sentence} |" in page("conditions")
        used = {word for each in row.conditions for word in each.reasons if word != ANY_ERROR}
        assert used == set(row.reasons)
        assert all(each.sentence for each in row.reasons)


def test_what_is_recorded_is_declared() -> None:
    """A condition is only given reasons that its type lists, wherever the code names both."""
    found = 0
    for path in sorted((ROOT / "src" / "labfleet").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in {"fact", "put"}:
                said = [ast.unparse(each) for each in node.args]
                types = [word for word in said if re.fullmatch(r"\w+Condition\.\w+", word)]
                reasons = re.findall(r"(\w+)Reason\.(\w+)", " ".join(said))
                for name in types:
                    kind, member = name.split("Condition.")
                    declared = KINDS[kind].conditions
                    assert declared is not None
                    listed = {word.name for word in declared[member].reasons if word != ANY_ERROR}
                    assert {word for owner, word in reasons if owner == kind} <= listed, name
                    found += len(reasons)
    assert found > 80


def test_every_metric_says_what_it_counts(reference: ModuleType) -> None:
    """Each metric has a text, and they are found at all."""
    found = reference.metrics()
    assert "labfleet_reconciles_total" in found
    assert [name for name, (_, text, _) in found.items() if not text] == []


def test_every_error_is_on_its_page(reference: ModuleType) -> None:
    """Each error type has a sentence, and each reason a row."""
    text = page("errors")
    assert [kind.__name__ for kind in reference.error_types() if not kind.__doc__] == []
    assert [word for word in reference.error_reasons() if f"| `{word}` |" not in text] == []


def test_the_glossary_has_a_word_for_each_kind() -> None:
    """Each kind is one of the words that the glossary explains."""
    text = page("glossary")
    assert [name for name in KINDS if f"**{name.lower()}**" not in text] == []

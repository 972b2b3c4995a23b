"""Sentences count their things right: `1 worker`, `3 workers`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from labfleet.kernel.quantity import count

SOURCE = Path(__file__).resolve().parents[2] / "src" / "labfleet"
THINGS = (
    "workers|sessions|nodes|labs|machines|failures|minutes|hours|days|tokens|licences|images|pools|"
    "simulations|definitions|servers|ports|instances|events|objects|attempts"
)
NUMBERED = re.compile(rf" (?:(?!outside|for|makes|in)[a-z]+ )?(?:{THINGS})\b")
OF = re.compile(r"\bof $")
ALLOWED = {
    "adapters/cml/host.py": "more labs than a bound",
    "decisions/lifecycle/worker/strays.py": "says `a lab` of one",
    "service/kinds/definition_rules.py": "asks for the number itself, beside its verb",
}
"""Files where a number stands before a plural, with the reason."""


def numbered(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each f-string in which a variable number stands before a plural."""
    for text in ast.walk(tree):
        if not isinstance(text, ast.JoinedStr):
            continue
        parts = text.values
        for at, (value, after) in enumerate(pairwise(parts)):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            before = parts[at - 1] if at else None
            part_of = isinstance(before, ast.Constant) and OF.search(str(before.value))
            said = ast.unparse(value.value)
            if part_of or said.rpartition(".")[2].isupper():
                continue  # `2 of {n} nodes` are parts of many; a constant is never 1
            if NUMBERED.match(str(after.value)):
                yield text.lineno, f"{{{said}}}{after.value}"


def test_no_sentence_says_1_workers() -> None:
    """A number before a plural goes through `count`, else the singular is wrong."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("rehearsal/") or name in ALLOWED:
            continue  # the rehearsal's own findings are for developers
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{name}:{line}: {said}" for line, said in numbered(tree)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("number", "said"), [(0, "0 workers"), (1, "1 worker"), (2, "2 workers")])
def test_one_thing_is_counted_in_the_singular(number: int, said: str) -> None:
    """Only exactly one is one."""
    assert count(number, "worker") == said

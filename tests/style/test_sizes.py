"""Sizes of files and functions, in every language of the repository."""

from __future__ import annotations

import re
from pathlib import Path

from tidy_source import ROOT, Module, read, tracked

FILE_LINES = 500
FUNCTION_LINES = 60
LANGUAGES = (".py", ".js", ".mjs", ".sh", ".sql", ".css")
WITHOUT_SUFFIX = {".ci/run"}
BEING_REWRITTEN = {
    "src/labfleet/web/static/app.js": "to be divided into modules; the tests of the page know its names",
    "tests/controllers/test_fleet.py": "its room moves to the rehearsal's worlds",
    "tests/controllers/test_idle_stop.py": "its room moves to the rehearsal's worlds",
    "tests/controllers/test_worker_trouble.py": "its room moves to the rehearsal's worlds",
}
# A function at the top of a script; it ends at the first closing brace in the same column.
SCRIPT_FUNCTION = re.compile(
    r"^(?P<indent> *)(?:export )?(?:async )?(?:function (?P<js>\w+)|(?P<sh>\w+)\(\) *\{)"
)


def sources() -> list[str]:
    """Every tracked file of a language that we write by hand."""
    return [p for p in tracked() if p.endswith(LANGUAGES) or p in WITHOUT_SUFFIX]


def test_files_are_short() -> None:
    """No file of source, tests, benchmarks or scripts has more than 500 lines."""
    lengths = {path: (ROOT / path).read_text(encoding="utf-8").count("\n") for path in sources()}
    long = {path: lines for path, lines in lengths.items() if lines > FILE_LINES}
    assert long.keys() <= BEING_REWRITTEN.keys(), long
    assert long.keys() >= BEING_REWRITTEN.keys() & lengths.keys(), "an exception is not needed"


def test_functions_are_short() -> None:
    """No function has more than 60 lines, in whichever language it is written."""
    long = [
        f"{path}:{line} {name} has {lines} lines"
        for path in sources()
        for name, line, lines in functions(path, (ROOT / path).read_text(encoding="utf-8"))
        if lines > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def functions(path: str, text: str) -> list[tuple[str, int, int]]:
    """Return name, line and length of each function of a file."""
    if path.endswith(".py"):
        module: Module = read(ROOT / path)
        return [
            (node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
            for node in module.functions
        ]
    return script_functions(text) if Path(path).suffix in {"", ".js", ".mjs", ".sh"} else []


def script_functions(text: str) -> list[tuple[str, int, int]]:
    """Return the functions of a shell script or of JavaScript, by their closing brace."""
    lines = text.splitlines()
    found = []
    for at, line in enumerate(lines):
        begin = SCRIPT_FUNCTION.match(line)
        if begin is None:
            continue
        closing = begin["indent"] + "}"
        one_line = line.rstrip().endswith("}")
        end = at if one_line else lines.index(closing, at)
        found.append((begin["js"] or begin["sh"], at + 1, end - at + 1))
    return found


def test_a_long_function_of_a_script_is_found() -> None:
    """The measure sees functions of JavaScript and shell, short and long ones."""
    body = "  x\n" * 70
    text = f"export async function big() {{\n{body}}}\nsmall() {{ x; }}\nsh_big() {{\n{body}}}\n"
    assert script_functions(text) == [("big", 1, 72), ("small", 73, 1), ("sh_big", 74, 72)]

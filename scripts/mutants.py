"""Breaks the product in small ways, one at a time, and tells which breaks the tests do not see.

    python scripts/mutants.py --seed 1 --count 100 --state var/mutants.jsonl --minutes 60

A mutant is one changed operator or constant in decisions, engine, service or stores, drawn by
seed. It is put into a copy of `src`, never into the checkout. First the tests of its room run;
what survives them meets the tests elsewhere that import its module, and then those that drive the
room from above, as callers do. Rows are kept in `--state` as they come, so that a run that was
stopped goes on. The last line of stdout is JSON. A mutant that survives is a test that is missing,
or a change that means the same: read it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "decisions": ("tests/decisions",),
    "engine": ("tests/engine",),
    "service": ("tests/service",),
    "stores": ("tests/stores", "tests/conformance/test_store_commits.py",
               "tests/conformance/test_store_reads.py", "tests/conformance/test_store_leases.py",
               "tests/conformance/test_store_series.py"),
}  # fmt: skip
ABOVE = {
    "decisions": ("tests/controllers",),
    "engine": ("tests/controllers",),
    "service": ("tests/api", "tests/web", "tests/controllers"),
    "stores": ("tests/conformance", "tests/app/test_maintenance.py"),
}
"""What reaches a room through others; dear, so that only survivors of the narrow tests meet it."""
NOT_NARROW = ("tests/rehearsal", "tests/e2e", "tests/benchmarks", "tests/aws_bugs", "tests/docs")
CPU_SECONDS = 600
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the text `old` at a place of a file becomes `new`."""

    path: str
    line: int
    column: int
    old: str
    new: str

    @property
    def name(self) -> str:
        """Return what tells it from all others."""
        return f"{self.path}:{self.line}:{self.column} {self.old} => {self.new}"


def changed(node: ast.AST) -> ast.AST | None:
    """Return the node with one thing changed; None when there is nothing to change in it."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        ops: list[Any] = [SWAPS[type(node.ops[0])](), *node.ops[1:]]
        return ast.Compare(node.left, ops, node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(SWAPS[type(node.op)](), node.values)  # type: ignore[arg-type]
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        return ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and type(node.value) in {bool, int, float}:
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        return ast.Constant(value)
    return None


def code_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs below a node: annotations say types, and `X | None` is no sum."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from code_of(child)


def mutants(tree: Path) -> list[Mutant]:
    """Return every mutant there is, in the order of the source."""
    found = []
    for room in TESTS:
        for path in sorted((tree / "src/labfleet" / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            lines = [line.encode() for line in text.splitlines()]
            for node in code_of(ast.parse(text)):
                new = changed(node)
                if new is None or node.lineno != node.end_lineno:  # type: ignore[attr-defined]
                    continue
                old = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()  # type: ignore[attr-defined]
                where = path.relative_to(tree).as_posix()
                told = f"({ast.unparse(ast.fix_missing_locations(new))})"
                found.append(Mutant(where, node.lineno, node.col_offset, old, told))  # type: ignore[attr-defined]
    return found


def put(mutant: Mutant, source: Path) -> str:
    """Write a mutant into a copy of the source; return the file's text before."""
    path = source / Path(mutant.path).relative_to("src")
    before = path.read_text(encoding="utf-8")
    lines = before.splitlines(keepends=True)
    raw = lines[mutant.line - 1].encode()
    end = mutant.column + len(mutant.old.encode())
    if raw[mutant.column : end].decode() != mutant.old:
        raise ValueError(f"{mutant.name} does not stand there")
    lines[mutant.line - 1] = (raw[: mutant.column] + mutant.new.encode() + raw[end:]).decode()
    path.write_text("".join(lines), encoding="utf-8")
    return before


def elsewhere(mutant: Mutant, tree: Path) -> list[str]:
    """Return test files outside the room's own that import the mutant's module, the smallest first."""
    module = mutant.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    package, _, last = module.rpartition(".")
    found = []
    for path in (tree / "tests").rglob("test_*.py"):
        name = path.relative_to(tree).as_posix()
        text = path.read_text(encoding="utf-8")
        named = module in text or (f"from {package} import" in text and last in text)
        if named and not name.startswith((*NOT_NARROW, *TESTS[mutant.path.split("/")[2]])):
            found.append((len(text), name))
    return [name for _, name in sorted(found)]


def run(tests: list[str], tree: Path, source: Path) -> tuple[bool, str]:
    """Tell whether some test fails over this source, and what pytest said last of it."""
    limit = (CPU_SECONDS, CPU_SECONDS + 5)
    done = subprocess.run(  # noqa: S603 - our own tests
        [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-m", "not real", *tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(source), "CI": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    # 5: all of these tests are left out here, which kills nothing.
    return done.returncode not in {0, 5}, (said or [f"exit code {done.returncode}"])[0][:200]


def judge(mutant: Mutant, tree: Path, source: Path) -> dict[str, Any]:
    """Run the tests of one mutant; return its row."""
    before, begun = put(mutant, source), _spent()
    killed, by = False, ""
    try:
        room = mutant.path.split("/")[2]
        for tests in (list(TESTS[room]), elsewhere(mutant, tree), list(ABOVE[room])):
            if tests and not killed:
                killed, by = run(tests, tree, source)
    finally:
        (source / Path(mutant.path).relative_to("src")).write_text(before, encoding="utf-8")
    row = {"name": mutant.name, **asdict(mutant), "killed": killed}
    return {**row, "by": by if killed else "", "cpu_s": round(_spent() - begun, 1)}


def _spent() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def kept(state: Path | None) -> dict[str, dict[str, Any]]:
    """Return the rows of earlier runs by name; a torn last line is none."""
    rows: dict[str, dict[str, Any]] = {}
    if state is not None and state.exists():
        for line in state.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            rows[row["name"]] = row
    return rows


def main(argv: list[str]) -> int:
    """Draw, break, test, tell; 0 whatever survives, for that is to be read by a person."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin none after so long")
    parser.add_argument("--state", type=Path, help="rows are kept here; a later run goes on")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout")
    chosen = parser.parse_args(argv)
    tree, state = chosen.tree.resolve(), chosen.state
    until = time.monotonic() + chosen.minutes * 60
    everything = mutants(tree)
    drawn = random.Random(chosen.seed).sample(everything, min(chosen.count, len(everything)))  # noqa: S311 - a draw
    rows = kept(state)
    with tempfile.TemporaryDirectory(prefix="labfleet-mutants-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(tree / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for mutant in drawn:
            if mutant.name in rows or time.monotonic() > until:
                continue
            row = rows[mutant.name] = judge(mutant, tree, source)
            sys.stderr.write(f"{'killed  ' if row['killed'] else 'SURVIVED'} {mutant.name}\n")
            if state is not None:
                with state.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    mine = [rows[each.name] for each in drawn if each.name in rows]
    told = {
        "seed": chosen.seed,
        "sites": len(everything),
        "drawn": len(drawn),
        "played": len(mine),
        "killed": sum(row["killed"] for row in mine),
        "survived": [row["name"] for row in mine if not row["killed"]],
        "cpu_s": round(sum(row["cpu_s"] for row in mine), 1),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Reads the source as syntax trees, for the tests that hold its style."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file: where it lies (relative to the checkout), its dotted name, its tree."""

    path: str
    name: str
    text: str
    tree: ast.Module

    @property
    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]


def read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    place = path.relative_to(ROOT)
    parts = place.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return Module(place.as_posix(), ".".join(parts), text, ast.parse(text))


@cache
def source() -> tuple[Module, ...]:
    """Every module of src."""
    return tuple(read(path) for path in sorted((ROOT / "src").rglob("*.py")))


@cache
def trials() -> tuple[Module, ...]:
    """Every module of tests."""
    return tuple(read(path) for path in sorted((ROOT / "tests").rglob("*.py")))


@cache
def others() -> tuple[Module, ...]:
    """Every module of scripts and benchmarks."""
    folders = (ROOT / "scripts", ROOT / "benchmarks")
    return tuple(read(path) for folder in folders for path in sorted(folder.rglob("*.py")))


def words(name: str) -> set[str]:
    """Split snake_case and CamelCase into lower-case words."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def aliases(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for, dotted."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                local = each.asname or each.name.split(".")[0]
                found[local] = each.name if each.asname else local
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                found[each.asname or each.name] = f"{node.module}.{each.name}"
    return found


def dotted(node: ast.expr, known: dict[str, str]) -> str | None:
    """Return the full dotted name of an attribute chain, or None."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        front = dotted(node.value, known)
        return None if front is None else f"{front}.{node.attr}"
    return None


def uses(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and full dotted name of everything outside that a module touches."""
    known = aliases(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = dotted(node, known)
            if name is not None:
                yield node.lineno, name


def strings(module: Module) -> Iterator[str]:
    """Yield every string constant."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def imports(module: Module) -> set[str]:
    """Return the dotted names a module imports, from-names included."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


def tracked() -> list[str]:
    """Every file of ours, also one that is not added yet."""
    git = shutil.which("git")
    assert git is not None, "git is needed to know which files are ours"
    done = subprocess.run(  # new files count too, before they are added
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    )
    paths = [path for path in done.stdout.decode().split("\0") if path]
    assert "pyproject.toml" in paths
    return [path for path in paths if (ROOT / path).is_file()]

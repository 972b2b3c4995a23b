"""Reads from the source what docs/reference lists and no table of the code has: errors and metrics."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from labfleet.kernel import errors

SOURCE = Path(__file__).resolve().parents[1] / "src" / "labfleet"
WORD = re.compile(r"[A-Z][A-Za-z0-9]+")


@cache
def modules() -> dict[str, ast.Module]:
    """Return the tree of every module of the product, by dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("labfleet", *path.relative_to(SOURCE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield every call, in the order of the file."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    yield from sorted(found, key=lambda node: (node.lineno, node.col_offset))


def called(node: ast.Call) -> str:
    """Return the last name of what is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def texts(node: ast.AST) -> list[str]:
    """Return the string constants below a node."""
    return [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def sentence(node: ast.expr | None) -> str:
    """Return a message as written, with … where values go."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "…" for each in node.values]
        return "".join(str(part) for part in parts)
    if isinstance(node, ast.BinOp):
        return sentence(node.left) + sentence(node.right)
    return ""


def assigned(name: str, place: ast.AST) -> Iterator[ast.expr]:
    """Yield what a function, or the top of a module, assigns to a name."""
    nodes = place.body if isinstance(place, ast.Module) else ast.walk(place)
    for each in nodes:
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            if any(isinstance(one, ast.Name) and one.id == name for one in targets):
                yield each.value


def said_by(node: ast.Call, scopes: list[ast.AST]) -> str:
    """Return the message of a raise; a name is looked up in the innermost function."""
    told = node.args[0] if node.args else None
    if isinstance(told, ast.Tuple):
        told = told.elts[-1]  # the place, and what is wrong there
    if isinstance(told, ast.Name):
        inside = [each for each in scopes if node in set(ast.walk(each))]
        values = [value for each in inside[-1:] for value in assigned(told.id, each)]
        before = [value for value in values if value.lineno <= node.lineno]
        told = before[-1] if before else None
    return sentence(told)


def error_types() -> list[type[errors.LabfleetError]]:
    """Return every error class that callers meet, parents first.

    Those of the kernel and the service: what else a test has imported must not show in a page.
    """
    known = {
        name
        for name in modules()
        if any(part in name for part in ("errors", "core.service_context"))
    }
    for name in known:
        importlib.import_module(name)
    found: list[type[errors.LabfleetError]] = []
    waiting = [errors.LabfleetError]
    while waiting:
        kind = waiting.pop(0)
        found.append(kind)
        below = [each for each in kind.__subclasses__() if each.__module__ in known]
        waiting += sorted(below, key=lambda each: each.__name__)
    return found


def error_reasons() -> dict[str, tuple[set[str], set[str]]]:
    """Return reason -> (classes, messages), defaults of classes and words at the raises."""
    types = {kind.__name__: kind for kind in error_types()}
    found: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for kind in types.values():
        found[kind.reason][0].add(kind.__name__)
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for tree in modules().values():
        scopes = [each for each in ast.walk(tree) if isinstance(each, functions)]
        for node in calls(tree):
            # `intake.invalid((where, what), ...)` makes an Invalid of its problems.
            kind_name = "Invalid" if called(node) == "invalid" else called(node)
            if kind_name not in types:
                continue
            reason = next((each.value for each in node.keywords if each.arg == "reason"), None)
            for word in [] if reason is None else texts(reason):
                if WORD.fullmatch(word):
                    found[word][0].add(kind_name)
                    found[word][1].add(said_by(node, scopes))
    return dict(found)


def metrics() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Return name -> (type, text, labels) of every metric."""
    found = {}
    for name, tree in modules().items():
        if not name.startswith(("labfleet.app", "labfleet.api")):
            continue
        for node in calls(tree):
            verb = called(node)
            given = texts(ast.Tuple(elts=node.args))
            if verb in {"Counter", "Gauge", "Histogram", "gauge", "counted"} and given:
                if not given[0].startswith("labfleet_"):
                    continue
                shown = given[0] + ("_total" if verb in {"Counter", "counted"} else "")
                found[shown] = (
                    "counter" if verb == "counted" else verb.lower(),
                    given[1],
                    tuple(given[2:]),
                )
    return found

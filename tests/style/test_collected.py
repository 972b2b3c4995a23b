"""Checks that no runner would collect, and steps that no target reaches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tidy_source import ROOT, Function, Module, trials

FIXTURES = {"fixture", "hookimpl"}


def test_no_check_is_left_uncollected() -> None:
    """Each top function of the tests is collected, used, a fixture or a hook of pytest."""
    lost = [f"{path}:{line} {name}" for path, line, name in uncollected(trials())]
    assert not lost, "\n".join(lost)


def uncollected(modules: Iterable[Module]) -> Iterator[tuple[str, int, str]]:
    """Yield the functions of tests that nothing collects and nothing names."""
    modules = tuple(modules)
    named = {name for module in modules for name in names(module.tree)}
    for module in modules:
        file = module.path.rsplit("/", 1)[-1]
        for node in module.tree.body:
            if not isinstance(node, Function):
                continue
            collected = node.name.startswith("test_") and file.startswith("test_")
            hook = (
                node.name.startswith("pytest_") or decorators(node) & FIXTURES or registered(node)
            )
            if not (collected or hook or node.name in named):
                yield module.path, node.lineno, node.name


def names(tree: ast.Module) -> Iterator[str]:
    """Yield every name that is read, taken as an attribute or written in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"[a-z_0-9]+", node.value) if len(node.value) < 200 else ()


def registered(node: Function) -> bool:
    """Say whether a decorator of the tests themselves takes the function into its list."""
    called = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(isinstance(each, ast.Name) for each in called)


def decorators(node: Function) -> set[str]:
    """Return the last words of a function's decorators."""
    called = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return {each.attr for each in called if isinstance(each, ast.Attribute)}


def test_a_check_that_nothing_collects_is_found() -> None:
    """`claims_are_short`, which nobody ran, would have been found; a helper in use is not."""
    text = "def claims_are_short(): assert helper()\ndef helper(): return 1\ndef test_x(): pass\n"
    module = Module("tests/style/test_some.py", "some", text, ast.parse(text))
    assert [name for _, _, name in uncollected([module])] == ["claims_are_short"]
    elsewhere = Module("tests/style/some.py", "some", text, ast.parse(text))
    assert "test_x" in [name for _, _, name in uncollected([elsewhere])]


def test_every_script_is_reached() -> None:
    """Each script is run by a target of make, by another script or by a test."""
    callers = [ROOT / "Makefile", ROOT / ".ci" / "run", *(ROOT / "scripts").iterdir()]
    callers += list((ROOT / "tests").rglob("*.py"))
    callers = [path for path in callers if path.is_file()]
    texts = {path: path.read_text(encoding="utf-8") for path in callers}
    lost = [
        script.name
        for script in sorted((ROOT / "scripts").iterdir())
        if script.is_file()
        and not any(
            script.name in text or re.search(rf"^(from|import) {script.stem}\b", text, re.MULTILINE)
            for path, text in texts.items()
            if path != script
        )
    ]
    assert not lost, lost


def test_every_check_of_make_runs_in_ci() -> None:
    """`.ci/run` reaches each target of make that judges a change."""
    run = set(re.findall(r"^make ([\w-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    rules = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    judged_by_people = {"setup", "demo", "bench", "agreement", "soak", "clean", "quick"}
    assert run == rules - judged_by_people

"""Every check is run by something: what looks like one and is called by nobody is a defect."""

from __future__ import annotations

import ast
import re

from tidy_source import ROOT, Function, Module, trials

HOOKS = re.compile(r"pytest_\w+|pytestmark")


def test_every_function_of_the_tests_is_collected_or_called() -> None:
    """A function that is neither test, fixture, hook nor called checks nothing."""
    called = {name for module in trials() for name in mentions(module)}
    lost = [
        f"{module.path}:{node.lineno} {node.name}"
        for module in trials()
        for node in module.tree.body
        if isinstance(node, Function)
        and not collected(module, node)
        and not node.decorator_list  # a fixture, or a step that its decorator registers
        and not HOOKS.fullmatch(node.name)
        and node.name not in called
    ]
    assert not lost, "\n".join(lost)


def test_no_test_hides_in_a_file_that_is_not_collected() -> None:
    """`test_` functions stand in `test_*.py`, not inside other functions or plain modules."""
    lost = [
        f"{module.path}:{node.lineno} {node.name}"
        for module in trials()
        for node in module.functions
        if node.name.startswith("test_") and not collected(module, node)
    ]
    assert not lost, "\n".join(lost)


def test_every_script_and_target_is_run() -> None:
    """Each script is named by make, CI, a test or another script; each target by CI or a page."""
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    scripts = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())
    texts = {path: path.read_text(encoding="utf-8") for path in scripts}
    pages = "".join((ROOT / name).read_text() for name in ("CONTRIBUTING.md", "README.md"))
    inside = "".join(module.text for module in trials())
    lost = [
        path.name
        for path in scripts
        if not any(
            path.stem in text
            for text in (make, ci, inside, *(t for other, t in texts.items() if other != path))
        )
    ]
    targets = re.findall(r"^([a-z][\w-]*):", make, re.MULTILINE)
    lost += [
        f"make {target}"
        for target in targets
        if f"make {target}" not in ci + pages and not needed(target, make)
    ]
    assert targets
    assert not lost, "\n".join(lost)


def needed(target: str, make: str) -> bool:
    """Whether another target asks for this one."""
    return bool(re.search(rf"^[\w-]+:.*\b{target}\b", make, re.MULTILINE))


def collected(module: Module, node: Function) -> bool:
    """Whether pytest collects it."""
    named = module.path.rsplit("/", 1)[-1].startswith("test_") and node.name.startswith("test_")
    tops = [*module.tree.body]
    tops += [each for owner in tops if isinstance(owner, ast.ClassDef) for each in owner.body]
    return named and node in tops


def mentions(module: Module) -> set[str]:
    """Every name that a module uses, also as an attribute, an import or a whole string."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found

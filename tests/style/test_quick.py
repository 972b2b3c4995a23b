"""What `make quick` runs is there, stands once, and leaves no package of the product out."""

from __future__ import annotations

from pathlib import Path

from tidy_source import ROOT, imports, trials

LIST = ROOT / "tests" / "quick.txt"


def test_every_named_test_is_there_and_named_once() -> None:
    """A file that moved leaves no line behind, and no test runs twice."""
    lines = listed()
    files = [ROOT / file for file, _ in lines]
    lost = [
        f"{file} {test}"
        for file, test in lines
        if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text())
    ]
    assert lines
    assert not lost, "\n".join(lost)
    assert len(set(lines)) == len(lines)
    assert not [str(each) for each in files if within(each, files)]


def test_every_package_is_tested_by_what_is_listed() -> None:
    """Each package of the product is imported by a listed test."""
    places = [ROOT / file for file, _ in listed()]
    paths = ((ROOT / module.path, module) for module in trials())
    chosen = [module for path, module in paths if path in places or within(path, places)]
    reached = {name for module in chosen for name in imports(module)}
    for package in packages():
        inside = f"labfleet.{package}"
        assert any(name == inside or name.startswith(f"{inside}.") for name in reached), package


def listed() -> list[tuple[str, str]]:
    """Every line of the list without its comment: the file or folder, and the one test of it."""
    lines = (line.partition("#")[0].strip() for line in LIST.read_text("utf-8").splitlines())
    return [(file, test) for file, _, test in (line.partition("::") for line in lines if line)]


def packages() -> set[str]:
    """The folders of the product."""
    found = {path.parent.name for path in (ROOT / "src" / "labfleet").glob("*/__init__.py")}
    assert found
    return found


def within(place: Path, folders: list[Path]) -> bool:
    """Whether one of these folders holds it."""
    return any(folder in place.parents for folder in folders)

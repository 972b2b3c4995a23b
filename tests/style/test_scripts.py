"""The page's scripts: what eslint and tsc (scripts/javascript.sh) do not see, and needs no Node.

Sizes, spelling and types are theirs; that each script is loaded is `tests/web`'s.
"""

from __future__ import annotations

import json
import re

from tidy_source import ROOT

SCRIPTS = sorted((ROOT / "src" / "labfleet" / "web" / "static").glob("*.js"))
IMPORTS = re.compile(r'^(?:import .*|\} )from "\./([^"]+)"', re.MULTILINE)
EXPORTS = re.compile(r"^(.*)\nexport (?:async )?(?:function|const|class|let) (\w+)", re.MULTILINE)


def test_scripts_say_what_they_are() -> None:
    """Every script opens with a comment, and so does everything that it exports."""
    assert SCRIPTS
    texts = {path: path.read_text(encoding="utf-8") for path in SCRIPTS}
    bare = [path.name for path, text in texts.items() if not text.startswith("// ")]
    bare += [
        f"{path.name}: {name}"
        for path, text in texts.items()
        for before, name in EXPORTS.findall(text)
        if not before.endswith("*/")
    ]
    assert not bare, "\n".join(bare)


def test_scripts_import_in_no_circle() -> None:
    """A script that imports imports nothing that leads back to it."""
    imports = {each.name: IMPORTS.findall(each.read_text(encoding="utf-8")) for each in SCRIPTS}
    assert len(imports["live.js"]) > 3
    below: list[str] = []
    while left := [name for name in imports if name not in below]:
        free = [name for name in left if set(imports[name]) <= set(below)]
        assert free, f"in circles, or above one: {', '.join(left)}"
        below += free


def test_tools_of_the_scripts_are_pinned() -> None:
    """What checks the scripts is exact, and its lock file names no place it came from."""
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert not {"dependencies", "scripts"} & set(package), "Node is for checks alone"
    versions = package["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", each) for each in versions.values())
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
    assert lock["packages"][""]["devDependencies"] == versions
    placed = [name for name, each in lock["packages"].items() if "resolved" in each]
    assert not placed, "run npm with --omit-lockfile-registry-resolved"
    unsealed = [name for name, each in lock["packages"].items() if name and "integrity" not in each]
    assert not unsealed, "\n".join(unsealed)

"""The page on gating a run: its commands and its Python are run against the API."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "cli"))
from desk import Desk, PlayedPrograms
from live_api import LiveApi, live_api, place

from labfleet import client
from labfleet.cli import main

PAGE = TESTS.parent / "docs" / "how-to" / "gate-a-run.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """The page's blocks in a language."""
    return [text for name, text in FENCE.findall(PAGE.read_text("utf-8")) if name == language]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveApi]:
    """The API after the page's manifest was applied."""
    with place() as at, live_api(at) as made:
        (manifest,) = blocks("yaml")
        file = tmp_path / "cluster.yaml"
        file.write_text(manifest)
        base = Desk().environment(tmp_path, LABFLEET_URL=made.url, LABFLEET_TOKEN=made.token)
        assert main.run(["apply", "-f", str(file)], base=base) == 0
        yield made


def test_each_admit_of_the_page_runs_its_command(live: LiveApi, tmp_path: Path) -> None:
    """Every one is admitted on the page's cluster, and its command gets the run's id."""
    shell = "\n".join(blocks("sh")).replace("\\\n", " ")
    lines = [line for line in shell.splitlines() if line.startswith("labfleet admit")]
    assert len(lines) == 5
    keys = itertools.count()
    for line in lines:
        desk = Desk(PlayedPrograms(looks=[0, 1, 1]), keys=keys)
        base = desk.environment(tmp_path, LABFLEET_URL=live.url, LABFLEET_TOKEN=live.token)
        assert main.run(shlex.split(line)[1:], base=base) == 0, line
        (child,) = desk.programs.started
        name = live.runs()[-1]["metadata"]["name"]
        assert child.argv == shlex.split(line.partition(" -- ")[2].replace("{id}", name))
    assert live.phases() == ["COMPLETED"] * 5


def test_the_python_of_the_page_runs(
    live: LiveApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its script is started with the run's id, and its use is reported."""
    desk = Desk()
    base = desk.environment(tmp_path, LABFLEET_URL=live.url, LABFLEET_TOKEN=live.token)
    monkeypatch.setattr(client.environment, "real", lambda: base)
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda argv, check: started.append(argv))
    (script,) = blocks("python")
    exec(compile(script, str(PAGE), "exec"), {})
    (run,) = live.runs()
    assert started == [["./run-waku.sh", run["metadata"]["name"]]]
    assert run["status"]["phase"] == "COMPLETED"
    assert run["status"]["observed"]["memory_mib"]["peak"] == 900

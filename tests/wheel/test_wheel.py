"""The wheel does outside the checkout what the checkout does, and says what it lacks.

One environment is plain, one has the extra `simulators`; neither has psycopg. Building the wheel and
installing both takes about a minute of CPU time, so the tests share them.
"""

from __future__ import annotations

import json
import signal
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installed import ROOT, Installed, build, install

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
HELP = """
import contextlib, io, sys
from labfleet import entry
from labfleet.cli import main
wrong = []
for name in [*main.COMMANDS, *entry.PROGRAMS]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            code = entry.main([name, "--help"])
        except SystemExit as end:
            code = end.code or 0
    if code != 0 or "usage" not in said.getvalue().lower():
        wrong.append(name)
sys.exit(", ".join(wrong) or 0)
"""
PLAN = """
name: a morning
hours: 3
seed: 1
templates:
- {name: metal, instanceType: m5zn.metal}
pools:
- {name: labs, template: metal, track: labs, scaling: {policy: NEED_BASED, minWorkers: 1}}
definitions:
- {name: pair, nodes: [alpine, alpine], minutes: 30, track: labs}
demand:
  generated: {onDemandPerDay: 40, hours: [0, 3], definitions: {pair: 1}}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("plain"), wheel)


@pytest.fixture(scope="module")
def with_simulators(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("simulators"), wheel, "[simulators]")


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Templates, static files, SQL and type markers are in the wheel, and nothing beside them."""
    source = ROOT / "src"
    files = {
        str(each.relative_to(source))
        for each in source.rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    assert "labfleet/py.typed" in files
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    assert {name for name in names if ".dist-info/" not in name} == files


def test_every_command_helps_without_any_extra(plain: Installed) -> None:
    """--help of each command and program works in the plain wheel."""
    done = plain.run("python", "-c", HELP)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "program", ["demo", "cml-simulator", "aws-simulator", "kubernetes-simulator"]
)
def test_a_missing_extra_is_told_before_anything_starts(plain: Installed, program: str) -> None:
    """One sentence with the pip line, exit code 1, and nothing is written."""
    data = plain.here / "never-made"
    done = plain.run("labfleet", program, *(["--data", str(data)] if program == "demo" else []))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"Error: labfleet {program} needs ")
    assert done.stderr.endswith(": pip install 'labfleet[simulators]'\n")
    assert not data.exists()


@pytest.mark.parametrize("words", [["server"], ["backup", "copy"], ["restore", "copy"]])
def test_a_missing_driver_is_told_before_anything_starts(
    plain: Installed, words: list[str]
) -> None:
    """A PostgreSQL URL without psycopg: one sentence with the pip line, and nothing is written."""
    before = list(plain.here.iterdir())
    done = plain.run("labfleet", *words, "--store", "postgresql://nobody@127.0.0.1:9/none")
    _no_driver(done.returncode, done.stderr)
    assert list(plain.here.iterdir()) == before


def test_the_demo_on_postgres_names_the_driver(with_simulators: Installed) -> None:
    """The demo looks for the driver before it starts its children."""
    data = with_simulators.here / "never-made"
    done = with_simulators.run(
        "labfleet", "demo", "--data", str(data), "--store", "postgresql://nobody@127.0.0.1:9/none"
    )
    _no_driver(done.returncode, done.stderr)
    assert not data.exists()


def _no_driver(code: int, said: str) -> None:
    assert code == 1
    assert said.count("\n") == 1
    assert said.startswith("Error: PostgreSQL needs psycopg")
    assert said.endswith(": pip install 'labfleet[postgres]'\n")


@pytest.fixture
def server(plain: Installed) -> Iterator[dict[str, Any]]:
    """A server of the plain wheel on SQLite; what it said of itself, and its process."""
    process = plain.start(
        "labfleet", "server", "--data", "var", "--port", "0", "--admin-token-file", "token",
        "--aws-endpoint-url", "http://127.0.0.1:9",
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield {**json.loads(process.stdout.readline()), "process": process}
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_a_server_of_the_plain_wheel_works(plain: Installed, server: dict[str, Any]) -> None:
    """Pages, static files, API, command line and backup work, and SIGTERM ends it with 0."""
    for path, content in (("/login", "text/html"), ("/static/live.js", "javascript")):
        with urllib.request.urlopen(server["url"] + path, timeout=10) as answer:
            assert (answer.status, content in answer.headers["Content-Type"]) == (200, True)
    asked = {"LABFLEET_URL": server["url"], "LABFLEET_TOKEN_FILE": "token"}
    (plain.here / "c.yaml").write_text(
        "kind: Cluster\nmetadata: {name: c}\nspec: {capacity: {cpu: 4}}\n"
    )
    done = plain.run("labfleet", "apply", "-f", "c.yaml", **asked)
    assert done.returncode == 0, done.stderr
    assert json.loads(plain.run("labfleet", "get", "clusters", "--json", **asked).stdout)
    done = plain.run("labfleet", "backup", "copy.db", "--data", "var")
    assert done.returncode == 0, done.stderr
    server["process"].send_signal(signal.SIGTERM)
    assert server["process"].wait(60) == 0
    done = plain.run("labfleet", "restore", "copy.db", "--data", "again")
    assert done.returncode == 0, done.stderr


def test_a_rehearsal_of_the_plain_wheel_holds(plain: Installed) -> None:
    """Worlds, faults and rules need no extra and no file of the checkout."""
    done = plain.run("labfleet", "rehearse", "--seeds", "1", "--hours", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["seeds"]


def test_a_what_if_of_the_plain_wheel_is_answered(plain: Installed) -> None:
    """A plan beside the user's own files gets its answer."""
    (plain.here / "plan.yaml").write_text(PLAN)
    done = plain.run("labfleet", "rehearse", "--plan", "plan.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["variants"][0]["completed"] > 0


def test_the_demo_runs_from_the_wheel(with_simulators: Installed) -> None:
    """`labfleet demo --once` in another folder plays the main job; exit 0 and its JSON say so."""
    done = with_simulators.run("labfleet", "demo", "--once", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["ok"] is True
    assert told["sessions_completed"] + told["sessions_refused"] == told["sessions_requested"] > 0
    assert told["workers_provisioned"] == told["workers_terminated"] > 0
    assert told["instances_left"] == told["licences_left"] == told["invariant_violations"] == 0
    assert (told["simulations_learned"], told["simulations_crashed"], told["pods_left"]) == (
        1,
        1,
        0,
    )

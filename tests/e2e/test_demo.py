"""The whole product over real sockets: the main job, the 42 real labs, kill -9, secrets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KEYS = {
    "sessions_requested", "sessions_completed", "sessions_failed", "sessions_refused",
    "simulations_approved", "simulations_denied", "workers_provisioned", "workers_terminated",
    "instances_left", "licences_left", "labs_left", "ports_left", "port_conflicts",
    "invariant_violations", "wall_s", "simulated_s", "simulations_learned", "simulations_queued",
    "simulations_crashed", "pods_left",
}  # fmt: skip
ZERO = (
    "sessions_failed", "instances_left", "licences_left", "labs_left", "ports_left",
    "port_conflicts", "invariant_violations", "pods_left",
)  # fmt: skip
RUNS = {
    "simulations_approved": 5, "simulations_learned": 1, "simulations_denied": 1,
    "simulations_queued": 1, "simulations_crashed": 1,
}  # fmt: skip
"""What becomes of the runs on the cluster where nothing goes wrong."""


def demo(*options: str, data: Path) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "labfleet",
            "demo",
            "--once",
            "--json",
            "--patience",
            "900",
            "--data",
            str(data),
            *options,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:] or ["{}"]
    return done.returncode, json.loads(last[0]), done.stderr[-4000:]


@pytest.mark.timeout(2000)
def test_the_main_job_ends_with_nothing_left_over(tmp_path: Path) -> None:
    """The demo's JSON has every promised key, true to the last, and its exit code is 0."""
    code, told, said = demo(data=tmp_path)
    assert code == 0, said
    assert set(told) >= KEYS
    assert {key: told[key] for key in ZERO} == dict.fromkeys(ZERO, 0)
    assert told["sessions_completed"] + told["sessions_refused"] == told["sessions_requested"]
    assert told["workers_provisioned"] == told["workers_terminated"] >= 1
    assert {key: told[key] for key in RUNS} == RUNS
    assert "licensed nodes" in told["refusals"]["too-large-1"]


@pytest.mark.data
@pytest.mark.timeout(2000)
def test_all_real_labs_run_but_the_one_that_fits_nowhere(tmp_path: Path, data: Path) -> None:
    """Of 42 real topologies 41 complete and the one of 302 nodes is refused with its reason."""
    code, told, said = demo("--labs", str(data / "labs"), data=tmp_path)
    assert code == 0, said
    assert (told["sessions_requested"], told["sessions_completed"]) == (42, 41)
    assert told["sessions_refused"] == 1
    assert "licensed nodes" in told["refusals"]["300-node-lab-300-node-lab-1"]


@pytest.mark.timeout(2000)
def test_five_kills_leave_nothing_over_and_lose_nothing(tmp_path: Path) -> None:
    """kill -9 of the server at five random moments costs time only."""
    code, told, said = demo("--kill", "5", "--seed", "3", data=tmp_path)
    assert code == 0, said
    assert told["server_kills"] == 5
    assert {key: told[key] for key in ZERO} == dict.fromkeys(ZERO, 0)
    assert told["imports"] == told["sessions_completed"]
    assert all(told[key] >= least for key, least in RUNS.items())


@pytest.mark.timeout(2000)
def test_broken_topologies_are_refused_and_the_rest_runs(tmp_path: Path) -> None:
    """Broken YAML, an unknown node and a Unicode title each get an answer, not a hang."""
    labs = tmp_path / "labs"
    labs.mkdir()
    (labs / "broken.yaml").write_text("lab:\n  title: x\n   version: 0.3.0\nnodes: [")
    (labs / "unknown.yaml").write_text(_lab("unknown", "no-such-node"))
    (labs / "ユニコード名前.yaml").write_text(_lab("実験室 é", "alpine"), encoding="utf-8")
    (labs / f"{'long' * 30}.yaml").write_text(_lab("long", "alpine"))
    code, told, said = demo("--labs", str(labs), data=tmp_path / "data")
    assert told["sessions_completed"] == 2, said
    assert told["sessions_refused"] == 1
    assert told["sessions_failed"] == 1
    assert code == 1
    assert any("line" in why for why in told["refusals"].values())
    assert any("no-such-node" in why for why in told["failures"].values())
    assert told["instances_left"] == told["labs_left"] == told["licences_left"] == 0


def _lab(title: str, definition: str) -> str:
    return (
        f"lab:\n  title: '{title}'\n  version: 0.3.0\nnodes:\n"
        f"  - id: n0\n    label: PC\n    node_definition: {definition}\n    x: 0\n    y: 0\n"
        "    interfaces: []\nlinks: []\n"
    )


@pytest.mark.timeout(2000)
def test_no_secret_is_ever_written_down(tmp_path: Path) -> None:
    """Password, licence token, AWS key and the cluster's token are in no object, log or reply."""
    from labfleet.app.demo.play import DemoPlan, Play

    plan = DemoPlan(
        folder=tmp_path, speed=240.0, port=0, labs=None, copies=1, minutes=5, maximum=2,
        kills=0, seed=1, patience=900.0,
    )  # fmt: skip
    play = Play(plan, lambda _: None)
    values = [
        value
        for name, value in play.stage.server.environment.items()
        if name != "LABFLEET_DEMO_KEY_ID"
    ]
    try:
        play.ask(play.open())
        play.run()
        replies = _everything(play)
        play.close()
        token = (tmp_path / "admin.token").read_text().strip()
        (cluster,) = re.findall(r"token: (\S+)", (tmp_path / "secrets/kubeconfig").read_text())
    finally:
        play.stage.close()
    written = b"".join(
        path.read_bytes()
        for path in tmp_path.iterdir()
        if path.is_file() and path.name != "admin.token"
    )
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"secrets"}
    assert len(values) == 3
    assert len(replies) > 1000
    for value in (*values, token, cluster):
        assert value.encode() not in written
        assert value not in replies
    for name in ("admin.token", "secrets/kubeconfig"):
        assert os.stat(tmp_path / name).st_mode & 0o777 == 0o600


def _everything(play: Any) -> str:
    """Return the text of every reply about every object: lists, events, explanations, metrics."""
    said = []
    for plural in (
        "workers",
        "pools",
        "templates",
        "definitions",
        "sessions",
        "clusters",
        "simulations",
    ):
        for each in play.client.items(plural)[0]:
            said.append(json.dumps(each))
            name = each["metadata"]["name"]
            for what in ("events", "explain"):
                path = f"/api/v1/{plural}/{name}/{what}"
                said.append(json.dumps(play.client.get(path)))
    return "\n".join(said)

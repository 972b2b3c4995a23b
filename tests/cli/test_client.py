"""`labfleet.client`: a `with` block of a Python program that holds a run, against the real API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import Desk, lease_over, until
from live_api import LiveApi, Place, live_api, place

from labfleet import client
from labfleet.client import Denied, Failure, admitted

COST = {"cpu": 4, "memory": "8Gi"}
PROBE = """
import sys
import labfleet.client
heavy = {"numpy", "litestar", "click", "yaml", "asyncio", "subprocess", "uvicorn", "aiohttp"}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def at_port() -> Iterator[Place]:
    """A port for all tests of this file."""
    with place() as made:
        yield made


@pytest.fixture
def live(at_port: Place) -> Iterator[LiveApi]:
    """The API with room for two runs of 4 CPU."""
    with live_api(at_port) as made:
        made.cluster()
        yield made


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    """Time by hand instead of this machine's, in the module that reads it."""
    made = Desk()
    monkeypatch.setattr(client.environment, "real", lambda: made.environment(tmp_path))
    return made


@pytest.fixture
def at(live: LiveApi, desk: Desk) -> dict[str, Any]:
    """Where to ask."""
    del desk
    return {"url": live.url, "token": live.token}


def test_a_block_is_a_run_and_its_use_is_reported(live, at):
    """RUNNING inside, COMPLETED after it, with what it said that it used."""
    with admitted(chart="waku", nodecount=50, cost=COST, **at) as run:
        assert live.phases() == ["RUNNING"]
        assert run.predicted == {"cpu_milli": 4000, "memory_mib": 8192}
        assert run.evidence
        run.observed(memory_mib=900, cpu_milli={"peak": 1500, "mean": 400})
    (found,) = live.runs()
    assert (found["metadata"]["name"], found["status"]["phase"]) == (run.id, "COMPLETED")
    assert found["spec"]["params"] == {"chart": "waku", "nodecount": 50}
    assert found["status"]["observed"]["memory_mib"]["peak"] == 900
    assert found["status"]["observed"]["cpu_milli"]["mean"] == 400


@pytest.mark.parametrize(
    ("raised", "phase"),
    [(ValueError("x"), "FAILED"), (KeyboardInterrupt(), "CANCELLED"), (SystemExit(2), "FAILED"),
     (SystemExit(0), "COMPLETED"), (SystemExit(), "COMPLETED")],
)  # fmt: skip
def test_what_ends_the_block_is_how_the_run_ended(live, at, raised, phase):
    """An error is a failed run, Ctrl-C a cancelled one, and each is raised on."""
    with pytest.raises(type(raised)), admitted(cost=COST, **at):
        raise raised
    assert live.phases() == [phase]


def test_denied_says_why_and_holds_nothing(live, at):
    """The reasons are the server's words; the block is not entered."""
    with pytest.raises(Denied) as caught, admitted(cost={"cpu": 40, "memory": "1Gi"}, **at):
        pytest.fail("it was let in")
    assert caught.value.reasons == ("NeverFits", "OverCpuTarget")
    assert "needs 40 CPU" in caught.value.message
    assert live.phases() == ["DENIED"]


def test_a_server_that_is_not_there_is_a_failure(desk):
    """Whoever cannot ask may not start."""
    with pytest.raises(Failure, match="no answer"), admitted(url="http://127.0.0.1:9"):
        pytest.fail("it was let in")
    assert desk.elapsed < 60


def test_taken_names_go_into_params(live, at):
    """A parameter called `queue` or `url` is one all the same."""
    with admitted(params={"queue": "fast", "url": "x"}, size=3, cost=COST, queue=True, **at):
        pass
    (found,) = live.runs()
    assert found["spec"]["params"] == {"queue": "fast", "url": "x", "size": 3}
    assert found["spec"]["queue"] == "default"


def test_a_lost_run_is_told_in_the_block(live, at, caplog):
    """`lost` says why, `on_lost` is called once, and the block goes on."""
    heard: list[str] = []
    with admitted(cost=COST, on_lost=heard.append, **at) as run:
        assert run.lost == ""
        body = {"simulation_id": run.id, "status": "cancelled"}
        live.ask("POST", "/simulation_complete", body)
        until(lease_over)
        assert "holds nothing" in run.lost
    assert heard == [run.lost]
    assert live.phases() == ["CANCELLED"]
    assert f"the server ended {run.id}" in caplog.text


def test_an_end_that_nobody_hears_is_logged(live, at, desk, caplog):
    """The block's own result stands; the run ends when its lease does."""
    with admitted(cost=COST, **at) as run:
        live.refused.add("/simulation_complete")
    assert f"{run.id} was not reported as completed" in caplog.text
    assert 120 <= desk.elapsed < 140
    assert live.token not in caplog.text


def test_it_imports_little():
    """A run script pays for an HTTP client, not for a server or for numpy."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "[]\n"

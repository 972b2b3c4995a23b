"""`admit`: asks the real API, starts a command, keeps its lease and reports its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from desk import Desk, Played, lease_over, until
from live_api import LiveApi, Place, live_api, place

from labfleet.cli import main

COST = ("--cost", "cpu=4,memory=8Gi")


@dataclass
class Done:
    """What a command line did."""

    code: int
    out: str
    err: str


Admit = Callable[..., Done]


@pytest.fixture(scope="module")
def at_port() -> Iterator[Place]:
    """A port for all tests of this file."""
    with place() as made:
        yield made


@pytest.fixture
def live(at_port: Place) -> Iterator[LiveApi]:
    """The API with a cluster of which 8 CPU may be used: room for two runs of 4."""
    with live_api(at_port) as made:
        made.cluster()
        yield made


@pytest.fixture
def desk() -> Desk:
    """Time and programs by hand."""
    return Desk()


@pytest.fixture
def admit(live: LiveApi, desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Admit:
    """Run `labfleet admit` with these words against the API."""

    def go(*words: str) -> Done:
        base = desk.environment(tmp_path, LABFLEET_URL=live.url, LABFLEET_TOKEN=live.token)
        capsys.readouterr()
        code = main.run(["admit", *words], base=base)
        said = capsys.readouterr()
        assert live.token not in said.out + said.err
        return Done(code, said.out, said.err)

    return go


def beats(live: LiveApi) -> int:
    """Return how often a run was reported to live."""
    return live.seen.count("/simulation_heartbeat")


def test_the_command_runs_under_the_runs_id_and_the_end_is_reported(admit, live, desk):
    """Its id is in arguments and environment, it is RUNNING meanwhile, then COMPLETED."""
    told: list[str] = []

    def play(child: Played) -> int:
        told.extend(live.phases())
        return 0

    desk.programs.play = play
    done = admit("--param", "chart=waku", "--param", "nodecount=50", *COST, "--", "helm", "install",
                 "waku-{id}", "--set=a={id}")  # fmt: skip
    (run,) = live.runs()
    name = run["metadata"]["name"]
    assert (done.code, done.out) == (0, "")
    assert told == ["RUNNING"]
    assert run["status"]["phase"] == "COMPLETED"
    assert run["spec"]["params"] == {"chart": "waku", "nodecount": 50}
    (child,) = desk.programs.started
    assert child.argv == ["helm", "install", f"waku-{name}", f"--set=a={name}"]
    assert child.env["LABFLEET_SIMULATION_ID"] == name
    assert f"{name} is admitted; expected to need at most 4 CPU, 8GiB memory." in done.err


@pytest.mark.parametrize(("ended", "code"), [(3, 3), (-9, 137)])
def test_the_exit_code_is_the_commands_own(admit, live, desk, ended, code):
    """Another code than 0 is a failed run; a signal counts as shells count it."""
    desk.programs.play = lambda _: ended
    assert admit(*COST, "--", "make").code == code
    assert live.phases() == ["FAILED"]


def test_a_denied_run_starts_nothing_and_says_why(admit, live, desk):
    """Exit 7 with the server's sentence and reason, and the command that says more."""
    done = admit("--cost", "cpu=40,memory=1Gi", "--", "make")
    assert done.code == 7
    assert "not admitted: needs 40 CPU" in done.err
    assert "(NeverFits, OverCpuTarget)" in done.err
    assert f"labfleet explain simulation/{live.runs()[0]['metadata']['name']}" in done.err
    assert desk.programs.started == []


def test_a_refusal_is_one_line_of_json_for_a_script(admit, live):
    """With --json the reasons and the record stand in fields of their own, on stderr."""
    done = admit("--json", "--cost", "cpu=40,memory=1Gi", "--", "make")
    told = json.loads(done.err.splitlines()[-1])
    assert (told["exitCode"], told["reason"]) == (7, "NotAdmitted")
    assert told["reasons"] == ["NeverFits", "OverCpuTarget"]
    assert told["record"] == live.runs()[0]["metadata"]["name"]


def test_a_program_that_is_not_there_asks_nothing(admit, live):
    """Exit 127 as shells give it; the same for the program of --until-gone is wrong input."""
    assert admit(*COST, "--", "nosuch").code == 127
    assert admit(*COST, "--until-gone", "nosuch x", "--", "make").code == 2
    assert live.phases() == []


def test_a_program_that_cannot_be_started_is_no_run(admit, live):
    """Exit 126, and the run is cancelled: it teaches nothing."""
    done = admit(*COST, "--", "broken")
    assert (done.code, live.phases()) == (126, ["CANCELLED"])
    assert "cannot start broken: Exec format error" in done.err


# --- the queue -----------------------------------------------------------------------------


def fill(live: LiveApi) -> str:
    """Take all room, and return who has it."""
    body = {"cost": {"cpu": 8, "memory": "1Gi"}}
    return str(live.ask("POST", "/request_run", body)["simulation_id"])


def test_a_queued_run_starts_when_there_is_room(admit, live, desk):
    """It waits, says so, and is taken up once another run ends."""
    other = fill(live)

    async def ends(api: LiveApi) -> None:
        await api.api.call("POST", "/simulation_complete", {"simulation_id": other})

    live.before["/api/v1/simulations/"] = ends
    done = admit(*COST, "--queue", "--", "make")
    assert (done.code, live.phases()) == (0, ["COMPLETED", "COMPLETED"])
    assert "waits in the queue, position 1: needs 4 CPU" in done.err
    assert len(desk.programs.started) == 1


def test_a_run_that_waited_too_long_is_withdrawn(admit, live, desk):
    """Exit 8, and nobody finds it in the queue afterwards."""
    fill(live)
    done = admit(*COST, "--queue", "--timeout", "0s", "--", "make")
    assert (done.code, live.phases()[1]) == (8, "CANCELLED")
    assert "was not admitted within 0s" in done.err
    assert desk.programs.started == []


def test_a_signal_while_it_waits_withdraws_the_run(admit, live, desk):
    """SIGTERM in the queue is exit 143; nothing was started, and the run is cancelled."""
    fill(live)

    async def signalled(_: LiveApi) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    live.before["/api/v1/simulations/"] = signalled
    done = admit(*COST, "--queue", "--", "make")
    assert (done.code, live.phases()[1]) == (143, "CANCELLED")
    assert desk.programs.started == []


def test_a_run_that_somebody_cancels_in_the_queue_is_not_started(admit, live, desk):
    """Exit 3: it waits no longer, and says what became of it."""
    fill(live)

    async def cancelled(api: LiveApi) -> None:
        name = live.seen[-1].rpartition("/")[2]
        body = {"simulation_id": name, "status": "cancelled"}
        await api.api.call("POST", "/simulation_complete", body)

    live.before["/api/v1/simulations/"] = cancelled
    done = admit(*COST, "--queue", "--", "make")
    assert done.code == 3
    assert "is CANCELLED and waits no longer" in done.err
    assert desk.programs.started == []


def test_a_key_finds_one_run_and_it_is_not_started_twice(admit, live, desk):
    """The same key after the run's end: exit 3, and no second command."""
    assert admit(*COST, "--key", "night-1", "--", "make").code == 0
    done = admit(*COST, "--key", "night-1", "--", "make")
    assert done.code == 3
    assert "over before it was taken up" in done.err
    assert (live.phases(), len(desk.programs.started)) == (["COMPLETED"], 1)


# --- the lease -----------------------------------------------------------------------------


def test_the_lease_is_kept_while_the_command_runs(admit, live, desk):
    """After the approval was taken up, a thread reports again and again."""

    def play(_: Played) -> int:
        until(lambda: beats(live) >= 4)
        return 0

    desk.programs.play = play
    assert admit(*COST, "--", "make").code == 0
    assert live.runs()[0]["spec"]["ttlSeconds"] == 60
    ended = beats(live)
    assert live.phases() == ["COMPLETED"]
    assert beats(live) == ended


def lose(live: LiveApi) -> None:
    """End the run as an operator does, beside its caller."""
    name = live.runs()[0]["metadata"]["name"]
    live.ask("POST", "/simulation_complete", {"simulation_id": name, "status": "cancelled"})


def test_a_lost_lease_is_said_and_the_command_goes_on(admit, live, desk):
    """By default nothing is broken that runs; the exit code stays the command's."""

    def play(_: Played) -> int:
        lose(live)
        until(lease_over)
        return 0

    desk.programs.play = play
    done = admit("-q", *COST, "--", "make")
    assert done.code == 0
    assert "LOST: the server ended sim-" in done.err
    assert "it goes on without a place on its cluster" in done.err
    assert desk.programs.started[0].signals == []


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_lost_lease_stops_the_command_if_told_to(admit, live, desk, stubborn):
    """--on-lost stop sends SIGTERM, and kills what does not end."""

    def play(child: Played) -> int:
        lose(live)
        until(lambda: child.killed.is_set() if stubborn else child.signals)
        return -9 if stubborn else -15

    desk.programs.play = play
    done = admit(*COST, "--on-lost", "stop", "--", "make")
    assert done.code == (137 if stubborn else 143)
    assert desk.programs.started[0].signals == [signal.SIGTERM]


def test_a_server_that_does_not_answer_stops_nothing(admit, live, desk):
    """It is said once and once when it answers again; the end is reported."""

    def play(_: Played) -> int:
        live.refused.add("/simulation_heartbeat")
        before = beats(live)
        until(lambda: beats(live) > before + 3)
        live.refused.clear()
        before = beats(live)
        until(lambda: beats(live) > before + 2)
        return 0

    desk.programs.play = play
    done = admit(*COST, "--", "make")
    assert (done.code, live.phases()) == (0, ["COMPLETED"])
    assert done.err.count("the run goes on, and so do its reports") == 1
    assert done.err.count("the server answers again") == 1


def test_an_end_that_nobody_hears_is_said_within_its_bound(admit, live, desk):
    """Two minutes of tries, then a sentence; the exit code stays the command's."""
    live.refused.add("/simulation_complete")
    desk.programs.play = lambda _: 5
    done = admit(*COST, "--", "make")
    assert done.code == 5
    assert "was not reported as failed, it ends when its lease does" in done.err
    assert 120 <= desk.elapsed < 140


def test_an_end_is_reported_once_the_server_answers(admit, live, desk):
    """A restart of the server at the wrong moment loses no end."""
    live.refused.add("/simulation_complete")
    desk.resting = lambda _: live.refused.clear() if desk.elapsed > 20 else None
    assert admit(*COST, "--", "make").code == 0
    assert live.phases() == ["COMPLETED"]


def test_no_server_is_9_and_starts_nothing(admit, live, desk):
    """Without an answer there is no approval."""
    live.refused.add("/request_run")
    done = admit("--url", "http://127.0.0.1:9", *COST, "--", "make")
    assert (done.code, desk.programs.started) == (9, [])
    assert admit(*COST, "--", "make").code == 9
    assert 60 <= desk.elapsed < 90


# --- signals -------------------------------------------------------------------------------


def test_a_signal_is_passed_on_and_the_run_is_cancelled(admit, live, desk):
    """The command is waited for and its code counts, also when it ends well after it."""

    def play(child: Played) -> int:
        child.signalled(signal.SIGTERM)
        return 0

    desk.programs.play = play
    done = admit(*COST, "--hold", "30m", "--", "make")
    assert (done.code, live.phases()) == (0, ["CANCELLED"])
    assert desk.programs.started[0].signals == [signal.SIGTERM]
    assert "waiting for the command to end" in done.err
    assert desk.elapsed == 0


def test_the_second_signal_kills(admit, live, desk):
    """Whoever does not want to wait says it twice."""

    def play(child: Played) -> int:
        child.signalled(signal.SIGINT)
        assert not child.killed.is_set()
        child.signalled(signal.SIGINT)
        return -9 if child.killed.is_set() else 0

    desk.programs.play = play
    assert admit(*COST, "--", "make").code == 137
    assert live.phases() == ["CANCELLED"]


def test_ctrl_c_on_a_terminal_reaches_the_command_once(admit, live, desk):
    """The terminal sends it to both: passed on, it would be the command's second one."""
    desk.programs.terminal = True

    def play(child: Played) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        child.signalled(signal.SIGTERM)  # the second: that it came shows that the first did
        return -2

    desk.programs.play = play
    assert admit(*COST, "--", "make").code == 130
    assert desk.programs.started[0].signals == []


def test_handlers_are_put_back(admit):
    """What the program did on a signal before, it does afterwards."""
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert admit(*COST, "--", "make").code == 0
    after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before


# --- after the command ---------------------------------------------------------------------


def test_a_run_is_held_after_its_command(admit, live, desk):
    """`helm install` returns at once; the run lasts for as long as it was told to."""
    told: list[str] = []
    desk.resting = lambda _: told.extend(live.phases())
    assert admit(*COST, "--hold", "30m", "--", "helm").code == 0
    assert (desk.elapsed, told, live.phases()) == (1800, ["RUNNING"], ["COMPLETED"])


def test_a_failed_command_holds_nothing(admit, live, desk):
    """What was not installed does not run."""
    desk.programs.play = lambda _: 1
    assert admit(*COST, "--hold", "30m", "--", "helm").code == 1
    assert (desk.elapsed, live.phases()) == (0, ["FAILED"])


def test_a_run_lasts_until_its_thing_is_gone(admit, live, desk):
    """One failed look, or one without an answer, ends nothing; two in a row do."""
    desk.programs.looks = [0, 1, 0, 1, None, 1, 1]
    done = admit(*COST, "--until-gone", "kubectl get job {id}", "--every", "20s", "--", "helm")
    name = live.runs()[0]["metadata"]["name"]
    assert (done.code, desk.elapsed) == (0, 120)
    assert desk.programs.looked[0] == ["kubectl", "get", "job", name]
    assert "kubectl gave no answer; that counts as still there" in done.err
    assert live.phases() == ["COMPLETED"]


def test_hold_bounds_until_gone(admit, desk):
    """Both together: until it is gone, and no longer than that."""
    desk.programs.looks = [0] * 100
    assert admit(*COST, "--until-gone", "look", "--hold", "25s", "--", "helm").code == 0
    assert desk.elapsed == 25


def test_a_signal_while_a_run_is_held_cancels_it(admit, live, desk):
    """The command is over, so the code is the signal's."""
    desk.resting = lambda _: os.kill(os.getpid(), signal.SIGTERM)
    assert admit(*COST, "--hold", "30m", "--", "helm").code == 143
    assert live.phases() == ["CANCELLED"]


def test_a_held_run_that_is_lost_ends_with_3_if_told_to(admit, live, desk):
    """--on-lost stop ends the holding: nothing is held any more."""

    def lost(_: float) -> None:
        lose(live)
        until(lease_over)

    desk.programs.looks, desk.resting = [0], lost
    done = admit(*COST, "--until-gone", "look", "--on-lost", "stop", "--", "helm")
    assert done.code == 3
    assert "LOST" in done.err


# --- what people type ----------------------------------------------------------------------


def test_parameters_are_typed_on_sight(admit, live, tmp_path):
    """Numbers, truth values and texts; by hand above the file; names of options are no matter."""
    file = tmp_path / "p.yaml"
    file.write_text("nodecount: 10\nqueue: fast\nsizes: [1, 2]\n")
    done = admit("--params-file", str(file), "--param", "nodecount=50", "--param", "rate=1.5",
                 "--param", "tls=true", "--param", "version=007", "--param", "expr=a=b",
                 "--duration", "90m", "--owner", "ada", "--priority", "5", *COST,
                 "--", "make")  # fmt: skip
    assert done.code == 0, done.err
    spec = live.runs()[0]["spec"]
    assert spec["params"] == {
        "nodecount": 50, "queue": "fast", "sizes": [1, 2], "rate": 1.5, "tls": True,
        "version": "007", "expr": "a=b",
    }  # fmt: skip
    assert (spec["durationSeconds"], spec["owner"], spec["priority"]) == (5400, "ada", 5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--param", "chart"), "--param: 'chart' is not NAME=VALUE"),
        (("--param", "a=1", "--param", "a=2"), "--param: 'a' is given twice"),
        (("--cost", "cpu=4,memory"), "--cost: 'memory' is not NAME=VALUE"),
        (("--duration", "30"), "write 90s, 30m, 1h30m or 2d"),
        (("--params-file", "/nonexistent"), "cannot read /nonexistent"),
        (("--until-gone", "a 'b"), "--until-gone: No closing quotation"),
        (("--ttl", "5s"), "ttl"),
        (("--cost", "cpus=4"), "cpus"),
        (("--cluster", "moon"), "cluster 'moon' does not exist"),
    ],
)
def test_wrong_input_starts_nothing(admit, live, desk, words, said):
    """Exit 2 with a sentence that names what is wrong, here or by the server's word."""
    done = admit(*words, "--", "make")
    assert (done.code, desk.programs.started) == (2, [])
    assert said in done.err
    assert live.phases() == []


def test_the_commands_own_words_are_not_ours(admit, desk):
    """What follows COMMAND is its own, with or without `--`; its -o json makes no error of ours JSON."""
    assert admit(*COST, "kubectl", "get", "-o", "json", "--queue").code == 0
    assert desk.programs.started[0].argv == ["kubectl", "get", "-o", "json", "--queue"]
    done = admit("--cost", "cpu=40", "--", "kubectl", "-o", "json")
    assert done.err.startswith("Error: not admitted")


def test_a_real_command_of_a_real_process_is_signalled(live, tmp_path):
    """SIGTERM to `labfleet admit` ends the command it started, and the run is cancelled."""
    there = tmp_path / "there"
    script = f"touch {there}; exec sleep 60"
    words = [sys.executable, "-m", "labfleet", "admit", *COST, "--", "sh", "-c", script]
    env = {**os.environ, "LABFLEET_URL": live.url, "LABFLEET_TOKEN": live.token,
           "HOME": str(tmp_path)}  # fmt: skip
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as process:
        until(there.exists)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 143
    assert live.phases() == ["CANCELLED"]
    assert "SIGTERM: waiting for the command to end" in said

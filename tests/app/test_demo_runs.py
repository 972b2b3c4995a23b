"""The demo's script of runs, played against a gate and a cluster in memory, a step at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from labfleet.app.demo.pods import PodPlan, job
from labfleet.app.demo.runs import REST, TRIES, RunScript, length_at
from labfleet.cli.kit import exits

STEPS = 100


@dataclass
class Cluster:
    """Pods of runs: they end at the step after they were made."""

    there: dict[str, PodPlan] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)

    def make(self, name: str, plan: PodPlan) -> None:
        self.there[name] = plan
        self.made.append(name)

    def ended(self) -> dict[str, str]:
        return {name: "failed" if plan.fails else "completed" for name, plan in self.there.items()}

    def remove(self, name: str) -> None:
        self.there.pop(name, None)


@dataclass
class Gate:
    """Decides on runs: learns from the first that ends, unless `forgets`; a queue of one place.

    lost: How many answers to requests do not arrive, though they were decided.
    full: How many requests lack room before there is some.
    roomy: How many requests for the queue find room at once.
    unseen: How many crashes of pods nobody sees.
    """

    cluster: Cluster
    mode: str = "measured"
    forgets: bool = False
    lost: int = 0
    full: int = 0
    roomy: int = 0
    unseen: int = 0
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)

    def call(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        if path.startswith("/api/v1/clusters/"):
            return {"status": {"mode": self.mode}}
        if path == "/request_run":
            assert key is not None
            if key not in self.keys:
                self.keys[key] = self._decided(body)
            if self.lost:
                self.lost -= 1
                raise exits.Failure(exits.UNREACHABLE, "no answer")
            return self.keys[key]
        run = self.runs[body["simulation_id"]]
        self.reports.append(f"{path} {body['simulation_id']}")
        ends = path == "/simulation_complete"
        run["status"] |= {"phase": body["status"].upper() if ends else "RUNNING", "takeUpBy": None}
        return {}

    def _decided(self, body: Any) -> Any:
        name = f"sim-{len(self.asked)}"
        chart = body["params"]["chart"]
        self.asked.append((name, body))
        if body["params"].get("nodecount") == 3000 or self.full:
            self.full = max(0, self.full - 1)
            reason = "NoRoom" if body["params"].get("nodecount") != 3000 else "NeverFits"
            return {"decision": "denied", "reasons": [reason], "record": name,
                    "simulation_id": None}  # fmt: skip
        past = [n for n, each in self.runs.items() if each["chart"] == chart and n in self.over]
        forecast = {"resource": "cpu_milli", "evidence": "exact", "runs": past}
        known = {"forecasts": [forecast] if past and not self.forgets else []}
        waits = bool(body.get("queue")) and not self.roomy
        self.roomy -= 1 if self.roomy and body.get("queue") else 0
        phase = "QUEUED" if waits else "APPROVED"
        self.runs[name] = {
            "chart": chart,
            "metadata": {"name": name},
            "spec": body,
            "status": {"phase": phase, "prediction": known},
        }
        return {"decision": phase.lower(), "reasons": [], "record": name, "simulation_id": name}

    @property
    def over(self) -> set[str]:
        return {
            name
            for name, each in self.runs.items()
            if each["status"]["phase"] in {"COMPLETED", "FAILED", "EXPIRED"}
        }

    def goes_on(self) -> None:
        """Let what waits in once `mesh` has room, and end by their pods those that failed."""
        busy = [each for each in self.runs.values()
                if each["chart"] == "mesh" and each["status"]["phase"] in {"APPROVED", "RUNNING"}]  # fmt: skip
        for name, each in self.runs.items():
            if name in self.over:
                continue
            if each["status"]["phase"] == "QUEUED" and not busy:
                each["status"] |= {"phase": "APPROVED", "takeUpBy": "soon"}
            elif name in self.cluster.there and self.cluster.there[name].fails:
                each["status"]["phase"] = "EXPIRED" if self.unseen else "FAILED"
                self.unseen -= 1 if self.unseen else 0


def played(gate: Gate, *, steps: int = STEPS) -> RunScript:
    """Play on a gate until the script is finished, for so many steps at most."""
    script = RunScript(gate.call, gate.cluster, length_at(120.0))
    for _ in range(steps):
        if script.finished:
            break
        script.step(list(gate.runs.values()))
        gate.goes_on()
    return script


def test_the_whole_script_is_played_and_leaves_no_pod() -> None:
    """Five runs start, one too large never; a second of the family comes after the first's end."""
    gate = Gate(Cluster())
    assert played(gate).finished
    assert Counter(each["chart"] for each in gate.runs.values()) == {
        "waku": 2, "mesh": 2, "nimlibp2p": 1,
    }  # fmt: skip
    assert gate.cluster.there == {}
    assert sorted(gate.cluster.made) == sorted(gate.runs)
    assert len(gate.asked) == len(gate.runs) + 1


def test_the_caller_of_the_crash_says_nothing() -> None:
    """Its end is in no report; the one that waited takes its approval up before it makes pods."""
    gate = Gate(Cluster())
    played(gate)
    (crash,) = [name for name, each in gate.runs.items() if each["chart"] == "nimlibp2p"]
    (queued,) = [name for name, each in gate.runs.items() if each["spec"].get("queue")]
    assert not any(report.endswith(crash) for report in gate.reports)
    assert gate.runs[crash]["status"]["phase"] == "FAILED"
    assert gate.reports.count(f"/simulation_heartbeat {queued}") == 1
    assert gate.cluster.made.count(queued) == 1


def test_nothing_is_asked_before_the_cluster_is_measured() -> None:
    """Who asks a cluster in safe mode is denied, which would say nothing of the run."""
    gate = Gate(Cluster(), mode="safe")
    script = played(gate, steps=20)
    assert gate.asked == []
    assert not script.finished


def test_what_lacks_room_is_asked_again_after_a_rest() -> None:
    """All parts come to their end, and a denial is not followed by a request at the next step."""
    gate = Gate(Cluster(), full=1)
    script = RunScript(gate.call, gate.cluster, length_at(120.0))
    script.step([])
    first = len(gate.asked)
    for _ in range(REST - 1):
        script.step([])
    assert len(gate.asked) == first
    script.step([])
    assert len(gate.asked) == first + 1
    assert gate.asked[-1][1]["params"] == gate.asked[0][1]["params"]


def test_a_lost_answer_is_asked_for_under_its_key() -> None:
    """The run that was decided is found again: no other holds room without pods."""
    gate = Gate(Cluster(), lost=3)
    assert played(gate).finished
    assert len(gate.runs) == 5
    assert gate.cluster.there == {}


def test_a_refusal_is_no_lost_answer() -> None:
    """What the API refuses is told at once and not tried for ever."""

    def refuses(method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        raise exits.Failure(exits.USAGE, "no such field")

    with pytest.raises(exits.Failure, match="no such field"):
        RunScript(refuses, Cluster(), 600).step([])


def test_a_family_that_is_never_learned_ends_the_script_all_the_same() -> None:
    """So many runs are tried, then the verdict says that none was learned."""
    gate = Gate(Cluster(), forgets=True)
    assert played(gate).finished
    assert sum(each["chart"] == "waku" for each in gate.runs.values()) == TRIES


def test_a_crash_that_nobody_saw_is_played_again() -> None:
    """Its pods failed while the server was down for long: the run expired, which shows nothing."""
    gate = Gate(Cluster(), unseen=1)
    assert played(gate).finished
    ends = [each["status"]["phase"] for each in gate.runs.values() if each["chart"] == "nimlibp2p"]
    assert ends == ["EXPIRED", "FAILED"]


def test_a_run_that_found_room_at_once_is_asked_for_again_behind_another() -> None:
    """After a long pause nothing is left to wait for: the pair is played once more."""
    gate = Gate(Cluster(), roomy=1)
    script = played(gate)
    assert script.finished
    waited = [each for each in gate.reports if "heartbeat" in each]
    assert len(waited) == 1
    assert sum(each["chart"] == "mesh" for each in gate.runs.values()) == 4


@pytest.mark.parametrize(("speed", "length"), [(1, 600), (30, 600), (120, 600), (1000, 5000)])
def test_runs_last_long_enough_to_be_measured(speed: float, length: int) -> None:
    """At any speed of the clock they last five real seconds at least."""
    assert length_at(speed) == length


def test_pods_carry_the_name_of_their_run_and_are_not_tried_again() -> None:
    """By the label they are known as the run's; a crash is one at once."""
    made = job("sim-1", PodPlan(count=3, cpu_milli=500, seconds=60, fails=True))
    spec, template = made["spec"], made["spec"]["template"]
    assert template["metadata"]["labels"] == {"labfleet/simulation-id": "sim-1"}
    assert template["metadata"]["annotations"]["kubernetes-simulator/exit-code"] == "1"
    assert (spec["parallelism"], spec["backoffLimit"]) == (3, 0)

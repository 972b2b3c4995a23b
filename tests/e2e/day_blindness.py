"""Figures stop coming and come back: what safe mode does to those that run, that wait, and that ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from day_world import LABEL, Kube, metric, mode
from server_process import ServerProcess, until

NOTHING = {"cpu": 0, "memory": 0}
PLACES = {"first": 1, "second": 2}


@dataclass
class Blindness:
    """One run that goes on, two that wait for its room, and whoever asks meanwhile.

    limit: Fleet seconds after which figures are too old.
    """

    server: ServerProcess
    kube: Kube
    namespace: str
    limit: int
    witness: str = ""

    def begin(self) -> None:
        """Let one run start that is seen and measured, and two wait in the queue."""
        told = self._ask("witness", cpu=1)
        self.witness = told["simulation_id"]
        assert told["decision"] == "approved", told
        pod = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.witness, "namespace": self.namespace,
                "labels": {LABEL: self.witness, "app": "day"},
                "annotations": {"kubernetes-simulator/cpu": "300m"},
            },
            "spec": {"containers": [{"name": "node", "image": "node:1"}]},
        }  # fmt: skip
        self.kube.apply(pod)
        until(lambda: self._status(self.witness)["used"].get("cpu_milli"), "the witness's figures")
        for name, place in PLACES.items():
            assert self._ask(name, cpu=31.5)["decision"] == "queued"
            until(lambda name=name: self._ask(name, cpu=31.5)["position"], "a place in the queue")
            assert self._ask(name, cpu=31.5)["position"] == place

    def story(self, spoil: Callable[[], None], words: str, mend: Callable[[], None]) -> None:
        """Figures stop for a reason that these words name, and come back."""
        before = self._kept()
        spoil()
        until(lambda: words in self._denied(), f"a denial that says {words!r}")
        until(lambda: mode(self.server) == "safe", "safe mode in the record")
        told = self._explained()
        assert (told["condition"]["status"], told["condition"]["reason"]) == ("True", "MetricsOld")
        assert "SafeMode" in str(told["alerts"])
        assert any(told["condition"]["lastTransitionTime"][:16].replace("T", " ") in each
                   for each in told["lines"])  # fmt: skip
        assert metric(self.server, "labfleet_cluster_safe_mode") == 1.0
        age = metric(self.server, "labfleet_cluster_figures_age_seconds", part="metrics")
        assert age > self.limit
        assert metric(self.server, "labfleet_alert{", condition="SafeMode") == 1.0
        assert self._kept() == before
        mend()
        until(lambda: mode(self.server) == "measured", "the end of safe mode")
        self._lets_in()
        told = self._explained()
        assert (told["condition"]["status"], told["alerts"]) == ("False", [])
        assert metric(self.server, "labfleet_cluster_safe_mode") == 0.0
        assert self._kept() == before

    def end(self) -> None:
        """Give the room back: who waits gets it in the order of places."""
        names = {name: self._ask(name, cpu=31.5)["simulation_id"] for name in PLACES}
        self.kube.kubectl("-n", self.namespace, "delete", "pod", self.witness, "--wait=false")
        self._over(self.witness)
        for name, run in names.items():
            until(
                lambda run=run: self._status(run)["phase"] == "APPROVED", f"the {name} one's turn"
            )
            others = [each for key, each in names.items() if PLACES[key] > PLACES[name]]
            assert all(self._status(each)["phase"] == "QUEUED" for each in others)
            self._over(run)

    # --- asking -----------------------------------------------------------------------------

    def _ask(self, key: str, cpu: float) -> dict[str, Any]:
        body = {
            "chart": "other", "cost": {"cpu": cpu, "memory": "200Mi"}, "key": f"blind-{key}",
            "queue": key in PLACES, "duration_seconds": 86_400,
        }  # fmt: skip
        found: dict[str, Any] = self.server.call("POST", "/request_run", body)
        return found

    def _denied(self) -> str:
        """Ask for nothing; return the sentence of the denial, empty while it is let in."""
        told = self.server.call("POST", "/request_run", {"chart": "probe", "cost": NOTHING})
        if told["decision"] == "approved":
            self._over(told["simulation_id"])
            return ""
        assert told["reasons"] == ["SafeMode"], told
        assert " s old, " in told["message"], told
        return str(told["message"])

    def _lets_in(self) -> None:
        assert self._denied() == ""

    def _over(self, run: str) -> None:
        self.server.call("POST", "/simulation_complete", {"simulation_id": run})

    def _status(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.server.call("GET", f"/api/v1/simulations/{run}")["status"]
        return found

    def _explained(self) -> dict[str, Any]:
        found: dict[str, Any] = self.server.call("GET", "/api/v1/clusters/default/explain")
        (condition,) = [each for each in found["conditions"] if each["type"] == "SafeMode"]
        return {**found, "condition": condition}

    def _kept(self) -> dict[str, Any]:
        """Return what must not change: the run that goes on with its pod, and the places."""
        status = self._status(self.witness)
        pods = {each["metadata"]["uid"]: each["status"]["phase"]
                for each in self.kube.pods(self.namespace)
                if each["metadata"]["labels"][LABEL] == self.witness}  # fmt: skip
        places = {name: self._ask(name, cpu=31.5)["position"] for name in PLACES}
        kept = {key: status[key] for key in ("phase", "startedAt", "reservation", "conditions")}
        return {**kept, "pods": pods, "places": places}

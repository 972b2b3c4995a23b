"""The demo's pods: Jobs on its simulated cluster, over the API by the kubeconfig that it wrote.

They carry a run's name in their label, as those of any run script would.
"""

from __future__ import annotations

import http.client
import json
import ssl
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from labfleet.adapters.kubernetes.access import Reached, from_kubeconfig
from labfleet.resources.cluster_access import RUN_LABEL

SECONDS = 30.0
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
SUMMARY = "/_control/summary"
_MADE_BEFORE, _GONE = 409, 404
_ENDS = {"Complete": "completed", "Failed": "failed"}


class ClusterLost(RuntimeError):
    """The simulated cluster did not answer as it must."""


@dataclass(frozen=True)
class PodPlan:
    """The pods of one run.

    count: How many there are.
    cpu_milli: CPU that each requests, of which it uses three fifths; memory goes with it.
    seconds: How long they run, in fleet seconds.
    fails: Whether they end with an error.
    """

    count: int
    cpu_milli: int
    seconds: int
    fails: bool = False


def job(name: str, plan: PodPlan) -> dict[str, Any]:
    """Return the Job of a run of this name: all pods at once, none tried again."""
    says = {
        "duration": str(plan.seconds),
        "cpu": f"{plan.cpu_milli * 3 // 5}m",
        "memory": f"{plan.cpu_milli // 2}Mi",
        "exit-code": "1" if plan.fails else "0",
    }
    needs = {"cpu": f"{plan.cpu_milli}m", "memory": f"{plan.cpu_milli}Mi"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": plan.count,
            "parallelism": plan.count,
            "backoffLimit": 0,
            "template": {
                "metadata": {
                    "labels": {RUN_LABEL: name},
                    "annotations": {f"kubernetes-simulator/{k}": v for k, v in says.items()},
                },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "node", "image": "node", "resources": {"requests": needs}}
                    ],
                },
            },
        },
    }


class Pods:
    """Makes, looks at and removes Jobs; ClusterLost when the cluster does not do as it must."""

    def __init__(self, kubeconfig: Path) -> None:
        reached = from_kubeconfig(kubeconfig.read_text(encoding="utf-8"), "")
        self._address = urlsplit(str(reached.cluster["server"]))
        self._headers = {"Authorization": f"Bearer {reached.user['token']}"}
        self._tls = _trusting(reached)

    def make(self, name: str, plan: PodPlan) -> None:
        """Make the Job of a run; one that is there stays."""
        self._ask("POST", JOBS, job(name, plan), but=_MADE_BEFORE)

    def ended(self) -> dict[str, str]:
        """Return how each Job ended that has: completed or failed, by its name."""
        found = {}
        for each in self._ask("GET", JOBS)["items"]:
            for fact in each.get("status", {}).get("conditions") or ():
                if fact["status"] == "True" and fact["type"] in _ENDS:
                    found[str(each["metadata"]["name"])] = _ENDS[fact["type"]]
        return found

    def remove(self, name: str) -> None:
        """Remove the Job of a run with its pods; no error when it is gone."""
        self._ask("DELETE", f"{JOBS}/{name}", {"propagationPolicy": "Background"}, but=_GONE)

    def remove_all(self) -> None:
        """Remove all Jobs and pods, those of visitors too."""
        for each in (JOBS, PODS):
            for found in self._ask("GET", each)["items"]:
                path = f"{each}/{found['metadata']['name']}"
                self._ask("DELETE", path, {"propagationPolicy": "Background"}, but=_GONE)

    def left(self) -> int:
        """Count the pods that the simulator holds, in all namespaces and phases."""
        return sum(self._ask("GET", SUMMARY)["pods"].values())

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, but: int = 0
    ) -> Any:
        """Return the reply to one call; `but` is a status beside 2xx that is no error."""
        host, port = self._address.hostname or "", self._address.port
        line = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=self._tls)
        try:
            content = None if body is None else json.dumps(body)
            line.request(
                method, path, content, {**self._headers, "Content-Type": "application/json"}
            )
            answer = line.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as problem:
            raise ClusterLost(f"the cluster does not answer {method} {path}: {problem}") from None
        finally:
            line.close()
        if answer.status // 100 != 2 and answer.status != but:
            raise ClusterLost(f"the cluster answered {answer.status} to {method} {path}")
        return json.loads(said)


def _trusting(reached: Reached) -> ssl.SSLContext:
    """Return what trusts the authority that the kubeconfig names, and no other."""
    authority = b64decode(str(reached.cluster["certificate-authority-data"])).decode("ascii")
    return ssl.create_default_context(cadata=authority)

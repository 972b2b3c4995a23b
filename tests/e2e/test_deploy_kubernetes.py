"""The manifests of `deploy/kubernetes`: kubectl applies them, and the server takes their settings."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubernetes_simulator.shell.fixture import Running, running
from labfleet.app import main, settings

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "deploy" / "kubernetes" / name for name in ("labfleet.yaml", "access.yaml")]


def objects() -> dict[str, Any]:
    """What the files hold, by kind; there is one of each."""
    found = [each for file in FILES for each in yaml.safe_load_all(file.read_text("utf-8"))]
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


def kubectl(simulated: Running, *words: str) -> str:
    """Say what kubectl says; a refusal is a failure."""
    environment = {**os.environ, "KUBECONFIG": str(simulated.kubeconfig)}
    return subprocess.run(
        ["kubectl", *words], env=environment, check=True, capture_output=True, text=True, timeout=120
    ).stdout  # fmt: skip


@pytest.mark.real
@pytest.mark.timeout(200)
def test_kubectl_applies_them_and_one_pod_runs(tmp_path: Path) -> None:
    """Applied twice: created, then unchanged; the pod is admitted and becomes ready."""
    apply = ["-n", "labfleet", "apply", *(word for file in FILES for word in ("-f", str(file)))]
    with running(tmp_path) as simulated:
        kubectl(simulated, "create", "namespace", "labfleet")
        created = kubectl(simulated, *apply).splitlines()
        assert len(created) == len(objects())
        assert all(line.endswith(" created") for line in created)
        assert all(line.endswith(" unchanged") for line in kubectl(simulated, *apply).splitlines())
        rolled = kubectl(
            simulated, "-n", "labfleet", "rollout", "status", "deploy/labfleet", "--timeout=90s"
        )
        assert "successfully rolled out" in rolled


def test_the_server_takes_the_settings_and_arguments_of_the_deployment() -> None:
    """A name that the server does not know would stop it, or set nothing."""
    found = objects()
    environment = found["ConfigMap"]["data"]
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][0] == "server"
    given = main.parser().parse_args(container["args"][1:])
    made = settings.load({}, environment=environment)
    assert (made.host, made.data, made.port) == ("0.0.0.0", "/var/lib/labfleet/data", 8470)
    assert given.admin_token_file.startswith(made.data)
    names = {name for name in environment if name.startswith("LABFLEET_CLUSTER_")}
    clusters = settings.surroundings(environment).defaults["Cluster"]
    assert len(names) == len(clusters) == 5
    known = {f"LABFLEET_{each.upper()}" for each in settings.Settings.__struct_fields__}
    assert set(environment) <= known | names
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert mounts == {"/var/lib/labfleet", "/tmp"}
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_its_rights_are_those_that_the_page_names() -> None:
    """One list of rights: what is granted there is what connect-a-cluster says is needed."""
    page = (ROOT / "docs" / "how-to" / "connect-a-cluster.md").read_text("utf-8")
    shown = re.search(r"^```text\n(apiVersion: rbac.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert yaml.safe_load(shown[1])["rules"] == objects()["ClusterRole"]["rules"]

"""How a cluster is reached: kubeconfigs, contexts, exec plugins, the service account of a pod."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripted_cluster import ScriptedCluster, cluster, looking, node, pod
from virtual_time import play

from labfleet.adapters.kubernetes import access
from labfleet.adapters.kubernetes.access import (
    Reached,
    Surroundings,
    from_account,
    from_kubeconfig,
    with_token,
)
from labfleet.adapters.kubernetes.calls import Bounds, What
from labfleet.adapters.kubernetes.client import LightkubeApi
from labfleet.adapters.kubernetes.viewer import KubernetesViewer
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import FixedSecrets, SeededRng, VirtualClock
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.cluster_access import KubernetesAccess

TWO = """
current-context: one
contexts:
- {name: one, context: {cluster: c1, user: u1}}
- {name: two, context: {cluster: c2, user: u2}}
- {name: bare, context: {cluster: c1}}
clusters:
- {name: c1, cluster: {server: "https://one:6443", certificate-authority-data: "QQ=="}}
- {name: c2, cluster: {server: "https://two:6443", insecure-skip-tls-verify: true}}
users:
- {name: u1, user: {token: secret-one}}
- {name: u2, user: {username: a, password: secret-two}}
"""


def test_a_kubeconfig_names_several_clusters_by_context() -> None:
    """The current one unless another is asked for; a context without a user is known as nobody."""
    assert from_kubeconfig(TWO, "").cluster["server"] == "https://one:6443"
    two = from_kubeconfig(TWO, "two")
    assert two.cluster["server"] == "https://two:6443"
    assert two.user["password"] == "secret-two"
    assert from_kubeconfig(TWO, "bare").user == {}
    assert "secret" not in repr(two)


def changed(old: str, new: str) -> str:
    assert old in TWO
    return TWO.replace(old, new)


WRONG = [
    ("a: [", "no YAML"),
    ("- 1", "no single YAML mapping"),
    (changed("current-context: one\n", ""), "name one in spec.kubernetes.context"),
    (changed("current-context: one", "current-context: three"), "no context of that name"),
    (changed("cluster: c1, user: u1", "cluster: c9, user: u1"), "no cluster of that name"),
    (changed('"https://one:6443"', '"ftp://secret-host"'), "no server address"),
    (changed("token: secret-one", "tokenFile: secret/path"), "tokenFile of the kubeconfig must be"),
    (changed("token: secret-one", "auth-provider: {}"), "use an exec plugin"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_wrong_kubeconfig_says_what_is_wrong_and_never_with_what(text: str, words: str) -> None:
    """Its texts are secrets: none is in an error."""
    with pytest.raises(errors.Invalid, match=words) as told:
        from_kubeconfig(text, "")
    assert "secret" not in str(told.value)


def test_certificates_that_cannot_be_used_are_named_as_such() -> None:
    """Not as a failure of the network, and without their content."""
    with pytest.raises(errors.Invalid, match="certificates, key or names cannot be used"):
        LightkubeApi(from_kubeconfig(TWO, ""), Bounds())
    with pytest.raises(errors.Invalid, match="certificates, key or names cannot be used"):
        LightkubeApi(Reached({"server": "http://one:secret"}, {}), Bounds())


def plugin(code: str, **more: Any) -> Reached:
    """Return a user whose token a Python program makes."""
    made = {"apiVersion": access.EXEC_VERSIONS[0], "command": sys.executable, "args": ["-c", code]}
    return Reached({"server": "https://one"}, {"exec": {**made, **more}})


TELLS = """
import json, os
seen = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({"status": {"token": os.environ["A"] + os.environ["B"] + seen["kind"]}}))
"""


def test_an_exec_plugin_makes_the_token() -> None:
    """It gets our environment, its own variables, and the description of what is asked of it."""

    async def made() -> Reached:
        user = plugin(TELLS, env=[{"name": "B", "value": "b-"}])
        return await with_token(user, {"A": "a-"})

    assert asyncio.run(made()).user == {"token": "a-b-ExecCredential"}


BAD = [
    (plugin("print('secret'); raise SystemExit(3)"), errors.Denied, "ended with 3"),
    (plugin("print('{\"status\": {}}')"), errors.Denied, "gave no token"),
    (plugin("print('x' * 10**6)"), errors.Denied, "gave no token"),
    (plugin("", command="/nonexistent/secret"), errors.Denied, "cannot be started"),
    (plugin("", apiVersion="v9"), errors.Invalid, "no known version"),
]


@pytest.mark.parametrize(("user", "kind", "words"), BAD)
def test_an_exec_plugin_that_fails_gives_no_token(
    user: Reached, kind: type[errors.LabfleetError], words: str
) -> None:
    """What it prints may be a secret, and is not repeated."""
    with pytest.raises(kind, match=words) as told:
        asyncio.run(with_token(user, {}))
    assert "secret" not in str(told.value)


def test_an_exec_plugin_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it started."""
    monkeypatch.setattr(access, "EXEC_SECONDS", 0.0)
    with pytest.raises(errors.Temporary, match="took over"):
        asyncio.run(with_token(plugin("import time; time.sleep(3600)"), {}))


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    """By the variables that Kubernetes sets; outside of it the error says what to name."""
    around = Surroundings({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    with pytest.raises(errors.Invalid, match="does not run in Kubernetes: name one"):
        from_account(around)
    (tmp_path / "token").write_text("t1")
    reached = from_account(around)
    assert reached.cluster["server"] == "https://[fd00::1]:443"
    assert reached.user == {"tokenFile": str(tmp_path / "token")}
    with pytest.raises(errors.Invalid, match="does not run in Kubernetes"):
        from_account(Surroundings({}, tmp_path))


def test_a_rotated_token_of_a_pod_is_read_when_the_old_one_ends(tmp_path: Path) -> None:
    """The kubelet replaces the file; nothing is lost, and no restart is needed."""

    async def played() -> None:
        (tmp_path / "token").write_text("t1")
        server = ScriptedCluster()
        server.token = "t1"
        server.put("nodes", node("n1"))
        seen = KubernetesViewer(
            FixedSecrets(),
            VirtualClock(),
            SeededRng("view"),
            around=Surroundings({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path),
            connect=lambda reached, bounds: LightkubeApi(reached, bounds, server),
        )
        inside = Cluster(
            metadata=cluster().metadata, spec=ClusterSpec(kubernetes=KubernetesAccess())
        )
        async with looking(seen):
            found = await seen.view(inside)
            assert found is not None
            assert len(found.nodes) == 1
            server.token = "t2"
            (tmp_path / "token").write_text("t2")
            server.put("pods", pod("p", "run-a"))
            server.forget()
            await asyncio.sleep(5)
            found = await seen.view(inside)
            assert found is not None
            assert set(found.runs) == {"run-a"}

    play(played)


def test_a_list_asks_only_for_what_is_read() -> None:
    """Pages of five hundred, and no compressed answers, whose size nobody could bound."""

    async def played() -> None:
        server = ScriptedCluster()
        api = LightkubeApi(Reached({"server": "http://c"}, {}), Bounds(), server)
        await api.listed(What.PODS, None)
        await api.listed(What.PODS, "lab", label="team/run")
        await api.close()
        assert server.asked == [
            ("/api/v1/pods", {"limit": "500"}),
            ("/api/v1/namespaces/lab/pods", {"limit": "500", "labelSelector": "team/run"}),
        ]

    play(played)


def test_a_server_without_clusters_does_not_load_lightkube() -> None:
    """Wiring a process imports neither it nor httpx2: the first cluster that is looked at does."""
    code = (
        "import sys, labfleet.app.wiring;print(sorted({'lightkube', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"

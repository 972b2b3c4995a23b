"""The program: its ready line, its kubeconfig, TLS by its own authority, an orderly end."""

from __future__ import annotations

import base64
import json
import ssl
import stat
import urllib.error
import urllib.request

import pytest
import yaml

from kubernetes_simulator.shell.fixture import running
from kubernetes_simulator.shell.main import main


def test_the_kubeconfig_is_enough_to_reach_the_cluster(tmp_path):
    """Only its owner may read it; its authority proves the server, its token opens it."""
    with running(tmp_path, "--nodes", "2", speed=10.0) as cluster:
        assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        told = config["clusters"][0]["cluster"]
        assert told["server"] == cluster.url
        pem = base64.b64decode(told["certificate-authority-data"]).decode()
        trusted = ssl.create_default_context(cadata=pem)
        token = config["users"][0]["user"]["token"]
        path = f"{cluster.url}/api/v1/nodes"
        request = urllib.request.Request(path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=trusted, timeout=10) as answer:
            assert len(json.load(answer)["items"]) == 2
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(path, context=trusted, timeout=10)


def test_plain_http_needs_no_token(tmp_path):
    """With --http who sends no token may do everything, as kubectl sends none over it."""
    with running(tmp_path, "--http") as cluster:
        assert cluster.url.startswith("http://")
        with urllib.request.urlopen(f"{cluster.url}/api/v1/nodes", timeout=10) as answer:
            assert len(json.load(answer)["items"]) == 3
        wrong = urllib.request.Request(f"{cluster.url}/api", headers={"Authorization": "Bearer x"})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(wrong, timeout=10)


@pytest.mark.parametrize(
    "words", [["--nodes", "-1"], ["--node-cpu", "x"], ["--node-memory", "0"], ["--speed", "0"]]
)
def test_wrong_usage_is_told(capsys, words):
    """A value that makes no sense is named, and the exit code is 2."""
    assert main(words) == 2
    assert words[0] in capsys.readouterr().err

"""Reads how a cluster is reached: a kubeconfig's text, or the service account of the pod we run in.

The installation answers for a kubeconfig, as it does for every secret: what it names (files, a
program that makes tokens) is opened and run as it says. Texts of a kubeconfig are never repeated in errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from labfleet.kernel import errors
from labfleet.resources import documents

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_SECONDS = 30.0
EXEC_BYTES = 65536
EXEC_VERSIONS = (
    "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1alpha1",
)  # fmt: skip
_BAD = "BadKubeconfig"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process stands in: its environment and the folder of its service account."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    account: Path = ACCOUNT


@dataclass(frozen=True, slots=True)
class Reached:
    """One cluster and one user of it, in the words of a kubeconfig."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any] = field(repr=False)


def from_account(around: Surroundings) -> Reached:
    """Return how the cluster is reached that we run in; Invalid when we run in none.

    The token is named, not read: the kubelet replaces it before it expires.
    """
    host = around.environment.get("KUBERNETES_SERVICE_HOST", "")
    port = around.environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (around.account / "token").is_file():
        message = "spec.kubernetes names no kubeconfig, and the server does not run in Kubernetes: name one"
        raise errors.Invalid(message, reason="NoServiceAccount")
    place = f"[{host}]" if ":" in host else host
    return Reached(
        {
            "server": f"https://{place}:{port}",
            "certificate-authority": str(around.account / "ca.crt"),
        },
        {"tokenFile": str(around.account / "token")},
    )


def from_kubeconfig(text: str, context: str) -> Reached:
    """Return what a context of a kubeconfig names; Invalid says what is wrong, never with what."""
    try:
        read = documents.read(text, name="kubeconfig")
    except errors.Invalid:
        raise errors.Invalid("the kubeconfig is no YAML", reason=_BAD) from None
    whole = read[0].value if len(read) == 1 else None
    if not isinstance(whole, dict):
        raise errors.Invalid("the kubeconfig is no single YAML mapping", reason=_BAD)
    wanted = context or whole.get("current-context") or ""
    if not wanted:
        message = "the kubeconfig has no current context: name one in spec.kubernetes.context"
        raise errors.Invalid(message, reason=_BAD)
    chosen = _named(whole, "contexts", "context", str(wanted))
    cluster = _named(whole, "clusters", "cluster", str(chosen.get("cluster", "")))
    user = _named(whole, "users", "user", str(chosen["user"])) if chosen.get("user") else {}
    if not str(cluster.get("server", "")).startswith(("https://", "http://")):
        raise errors.Invalid("the kubeconfig's cluster has no server address", reason=_BAD)
    for field_of in (cluster, user):
        for name in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
            path = field_of.get(name)
            if path is not None and not Path(str(path)).is_absolute():
                message = (
                    f"{name} of the kubeconfig must be a full path, or the content as {name}-data"
                )
                raise errors.Invalid(message, reason=_BAD)
    if "auth-provider" in user:
        message = "auth-provider of the kubeconfig is gone from Kubernetes: use an exec plugin"
        raise errors.Invalid(message, reason=_BAD)
    return Reached(cluster, user)


def _named(whole: Mapping[str, Any], group: str, key: str, name: str) -> dict[str, Any]:
    entries = whole.get(group)
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(key), dict):
            found: dict[str, Any] = each[key]
            return found
    raise errors.Invalid(f"the kubeconfig has no {key} of that name", reason=_BAD)


async def with_token(reached: Reached, environment: Mapping[str, str]) -> Reached:
    """Return the same with the token that its exec plugin makes; as it is when it names none.

    Denied when the program makes none, Temporary when it does not end in time.
    """
    plugin = reached.user.get("exec")
    if not isinstance(plugin, dict):
        return reached
    if plugin.get("apiVersion") not in EXEC_VERSIONS or not plugin.get("command"):
        raise errors.Invalid("the kubeconfig's exec plugin is of no known version", reason=_BAD)
    said = await _run(plugin, environment)
    try:
        token = msgspec.json.decode(said)["status"]["token"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        token = None
    if not isinstance(token, str) or not token:
        raise errors.Denied("the kubeconfig's exec plugin gave no token", reason="NoToken")
    return Reached(reached.cluster, {"token": token})


async def _run(plugin: Mapping[str, Any], environment: Mapping[str, str]) -> bytes:
    """Return what an exec plugin prints; its errors are not repeated, they may hold secrets."""
    given = [each for each in plugin.get("env") or () if isinstance(each, dict)]
    about = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {}}
    around = {
        **environment,
        **{str(each.get("name")): str(each.get("value")) for each in given},
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(
            {**about, "spec": {"interactive": False}}
        ).decode(),
    }
    command = [str(plugin["command"]), *map(str, plugin.get("args") or ())]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=around,
            start_new_session=True,
        )
    except OSError as problem:
        message = f"the kubeconfig's exec plugin cannot be started: {problem.strerror}"
        raise errors.Denied(message, reason="NoToken") from None
    try:
        async with asyncio.timeout(EXEC_SECONDS):
            said = await _read(process)
            code = await process.wait()
    except TimeoutError:
        message = f"the kubeconfig's exec plugin took over {EXEC_SECONDS:g} s"
        raise errors.Temporary(message, reason="CommandLate") from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if code != 0:
        message = f"the kubeconfig's exec plugin ended with {code}"
        raise errors.Denied(message, reason="NoToken")
    return said


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - asked for above
    said = b""
    while piece := await process.stdout.read(EXEC_BYTES):
        said += piece[: EXEC_BYTES - len(said)]
    return said

"""The PromQL reader over real sockets: trust, sizes, and what is no answer."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from pathlib import Path

import pytest
from loopback_server import answer, identity, serving
from scripted_promql import cluster, vector

from labfleet.adapters.http import peers
from labfleet.adapters.metrics.promql import Limits, PromqlReader
from labfleet.app.system import SystemClock
from labfleet.interfaces.cluster_meter import Reading
from labfleet.kernel import errors
from labfleet.resources.cluster_access import Figure, MetricsSource
from labfleet.resources.meta import SecretRef


class Authority:
    """The one secret: certificates that are trusted."""

    def __init__(self, text: str) -> None:
        self.text = text

    def resolve(self, ref: SecretRef) -> str:
        del ref
        return self.text


def read(reply: bytes, tls: ssl.SSLContext | None = None, trusted: str = "") -> Reading:
    """Return what a reader makes of a server that answers with these bytes."""

    async def asked() -> Reading:
        async with serving(reply, tls) as server:
            authority = SecretRef(env="CA") if trusted else None
            source = MetricsSource(
                name="prom", url=f"{server.url}/prefix/", certificate_authority=authority
            )
            limits = Limits(reply_bytes=4096)
            reader = PromqlReader(Authority(trusted), SystemClock(), limits=limits)
            try:
                return await reader.read(cluster(source), source, [Figure.NODE_CPU])
            finally:
                await reader.close()
                assert all(each.startswith(b"POST /prefix/api/v1/query ") for each in server.heads)

    return asyncio.run(asked())


def now() -> bytes:
    at = SystemClock().now().timestamp()
    return answer(json.dumps(vector([at, str(at)], kind="scalar")).encode())


def test_a_server_is_trusted_by_the_certificates_that_its_source_names(tmp_path: Path) -> None:
    """Others are refused before anything is sent; without any, those of the system are asked."""
    tls, certificate, _ = identity(tmp_path, "prom")
    _, other, _ = identity(tmp_path, "other")
    with pytest.raises(errors.LabfleetError) as told:
        read(b"", tls, other.read_text())
    assert told.value.reason == "Certificate"
    with pytest.raises(errors.Denied, match="not trusted"):
        read(b"", tls)
    with pytest.raises(errors.Denied, match="the CA file is not usable"):
        read(b"", tls, "no certificate")
    # Each query is answered with a scalar, which names no node.
    assert read(now(), tls, certificate.read_text()).gaps[Figure.NODE_CPU]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer(b"x" * 5000), errors.Protocol),
        (answer(b"{}", length=100) + b"cut", errors.Protocol),
        (b"hello\r\n\r\n", errors.Protocol),
        (answer(b"<html>", "302 Found", "Location: http://else/\r\n"), errors.Invalid),
        (b"", errors.Unreachable),
    ],
)
def test_what_is_no_answer_is_an_error(reply: bytes, kind: type[errors.LabfleetError]) -> None:
    """Too large, cut off, no HTTP, elsewhere, nothing: none is an empty result."""
    with pytest.raises(kind):
        read(reply)


def test_a_metadata_service_gets_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever describes a cluster must not read the machine's credentials by it."""
    # Loopback stands in for the one address that no test can listen on.
    monkeypatch.setattr(peers, "_EC2_METADATA", ipaddress.ip_address("127.0.0.1"))
    with pytest.raises(errors.Unreachable, match="metadata"):
        read(now())

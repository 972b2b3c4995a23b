"""The network of the adapter and the port probe over real loopback sockets.

The numbered cases are rows of facts/cml-issues.md.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from pathlib import Path

import networks
import pytest
from held_port import held_port
from loop_time import leap, seen
from loopback_server import answer, identity, serving
from scripted_cml import address

from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http import peers
from labfleet.adapters.http.peers import refuse_metadata
from labfleet.adapters.http.transport import Deadlines, NotSent, ReplyLost
from labfleet.adapters.probe import TcpProbe
from labfleet.resources.machine import TlsSettings

QUICK = Deadlines(connect=2, read=2, total=5)
OK = answer(b'"OK"')


async def ask(url, *, tls=None, deadlines=QUICK, method="GET", seen=None, limits=None, times=1):
    """Do requests over one transport; return the last reply and the fingerprint."""
    where = address(base_url=url, tls=tls or TlsSettings())
    transport = networks.connect(where, seen, limits or Limits())
    try:
        for _ in range(times):
            reply = await transport.request(
                method, "labs?a=%2F", b"x" if method == "POST" else None, deadlines, headers={}
            )
        return reply, transport.fingerprint
    finally:
        await transport.close()


@pytest.mark.asyncio
async def test_a_reply_comes_back_and_the_connection_is_kept():
    """Status, lower-case headers and body; the path goes out as it was quoted."""
    async with serving(OK) as server:
        reply, fingerprint = await ask(server.url, times=3)
    assert (reply.status, reply.body, fingerprint) == (200, b'"OK"', None)
    assert reply.headers["content-type"] == "application/json"
    assert server.heads[0].startswith(b"GET /api/v0/labs?a=%2F HTTP/1.1\r\n")
    assert (server.connections, len(server.heads)) == (1, 3)


@pytest.mark.asyncio
async def test_a_base_url_may_already_name_the_api():
    """A base URL with /api/v0 at its end is not doubled."""
    async with serving(OK) as server:
        await ask(server.url + "/api/v0/")
    assert server.heads[0].startswith(b"GET /api/v0/labs")


@pytest.mark.asyncio
async def test_nothing_of_the_environment_is_obeyed(monkeypatch):
    """Proxies and CA settings of the environment change nothing (F2, F10)."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "SSL_CERT_FILE", "SSLKEYLOGFILE"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(OK) as server:
        reply, _ = await ask(server.url)
    assert reply.status == 200


@pytest.mark.asyncio
async def test_a_redirect_is_not_followed():
    """A 302 comes back as it is."""
    async with serving(answer(b"", "302 Found", "Location: /elsewhere\r\n")) as server:
        reply, _ = await ask(server.url)
    assert (reply.status, len(server.heads)) == (302, 1)


@pytest.mark.asyncio
async def test_a_refused_connection_was_not_sent():
    """Nobody listens: refused, and surely not carried out."""
    with held_port() as port, pytest.raises(NotSent) as caught:
        await ask(f"http://127.0.0.1:{port}", method="POST")
    assert caught.value.cause == "refused"


@pytest.mark.asyncio
@pytest.mark.parametrize("url", ["http://no-such-host.invalid", "http://", "nonsense", "ftp://x"])
async def test_a_useless_address_is_no_route(url):
    """A name that does not resolve and a URL that is none are told, not raised through."""
    with pytest.raises(NotSent) as caught:
        await ask(url)
    assert caught.value.cause == "no_route"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "deadlines",
    [
        Deadlines(connect=60, read=60, total=500),
        Deadlines(connect=60, read=500, total=60),
    ],
)
async def test_a_server_that_hangs_is_left_in_time(deadlines):
    """Both the read and the total deadline end a call whose effect is then unknown."""
    async with serving(None) as server:
        asking = asyncio.create_task(ask(server.url, deadlines=deadlines, method="POST"))
        await seen(lambda: server.heads)
        leap(61)
        with pytest.raises(ReplyLost) as caught:
            await asking
    assert caught.value.cause == "timeout"
    assert server.heads


@pytest.mark.asyncio
async def test_a_listener_that_never_accepts_tls_was_not_sent():
    """A handshake that hangs ends by the connect deadline, before anything is sent."""
    async with serving(None) as server:
        with pytest.raises(NotSent) as caught:
            await ask(
                server.url.replace("http:", "https:"),
                deadlines=Deadlines(connect=0.03, read=5, total=5),
            )
    assert caught.value.cause == "timeout"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (b"", "closed"),
        (answer(b'{"id": "cut', length=500), "truncated"),
        (b"SSH-2.0-OpenSSH_9.6 cut\r\n\r\n", "broken"),
    ],
)
async def test_a_reply_that_breaks_off_may_have_had_its_effect(reply, cause):
    """Closed after reading, cut in the body, and no HTTP at all are lost replies."""
    async with serving(reply) as server:
        with pytest.raises(ReplyLost) as caught:
            await ask(server.url, method="POST")
    assert caught.value.cause == cause
    assert len(server.heads) == 1


@pytest.mark.asyncio
async def test_a_reply_is_bounded():
    """A body over the bound is cut off, not collected."""
    async with serving(answer(b"x" * 200_000)) as server:
        with pytest.raises(ReplyLost) as caught:
            await ask(server.url, limits=Limits(reply_bytes=100_000))
    assert caught.value.cause == "too_large"


@pytest.mark.asyncio
async def test_the_first_certificate_of_a_boot_is_pinned(tmp_path):
    """With no fingerprint given, the first one seen is kept and told."""
    tls, _, fingerprint = identity(tmp_path, "one")
    async with serving(OK, tls) as server:
        _, seen = await ask(server.url)
        assert seen == fingerprint
        _, seen = await ask(server.url, seen=fingerprint)
        assert seen == fingerprint
        with pytest.raises(NotSent) as caught:
            await ask(server.url, seen="00" * 32)
    assert caught.value.cause == "certificate"
    assert fingerprint in caught.value.detail
    assert len(server.heads) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("given", ["seen before", "by the policy"])
async def test_a_refused_certificate_is_never_what_is_pinned(tmp_path, given):
    """Somebody between is refused each time, gets no byte, and is not told as the server's."""
    _, _, ours = identity(tmp_path, "one")
    tls, _, _ = identity(tmp_path, "two")
    policy = TlsSettings(fingerprint=None if given == "seen before" else ours)
    seen = ours if given == "seen before" else None
    async with serving(OK, tls) as between:
        where = address(base_url=between.url, tls=policy)
        transport = networks.connect(where, seen, Limits())
        try:
            for _ in range(3):
                with pytest.raises(NotSent) as caught:
                    await transport.request("POST", "authenticate", b"{}", QUICK, headers={})
                assert caught.value.cause == "certificate"
                assert transport.fingerprint == seen
        finally:
            await transport.close()
    assert not between.heads


@pytest.mark.asyncio
async def test_a_given_fingerprint_must_match(tmp_path):
    """Colons and capitals are read; another certificate gets no byte of the request."""
    tls, _, fingerprint = identity(tmp_path, "one")
    pairs = ":".join(fingerprint[n : n + 2] for n in range(0, 64, 2)).upper()
    async with serving(OK, tls) as server:
        await ask(server.url, tls=TlsSettings(fingerprint=pairs))
        for wrong in ("11" * 32, "not hex"):
            with pytest.raises(NotSent) as caught:
                await ask(server.url, tls=TlsSettings(fingerprint=wrong), seen=fingerprint)
            assert caught.value.cause == "certificate"
    assert len(server.heads) == 1


@pytest.mark.asyncio
async def test_verifying_trusts_the_ca_file_only(tmp_path):
    """Verify takes the worker's CA file; another one, a missing one or none refuses."""
    tls, certificate, fingerprint = identity(tmp_path, "one")
    _, other, _ = identity(tmp_path, "two")
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    async with serving(OK, tls) as server:
        _, seen = await ask(server.url, tls=TlsSettings(mode="verify", ca_file=str(certificate)))
        assert seen == fingerprint
        for file in (str(other), str(tmp_path / "missing.pem"), str(broken), None):
            with pytest.raises(NotSent) as caught:
                await ask(server.url, tls=TlsSettings(mode="verify", ca_file=file))
            assert caught.value.cause == "certificate", file
    assert len(server.heads) == 1


@pytest.mark.asyncio
async def test_a_ca_file_that_was_replaced_counts_at_the_next_connection(tmp_path):
    """What the old file trusted is refused, also where a session could be taken up again."""
    tls, certificate, _ = identity(tmp_path, "one")
    _, other, _ = identity(tmp_path, "two")
    used = tmp_path / "ca.pem"
    used.write_bytes(certificate.read_bytes())
    once = answer(b'"OK"', extra="Connection: close\r\n")
    async with serving(once, tls) as server:
        policy = TlsSettings(mode="verify", ca_file=str(used))
        transport = networks.connect(address(base_url=server.url, tls=policy), None, Limits())
        try:
            await transport.request("GET", "labs", None, QUICK, headers={})
            used.write_bytes(other.read_bytes())
            with pytest.raises(NotSent) as caught:
                await transport.request("GET", "labs", None, QUICK, headers={})
            assert caught.value.cause == "certificate"
            used.write_bytes(certificate.read_bytes())
            await transport.request("GET", "labs", None, QUICK, headers={})
        finally:
            await transport.close()
    assert len(server.heads) == 2


def no_file(folder):
    return folder / "missing"


def pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def endless(folder):
    return "/dev/zero"


def too_large(folder):
    (folder / "large").write_bytes(b"#" * (2**20 + 1))
    return folder / "large"


def binary(folder):
    (folder / "binary").write_bytes(bytes(range(256)))
    return folder / "binary"


def no_text(folder):
    return f"{folder}/a\0b"


@pytest.mark.asyncio
@pytest.mark.parametrize("made", [no_file, pipe, endless, too_large, binary, no_text, Path])
async def test_no_ca_file_stops_the_process_or_tells_of_the_disk(tmp_path, made):
    """Whatever the path leads to: refused at once, in one sentence for all of them."""
    policy = TlsSettings(mode="verify", ca_file=str(made(tmp_path)))
    with pytest.raises(NotSent) as caught:
        await ask("https://127.0.0.1:9", tls=policy)
    told = "the CA file is not usable: it must be a file in PEM that the server may read"
    assert (caught.value.cause, caught.value.detail) == ("certificate", told)


@pytest.mark.asyncio
async def test_off_accepts_any_certificate_and_tells_it(tmp_path):
    """Off is an explicit choice; the fingerprint is still shown."""
    tls, _, fingerprint = identity(tmp_path, "two")
    async with serving(OK, tls) as server:
        _, seen = await ask(server.url, tls=TlsSettings(mode="off"), seen="00" * 32)
    assert seen == fingerprint


@pytest.mark.asyncio
async def test_plain_http_on_the_tls_port_is_named():
    """A server without TLS is a handshake failure, not a hang."""

    async def talk(reader, writer):
        await reader.read(1)
        writer.write(answer(b"plain HTTP was expected", "400 Bad Request"))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotSent) as caught:
            await ask(f"https://127.0.0.1:{port}")
    assert caught.value.cause == "tls"


@pytest.mark.asyncio
async def test_a_closed_transport_sends_nothing():
    """After close every request is NotSent; closing twice is fine."""
    transport = networks.connect(address(), None, Limits())
    await transport.close()
    await transport.close()
    with pytest.raises(NotSent):
        await transport.request("GET", "labs", None, QUICK, headers={})


@pytest.mark.asyncio
async def test_the_probe_tells_open_from_closed():
    """Accepted is True; refused, impossible and unroutable numbers are False."""
    async with serving(OK) as server:
        assert await TcpProbe().answers("127.0.0.1", server.port)
    with held_port() as closed:
        assert not await TcpProbe().answers("127.0.0.1", closed)
    for port in (-1, 0, 65536, 10**9):
        assert not await TcpProbe().answers("127.0.0.1", port)
    assert not await TcpProbe().answers("no-such-host.invalid", 2000)


@pytest.mark.asyncio
async def test_the_probe_never_asks_where_no_lab_can_be(monkeypatch):
    """Addresses of metadata and of groups are refused unasked, also where a name leads there."""
    asked: list[str] = []

    async def connect(host, port):
        asked.append(host)
        raise OSError

    monkeypatch.setattr(asyncio, "open_connection", connect)
    for host in (
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "0.0.0.0",
        "224.0.0.1",
    ):
        assert not await TcpProbe().answers(host, 2000)
    assert asked == []

    async def resolved(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("169.254.169.254", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    assert not await TcpProbe().answers("cml-1.example.com", 2000)
    assert asked == []
    monkeypatch.undo()
    monkeypatch.setattr(asyncio, "open_connection", connect)
    assert not await TcpProbe().answers("192.0.2.7", 2000)
    assert asked == ["192.0.2.7"]


@pytest.mark.asyncio
async def test_the_probe_gives_up_in_time():
    """A full backlog never answers: the probe's own deadline ends it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        assert not await TcpProbe(deadline=0.05).answers("127.0.0.1", port)
        for filler in fillers:
            filler.close()


@pytest.mark.asyncio
async def test_a_name_that_leads_to_a_metadata_service_gets_no_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it is written the rules refuse it; here the name has become an address."""
    # Loopback stands in for the one address that no test can listen on.
    monkeypatch.setattr(peers, "_EC2_METADATA", ipaddress.ip_address("127.0.0.1"))
    async with serving(OK) as server:
        with pytest.raises(NotSent, match="metadata") as caught:
            await ask(server.url.replace("127.0.0.1", "localhost"))
    assert caught.value.cause == "no_route"
    assert server.heads == []


@pytest.mark.parametrize(
    ("written", "refused"),
    [
        ("169.254.169.254", True), ("::ffff:169.254.169.254", True), ("fe80::1%eth0", True),
        ("fd00:ec2::254", True), ("10.0.0.1", False), ("127.0.0.1", False), ("::1", False),
        ("fd00::1", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_only_metadata_and_link_local_addresses_are_refused(written: object, refused: bool):
    """Servers live on private networks; none lives on a link-local one."""
    try:
        refuse_metadata(written)
    except NotSent:
        assert refused
    else:
        assert not refused

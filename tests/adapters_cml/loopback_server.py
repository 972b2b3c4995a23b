"""A bare TCP or TLS server on loopback that answers with given bytes, or misbehaves."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import hashlib
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Server:
    """What the test needs to know of a running server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.heads: list[bytes] = []
        self.connections = 0


def answer(
    body: bytes, status: str = "200 OK", extra: str = "", length: int | None = None
) -> bytes:
    """An HTTP reply; `length` may lie."""
    size = len(body) if length is None else length
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{extra}"
        f"Content-Length: {size}\r\n\r\n"
    ).encode() + body


@asynccontextmanager
async def serving(reply: bytes | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Answer each request with these bytes; b"" closes after reading, None never answers."""
    stop = asyncio.Event()
    found: list[Server] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found[0].connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length")
                    ),
                    0,
                )
                found[0].heads.append(head + await reader.readexactly(size))
                if reply is None:
                    await stop.wait()
                    break
                writer.write(reply)
                await writer.drain()
                if not reply or b"cut" in reply:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    found.append(Server(f"{'https' if tls else 'http'}://127.0.0.1:{port}"))
    try:
        yield found[0]
    finally:
        stop.set()
        listener.close()
        await asyncio.sleep(0)


@functools.cache
def _made(name: str) -> tuple[bytes, bytes, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    der = certificate.public_bytes(serialization.Encoding.DER)
    return public, private, hashlib.sha256(der).hexdigest()


def identity(folder: Path, name: str) -> tuple[ssl.SSLContext, Path, str]:
    """Return a server context, its certificate's file and its SHA-256 fingerprint."""
    public, private, fingerprint = _made(name)
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    certificate.write_bytes(public)
    key.write_bytes(private)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    return made, certificate, fingerprint

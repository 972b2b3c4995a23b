"""Trust and TLS: policies, the pinned certificate, and TLS over bytes.

The channel runs TLS on two memory buffers instead of the event loop's own TLS, because only so
can a new connection resume a kept session. It opens no sockets.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import ssl
import stat

from labfleet.adapters.http.transport import NotSent
from labfleet.resources.machine import TlsSettings, plain_fingerprint

RECORD = 16384
"""Bytes asked for at once: a TLS record holds no more."""


CA_BYTES = 2**20
"""Bytes a CA file may have; the bundle of a whole operating system has a quarter of it."""
_UNUSABLE = "the CA file is not usable: it must be a file in PEM that the server may read"


@functools.lru_cache(maxsize=64)
def context(mode: str, ca: str | None) -> ssl.SSLContext:
    """Return the TLS context of a policy; `ca` is PEM, SSLError when it is none.

    Not ssl.create_default_context: that obeys SSL_CERT_FILE and SSLKEYLOGFILE, and no
    environment may change how a server is trusted (facts/cml-issues.md#f2, #f10).
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if mode != "verify":
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    elif ca is not None:
        made.load_verify_locations(cadata=ca)
    else:
        compiled = ssl.get_default_verify_paths()
        made.load_verify_locations(capath=compiled.openssl_capath)
        with contextlib.suppress(OSError):  # many systems have only one of the two
            made.load_verify_locations(cafile=compiled.openssl_cafile)
    return made


def trust(tls: TlsSettings, authority: str | None = None) -> ssl.SSLContext:
    """Return the context of a policy as its CA file is now; NotSent when that is not usable.

    `authority` are certificates (PEM) that stand for the file.

    One sentence for all that may be wrong with the file: its path is an operator's, and whether a
    file of the server exists is nothing that its API tells.
    """
    try:
        if authority is None and tls.ca_file is not None:
            authority = _text(tls.ca_file)
        return context(tls.mode, authority)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        raise NotSent("certificate", _UNUSABLE) from None


def _text(path: str) -> str:
    """Return a CA file's text; OSError or ValueError when it is not a plain file of that size.

    Opened without waiting, because a path may name a pipe, which would stop the whole process.
    """
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("not a plain file")
        data = file.read(CA_BYTES + 1)
    if len(data) > CA_BYTES:
        raise ValueError("too large")
    # A bundle may have remarks in any encoding between its certificates, which OpenSSL skips.
    return data.decode("ascii", errors="replace").replace("\ufffd", "?")


def fingerprint_of(tls: TlsSettings) -> str | None:
    """Return the wanted fingerprint as plain hex; NotSent when it is no SHA-256 in hex."""
    if tls.fingerprint is None:
        return None
    plain = plain_fingerprint(tls.fingerprint)
    if plain is None:
        raise NotSent("certificate", "the configured fingerprint is not a SHA-256 in hex")
    return plain


def digest(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate (DER), in hex."""
    return hashlib.sha256(certificate).hexdigest()


class Pin:
    """The certificate that a server must have.

    `pinned` None accepts any certificate; `keep_first` pins the first one seen. `seen` is the last
    one that was accepted: a refused one must never become what is pinned later.
    """

    __slots__ = ("keep_first", "pinned", "seen")

    def __init__(self, pinned: str | None, *, keep_first: bool) -> None:
        self.pinned = pinned
        self.keep_first = keep_first
        self.seen: str | None = None

    @classmethod
    def of(cls, tls: TlsSettings, first: str | None) -> Pin:
        """Return the pin of a policy; `first` was seen earlier this boot."""
        pinning = tls.mode == "pin"
        return cls((fingerprint_of(tls) or first) if pinning else None, keep_first=pinning)

    def accepts(self, certificate: bytes) -> bool:
        """Tell whether the certificate (DER) is the pinned one, and remember it if so."""
        found = digest(certificate)
        if self.pinned is None and self.keep_first:
            self.pinned = found
        if self.pinned is not None and found != self.pinned:
            return False
        self.seen = found
        return True


class Channel:
    """The client's end of TLS: sealed bytes on the wire's side, plain bytes on ours."""

    __slots__ = ("_head", "_in", "_left", "_out", "_tls", "_trust")

    def __init__(
        self, trust: ssl.SSLContext, hostname: str, session: ssl.SSLSession | None
    ) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._trust = trust
        self._head, self._left = b"", 0
        self._tls = trust.wrap_bio(self._in, self._out, server_hostname=hostname, session=session)

    def shake(self) -> bool:
        """Go on with the handshake; True when it is done, SSLError when it failed."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def take(self, sealed: bytes) -> None:
        """Take bytes off the wire."""
        self._in.write(sealed)
        # Follows the lengths of records: what OpenSSL holds of one, it does not tell.
        data = self._head + sealed if self._head else sealed
        at, size = self._left, len(data)
        while size - at >= 5:
            at += 5 + (data[at + 3] << 8) + data[at + 4]
        self._left = max(0, at - size)
        self._head = data[at:]

    def read(self) -> bytes | None:
        """Return plain bytes, None when more is needed, b"" at the peer's orderly end."""
        try:
            return self._tls.read(RECORD)
        except ssl.SSLWantReadError:
            return None

    @property
    def unread(self) -> int:
        """Count the bytes that were taken and not looked at."""
        return self._in.pending

    @property
    def between(self) -> bool:
        """Tell whether the last record that began came whole."""
        return not self._left and not self._head

    def seal(self, plain: bytes) -> bytes:
        """Return what to put on the wire for these bytes."""
        self._tls.write(plain)
        return self._out.read()

    def outgoing(self) -> bytes:
        """Return TLS's own pending bytes: handshake, alerts, key updates."""
        return self._out.read()

    @property
    def speaks(self) -> int:
        """Count these bytes."""
        return self._out.pending

    def goodbye(self) -> bytes:
        """Return the bytes that end TLS in order (close_notify)."""
        with contextlib.suppress(ssl.SSLError, ValueError):
            self._tls.unwrap()
        return self._out.read()

    @property
    def certificate(self) -> bytes:
        """The peer's certificate in DER; of a session taken up again, its first one."""
        return self._tls.getpeercert(binary_form=True) or b""

    @property
    def resumed(self) -> bool:
        """Tell whether a kept session was taken up again."""
        return bool(self._tls.session_reused)

    def session(self, trust: ssl.SSLContext | None) -> ssl.SSLSession | None:
        """Return a session to offer to this server again under this trust; None without a ticket.

        A session of another trust is none: what is trusted no more would be taken up unlooked.
        """
        found = self._tls.session if trust is self._trust else None
        if found is not None and (found.has_ticket or self._tls.version() != "TLSv1.3"):
            return found
        return None

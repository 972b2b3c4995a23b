"""Trust and TLS: policies, the pinned certificate, and TLS over bytes.

The channel runs TLS on two memory buffers instead of the event loop's own TLS, because only so
can a new connection resume a kept session. It opens no sockets.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import ssl

from labfleet.adapters.http.transport import NotSent
from labfleet.resources.machine import TlsSettings

RECORD = 16384
"""Bytes asked for at once: a TLS record holds no more."""


@functools.lru_cache(maxsize=64)
def context(mode: str, ca_file: str | None) -> ssl.SSLContext:
    """Return the TLS context of a policy; OSError when the CA file cannot be read.

    Not ssl.create_default_context: that obeys SSL_CERT_FILE and SSLKEYLOGFILE, and no
    environment may change how a server is trusted (facts/cml-issues.md#f2, #f10).
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if mode != "verify":
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    elif ca_file is not None:
        made.load_verify_locations(cafile=ca_file)
    else:
        compiled = ssl.get_default_verify_paths()
        made.load_verify_locations(capath=compiled.openssl_capath)
        with contextlib.suppress(OSError):  # many systems have only one of the two
            made.load_verify_locations(cafile=compiled.openssl_cafile)
    return made


def trust(tls: TlsSettings) -> ssl.SSLContext:
    """Return the context of a policy; NotSent when its CA file is not usable."""
    try:
        return context(tls.mode, tls.ca_file)
    except FileNotFoundError:
        raise NotSent("certificate", "the CA file does not exist") from None
    except PermissionError:
        raise NotSent("certificate", "the CA file may not be read") from None
    except OSError:  # ssl.SSLError is one
        raise NotSent("certificate", "the CA file is not usable") from None


def fingerprint_of(tls: TlsSettings) -> str | None:
    """Return the wanted fingerprint as plain hex; NotSent when it is no SHA-256 in hex."""
    if tls.fingerprint is None:
        return None
    plain = re.sub(r"[:\s]", "", tls.fingerprint).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", plain):
        raise NotSent("certificate", "the configured fingerprint is not a SHA-256 in hex")
    return plain


class Pin:
    """The certificate that a server must have.

    `pinned` None accepts any certificate; `keep_first` pins the first one seen.
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
        """Remember the certificate (DER) and tell whether it is the pinned one."""
        self.seen = hashlib.sha256(certificate).hexdigest()
        if self.pinned is None and self.keep_first:
            self.pinned = self.seen
        return self.pinned is None or self.seen == self.pinned


class Channel:
    """The client's end of TLS: sealed bytes on the wire's side, plain bytes on ours."""

    __slots__ = ("_head", "_in", "_left", "_out", "_tls")

    def __init__(
        self, trust: ssl.SSLContext, hostname: str, session: ssl.SSLSession | None
    ) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
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

    @property
    def session(self) -> ssl.SSLSession | None:
        """A session that may be offered to this server again; None when it gave no ticket."""
        found = self._tls.session
        if found is not None and (found.has_ticket or self._tls.version() != "TLSv1.3"):
            return found
        return None

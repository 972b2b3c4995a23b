"""Serves the ASGI application with uvicorn, under our own shutdown instead of its signals."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator

import uvicorn

from labfleet.app import logs
from labfleet.app.settings import Settings
from labfleet.app.whole_requests import Answers, bounded
from labfleet.kernel import addresses, errors

BACKLOG = 2048
GRACE_SECONDS = 5
REFUSALS_TOLD_SECONDS = 60.0


class Listener(uvicorn.Server):
    """A uvicorn server that leaves signals to the composition root."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


def listen(settings: Settings) -> socket.socket:
    """Bind the API's address; Invalid when it is taken or no address."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
    except (OSError, OverflowError) as problem:
        made.close()
        message = f"cannot listen on {settings.host}:{settings.port}: {problem}"
        raise errors.Invalid(message) from None
    made.set_inheritable(True)
    return made


def check_tls(settings: Settings) -> None:
    """Raise Invalid when the TLS files cannot be used, before the server reports ready."""
    if not settings.tls_cert:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as problem:
        message = f"cannot use tls_cert {settings.tls_cert} with tls_key {settings.tls_key}"
        raise errors.Invalid(f"settings: {message}: {problem.strerror or problem}") from None


class Refusals:
    """Counts connections that were ended because there were too many; says so once a minute."""

    def __init__(self) -> None:
        self.count = 0
        self._told = -REFUSALS_TOLD_SECONDS

    def note(self) -> None:
        """Count one."""
        self.count += 1
        now = time.monotonic()
        if now - self._told >= REFUSALS_TOLD_SECONDS:
            self._told = now
            detail = "all connections that the limit of open files allows are taken (ulimit -n)"
            logs.get("app").warning("connections.full", refused=self.count, detail=detail)


def server(
    app: object,
    settings: Settings,
    *,
    most: int = 2**31,
    refusals: Refusals | None = None,
    answers: Answers | None = None,
) -> Listener:
    """Return the configured server of at most `most` connections; `serve(sockets=[...])` runs it.

    `answers` answers requests past ASGI that it has a direct route for.
    """
    return Listener(
        uvicorn.Config(
            app,  # type: ignore[arg-type]
            loop="none",
            http=bounded(most, (refusals or Refusals()).note, answers),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
        )
    )


def warn_of_open_door(settings: Settings) -> str | None:
    """Return a warning when tokens would cross a network in the clear."""
    if addresses.is_loopback(settings.host) or settings.tls_cert:
        return None
    return (
        f"listening on {settings.host} without TLS: tokens can be read on the way; "
        "give --tls-cert and --tls-key, or put a TLS proxy in front"
    )

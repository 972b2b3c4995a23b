"""Serves the ASGI application with uvicorn, under our own shutdown instead of its signals."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from labfleet.app.heads import BoundedHeads
from labfleet.app.settings import Settings

BACKLOG = 2048
GRACE_SECONDS = 5


class Listener(uvicorn.Server):
    """A uvicorn server that leaves signals to the roof."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


def listen(settings: Settings) -> socket.socket:
    """Bind the API's address; OSError when it is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
    except OSError:
        made.close()
        raise
    made.set_inheritable(True)
    return made


def server(app: object, settings: Settings) -> Listener:
    """Return the configured server; `serve(sockets=[...])` runs it."""
    return Listener(
        uvicorn.Config(
            app,  # type: ignore[arg-type]
            loop="none",
            http=BoundedHeads,
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
    loopback = settings.host in {"localhost", "::1"} or settings.host.startswith("127.")
    if loopback or settings.tls_cert:
        return None
    return (
        f"listening on {settings.host} without TLS: tokens can be read on the way; "
        "give --tls-cert and --tls-key, or put a TLS proxy in front"
    )

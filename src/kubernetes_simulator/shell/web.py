"""HTTP on many addresses with uvicorn's protocol class: one configuration, many listeners.

`sockets` makes the protocol of a connection that becomes a websocket.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kubernetes_simulator.app import ABORT

KEEP_ALIVE = 75
BACKLOG = 512


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with a way for the application to cut the connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"cut": self._cut}}

    def _cut(self, *, flush: bool) -> None:
        if flush:
            self.transport.close()
        else:
            self.transport.abort()


class Web:
    """Opens and closes listeners for one ASGI application."""

    def __init__(
        self,
        app: Any,
        tls: ssl.SSLContext | None,
        sockets: Callable[..., asyncio.Protocol] | None = None,
    ) -> None:
        config = Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        config.load()
        if sockets is not None:
            # uvicorn calls it with the configuration whenever a client asks for a websocket.
            config.ws_protocol_class = sockets  # type: ignore[assignment]
        self._state = ServerState()
        self._tls = tls
        self._make = partial(Protocol, config=config, server_state=self._state, app_state={})

    async def listen(self, address: str, port: int) -> asyncio.Server:
        """Open a listener."""
        return await asyncio.get_running_loop().create_server(
            self._make, address, port, ssl=self._tls, backlog=BACKLOG
        )

    def cut(self, address: str | None = None) -> None:
        """Reset every connection to an address, or all."""
        for connection in list(self._state.connections):
            server = getattr(connection, "server", None)
            if address is None or (server is not None and server[0] == address):
                connection.transport.abort()

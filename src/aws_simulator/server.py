"""Wires moto's application, the patches and the gate into one threaded HTTP server."""

import random
import socket
import threading
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.ec2.models import ec2_backends
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from aws_simulator import images, patches
from aws_simulator.clock import ScaledClock
from aws_simulator.cml_link import CmlLink
from aws_simulator.control import Control
from aws_simulator.dispatch import Dispatcher
from aws_simulator.gate import Gate
from aws_simulator.patches import PatchPointGoneError
from aws_simulator.world import World

HOST = "127.0.0.1"
__all__ = ["PatchPointGoneError", "Server"]


class QuietRequests(MotoRequestHandler):
    """Says nothing for each request; the journal does."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name
        """Drop the line."""


class Server:
    """One simulator on one port; it is the active world of its process."""

    def __init__(
        self,
        *,
        port: int,
        epoch: float,
        speed: float,
        region: str,
        seed: int | None = None,
        cml: str | None = None,
    ) -> None:
        """Build and bind it; OSError when the port is taken."""
        self.world = World(
            clock=ScaledClock(epoch, speed),
            region=region,
            seed=seed,
            cml=CmlLink(cml) if cml else None,
        )
        # Without a seed ids are new ones in each run: the CML simulator remembers dead ones.
        mock_random.seed(random.SystemRandom().getrandbits(64) if seed is None else seed)
        patches.install(self.world)
        self.furnished = self._begin()
        app = Gate(
            self.world,
            Dispatcher(),
            Control(self.world, self._begin),
        )
        with socket.create_server((HOST, port), backlog=128) as bound:  # else werkzeug exits
            self.port: int = bound.getsockname()[1]
            self._http: BaseWSGIServer = make_server(
                HOST,
                self.port,
                app,
                threaded=True,
                request_handler=QuietRequests,
                fd=bound.fileno(),
            )
        self.url = f"http://{HOST}:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def _begin(self) -> dict[str, Any]:
        """Empty the world and moto's EC2; put the image and the default network in place."""
        with self.world.lock:
            self.world.clear()
            services: tuple[Any, ...] = (ec2_backends, cloudwatch_backends)
            for service in services:
                for account in service.values():
                    for backend in account.values():
                        backend.reset()
            patches.check_backend(images.backend_of(self.world.region))
            return images.furnish(self.world)

    def start(self) -> None:
        """Serve in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        self.world.closing.set()
        self._http.shutdown()
        self._thread.join(timeout=5)
        self._http.server_close()

"""Moto's own applications, one for each service, behind one WSGI application."""

from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app


class Dispatcher(DomainDispatcherApplication):
    """Finds a host's service once: moto lists the folder of all its services for each call."""

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self._known: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        """Return the name of the service that answers for a host."""
        if host not in self._known:
            self._known[host] = super().get_backend_for_host(host)
        return self._known[host]

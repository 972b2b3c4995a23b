"""A worker's licence and console, as routes."""

from __future__ import annotations

from labfleet.api.core.route import Name, Nothing, Reply, Routes
from labfleet.api.core.warning_headers import warning_headers
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources.machine import LicenceProduct
from labfleet.resources.meta import Record, SecretRef
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import licences as reads
from labfleet.service.verbs import licences as verbs

_LICENSE = ("license", "Worker")


class RegisterLicenceRequest(Record, frozen=True, kw_only=True):
    """With which token and as which product; none: as it has.

    token: Where the token is to be had; a reference, never the token.
    product: Product to register.
    again: Whether to register anew what is registered.
    force: Whether to end the sessions that another product needs gone.
    """

    token: SecretRef | None = None
    product: LicenceProduct | None = None
    again: bool = False
    force: bool = False


class DeregisterLicenceRequest(Record, frozen=True, kw_only=True):
    """What may be ended for it.

    force: Whether to end the sessions there, and to stop what else runs, so that it can be.
    """

    force: bool = False


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("workers")
    path = "/api/v1/workers/{name:str}"

    @made.get(f"{path}/licence", "A worker's licence, and what was asked of it",
              needs=("read", "Worker"))  # fmt: skip
    async def get_worker_licence(
        who: Caller, name: Name, namespace: Namespace = "default"
    ) -> reads.LicenceReading:
        """Return the licence as last seen, and how far the last order of it is."""
        return await reads.read(services, who, name, namespace)

    @made.post(f"{path}/register-licence", "Register a worker, or register it anew",
               needs=_LICENSE, status=202)  # fmt: skip
    async def register_worker_licence(
        who: Caller,
        name: Name,
        sent: RegisterLicenceRequest,
        namespace: Namespace = "default",
    ) -> Reply[Worker]:
        """Order a registration, with another token or product if one is given."""
        worker = await verbs.register(
            services, who, name, namespace,
            token=sent.token, product=sent.product, again=sent.again, force=sent.force,
        )  # fmt: skip
        return Reply(worker, headers=warning_headers(services, worker))

    @made.post(f"{path}/deregister-licence", "Give a worker's licence back",
               needs=_LICENSE, status=202)  # fmt: skip
    async def deregister_worker_licence(
        who: Caller,
        name: Name,
        sent: DeregisterLicenceRequest,
        namespace: Namespace = "default",
    ) -> Worker:
        """Order the licence back; refused while sessions are there, unless they shall be ended."""
        return await verbs.deregister(services, who, name, namespace, force=sent.force)

    @made.post(f"{path}/renew-licence", "Renew a worker's licence now",
               needs=_LICENSE, status=202)  # fmt: skip
    async def renew_worker_licence(
        who: Caller, name: Name, sent: Nothing, namespace: Namespace = "default"
    ) -> Worker:
        """Order a renewal of the registration now."""
        del sent
        return await verbs.renew(services, who, name, namespace)

    @made.post(f"{path}/console", "Ask for the machine's console text (logs has it then)",
               needs=("observe", "Worker"), status=202)  # fmt: skip
    async def console_worker(
        who: Caller, name: Name, sent: Nothing, namespace: Namespace = "default"
    ) -> Worker:
        """Ask for the machine's console text, which the worker's logs have once it was read."""
        del sent
        return await verbs.console(services, who, name, namespace)

    return made

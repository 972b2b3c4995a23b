"""Routes for adopting servers, garbage collection's suspects, discovery, and licence leaks."""

from __future__ import annotations

from typing import Annotated

import msgspec

from labfleet.api.core.route import Name, Routes
from labfleet.api.verbs.verb_routes import Namespace
from labfleet.resources.leak import Leak
from labfleet.resources.meta import Record, SecretRef
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import regions
from labfleet.service.verbs import adoption, leaks

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class AdoptRequest(Record, frozen=True, kw_only=True):
    """The template from which its machine settings are taken; without one they stay as they are.

    template: Name of the template; null leaves the settings as they are.
    """

    template: Text | None = None


class AdoptServerRequest(Record, frozen=True, kw_only=True):
    """An instance by id and region, or a CML server by URL; exactly one of the two.

    A URL needs a template, or a username with a passwordRef.

    instance_id: The provider's name for the instance.
    region: Region of the instance.
    url: Address of the CML server.
    template: Name of the template whose CML access it gets.
    username: Name of CML's administrator.
    password: Where the administrator's password is read.
    fingerprint: SHA-256 of the server's certificate, in hex; null keeps the first one seen.
    name: Name of the new worker; null lets the server choose one.
    """

    instance_id: Text | None = None
    region: Text | None = None
    url: Text | None = None
    template: Text | None = None
    username: Text = "admin"
    password: SecretRef | None = None
    fingerprint: Text | None = None
    name: Text | None = None


class ResolveRequest(Record, frozen=True, kw_only=True):
    """What was done about the leak.

    note: What was done, for the log.
    """

    note: Annotated[str, msgspec.Meta(max_length=400)] = ""


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("workers")
    _adopting(made, services)
    _left_behind(made, services)
    return made


def _adopting(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/workers/{name:str}/adopt", "Manage a worker that was only observed",
        needs=("update", "Worker"),
    )  # fmt: skip
    async def adopt_worker(
        who: Caller, name: Name, sent: AdoptRequest, namespace: Namespace = "default"
    ) -> Worker:
        """Manage a worker that was only observed: it may be stopped, started and ended then."""
        return await adoption.adopt(services, who, name, namespace, template=sent.template)

    @made.post(
        "/api/v1/fleet/adopt", "Manage a server that is there already",
        needs=("update", "Worker"), status=201,
    )  # fmt: skip
    async def adopt_server(
        who: Caller, sent: AdoptServerRequest, namespace: Namespace = "default"
    ) -> Worker:
        """Make a managed worker of an EC2 instance or a CML server that runs already."""
        return await _adopted(services, who, sent, namespace)


def _left_behind(made: Routes, services: ServiceContext) -> None:
    @made.get(
        "/api/v1/fleet/garbage", "What seems left behind, and what happens next",
        needs=("read", "Region"),
    )  # fmt: skip
    async def garbage(who: Caller) -> regions.GarbageSummary:
        """Return what seems left behind, why, when it will be ended, and what was ended."""
        await services.fresh()
        return regions.garbage(services, who)

    @made.get("/api/v1/fleet/discovery", "What discovery does and did", needs=("read", "Region"))
    async def discovery(who: Caller) -> regions.DiscoverySummary:
        """Return settings, results and errors of discovery, region by region."""
        await services.fresh()
        return regions.discovery(services, who)

    @made.post(
        "/api/v1/leaks/{name:str}/resolve", "Close a leak: the licence was freed",
        tag="leaks", needs=("delete", "Leak"),
    )  # fmt: skip
    async def resolve_leak(
        who: Caller, name: Name, sent: ResolveRequest, namespace: Namespace = "default"
    ) -> Leak:
        """Close a leak once a person has freed the licence in the portal."""
        return await leaks.resolve(services, who, name, namespace, note=sent.note)


async def _adopted(
    services: ServiceContext, who: Caller, sent: AdoptServerRequest, namespace: str
) -> Worker:
    if (sent.instance_id is None) == (sent.url is None):
        raise intake.invalid(("url", "give exactly one of instanceId and url"))
    if sent.url is not None:
        return await adoption.adopt_server(
            services,
            who,
            sent.url,
            template=sent.template,
            username=sent.username,
            password=sent.password,
            fingerprint=sent.fingerprint,
            name=sent.name,
            namespace=namespace,
        )
    if sent.region is None or sent.template is None:
        raise intake.invalid(("region", "an instance needs its region and a template"))
    return await adoption.adopt_instance(
        services,
        who,
        sent.instance_id or "",
        region=sent.region,
        template=sent.template,
        name=sent.name,
        namespace=namespace,
    )

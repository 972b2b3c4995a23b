"""Routes for adopting servers, garbage collection's suspects, discovery, and licence leaks."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from labfleet.api.core.endpoints import Ask, RouteDoc, caller, endpoint, record, reply
from labfleet.api.verbs.verb_routes import Namespace
from labfleet.resources.leak import Leak
from labfleet.resources.meta import Record, SecretRef
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import regions
from labfleet.service.verbs import adoption, leaks

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class AdoptRequest(Record, frozen=True, kw_only=True):
    """The template from which its machine settings are taken; without one they stay as they are."""

    template: Text | None = None


class AdoptServerRequest(Record, frozen=True, kw_only=True):
    """An instance by id and region, or a CML server by URL; exactly one of the two.

    A URL needs a template, or a username with a passwordRef. `fingerprint` pins the server's
    certificate (SHA-256, hex); without it the first one seen is kept.
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
    """What was done about the leak."""

    note: Annotated[str, msgspec.Meta(max_length=400)] = ""


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the routes."""

    async def adopt(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        sent = await record(request, AdoptRequest)
        who = caller(request)
        return reply(await adoption.adopt(services, who, name, namespace, template=sent.template))

    async def adopt_new(request: Ask, namespace: Namespace = "default") -> Response[bytes]:
        sent = await record(request, AdoptServerRequest)
        return reply(await _adopted(services, request, sent, namespace), status=201)

    async def left_behind(request: Ask) -> Response[bytes]:
        await services.fresh()
        return reply(regions.garbage(services, caller(request)))

    async def discovery(request: Ask) -> Response[bytes]:
        await services.fresh()
        return reply(regions.discovery(services, caller(request)))

    async def resolve(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        sent = await record(request, ResolveRequest)
        return reply(
            await leaks.resolve(services, caller(request), name, namespace, note=sent.note)
        )

    return [
        endpoint("POST", "/api/v1/workers/{name:str}/adopt", adopt, name="adoptWorker",
                 tag="workers", summary="Manage a worker that was only observed",
                 shape=RouteDoc(body=AdoptRequest, reply=Worker)),
        endpoint("POST", "/api/v1/fleet/adopt", adopt_new, name="adoptServer", tag="workers",
                 summary="Manage a server that is there already", status=201,
                 shape=RouteDoc(body=AdoptServerRequest, reply=Worker)),
        endpoint("GET", "/api/v1/fleet/garbage", left_behind, name="garbage", tag="workers",
                 summary="What seems left behind, and what happens next",
                 shape=RouteDoc(reply=regions.GarbageSummary)),
        endpoint("GET", "/api/v1/fleet/discovery", discovery, name="discovery", tag="workers",
                 summary="What discovery does and did",
                 shape=RouteDoc(reply=regions.DiscoverySummary)),
        endpoint("POST", "/api/v1/leaks/{name:str}/resolve", resolve, name="resolveLeak",
                 tag="leaks", summary="Close a leak: the licence was freed",
                 shape=RouteDoc(body=ResolveRequest, reply=Leak)),
    ]  # fmt: skip


async def _adopted(
    services: ServiceContext, request: Ask, sent: AdoptServerRequest, namespace: str
) -> Worker:
    who = caller(request)
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

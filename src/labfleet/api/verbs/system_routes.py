"""Tokens, the table of kinds, the version, health, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

import labfleet
from labfleet.api.core.endpoints import Ask, RouteDoc, caller, endpoint, record, reply
from labfleet.interfaces import store as stores
from labfleet.kernel import clock
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import API_VERSION, Record
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.core.tokens import Tokens

# Role -> what it still waits for; None when it is ready.
Readiness = Callable[[], Mapping[str, str | None]]
# The text of all metrics and its media type.
Metrics = Callable[[], tuple[bytes, str]]
Role = Annotated[str | None, QueryParameter(name="role", description="Only this role.")]


class TokenRequest(Record, frozen=True, kw_only=True):
    """Whose token, with which role, until when."""

    role: str
    owner: str
    expires: datetime | None = None


class TokenReply(Record, frozen=True, kw_only=True):
    """A token without its secret; only the reply to its creation has the secret, in `token`."""

    id: str
    role: str
    owner: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    token: str | None = None


class TokensReply(Record, frozen=True, kw_only=True):
    """All tokens."""

    items: tuple[TokenReply, ...]


class KindsReply(Record, frozen=True, kw_only=True):
    """The table of kinds."""

    items: tuple[dict[str, Any], ...]


class VersionReply(Record, frozen=True, kw_only=True):
    """The server's version and the fleet time, which runs `rate` fleet seconds per second."""

    version: str
    api_version: str
    time: datetime
    rate: float


class HealthReply(Record, frozen=True, kw_only=True):
    """`ok`, or what each role waits for."""

    status: str
    roles: dict[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class System:
    """What the composition root provides for health and metrics."""

    readiness: Readiness
    metrics: Metrics


def routes(services: ServiceContext, tokens: Tokens, system: System) -> list[HTTPRouteHandler]:
    """Return the routes about the installation itself."""
    return [*_tokens(tokens), *_about(services), *_health(system)]


def _tokens(tokens: Tokens) -> list[HTTPRouteHandler]:
    async def create(request: Ask) -> Response[bytes]:
        who = caller(request).principal
        asked = await record(request, TokenRequest)
        made = await tokens.create(who, role=asked.role, owner=asked.owner, expires=asked.expires)
        return reply(_shown(made.row, made.text), status=201)

    async def list_(request: Ask) -> Response[bytes]:
        rows = await tokens.listed(caller(request).principal)
        return reply(TokensReply(items=tuple(_shown(row) for row in rows)))

    async def revoke(request: Ask, name: FromPath[str]) -> Response[bytes]:
        return reply(_shown(await tokens.revoke(caller(request).principal, name)))

    tag, path = "tokens", "/api/v1/tokens"
    made = RouteDoc(body=TokenRequest, reply=TokenReply)
    return [
        endpoint("GET", path, list_, name="listTokens", tag=tag,
                 summary="List tokens, never their secrets", shape=RouteDoc(reply=TokensReply)),
        endpoint("POST", path, create, name="createToken", tag=tag, status=201,
                 summary="Make a token; its text is shown this once", shape=made),
        endpoint("DELETE", path + "/{name:str}", revoke, name="revokeToken", tag=tag,
                 summary="Revoke a token", shape=RouteDoc(reply=TokenReply)),
    ]  # fmt: skip


def _about(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def kinds(request: Ask) -> Response[bytes]:
        caller(request)
        return reply(KindsReply(items=tuple(_kind(row) for row in KINDS.values())))

    async def version(request: Ask) -> Response[bytes]:
        del request
        return reply(
            VersionReply(
                version=getattr(labfleet, "__version__", "0"),
                api_version=API_VERSION,
                time=clock.parse_instant(clock.format_instant(services.clock.now())),
                rate=services.clock.rate,
            )
        )

    return [
        endpoint("GET", "/api/v1/kinds", kinds, name="listKinds", tag="system",
                 summary="The table of kinds", shape=RouteDoc(reply=KindsReply)),
        endpoint("GET", "/api/v1/version", version, name="getVersion", tag="system",
                 summary="What answers here", shape=RouteDoc(reply=VersionReply, public=True)),
    ]  # fmt: skip


def _health(system: System) -> list[HTTPRouteHandler]:
    async def healthz(request: Ask) -> Response[bytes]:
        del request
        return reply(HealthReply(status="ok"))

    async def readyz(request: Ask, role: Role = None) -> Response[bytes]:
        del request
        found = {k: v for k, v in system.readiness().items() if role in {None, k}}
        if role is not None and not found:
            found = {role: "does not run here"}
        waiting = any(value is not None for value in found.values())
        said = HealthReply(status="waiting" if waiting else "ok", roles=found)
        return reply(said, status=503 if waiting else 200)

    async def metrics(request: Ask) -> Response[bytes]:
        del request
        text, media_type = system.metrics()
        return Response(content=text, media_type=media_type)

    open_ = RouteDoc(reply=HealthReply, public=True)
    plain = RouteDoc(reply=str, reply_type="text/plain", public=True)
    return [
        endpoint("GET", "/healthz", healthz, name="healthz", tag="system",
                 summary="Is the process alive", shape=open_),
        endpoint("GET", "/readyz", readyz, name="readyz", tag="system",
                 summary="Is every role at work", shape=open_),
        endpoint("GET", "/metrics", metrics, name="metrics", tag="system",
                 summary="Prometheus metrics", shape=plain),
    ]  # fmt: skip


def _shown(row: stores.TokenRow, text: str | None = None) -> TokenReply:
    return TokenReply(
        id=row.id,
        role=row.role,
        owner=row.owner,
        created=row.created,
        expires=row.expires,
        revoked=row.revoked,
        token=text,
    )


def _kind(row: Kind) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": row.name,
        "plural": row.plural,
        "short": row.short,
        "summary": row.summary,
        "creatable": row.creatable,
        "columns": msgspec.to_builtins(row.columns),
    }
    return shown

"""Tokens, the table of kinds, the version, health, metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar.params import QueryParameter

import labfleet
from labfleet.api.core.route import Name, Reply, Routes, Text
from labfleet.engine.store_health import SERVES
from labfleet.interfaces import store as stores
from labfleet.kernel import clock, errors
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import API_VERSION, Record
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.core.tokens import Tokens, role_word

# Role -> what it still waits for; None when it is ready.
Readiness = Callable[[], Mapping[str, str | None]]
# The text of all metrics and its media type.
Metrics = Callable[[], tuple[bytes, str]]
Role = Annotated[str | None, QueryParameter(name="role", description="Only this role.")]


class TokenRequest(Record, frozen=True, kw_only=True):
    """Whose token, with which role, until when.

    role: What it may do: admin, operator, user, controller or runner.
    owner: Whose token it is.
    expires: When it ends; null means never.
    """

    role: str
    owner: str
    expires: datetime | None = None


class TokenReply(Record, frozen=True, kw_only=True):
    """A token without its secret; only the reply to its creation has the secret, in `token`.

    id: Id of the token, to list and revoke it by.
    role: What it may do; calendar is the token of a calendar feed.
    owner: Whose token it is.
    created: When it was made.
    expires: When it ends; null means never.
    revoked: When it was revoked; null when it was not.
    token: The secret text, shown this once; null in every other reply.
    """

    id: str
    role: str
    owner: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    token: str | None = None


class TokensReply(Record, frozen=True, kw_only=True):
    """All tokens.

    items: The tokens.
    """

    items: tuple[TokenReply, ...]


class KindsReply(Record, frozen=True, kw_only=True):
    """The table of kinds.

    items: One row for each kind: its names, columns and filters.
    """

    items: tuple[dict[str, Any], ...]


class VersionReply(Record, frozen=True, kw_only=True):
    """The server's version and the fleet time, which runs `rate` fleet seconds per second.

    version: Version of the server.
    api_version: Version of the API.
    time: The fleet's time now.
    rate: Fleet seconds that pass in a second.
    """

    version: str
    api_version: str
    time: datetime
    rate: float


class AliveReply(Record, frozen=True, kw_only=True):
    """`ok`; a process that cannot answer is not alive.

    status: Always ok.
    """

    status: str = "ok"


class HealthReply(Record, frozen=True, kw_only=True):
    """`ok` or `waiting`, what each role waits for, and what the store can do.

    status: Whether everything is there (ok), or something is waited for (waiting).
    roles: Role to what it waits for; null when it is ready.
    store: What the store can do: ok, read-only, behind or unreadable.
    store_since: Since when it cannot do all; null while it can.
    store_reason: Why it cannot; empty while it can.
    """

    status: str
    roles: dict[str, str | None] = {}
    store: str = "ok"
    store_since: datetime | None = None
    store_reason: str = ""


@dataclass(frozen=True, slots=True)
class System:
    """What the composition root provides for health and metrics.

    `look` asks the store once more, bounded, so that the services' `health` is of now.
    """

    readiness: Readiness
    metrics: Metrics
    look: Callable[[], Awaitable[None]] | None = None


def routes(services: ServiceContext, tokens: Tokens, system: System) -> Routes:
    """Return the routes about the installation itself."""
    made = Routes("system")
    _tokens(made, tokens)
    _about(made, services)
    _health(made, services, system)
    return made


def _tokens(made: Routes, tokens: Tokens) -> None:
    path, needs = "/api/v1/tokens", ("tokens", "Token")

    @made.get(path, "List tokens, never their secrets", tag="tokens", needs=needs)
    async def list_tokens(who: Caller) -> TokensReply:
        """Return all tokens with role, owner and end; never their secrets."""
        rows = await tokens.listed(who.principal)
        return TokensReply(items=tuple(_shown(row) for row in rows))

    @made.post(
        path, "Make a token; its text is shown this once", tag="tokens", needs=needs, status=201
    )
    async def create_token(who: Caller, sent: TokenRequest) -> TokenReply:
        """Make a token for an owner and a role; only this reply has its secret text."""
        made = await tokens.create(
            who.principal, role=sent.role, owner=sent.owner, expires=sent.expires
        )
        return _shown(made.row, made.text)

    @made.delete(path + "/{name:str}", "Revoke a token", tag="tokens", needs=needs)
    async def revoke_token(who: Caller, name: Name) -> TokenReply:
        """Revoke a token; whatever comes with it is refused from then on."""
        return _shown(await tokens.revoke(who.principal, name))


def _about(made: Routes, services: ServiceContext) -> None:
    @made.get("/api/v1/kinds", "The table of kinds")
    async def list_kinds() -> KindsReply:
        """Return names, columns and filters of each kind of object."""
        return KindsReply(items=tuple(_kind(row) for row in KINDS.values()))

    @made.get("/api/v1/version", "What answers here", public=True)
    async def get_version() -> VersionReply:
        """Return version of server and API, and the fleet's clock."""
        return VersionReply(
            version=getattr(labfleet, "__version__", "0"),
            api_version=API_VERSION,
            time=clock.parse_instant(clock.format_instant(services.clock.now())),
            rate=services.clock.rate,
        )


def _health(made: Routes, services: ServiceContext, system: System) -> None:
    @made.get("/healthz", "Is the process alive", public=True)
    async def healthz() -> AliveReply:
        """Say that the process is alive, without a look at anything else."""
        return AliveReply()

    @made.get("/readyz", "Is every role at work, and the store readable", public=True,
              also=(503,), refuses=(errors.Invalid,))  # fmt: skip
    async def readyz(role: Role = None) -> Reply[HealthReply]:
        """Say what each role waits for and what the store can do; 503 if anything is missing."""
        every = system.readiness()
        if role is not None and role not in every:
            what = f"no role of this server; it has {', '.join(sorted(every))}"
            raise intake.invalid(("role", what))
        if system.look is not None:
            await system.look()
        found = {k: v for k, v in every.items() if role in {None, k}}
        trouble = None if services.health is None else services.health.trouble
        unserved = trouble is not None and trouble.state not in SERVES
        waiting = unserved or any(value is not None for value in found.values())
        said = HealthReply(status="waiting" if waiting else "ok", roles=found)
        if trouble is not None:
            said = msgspec.structs.replace(
                said,
                store=trouble.state.value,
                store_since=trouble.since,
                store_reason=trouble.words,
            )
        return Reply(said, status=503 if waiting else 200)

    @made.get("/metrics", "Prometheus metrics", public=True, reply=str, reply_type="text/plain")
    async def metrics() -> Text:
        """Return all metrics in Prometheus's text format."""
        text, media_type = system.metrics()
        return Text(text, media_type)


def _shown(row: stores.TokenRow, text: str | None = None) -> TokenReply:
    return TokenReply(
        id=row.id,
        role=role_word(row),
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

"""Asks Prometheus or VictoriaMetrics by PromQL over HTTP: `POST /api/v1/query`.

Every figure is two queries: its values, and the instants of the oldest samples in them, judged by the
server's own clock. A server whose clock differs much from ours is not believed at all.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from labfleet.adapters.http.peers import refuse_metadata
from labfleet.adapters.http.pool import HttpTransport
from labfleet.adapters.http.transport import Bounds, Deadlines, NotSent, ReplyLost, Transport
from labfleet.adapters.metrics import queries, replies
from labfleet.interfaces.cluster_meter import OTHERS, Reading
from labfleet.interfaces.outside import Secrets
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import RUN_LABEL, Figure, MetricsSource
from labfleet.resources.machine import TlsSettings

API = "/api/v1"
VERIFY = TlsSettings(mode="verify")
_SECONDS = 1e12
"""Instants are far larger than any use, and far smaller than this."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All bounds of the adapter: machine seconds, bytes and counts.

    query: For one query.
    together: Queries to one source at once.
    reply_bytes: Most bytes of one answer.
    clock: A server's clock may differ from ours by so many seconds.
    unused: Connections to a source that nobody asks for so long are closed.
    """

    query: Deadlines = Deadlines(connect=5, read=10, total=10)
    together: int = 4
    reply_bytes: int = 8 * 1024 * 1024
    clock: float = 60.0
    unused: float = 600.0


def connect(url: str, authority: str | None, limits: Limits) -> Transport:
    """Return the transport to a source's HTTP API; opens nothing yet."""
    return HttpTransport(
        url.rstrip("/").removesuffix(API),
        VERIFY,
        Bounds(connections=limits.together, reply_bytes=limits.reply_bytes),
        below=f"{API}/",
        judge=refuse_metadata,
        authority=authority,
    )


Connect = Callable[[str, str | None, Limits], Transport]
"""Makes the transport to a URL; the text are the certificates (PEM) that are trusted there."""


@dataclass(slots=True)
class _Kept:
    """A transport with what it was made for."""

    made_for: tuple[str, str | None]
    transport: Transport
    used: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """One look at one source."""

    transport: Transport
    headers: Mapping[str, str] = field(repr=False)
    where: str
    room: asyncio.Semaphore
    source: MetricsSource
    label: str


class PromqlReader:
    """Reads figures from sources of kind `promql`; keeps connections from one look to the next."""

    def __init__(
        self,
        secrets: Secrets,
        clock: Clock,
        *,
        limits: Limits | None = None,
        connect: Connect = connect,
    ) -> None:
        self._secrets = secrets
        self._clock = clock
        self._limits = limits or Limits()
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._connect = connect

    async def read(
        self, cluster: Cluster, source: MetricsSource, figures: Sequence[Figure]
    ) -> Reading:
        """Return what the source knows, as FigureReader says."""
        access = cluster.spec.kubernetes
        where = f"cluster {cluster.name}: source {source.name}"
        asked = _Asked(
            transport=await self._transport(cluster, source, where),
            headers=self._headers(source),
            where=where,
            room=asyncio.Semaphore(self._limits.together),
            source=source,
            label=RUN_LABEL if access is None else access.run_label,
        )
        now = await self._server_time(asked)
        async with asyncio.TaskGroup() as group:
            tasks = {each: group.create_task(self._figure(asked, each, now)) for each in figures}
        values: dict[Figure, Mapping[str, float]] = {}
        gaps: dict[Figure, str] = {}
        for figure, task in tasks.items():
            found, gap = task.result()
            if found:
                values[figure] = found
            if gap:
                gaps[figure] = gap
        return Reading(values, gaps)

    async def close(self) -> None:
        """Drop all connections."""
        kept, self._kept = self._kept, {}
        for each in kept.values():
            await each.transport.close()

    # --- one figure -----------------------------------------------------------------------

    async def _figure(
        self, asked: _Asked, figure: Figure, now: float
    ) -> tuple[dict[str, float], str]:
        """Return the values of a figure and why some are not known; a failed query is a gap."""
        try:
            values = await self._ask(asked, queries.value_query(figure, asked.source, asked.label))
            stamps = None
            query = queries.age_query(figure, asked.source, asked.label)
            if query is not None and values:
                stamps = await self._ask(asked, query)
        except errors.LabfleetError as problem:
            return {}, problem.message.removeprefix(f"{asked.where}: ")
        if not values:
            return {}, "no series"
        names = _keys(figure, asked.label)
        oldest = None if stamps is None else _oldest(stamps, names)
        scale = queries.SERIES[figure].scale
        found: dict[str, float] = {}
        gaps, twice = list[str](), set[str]()
        for each in values:
            key = replies.key_of(each.metric, names)
            value = replies.number(each, scale)
            stale = _stale(key, oldest, now, asked.source.stale_seconds)
            if key in found or key in twice:
                found.pop(key, None)
                twice.add(key)
                gaps.append(f"two series for {_said(key)}")
            elif key == OTHERS and figure not in queries.OF_RUNS:
                gaps.append("a series names no node")
            elif value is None:
                gaps.append(f"the value for {_said(key)} is no use of anything")
            elif stale:
                gaps.append(f"{_said(key)}: {stale}")
            else:
                found[key] = value
        more = f" and {len(gaps) - 1} others" if len(gaps) > 1 else ""
        return found, gaps[0] + more if gaps else ""

    async def _server_time(self, asked: _Asked) -> float:
        """Return the server's clock; Temporary when it differs too much from ours.

        In scaled time (a demo) ours says nothing of the world's, so it is not compared.
        """
        answer = await self._ask(asked, "time()")
        told = replies.number(answer[0], most=_SECONDS) if len(answer) == 1 else None
        if told is None:
            raise errors.Protocol(f"{asked.where}: its clock tells no time")
        if self._clock.rate == 1.0:
            off = told - self._clock.now().timestamp()
            if abs(off) > self._limits.clock:
                side = "ahead of" if off > 0 else "behind"
                message = f"{asked.where}: its clock is {abs(off):.0f} s {side} ours"
                raise errors.Temporary(message, reason="ClockOff")
        return told

    async def _ask(self, asked: _Asked, query: str) -> list[replies.Sample]:
        deadlines = self._limits.query
        body = urlencode({"query": query, "timeout": f"{deadlines.total:g}s"}).encode()
        async with asked.room:
            try:
                reply = await asked.transport.request(
                    "POST", "query", body, deadlines, headers=asked.headers
                )
            except (NotSent, ReplyLost) as problem:
                raise replies.lost(problem, asked.where) from None
        return replies.samples(reply, asked.where)

    # --- the source -----------------------------------------------------------------------

    def _headers(self, source: MetricsSource) -> Mapping[str, str]:
        made = {"Content-Type": "application/x-www-form-urlencoded"}
        if source.token is not None:
            made["Authorization"] = f"Bearer {self._secrets.resolve(source.token)}"
        elif source.username:
            password = "" if source.password is None else self._secrets.resolve(source.password)
            both = base64.b64encode(f"{source.username}:{password}".encode()).decode()
            made["Authorization"] = f"Basic {both}"
        return made

    async def _transport(self, cluster: Cluster, source: MetricsSource, where: str) -> Transport:
        """Return the connections to a source; new ones when its address or trust has changed."""
        url = source.url
        if url is None:
            raise errors.Invalid(f"{where}: it needs a url", reason="NoUrl")
        if "@" in urlsplit(url).netloc:
            message = f"{where}: name and password belong in username and password, not in the url"
            raise errors.Invalid(message, reason="SecretInUrl")
        authority = source.certificate_authority
        trusted = None if authority is None else self._secrets.resolve(authority)
        now = asyncio.get_running_loop().time()
        key = (cluster.metadata.uid, source.name)
        kept = self._kept.get(key)
        if kept is None or kept.made_for != (url, trusted):
            made = _Kept((url, trusted), self._connect(url, trusted, self._limits), now)
            self._kept[key] = made
            if kept is not None:
                await kept.transport.close()
            kept = made
        kept.used = now
        oldest = now - self._limits.unused
        for name in [name for name, each in self._kept.items() if each.used < oldest]:
            await self._kept.pop(name).transport.close()
        return kept.transport


def _keys(figure: Figure, label: str) -> tuple[str, ...]:
    """Return the labels of a series that say whose it is."""
    return (queries.label_name(label),) if figure in queries.OF_RUNS else ("node", "instance")


def _oldest(stamps: list[replies.Sample], names: tuple[str, ...]) -> dict[str, float]:
    """Return by run or node the instant of its oldest sample."""
    found: dict[str, float] = {}
    for each in stamps:
        key, at = replies.key_of(each.metric, names), replies.number(each, most=_SECONDS)
        if at is not None:
            found[key] = min(at, found.get(key, at))
    return found


def _stale(key: str, oldest: Mapping[str, float] | None, now: float, most: float) -> str:
    """Return why a value is too old; empty when it is not, or when nobody can tell."""
    if oldest is None:
        return ""
    at = oldest.get(key)
    if at is None:
        return "nobody says how old it is"
    age = now - at
    return "" if -most <= age <= most else f"its oldest sample is {age:.0f} s old"


def _said(key: str) -> str:
    return key[:100] or "pods of no run"

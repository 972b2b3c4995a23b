"""A server of the PromQL API in this process: it knows the built-in queries, not PromQL.

It stands where the HTTP client would: one request in, one reply out, or what a broken network does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from labfleet.adapters.http.transport import Deadlines, NotSent, Reply
from labfleet.adapters.metrics import queries
from labfleet.adapters.metrics.meter import SourcesMeter
from labfleet.adapters.metrics.promql import Limits, PromqlReader
from labfleet.rehearsal.time.virtual_host import VirtualClock
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.cluster_access import Figure, MetricsKind, MetricsSource
from labfleet.resources.meta import Metadata, SecretRef

NAME = "label_labfleet_simulation_id"
Rows = Mapping[str, float | str]


class ScriptedPromql:
    """What a test sets: rows by figure (run or node to value), ages, its clock, and its faults."""

    def __init__(self) -> None:
        self.rows: dict[Figure, Rows] = {}
        self.ages: dict[str, float] = {}
        self.clock = VirtualClock()
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.extra: dict[str, Any] = {}
        self.down = False
        self.slow = 0.0
        self.asked: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.closed = 0

    @property
    def fingerprint(self) -> str | None:
        return None

    async def close(self) -> None:
        self.closed += 1

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
    ) -> Reply:
        assert (method, path) == ("POST", "query")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.slow >= deadlines.total:
                await asyncio.sleep(deadlines.total)
                raise NotSent("timeout", "no answer in time")
            await asyncio.sleep(self.slow + 0.01)
            if self.down:
                raise NotSent("refused", "the connection was refused")
            query = parse_qs((body or b"").decode())["query"][0]
            self.asked.append(query)
            self.headers.append(headers)
            for part, (status, said) in self.answers.items():
                if part in query:
                    return Reply(status, {}, said)
            return Reply(200, {}, json.dumps(self._answer(query)).encode())
        finally:
            self.at_once -= 1

    def _answer(self, query: str) -> dict[str, Any]:
        now = self.clock.now().timestamp()
        if query == "time()":
            return vector([now, str(now)], kind="scalar")
        for figure, rows in self.rows.items():
            for source in (
                MetricsSource(name="x"),
                MetricsSource(name="x", matchers='cluster="a"'),
            ):
                if query == queries.value_query(figure, source, "labfleet/simulation-id"):
                    return vector([_row(figure, key, now, str(v)) for key, v in rows.items()])
                if query == queries.age_query(figure, source, "labfleet/simulation-id"):
                    made = [
                        _row(figure, key, now, str(now - self.ages.get(key, 5.0))) for key in rows
                    ]
                    return vector(made)
        return {**vector([]), **self.extra}


def vector(result: Any, kind: str = "vector") -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def _row(figure: Figure, key: str, now: float, value: str) -> dict[str, Any]:
    if figure in queries.OF_RUNS:
        metric = {NAME: key} if key else {}
    else:
        metric = {"node": key, "instance": "10.0.0.1:10250"}
    return {"metric": metric, "value": [now, value]}


class Named:
    """Secrets whose value is their name."""

    def resolve(self, ref: SecretRef) -> str:
        return f"value of {ref.env}"


def source(name: str = "prom", **more: Any) -> MetricsSource:
    return MetricsSource(name=name, url=more.pop("url", f"http://{name}.test:9090"), **more)


def cluster(*sources: MetricsSource) -> Cluster:
    spec = ClusterSpec(metrics=sources)
    return Cluster(metadata=Metadata(name="c1", uid="u1", generation=1), spec=spec)


def meter(servers: Mapping[str, ScriptedPromql], rate: float = 1.0) -> SourcesMeter:
    """Return a meter whose network is the scripted servers, by URL."""

    def connect(url: str, authority: str | None, limits: Limits) -> ScriptedPromql:
        del authority, limits
        return servers[url]

    clock = VirtualClock(rate=rate)
    reader = PromqlReader(Named(), clock, connect=connect)
    return SourcesMeter({MetricsKind.PROMQL: reader}, clock)

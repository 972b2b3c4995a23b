"""How a cluster is looked at: its Kubernetes API server, and where its figures come from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from labfleet.resources.meta import Record, SecretRef, Text

Url = Annotated[str, msgspec.Meta(min_length=8, max_length=2048, pattern=r"^https?://")]
Query = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=317)]
"""The key of a Kubernetes label: a prefix of at most 253 characters, a slash, at most 63 more."""
RUN_LABEL = "labfleet/simulation-id"
"""Label of a pod that says of which run it is."""


class KubernetesAccess(Record, frozen=True, kw_only=True):
    """How the API server of a cluster is reached.

    kubeconfig: Where the kubeconfig is read; null is the service account that Labfleet runs under.
    context: Which context of the kubeconfig; empty is its current one.
    namespaces: Namespaces whose pods are looked at; none is all of them.
    run_label: Label of a pod that names its run, by the name or the uid of the simulation.
    """

    kubeconfig: SecretRef | None = None
    context: Annotated[str, msgspec.Meta(max_length=253)] = ""
    namespaces: Annotated[tuple[Text, ...], msgspec.Meta(max_length=50)] = ()
    run_label: Label = RUN_LABEL


class MetricsKind(StrEnum):
    """What is asked for figures."""

    PROMQL = "promql"
    KUBERNETES = "kubernetes"


class Figure(StrEnum):
    """What a source of metrics is asked for, each with a query of its own.

    Per run: of all pods of each run, one series for each value of its label. Per node likewise.
    """

    RUN_CPU = "runCpu"
    RUN_MEMORY = "runMemory"
    RUN_NETWORK_IN = "runNetworkIn"
    RUN_NETWORK_OUT = "runNetworkOut"
    RUN_STORAGE = "runStorage"
    NODE_CPU = "nodeCpu"
    NODE_MEMORY = "nodeMemory"
    NODE_NETWORK_IN = "nodeNetworkIn"
    NODE_NETWORK_OUT = "nodeNetworkOut"
    NODE_STORAGE = "nodeStorage"


class MetricsSource(Record, frozen=True, kw_only=True):
    """One source of what a cluster and its runs use.

    name: How it is called in answers and metrics.
    kind: `promql` is the HTTP API of Prometheus and VictoriaMetrics, `kubernetes` metrics.k8s.io.
    url: Where the HTTP API is, without `/api/v1`; not needed for `kubernetes`.
    token: Where a bearer token is read.
    username: Name for basic authentication.
    password: Where its password is read.
    certificate_authority: Where the certificates are read by which it is checked (PEM).
    matchers: PromQL label matchers that tell this cluster from others on one server.
    queries: PromQL that is asked instead of the built-in query, by figure.
    stale_seconds: A value that the source itself measured longer ago is not used.
    window_seconds: Counters count by their rate over so long; at least four times what is between two scrapes.
    """

    name: Text
    kind: MetricsKind = MetricsKind.PROMQL
    url: Url | None = None
    token: SecretRef | None = None
    username: Annotated[str, msgspec.Meta(max_length=256)] = ""
    password: SecretRef | None = None
    certificate_authority: SecretRef | None = None
    matchers: Annotated[str, msgspec.Meta(max_length=500)] = ""
    queries: dict[Figure, Query] = {}
    stale_seconds: Annotated[int, msgspec.Meta(ge=15, le=3600)] = 120
    window_seconds: Annotated[int, msgspec.Meta(ge=10, le=3600)] = 120


class WhenBlind(StrEnum):
    """What becomes of requests while the figures of a cluster are unknown."""

    DENY = "deny"
    DECLARED = "declared"

"""How a cluster is to be looked at must be possible: said when it is described, not by safe mode."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.cluster_access import KubernetesAccess, MetricsKind, MetricsSource
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds.admitted import Admitted

_MATCHER = r'[A-Za-z_][A-Za-z0-9_]*\s*(=|!=|=~|!~)\s*"([^"\\]|\\.)*"'
_MATCHERS = re.compile(rf"\s*{_MATCHER}\s*(,\s*{_MATCHER}\s*)*,?\s*")


async def create(services: ServiceContext, caller: Caller, new: Cluster) -> Admitted:
    """Refuse a cluster whose sources cannot be asked as they are described."""
    del services, caller
    _judge(new.spec)
    return Admitted(new)


async def update(services: ServiceContext, caller: Caller, old: Cluster, new: Cluster) -> Admitted:
    """Require the same of a changed cluster; what runs there is not touched."""
    del services, caller
    if old.spec != new.spec:
        _judge(new.spec)
    return Admitted(new)


def _judge(spec: ClusterSpec) -> None:
    names = [each.name for each in spec.metrics]
    for number, source in enumerate(spec.metrics):
        problem = _problem(source, spec.kubernetes)
        if problem is None and source.name in names[:number]:
            problem = "name", "two sources have this name"
        if problem is not None:
            place, what = problem
            raise intake.invalid((f"spec.metrics[{number}].{place}", what))


def _problem(source: MetricsSource, access: KubernetesAccess | None) -> tuple[str, str] | None:
    """Return what is wrong with a source: the field, and what to do; None when nothing is."""
    if source.kind is MetricsKind.KUBERNETES:
        if access is None:
            return "kind", "metrics.k8s.io is asked through spec.kubernetes: say how it is reached"
        if source.url is not None:
            return "url", "metrics.k8s.io is asked through spec.kubernetes: leave the address out"
        return None
    if source.url is None:
        return "url", "say where the HTTP API is, for example http://prometheus:9090"
    problem = _url_problem(source.url)
    if problem is not None:
        return "url", problem
    if source.token is not None and (source.username or source.password is not None):
        return "token", "give a token, or a username and password, not both"
    if source.password is not None and not source.username:
        return "username", "a password needs its username"
    if source.matchers and not _MATCHERS.fullmatch(source.matchers):
        return "matchers", 'must be matchers of labels, for example cluster="lab",env!="test"'
    return None


def _url_problem(url: str) -> str | None:
    if not url.isprintable() or " " in url:
        return "must not hold spaces or control characters"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return "not a URL"
    if parts.username is not None or parts.password is not None:
        # Not the address: it would be shown to everybody who reads the cluster.
        return "must not hold a user or password: they belong in username and password"
    if parts.query or parts.fragment:
        return "must end with its path; label matchers belong in matchers"
    return intake.host_problem(host.lower()) if host else "must name a host"

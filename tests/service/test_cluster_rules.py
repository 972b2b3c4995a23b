"""A cluster that cannot be looked at as it is described is refused: the field, and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import world

from labfleet.kernel import errors
from labfleet.resources.cluster import Cluster

PROM = {"name": "prom", "url": "http://prometheus:9090"}
IN = {"kubernetes": {}}
SECRET = {"env": "LABFLEET_SECRET_X"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("spec", "where", "told"),
    [
        ({"metrics": [{"name": "a"}]}, "spec.metrics[0].url", "say where"),
        ({"metrics": [PROM, PROM]}, "spec.metrics[1].name", "two sources"),
        ({"metrics": [{"name": "k", "kind": "kubernetes"}]}, "spec.metrics[0].kind", "kubernetes"),
        ({**IN, "metrics": [{**PROM, "kind": "kubernetes"}]}, "spec.metrics[0].url", "leave"),
        ({"metrics": [{**PROM, "url": "http://me:hunter2@p"}]}, "spec.metrics[0].url", "password"),
        ({"metrics": [{**PROM, "url": "http://p:99999"}]}, "spec.metrics[0].url", "not a URL"),
        ({"metrics": [{**PROM, "url": "http://p/?a=b"}]}, "spec.metrics[0].url", "matchers"),
        ({"metrics": [{**PROM, "url": "http://-p-/x"}]}, "spec.metrics[0].url", "host"),
        ({"metrics": [{**PROM, "token": SECRET, "username": "u"}]}, "spec.metrics[0].token", "both"),
        ({"metrics": [{**PROM, "password": SECRET}]}, "spec.metrics[0].username", "needs"),
        ({"metrics": [{**PROM, "matchers": 'a="b"} or vector(1)'}]}, "spec.metrics[0].matchers", ""),
    ],
)  # fmt: skip
async def test_what_cannot_be_asked_is_refused(spec: dict[str, Any], where: str, told: str) -> None:
    """Before anything is stored, and without repeating a secret."""
    async with world() as w:
        with pytest.raises(errors.Invalid) as caught:
            await w.make("Cluster", "c1", spec)
        assert where in str(caught.value)
        assert told in str(caught.value)
        assert "hunter2" not in str(caught.value)


@pytest.mark.asyncio
@pytest.mark.parametrize("matchers", ["", 'cluster="lab"', 'a=~"x|y", b!="z\\"",', 'c !~ "\'"'])
async def test_what_can_be_asked_is_taken(matchers: str) -> None:
    """All ways to sign in, matchers as PromQL has them, and metrics.k8s.io beside another source."""
    sources = [
        {**PROM, "matchers": matchers, "token": SECRET},
        {"name": "vm", "url": "https://[::1]:8428/select/0", "username": "u", "password": SECRET},
        {"name": "k", "kind": "kubernetes"},
    ]
    async with world() as w:
        made = await w.make("Cluster", "c1", {**IN, "metrics": sources})
        assert isinstance(made, Cluster)
        assert [each.name for each in made.spec.metrics] == ["prom", "vm", "k"]

"""The cluster that most tests of the simulator use, and its application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from kube_cluster import Cluster, cluster_of

from kubernetes_simulator.app import App


@pytest.fixture
def cluster() -> Cluster:
    """Three nodes of 4 cores and 16 GiB."""
    return cluster_of()


@pytest.fixture
def app_of() -> Callable[[Cluster], App]:
    """Make the application of a cluster; its sleeps pass at once."""

    async def sleep(_: float) -> None:
        await asyncio.sleep(0)

    return lambda held: App(held.world, lambda: held.now, sleep)

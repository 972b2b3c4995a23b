"""Runs what is asked of a network over each of them."""

from __future__ import annotations

import networks
import pytest

from labfleet.adapters.cml.transport import Connect


@pytest.fixture(params=networks.ALL)
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Put one of the networks below the adapter."""
    chosen = networks.ALL[request.param]
    monkeypatch.setattr(networks, "connect", chosen)
    return chosen

"""One small installation per test."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))
from fleet_world import World
from fleet_world import world as opened


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """An empty installation."""
    async with opened() as made:
        yield made

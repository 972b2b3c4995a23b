"""One installation with its HTTP face per test."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "service"))
sys.path.insert(0, str(HERE))
from api_caller import Api
from api_caller import api as opened


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Api]:
    """An empty installation behind its ASGI application; a defect fails the test."""
    async with opened() as made:
        yield made
        assert made.defects == []

"""One installation with its pages per test."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

HERE = Path(__file__).parent
for folder in ("service", "api", "web"):
    sys.path.insert(0, str(HERE.parent / folder))
from browser import Browser
from browser import browser as opened
from screen import screen

__all__ = ["screen"]


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    """An empty installation with its pages; a defect fails the test."""
    async with opened() as made:
        yield made
        assert made.defects == []

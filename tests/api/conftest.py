"""One installation with its HTTP face per test."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "stores"))
sys.path.insert(0, str(HERE.parent / "service"))
sys.path.insert(0, str(HERE))
from api_caller import Api
from api_caller import api as opened
from postgres_server import PostgresServer, find_binaries


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Api]:
    """An empty installation behind its ASGI application; a defect fails the test."""
    async with opened() as made:
        yield made
        assert made.defects == []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A private PostgreSQL on a free loopback port, gone after the tests."""
    if find_binaries() is None:
        pytest.skip("no PostgreSQL server binaries in /usr/lib/postgresql")
    with PostgresServer() as server:
        yield server


@pytest_asyncio.fixture(
    params=["together", "apart", pytest.param("postgres", marks=pytest.mark.real)]
)
async def measuring_api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    """An installation that measures in the API's process, and in another one on either database."""
    if request.param == "together":
        bounds = {}
    elif request.param == "apart":
        bounds = {"url": f"sqlite:///{tmp_path}/store.db"}
    else:
        bounds = {"url": request.getfixturevalue("postgres_server").new_place()}
    async with opened(**bounds) as made:
        yield made
        assert made.defects == []

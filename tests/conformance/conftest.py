"""The stores that the conformance suite runs against."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from labfleet.interfaces.store import LeaseStore, Store

sys.path.insert(0, str(Path(__file__).parents[1] / "stores"))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
from engine_fakes import MemoryLeases
from postgres_server import PostgresServer, find_binaries
from store_places import Place


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A private PostgreSQL 15 on a free loopback port, gone after the tests."""
    if find_binaries() is None:
        pytest.skip("no PostgreSQL server binaries in /usr/lib/postgresql")
    with PostgresServer() as server:
        yield server


FLAVOURS = ["memory", "file", pytest.param("postgres", marks=pytest.mark.real)]
SHARED = ["file", pytest.param("postgres", marks=pytest.mark.real)]


def make_place(flavour: str, folder: Path, request: pytest.FixtureRequest) -> Place:
    if flavour == "postgres":
        server = request.getfixturevalue("postgres_server")
        return Place(flavour, server.new_place(), folder, server.new_place)
    count = iter(range(1000))
    empty = lambda: f"sqlite:///{folder}/empty{next(count)}.db"  # noqa: E731
    url = "sqlite://:memory:" if flavour == "memory" else f"sqlite:///{folder}/store.db"
    return Place(flavour, url, folder, empty)


@pytest.fixture(params=FLAVOURS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of store in turn."""
    return make_place(request.param, tmp_path, request)


@pytest.fixture(params=SHARED)
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of store that several processes can open."""
    return make_place(request.param, tmp_path, request)


@pytest_asyncio.fixture(params=[*FLAVOURS, "fake"])
async def leases(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LeaseStore]:
    """An empty store of each kind, and the fake of election's tests."""
    if request.param == "fake":
        yield MemoryLeases()
        return
    async with make_place(request.param, tmp_path, request).opened() as opened:
        yield opened


@pytest_asyncio.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    async with place.opened() as opened:
        yield opened

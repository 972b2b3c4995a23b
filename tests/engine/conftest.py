"""Closes what a test opened."""

from __future__ import annotations

from collections.abc import Iterator

import engine_fakes
import pytest


@pytest.fixture(autouse=True)
def _closed_stores() -> Iterator[None]:
    """Close the databases without a loop, because the one they were opened in is gone."""
    yield
    while engine_fakes.OPENED:
        # private _db: the loop it was opened in is gone, so its own close cannot run
        engine_fakes.OPENED.pop()._db.close()

"""Puts this folder, stories in virtual time and servers on loopback on the path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "controllers", HERE.parent / "adapters_cml"):
    sys.path.insert(0, str(folder))

from promql_servers import NAMES, program, version


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each of the two servers, by its program; its version is printed."""
    found: str = request.param
    if program(found) is None:
        pytest.skip(f"no {found}: scripts/test-real.sh unpacks Debian's package")
    print(version(found))
    return found

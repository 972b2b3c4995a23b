"""The maps of upstream's names, which are written by hand, against the code."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from api_caller import api as opened

from labfleet.decisions.lifecycle.worker.phases import QUARANTINE
from labfleet.resources.fleet_settings import Discovery

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
HERE = {"id": "id_", "r": "region"}


def rows(page: str) -> list[list[str]]:
    """Return the cells of a map's tables."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_routes_that_upstream_002_names_are_there_as_the_map_says() -> None:
    """Each route of the map exists, but for those of which it says 404."""

    async def asked() -> set[str]:
        async with opened() as api:
            return {re.sub(r":str\}", "}", each.path) for each in api.app.routes.values()}

    paths = asyncio.run(asked())
    told = 0
    for there, here, *_ in rows("upstream-002.md")[1:]:
        for span in re.findall(r"`([^`]*/[^`]*)`", there):
            end = re.sub(r"\{(\w+)\}", lambda found: "{" + HERE.get(found[1], found[1]) + "}",
                         span.split(" ")[-1].removeprefix("…"))  # fmt: skip
            exists = any(path.endswith(end) for path in paths)
            assert exists is (here != "404"), span
            told += 1
    assert told > 25


def test_what_closes_a_worker_is_what_the_map_of_upstream_003_says() -> None:
    """The reasons of CmlHealthy that keep sessions away are those of the code."""
    row = next(each for each in rows("upstream-003.md") if each[0] == "`CmlHealthy`")
    reasons = row[1].removeprefix("False: ").partition(";")[0].split(", ")
    assert set(reasons) == {str(each) for each in QUARANTINE}
    assert "closed for new sessions" in row[2]


def test_the_defaults_of_discovery_are_those_that_the_map_says() -> None:
    """Discovery is off here until somebody says so; the rest is upstream's."""
    ours = Discovery()
    assert ours.enabled is False
    assert (ours.regions, ours.ami_name_pattern, ours.scan_interval_seconds) == (
        ("us-east-1",), "CML-*", 300,
    )  # fmt: skip
    text = (REFERENCE / "upstream-002.md").read_text(encoding="utf-8")
    assert "`enabled` is true there and `false` here" in text

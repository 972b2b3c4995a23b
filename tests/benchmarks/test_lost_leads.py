"""Counting lost leads in a server's log, and judging how long nobody led."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks import failover, lost_leads


def line(event: str, **more: str) -> str:
    return json.dumps({"event": event, **more})


def test_only_lost_leads_count() -> None:
    """Not those taken, not what is no log line; the roles are named once."""
    told = lost_leads.count(
        [
            "Traceback (most recent call last):",
            line("lead.taken", role="scheduler"),
            line("lead.lost", role="scheduler"),
            line("lead.taken", role="scheduler"),
            line("lead.lost", role="scheduler"),
            line("role", role="scheduler", state="standby"),
        ]
    )
    assert told == {"taken": 2, "lost": 2, "roles": ["scheduler"]}
    assert lost_leads.count([])["lost"] == 0


@pytest.mark.parametrize(("leads", "code"), [((11.0, 15.0, 40.0), 0), ((11.0, 15.1, 15.2), 1)])
def test_the_median_decides_and_the_worst_is_shown(
    leads: tuple[float, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One slow failover fails nothing, but nobody overlooks it."""
    rows: list[dict[str, Any]] = [{"lead": each, "decided": each + 1} for each in leads]
    assert failover.verdict(rows) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["lead"]["median"], told["lead"]["worst"]) == (leads[1], leads[2])
    assert told["decided"]["least"] == leads[0] + 1

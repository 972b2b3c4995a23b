"""A provider's own words: what they mean stands with the provider, decisions spell none of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import labfleet
from labfleet.adapters.aws import compute
from labfleet.decisions.lifecycle.worker import alerts, phases
from labfleet.resources import providers
from labfleet.resources.providers.words import Planned, Words

DECISIONS = Path(labfleet.__file__).parent / "decisions"
AWS = re.compile(
    r"aws|ec2|amazon|cloudtrail|spot|instance-|system-|\b(Client|Server)\.", re.IGNORECASE
)
NAMES = re.compile(r"ec2Cpu|(PROVISIONING|TERMINATING)_EC2|EC2_READY|SPOT_INTERRUPTION")
"""Names that clients of earlier revisions read: phases of upstream, a number of the API."""


def spelled(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    told = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield NAMES.sub("", node.value)


@pytest.mark.parametrize("path", sorted(DECISIONS.rglob("*.py")), ids=lambda each: each.name)
def test_decisions_spell_no_word_of_a_provider(path: Path) -> None:
    """Codes, reasons and advice of EC2 come from its own table."""
    assert [text for text in spelled(path) if AWS.search(text)] == []


def test_every_plan_has_its_reason_and_one_code_of_ec2() -> None:
    """All that EC2 plans is known, and what is filtered for is all but the reclaim."""
    words = providers.PROVIDERS["aws"].words
    assert set(alerts.EVENTS) == set(Planned) - {Planned.OTHER}
    assert sorted(words.events.values()) == sorted(set(Planned) - {Planned.OTHER})
    assert compute.EVENTS == [
        "instance-reboot", "instance-retirement", "instance-stop", "system-maintenance",
        "system-reboot",
    ]  # fmt: skip
    assert set(alerts.EVENTS) >= phases.CLOSING_EVENTS


@pytest.mark.parametrize(
    ("reason", "hint", "reclaimed"),
    [
        ("Client.UserInitiatedShutdown: by a user", "CloudTrail", False),
        ("Server.SpotInstanceTermination", "spot machine", True),
        ("Server.ScheduledStop: Stopped due to retirement", "scheduled retirement", False),
        ("", "tag policy", False),
    ],
)
def test_a_state_reason_points_to_somebody(reason: str, hint: str, reclaimed: bool) -> None:
    """By its beginning; without a reason another tool is suspected."""
    words = providers.PROVIDERS["aws"].words
    assert hint in words.hint(reason)
    assert words.reclaimed(reason) is reclaimed


def test_a_provider_without_words_means_nothing_by_its_codes() -> None:
    """An event of an unknown code is other, and no reason takes a machine back."""
    assert Words().planned("instance-retirement") is Planned.OTHER
    assert not providers.words_of(None).reclaimed("Server.SpotInstanceTermination")
    assert "people" in Words().hint("anything")

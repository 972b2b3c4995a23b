"""The page of the control endpoint names everything there is, and nothing that there is not."""

import dataclasses
import re
from pathlib import Path

import pytest

from aws_simulator import control, faults, invariants, journal, machine, outside_acts, settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "aws-simulator.md"
WORDS = set(re.findall(r"`([A-Za-z_.*\-/]+)`", PAGE.read_text()))


def names(kind):
    """Return the fields of a dataclass."""
    return {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize(
    "known",
    [
        {path for _, path in control.ROUTES},
        set(outside_acts.VERBS),
        set(outside_acts.EVENT_CODES),
        set(outside_acts.CHECK_WORDS),
        faults.KINDS,
        names(faults.Rule) - {"fault", "id", "fired"},
        set(machine.FATES),
        names(settings.Config),
        names(settings.Lags),
        names(settings.Metrics),
        names(settings.Times),
        names(invariants.Facts),
        names(journal.Entry),
    ],
    ids=min,
)
def test_the_page_names_everything(known):
    """Routes, verbs, faults, fates, settings, facts and the journal's fields are all there."""
    assert known - WORDS == set()


def test_the_page_names_no_route_that_is_gone():
    """Each row of the first table is a route."""
    rows = re.findall(r"^\| ((?:GET|POST|DELETE)[^|]*) \|", PAGE.read_text(), re.MULTILINE)
    listed = {
        (method, path)
        for row in rows
        for method in re.findall("GET|POST|DELETE", row)
        for path in re.findall(r"`(\w+)`", row)
    }
    assert listed == set(control.ROUTES)

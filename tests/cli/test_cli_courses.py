"""`book` of a course: what people read of its dates, and what the server then has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_api import LiveApi
from test_cli_book import at_port, live

__all__ = ["at_port", "live"]
COURSE = """\
kind: Course
metadata: {name: ccnp}
spec:
  definition: two
  slot: {start: "2027-03-15T09:00", end: "2027-03-15T11:00", zone: Europe/Zurich}
  repeat: FREQ=WEEKLY;COUNT=3
  size: 2
"""


@pytest.fixture
def booked(live: LiveApi, run: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Run a command with a manifest against the installation."""

    def go(*argv: str, text: str = COURSE) -> Any:
        file = tmp_path / "class.yaml"
        file.write_text(text, encoding="utf-8")
        shown = [each.replace("FILE", str(file)) for each in argv]
        return run(*shown, env={"LABFLEET_URL": live.url, "LABFLEET_TOKEN": live.token})

    return go


def test_the_look_names_each_date_by_the_clocks_there(booked: Any, live: LiveApi) -> None:
    """The class stays at nine where clocks change; UTC stands beside it, in 80 columns."""
    done = booked("book", "FILE", "--dry-run")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "course/ccnp: two, FREQ=WEEKLY;COUNT=3, times of Europe/Zurich",
        "Would be: 3 of 3 dates booked, 6 of 6 seats in all",
        "DATE            FROM   TO     UTC     SEATS  BECOMES",
        "Mon 2027-03-15  09:00  11:00  08:00Z  2/2    booked",
        "Mon 2027-03-22  09:00  11:00  08:00Z  2/2    booked",
        "Mon 2027-03-29  09:00  11:00  07:00Z  2/2    booked",
    ]
    assert live.ask("GET", "/api/v1/groups")["items"] == []


def test_a_course_is_booked_changed_and_deleted(booked: Any, live: LiveApi) -> None:
    """What is skipped is called off, the same file again changes nothing, delete ends the rest."""
    done = booked("book", "FILE", "--yes")
    assert "course/ccnp: 3 of 3 dates booked, 6 of 6 seats in all" in done.out
    skipping = COURSE + "  skip: ['2027-03-22']\n"
    look = booked("book", "FILE", "--dry-run", text=skipping)
    assert "Mon 2027-03-22  09:00  11:00  08:00Z  2/2    called off" in look.out
    assert "1 date called off" in booked("book", "FILE", "--yes", text=skipping).out
    assert "nothing would change" in booked("book", "FILE", text=skipping).out
    listed = booked("get", "courses")
    assert listed.code == 0
    assert listed.out.splitlines()[1].split()[:3] == ["ccnp", "two", "admin"]
    groups = booked("get", "groups", "-l", "labfleet.dev/course=ccnp", "-o", "name")
    assert groups.out.split() == ["group/ccnp-2027-03-15", "group/ccnp-2027-03-29"]
    told = booked("explain", "course/ccnp").out
    assert "2027-03-29 09:00 Europe/Zurich (07:00Z)" in told
    booked("delete", "group/ccnp-2027-03-29", "--yes")
    longer = skipping.replace("COUNT=3", "COUNT=4")
    look = booked("book", "FILE", "--dry-run", text=longer).out.splitlines()
    assert [each.split("2/2")[1].strip() for each in look[3:]] == [
        "stays", "stays called off", "booked",
    ]  # fmt: skip
    assert booked("delete", "course/ccnp", "--yes").code == 0
    assert live.ask("GET", "/api/v1/groups")["items"] == []


def test_a_group_with_a_rule_is_told_its_kind(booked: Any) -> None:
    """Who writes `repeat` into a Group is told at which line that a Course is meant."""
    done = booked("book", "FILE", text=COURSE.replace("Course", "Group"))
    assert done.code == 2
    assert "class.yaml: line 6: unknown key 'repeat'" in done.err
    assert "several dates is kind Course" in done.err

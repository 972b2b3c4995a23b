"""`book`, and what is done with a group: what people read, and what the server then has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from live_api import LiveApi, Place, live_api, place

TESTS = Path(__file__).parents[1]
MANIFEST = """\
kind: Group
metadata: {{name: exam}}
spec:
  definition: two
  slot: {{start: {start}, end: {end}, zone: Europe/Warsaw}}
  size: {size}
"""
ROSTER = "Name;E-Mail;Zeitfaktor;Klasse\r\nAna Li;ana@x.org;1,5;7b\r\n=bo();bo@x.org;;7b\r\n"


@pytest.fixture(scope="module")
def at_port() -> Iterator[Place]:
    """A loopback port for all tests of this file."""
    with place() as made:
        yield made


@pytest.fixture
def live(at_port: Place) -> Iterator[LiveApi]:
    """An installation with a definition and a pool of one worker, which holds ten of its labs."""
    from fleet_world import MACHINE

    with live_api(at_port) as made:
        world = made.api.world
        lab = made.do(world.definition())
        memory = lab.status.demand.memory_mib * 11 - 1
        capacity = {"memoryMib": memory, "cpuMilli": 10**6, "storageMib": 10**7, "labs": 50,
                    "ports": 6000, "nodes": 900}  # fmt: skip
        machine = {**MACHINE, "capacity": capacity, "licence": {"token": {"env": "CML_TOKEN"}}}
        machine["cml"] = {**machine["cml"], "maxNodesLicensed": 900}
        made.do(world.make("Template", "metal", {"machine": machine}))
        made.do(world.make("Pool", "exam", {"template": "metal", "scaling": {"maxWorkers": 1}}))
        yield made


@pytest.fixture
def booked(live: LiveApi, run: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Run `book` with a manifest of so many seats, 14 days ahead, against the installation."""

    def go(*argv: str, size: int = 3, hours: float = 1, **given: Any) -> Any:
        start = live.api.world.clock.now() + timedelta(days=14)
        end = start + timedelta(hours=hours)
        file = tmp_path / "exam.yaml"
        text = MANIFEST.format(start=start.isoformat(), end=end.isoformat(), size=size)
        file.write_text(text, encoding="utf-8")
        (tmp_path / "roster.csv").write_bytes(ROSTER.encode("cp1252"))
        shown = [each.replace("FILE", str(file)).replace("ROSTER", str(tmp_path / "roster.csv"))
                 for each in argv]  # fmt: skip
        there = {"LABFLEET_URL": live.url, "LABFLEET_TOKEN": live.token}
        return run(*shown, env=there, **given)

    return go


def sessions(live: LiveApi) -> dict[str, Any]:
    """The owner of each session on the server."""
    found = live.ask("GET", "/api/v1/sessions")["items"]
    return {each["metadata"]["name"]: each["spec"]["owner"] for each in found}


def test_the_look_says_what_would_be_booked_and_books_nothing(booked, live):
    """When, how many fit, who sits where, in 80 columns."""
    done = booked("book", "FILE", "--csv", "ROSTER", "--dry-run")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "group/exam: two"
    assert lines[1] == "When:      2026-12-11 10:00 Europe/Warsaw (09:00Z) to 2026-12-11 11:00"
    assert lines[2] == "           Europe/Warsaw (10:00Z)"
    assert lines[3] == "3 of 3 seats would be booked"
    assert [each.split() for each in lines[4:]] == [
        ["SEAT", "PERSON", "TIME", "ENDS", "SESSION"],
        ["001", "Ana", "Li", "x1.5", "11:30", "exam-001"],
        ["002", "=bo()", "-", "11:00", "exam-002"],
        ["003", "-", "-", "11:00", "exam-003"],
    ]
    assert max(map(len, lines)) <= 80
    assert "these columns are not used: Klasse" in done.err
    assert sessions(live) == {}


def test_booking_asks_first_and_twice_is_once(booked, live):
    """Without a terminal and --yes nothing happens; the same command again changes nothing."""
    refused = booked("book", "FILE", "--csv", "ROSTER")
    assert (refused.code, sessions(live)) == (2, {})
    assert "3 seats would be booked. Nothing" in refused.err.replace("\n", " ")
    done = booked("book", "FILE", "--csv", "ROSTER", "--yes")
    assert (done.code, done.out.splitlines()[-1]) == (0, "group/exam: 3 of 3 seats are booked")
    assert sessions(live) == {"exam-001": "Ana Li", "exam-002": "=bo()", "exam-003": ""}
    again = booked("book", "FILE", "--csv", "ROSTER", "--yes")
    assert again.code == 0
    assert "booked so already" in again.out
    shown = booked("get", "groups", "-o", "csv")
    assert "exam,two," in shown.out


def test_what_does_not_fit_is_refused_or_booked_in_part(booked, live):
    """The refusal says how many fit and where the others do; --some books those that fit."""
    refused = booked("book", "FILE", "--yes", size=12)
    assert (refused.code, sessions(live)) == (7, {})
    assert "10 of 12 seats fit" in refused.err
    assert "fits the other 2 seats" in refused.err
    done = booked("book", "FILE", "--some", "--yes", "-o", "wide", size=12)
    assert done.code == 0
    assert "no room" in done.out
    assert "found no room: 011, 012" in done.err
    assert len(sessions(live)) == 10


def test_a_group_is_extended_and_deleted_as_one(booked, live):
    """`extend group/NAME` moves every seat; deleting it asks when labs are in use, then cancels."""
    booked("book", "FILE", "--yes")
    done = booked("extend", "group/exam", "--by", "30m")
    assert (done.code, done.out.startswith("group/exam ends ")) == (0, True)
    ends = {each["status"]["end"] for each in live.ask("GET", "/api/v1/sessions")["items"]}
    assert len(ends) == 1
    assert "2026-12-11T10:30" in next(iter(ends))
    mixed = booked("extend", "group/exam", "exam-001", "--by", "30m")
    assert (mixed.code, "groups alone" in mixed.err) == (2, True)
    assert booked("delete", "group/exam", "--yes").code == 0
    found = live.ask("GET", "/api/v1/sessions")["items"]
    assert {each["spec"]["cancel"]["reason"] for each in found} == {"group exam deleted"}


def ends(live: LiveApi) -> list[str]:
    """When each session on the server ends, in the order of their names."""
    found = live.ask("GET", "/api/v1/sessions")["items"]
    return [each["status"]["end"][11:16] for each in found]


def test_the_same_booking_again_takes_no_time_back(booked, live):
    """After an extension the unchanged file changes nothing, and says so; another end names each seat."""
    booked("book", "FILE", "--csv", "ROSTER", "--yes")
    assert booked("extend", "group/exam", "--by", "1h").code == 0
    assert ends(live) == ["12:00", "11:00", "11:00"]
    again = booked("book", "FILE", "--csv", "ROSTER", "--yes")
    assert "booked so already" in again.out
    assert "moved, extended or shortened since they were booked" in again.err
    assert ends(live) == ["12:00", "11:00", "11:00"]

    look = booked("book", "FILE", "--csv", "ROSTER", hours=1.5)
    assert look.code == 2
    told = " ".join(look.err.split())
    assert (
        "2 seats (002, 003): end earlier, at 2026-12-11 10:30Z instead of 2026-12-11 11:00Z" in told
    )
    assert "and the times of 3 seats. Nothing was changed" in told
    assert ends(live) == ["12:00", "11:00", "11:00"]
    done = booked("apply", "-f", "FILE", hours=1.5)
    assert "1 seat (001): end earlier, at 2026-12-11 11:15Z" in " ".join(done.err.split())
    assert ends(live) == ["11:15", "10:30", "10:30"]


def test_a_group_moves_with_its_seats(booked, live):
    """By its name in one step; seats that are chosen by their group are sent there."""
    booked("book", "FILE", "--yes")
    refused = booked("move", "-l", "labfleet.dev/group=exam", "--later", "30m", "--yes")
    assert refused.code == 2
    assert "labfleet move group/exam --later 30m" in refused.err
    assert ends(live) == ["10:00"] * 3
    done = booked("move", "group/exam", "--later", "30m")
    assert (done.code, done.out[:38]) == (0, "group/exam starts 2026-12-11 09:30:00Z")
    assert ends(live) == ["10:30"] * 3
    shown = booked("get", "groups", "-o", "csv")
    assert "2026-12-11T09:30:00" in shown.out
    alone = booked("move", "exam-002", "--later", "30m")
    assert (alone.code, "group/exam keeps its own start" in alone.err) == (0, True)
    later = booked("shorten", "group/exam", "--by", "10m")
    assert (later.code, "1 seat has times of its own" in later.err) == (0, True)
    assert ends(live) == ["10:20", "10:50", "10:20"]


def test_labs_in_use_are_named_before_a_group_is_deleted(run, stub):
    """Its seats are what ends with it."""
    stub.put("Group", "exam", spec={"definition": "two"})
    stub.put("Session", "exam-001", spec={"owner": "ana"}, status={"phase": "RUNNING"})
    done = run("delete", "group/exam")
    assert done.code == 2
    assert "Deleting group/exam ends 1 lab that people use now: exam-001 of ana" in done.err
    assert not stub.calls("DELETE")


def test_a_bad_roster_or_manifest_is_told_before_anything_is_sent(run, stub, tmp_path):
    """File, row and column; a manifest with something else; seats in both."""
    exam, roster = tmp_path / "exam.yaml", tmp_path / "r.csv"
    exam.write_text(MANIFEST.format(start="2026-12-11T09:00:00Z", end="null", size=1))
    roster.write_text("Name,Factor\nana,9\nana,1\n")
    done = run("book", str(exam), "--csv", str(roster))
    assert done.code == 2
    assert f"{roster}: row 2, column B (factor): '9' is no factor" in done.err
    assert f"{roster}: row 3 (person): 'ana' stands in row 2 too" in done.err
    assert run("book", str(exam), "--csv", str(tmp_path / "none.csv")).code == 2
    exam.write_text(exam.read_text() + "  seats: [{person: bo}]\n")
    roster.write_text("Name\nana\n")
    assert "Name them in one of the two" in run("book", str(exam), "--csv", str(roster)).err
    exam.write_text("kind: Session\nmetadata: {name: s}\nspec: {definition: two}\n")
    done = run("book", str(exam))
    assert (done.code, "book takes one Group" in done.err) == (2, True)
    assert stub.seen == []

"""The head of `explain session/X`: where it stands, why, when, what would help, in 80 columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from desk import Desk
from live_api import LiveApi, live_api, place
from waiting_fleet import fleet, past, runs, waits, worker

from labfleet.cli import main
from labfleet.cli.commands import session_head
from labfleet.resources.decision import Decision
from labfleet.resources.history import RunKind
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import LabStatus, Session, SessionPhase

NOW = datetime(2026, 11, 30, 14, 20, tzinfo=UTC)
P = SessionPhase
Told = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def live() -> Iterator[LiveApi]:
    """The API with a pool of two workers, one of which boots, and past boots and sessions."""
    with place() as at, live_api(at) as made:
        world = made.api.world

        async def build() -> None:
            await fleet(world, workers=3)
            await past(world, RunKind.BOOT, "metal", [15.0, 16, 16, 17, 17, 17, 18, 18, 19, 20])
            await past(world, RunKind.SESSION, "two", [30.0, 45, 60, 70, 80, 90, 95, 100, 110, 120])
            await worker(world, "w-eu-3", "ACTIVE")
            await worker(world, "w-eu-5", "LICENSING", 6)
            await runs(world, "busy", "w-eu-3", begun=20)
            await waits(world, "ccnp-4711", priority=80)
            for number in range(2):
                await waits(world, f"after-{number}")

        made.do(build())
        yield made


@pytest.fixture
def told(live: LiveApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """What `explain` says of a session, by lines."""
    base = Desk().environment(tmp_path, LABFLEET_URL=live.url, LABFLEET_TOKEN=live.token)

    def said(name: str) -> list[str]:
        assert main.run(["explain", f"session/{name}"], base=base) == 0
        return capsys.readouterr().out.splitlines()

    return said


def titles(lines: list[str]) -> list[str]:
    """Return the titles of the lines up to the decision, without what goes on below."""
    found = []
    for line in lines[1:]:
        title = re.match(r"([A-Z][A-Za-z ]+):", line)
        if title is not None and title[1] == "Decision":
            break
        if title is not None:
            found.append(title[1])
    return found


def test_a_waiting_session_says_where_why_when_and_what_would_help(told: Told) -> None:
    """Four answers under each other, none wider than 80 columns."""
    lines = told("ccnp-4711")
    assert titles(lines) == ["Waiting", "Why", "When", "Earlier"]
    head = lines[1 : next(at for at, line in enumerate(lines) if line.startswith("Decision:"))]
    assert max(map(len, head)) <= 80
    text = re.sub(r"\n +", " ", "\n".join(head))
    assert re.fullmatch(
        r"Waiting:   position 1 of 3 in exam-eu \(priority 80\)\n"
        r"Why:       needs 2 CPU / 1 GiB .*; best worker w-eu-3 is short 1\.5 CPU\n"
        r"When:      \d\d:\d\d-\d\d:\d\dZ \(in \d+m to \d+m\); "
        r"w-eu-5 boots \(LICENSING, 6 of ~17 min\); not known yet: how long labs take to be gone, "
        r"how long its lab takes to start\n"
        r"Earlier:   let definition two ask for 0\.5 CPU instead of 2 CPU: that fits w-eu-3 now",
        text,
    )


LAB = LabStatus(title="two", marker="m")
PLACED: dict[str, Any] = {"started_at": None, "end": None}
PHASES: list[tuple[str, dict[str, Any], list[str], str]] = [
    ("placed", {"phase": P.SCHEDULED, **PLACED}, ["Placed", "Why", "When"], "on w-eu-3"),
    (
        "importing",
        {"phase": P.INSTANTIATING, "lab": LAB, **PLACED},
        ["Importing", "Why", "When"],
        "its lab on w-eu-3",
    ),
    (
        "booting",
        {
            "phase": P.INSTANTIATING,
            "lab": msgspec.structs.replace(LAB, id="x", nodes=5, booted=3),
            **PLACED,
        },
        ["Booting", "Why", "When"],
        "3 of 5 nodes up on w-eu-3",
    ),
    ("running", {"reason": "Running"}, ["Running", "Why"], "on w-eu-3"),
    (
        "ending",
        {"phase": P.STOPPING, "outcome": P.COMPLETED},
        ["Ending", "Why"],
        "on w-eu-3, then it is COMPLETED",
    ),
    (
        "failed",
        {"phase": P.FAILED, "reservation": None, "reason": "BootTimeout", "message": "not up"},
        ["Failed", "Why"],
        "BootTimeout",
    ),
]


@pytest.mark.parametrize(("name", "status", "want", "line"), PHASES, ids=[p[0] for p in PHASES])
def test_each_phase_has_a_head_of_its_own(
    live: LiveApi, told: Told, name: str, status: dict[str, Any], want: list[str], line: str
) -> None:
    """Where it stands comes first, then why, and when it starts as long as it has not."""
    live.do(runs(live.api.world, name, "w-eu-3", begun=2, **status))
    lines = told(name)
    shown = [each for each in titles(lines) if each in {*want, "Why", "When"}]
    assert shown == want
    assert lines[1].partition(":")[2].strip() == line
    live.do(_gone(live, name))


def test_what_stands_in_no_other_field_is_printed_too(live: LiveApi, told: Told) -> None:
    """By which strategy its worker was chosen, and how far its people may extend it: in 80 columns."""
    decided = Decision(
        outcome="assigned", reason="Fits", message="it fits", at=NOW, chosen="w-eu-3", evaluated=3,
        strategy="PACKED", parts={"filled": 0.25}, latency_ms=0.2,
    )  # fmt: skip
    live.do(runs(live.api.world, "chosen", "w-eu-3", begun=2, decision=decided))
    said = told("chosen")
    assert "Also:      Chosen by PACKED among 3 workers in 0.2 ms: filled 0.25." in said
    answer = live.ask("GET", "/api/v1/sessions/chosen/explain")
    flat = " ".join(" ".join(said).split())
    assert answer["more"]
    assert all(" ".join(each.split()) in flat for each in answer["more"])
    assert set(answer["more"]) <= set(answer["lines"])
    assert max(map(len, said)) <= 80
    live.do(_gone(live, "chosen"))


async def _gone(live: LiveApi, name: str) -> None:
    """Have a session hold nothing more, so that the next test finds the fleet as it was."""
    world = live.api.world
    found = await world.services.objects.get(Session, name, "default")
    await world.status(found, phase=P.COMPLETED, reservation=None)


def slot(hours: float) -> dict[str, str]:
    """A slot of an hour that begins so many hours after the live API's clock began."""
    begin = datetime(2026, 11, 27, 9, tzinfo=UTC) + timedelta(hours=hours)
    return {"start": begin.isoformat(), "end": (begin + timedelta(hours=1)).isoformat()}


def test_a_promise_says_its_start_and_how_its_place_is(live: LiveApi, told: Told) -> None:
    """Held, it names pool and start; where the pool cannot have the place any more, the danger."""
    world = live.api.world
    live.do(world.session("promised", slot=slot(30)))
    lines = told("promised")
    assert lines[1] == "Promised:  a place in pool exam-eu"
    when = " ".join(lines).split("When: ")[1]
    assert when.split()[:3] == ["2026-11-28", "15:00Z", "(in"]
    assert "is up" in when or "boots" in when or "is made ready" in when

    async def lost() -> None:
        found = await world.services.objects.get(Session, "promised", "default")
        claim = msgspec.structs.replace(found.status.claim, place=7)
        await world.status(found, claim=claim)

    live.do(lost())
    lines = told("promised")
    assert lines[1].startswith("In danger: its place in pool exam-eu (it may have fewer workers")
    assert any(line.startswith("When:      unknown; what was promised") for line in lines)


def test_a_slot_on_the_waiting_list_says_its_place_there(live: LiveApi, told: Told) -> None:
    """Nothing is promised, and that is said, with how many wait before it."""
    world = live.api.world
    for number in range(5):
        live.do(world.session(f"full{number}", slot=slot(60), whenFull="wait"))
    assert told("full4")[1] == "Waiting list: position 2 of 2"


def test_a_refused_session_says_so_first(live: LiveApi, told: Told) -> None:
    """What can never run is refused, not waiting; the reason stands beside it."""
    world = live.api.world

    async def refuse() -> None:
        made = await waits(world, "huge")
        decision = msgspec.structs.replace(made.status.decision, outcome="refused")
        await world.status(
            made, phase=P.FAILED, reason="NeverFits", message="needs 64 CPU", decision=decision
        )

    live.do(refuse())
    lines = told("huge")
    assert lines[1:3] == ["Refused:   NeverFits", "Why:       needs 64 CPU"]


@pytest.mark.parametrize(
    ("early", "late", "share", "want"),
    [
        ("2026-11-30T14:35:00Z", "2026-11-30T14:50:00Z", 0.8, "14:35-14:50Z (in 15m to 30m, 80 %)"),
        ("2026-11-30T14:20:00Z", "2026-11-30T14:50:00Z", None, "14:20-14:50Z (now to 30m)"),
        ("2026-11-30T23:50:00Z", "2026-12-01T00:10:00Z", None,
         "23:50-2026-12-01 00:10Z (in 9h30m to 9h50m)"),
        ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z", None, "2026-12-01 09:00Z (in 18h40m)"),
        ("2026-11-30T15:00:00Z", None, None, "15:00Z or later (in 40m)"),
        (None, None, None, "unknown"),
    ],
)  # fmt: skip
def test_a_range_is_written_once(
    early: str | None, late: str | None, share: float | None, want: str
) -> None:
    """The day only where it is another one, the share only where one is stated."""
    assert session_head.span({"earliest": early, "latest": late, "coverage": share}, NOW) == want


def test_other_kinds_have_no_head() -> None:
    """An explanation without a headline begins as it always did."""
    assert session_head.lines({"summary": "well"}, NOW) == []
    assert KINDS["Session"].derived == ("status.access", "status.outlook")

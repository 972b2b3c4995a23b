"""What a period's figures count: as of its end, with everybody who never ran."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from labfleet.rehearsal.figures import tally
from labfleet.rehearsal.figures.run_records import SessionRecord, WorkerRecord
from labfleet.rehearsal.figures.tally import Tally, figures
from labfleet.rehearsal.plans.demand import PlannedSession
from labfleet.rehearsal.whatif import breakdown
from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import Worker, WorkerSpec

END, LIMIT = 36_000.0, 900.0
DONE, EXPIRED = SessionPhase.COMPLETED, SessionPhase.EXPIRED


def stay(name: str, asked: float = 0.0, **more: Any) -> SessionRecord:
    return SessionRecord(name, "ada", "pod", more.pop("wished", asked), asked, **more)


def told(stays: Iterable[SessionRecord], posts: dict[str, WorkerRecord] | None = None) -> Tally:
    made = Tally(datetime(2026, 11, 27, tzinfo=UTC), posts=posts or {})
    made.stays = {Key("Session", "default", each.name): each for each in stays}
    return made


def test_who_never_ran_did_not_start_in_time() -> None:
    """Of ten, two expired: 80 % started in time, however short the others waited."""
    ran = [stay(f"a{n}", started=10.0, over=4000.0, phase=DONE) for n in range(8)]
    lost = [stay(f"b{n}", over=1800.0, phase=EXPIRED, slotted=True) for n in range(2)]
    found = figures(told([*ran, *lost]), END)
    assert (found.wait_p95, found.in_time, found.unserved) == (10.0, 0.8, 2)
    assert (found.expired, found.slots_late_or_never, found.late_starts) == (2, 2, 0)


def test_a_slot_beyond_the_end_is_not_due() -> None:
    """What was booked for later neither ran nor failed to run: there is nothing to say of it."""
    found = figures(told([stay("later", asked=END + 60, wished=0.0, slotted=True)]), END)
    assert (found.requested, found.not_due, found.unserved, found.in_time) == (1, 1, 0, None)


def test_what_comes_after_the_end_has_not_happened() -> None:
    """A session that starts or ends after the period waits or runs at its end."""
    late = stay("late", asked=END - 60, started=END + 60, over=END + 4000, phase=DONE)
    goes_on = stay("on", asked=100.0, started=200.0, over=END + 1, phase=DONE)
    found = figures(told([late, goes_on]), END)
    assert (found.completed, found.running, found.waiting, found.unfinished) == (0, 1, 1, 2)
    assert (found.wait_max, found.unserved, found.in_time) == (100.0, 0, 1.0)


def test_who_waits_at_the_end_counts_once_the_limit_is_over() -> None:
    """After 16 minutes of waiting nobody can still start within 15; after a minute they can."""
    short, long = stay("short", asked=END - 60), stay("long", asked=END - 16 * 60)
    found = figures(told([short, long]), END, limit=LIMIT)
    assert (found.waiting, found.unserved, found.in_time) == (2, 1, 0.0)


def test_who_gave_up_waiting_is_counted() -> None:
    """Cancelled after 75 minutes of waiting is not the same as cancelled before the slot."""
    tired = stay("tired", over=75 * 60.0, phase=SessionPhase.CANCELLED)
    free = stay("free", asked=5000.0, wished=0.0, over=100.0, phase=SessionPhase.CANCELLED)
    found = figures(told([tired, free]), END)
    assert (found.cancelled, found.gave_up, found.unserved, found.in_time) == (2, 1, 0, 0.0)


def test_refused_at_the_desk_never_ran() -> None:
    """Who was turned away before there was a session counts as asked for and as unserved."""
    found = figures(told([]), END, refused=3)
    assert (found.requested, found.refused, found.unserved, found.in_time) == (3, 3, 3, 0.0)


def test_waits_of_slots_and_of_people_who_come_now_are_apart() -> None:
    """Slots that begin on time do not hide how long others waited."""
    slots = [stay(f"s{n}", started=0.0, over=9.0, phase=DONE, slotted=True) for n in range(9)]
    now = stay("now", started=600.0, over=900.0, phase=DONE)
    found = figures(told([*slots, now]), END)
    assert (found.wait_p50, found.slot_p95, found.now_p50) == (0.0, 0.0, 600.0)


def test_the_tail_is_counted_until_the_last_lab_is_over() -> None:
    """Hours count inside the period; what the labs cost after it stands apart."""
    post = WorkerRecord(2.0, "main", Amounts(cpu_milli=1000), since=END - 3600)
    lab = stay("lab", asked=END - 3000, started=END - 2900, over=END + 1800, phase=DONE)
    found = figures(told([lab], {"w": post}), END, known=END + 86400)
    assert (found.worker_hours, found.cost_usd) == (1.0, 2.0)
    assert (found.tail_worker_hours, found.tail_cost_usd) == (0.5, 1.0)
    cut = figures(told([lab], {"w": post}), END)
    assert (cut.tail_worker_hours, cut.cost_per_session_usd) == (None, 2.0)


def test_a_machine_without_a_price_leaves_the_others_cost() -> None:
    """The cost is unknown, what is known of it is said, and the pool is named."""
    posts = {"a": WorkerRecord(3.0, "main", spans=[(0.0, 3600.0)]),
             "b": WorkerRecord(None, "own", spans=[(0.0, 7200.0)])}  # fmt: skip
    found = figures(told([], posts), END)
    assert (found.cost_usd, found.cost_known_usd) == (None, 3.0)
    pools = breakdown.by_pool(told([], posts), END)
    assert (pools["own"]["unpriced_hours"], pools["main"]["cost_usd"]) == (2.0, 3.0)


def test_a_machine_costs_what_its_own_region_does() -> None:
    """The list is of one region: a recorded machine elsewhere has no price, and not that one's."""
    found = Tally(datetime(2026, 11, 27, tzinfo=UTC))
    for region in ("us-east-1", "eu-central-1"):
        provider = {"kind": "aws", "amiId": "ami-1", "instanceTypes": ["m5zn.metal"],
                    "subnetIds": ["subnet-a"], "region": region}  # fmt: skip
        cml = {"adminPassword": {"env": "P"}}
        machine = msgspec.convert({"provider": provider, "cml": cml}, Machine)
        made = Metadata(name=region, uid=region)
        found.worker(Worker(metadata=made, spec=WorkerSpec(machine=machine)), 0.0)
    assert found.posts["us-east-1"].price == 4.3605
    assert found.posts["eu-central-1"].price is None


def test_reasons_are_counted_with_an_example() -> None:
    """Failed, refused and expired sessions say why, those turned away too."""
    bad = [stay(f"f{n}", over=9.0, phase=SessionPhase.FAILED, reason="Refused",
                message=f"no such node {n}") for n in range(2)]  # fmt: skip
    odd = stay("r", over=9.0, phase=SessionPhase.FAILED, refused=True, why="too large",
               why_reason="NeverFits")  # fmt: skip
    away = {("TooLong", "9000 minutes are more than 1440"): 4}
    found = breakdown.reasons(told([*bad, odd]), END, turned_away=away)
    assert found["failed"] == [{"reason": "Refused", "count": 2, "example": "no such node 0"}]
    assert [(row["reason"], row["count"]) for row in found["refused"]] == [
        ("TooLong", 4), ("NeverFits", 1),
    ]  # fmt: skip


def test_who_never_ran_stands_before_who_waited() -> None:
    """Even with no wait at all: a lab that cannot be built fails at once."""
    broken = stay("broken", over=0.2, phase=SessionPhase.FAILED, message="no such node")
    slow = stay("slow", started=600.0, over=900.0, phase=DONE)
    first, second = breakdown.waiters(told([slow, broken]), END, 5, limit=LIMIT)
    assert (first["session"], first["never_ran"], first["reason"]) == (
        "broken", True, "no such node",
    )  # fmt: skip
    assert (second["session"], second["owner"], second["ran"]) == ("slow", "ada", True)


def test_a_day_has_what_was_due_on_it() -> None:
    """A slot that was booked on Monday for Tuesday is Tuesday's."""
    booked = stay("b", wished=10.0, asked=90_000.0, started=90_060.0, over=99_000.0, phase=DONE)
    monday, tuesday = breakdown.by_day(told([booked]), 172_800.0, limit=LIMIT)
    assert (monday["requested"], tuesday["requested"], tuesday["completed"]) == (0, 1, 1)
    labs = breakdown.by_definition(told([booked]), 172_800.0, limit=LIMIT)
    assert labs["pod"]["wait_p95"] == 60.0


def test_who_was_turned_away_is_in_the_day_and_the_lab() -> None:
    """What the whole period counts as asked for and unserved, its parts do too."""
    away = [PlannedSession(10.0, "pod", start=90_000.0), PlannedSession(20.0, "odd")]
    found = breakdown.details(told([]), 172_800.0, limit=LIMIT, away=away)
    assert [(day["requested"], day["unserved"]) for day in found["by_day"]] == [(1, 1), (1, 1)]
    labs = {name: row["unserved"] for name, row in found["by_definition"].items()}
    assert labs == {"odd": 1, "pod": 1}


def test_the_figures_of_the_agreement_keep_their_names() -> None:
    """benchmarks/agreement.py asks for these by name."""
    names = set(tally.Figures.__slots__)
    assert {"completed", "worker_hours", "wait_p50", "wait_p95"} <= names

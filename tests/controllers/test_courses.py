"""Courses in the running product: a class starts on time each week, also when clocks change."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from virtual_time import play
from world import World, world

from labfleet.controllers import assembly
from labfleet.resources.course import Course
from labfleet.resources.group import Group
from labfleet.resources.session import Session, SessionPhase

SEATS = 30
ZURICH = ZoneInfo("Europe/Zurich")
NINE = "09:00"
ON_TIME = timedelta(seconds=60)
"""How long after its start a session may begin and is on time, as in `rehearse --book`."""


def seats(w: World, day: str) -> list[Session]:
    """The sessions of one date."""
    found = [each for each in w.cache.all(Session) if each.status.seat]
    return [each for each in found if each.status.seat.group == f"ccnp-{day}"]


def begun(w: World, day: str) -> bool:
    """Tell whether all of a date run."""
    return all(each.status.phase is SessionPhase.RUNNING for each in seats(w, day))


def test_a_class_of_thirty_starts_on_time_each_week_over_a_change_of_clocks() -> None:
    """At nine in Zurich on the Mondays before and after clocks go forward; after a month its
    records go, the course's after those of its groups.
    """
    days = ("2027-03-22", "2027-03-29")

    async def story() -> None:
        async with world() as w:
            await w.pool(scaling={"minWorkers": 0, "maxWorkers": 6})
            await w.definition()
            slot = {
                "start": f"{days[0]}T{NINE}",
                "end": f"{days[0]}T{NINE[:-2]}20",
                "zone": ZURICH.key,
            }
            spec = {"definition": "two", "size": SEATS, "slot": slot,
                    "repeat": "FREQ=WEEKLY;COUNT=2"}  # fmt: skip
            await w.make("Course", "ccnp", spec)
            for day in days:
                start = datetime.fromisoformat(f"{day}T{NINE}").replace(tzinfo=ZURICH)
                # A server that begins forty minutes before: what lies between costs the test nothing.
                await w.clock.sleep((start - w.clock.now()).total_seconds() - 2400)
                process = await w.start()
                await w.until(lambda day=day: begun(w, day))
                found = seats(w, day)
                assert len(found) == SEATS
                assert {each.status.claim is not None for each in found} == {True}
                late = [each.status.started_at - start for each in found]
                assert timedelta() <= min(late) <= max(late) < ON_TIME, late
                await w.until(lambda day=day: all(one.status.ended_at for one in seats(w, day)))
                process.kill()
            process = await w.start()
            for task in process.tasks[1:]:
                task.cancel()
            for left in ((1, 1), (1, 0), (0, 0)):
                await w.clock.sleep(31 * 86400 if left == (1, 1) else 86400)
                for _ in range(2):
                    await process.reconcile("upkeep", assembly.UPKEEP)
                    await w.let_pass(4)
                there = (len(w.cache.all(Course)), int(bool(w.cache.all(Group))))
                assert there == left, (there, left)

    play(story)

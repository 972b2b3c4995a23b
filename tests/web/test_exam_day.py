"""A whole exam day through the console alone: the owner of a group and three seat holders, role user.

The labs themselves come up and end by what controllers write; everything that people do is a form of
a page, and everything that they know is on one.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from browser import Browser, Reader, plain
from test_service_claims import MORNING, fleet

from labfleet.resources.session import LabStatus, PortAllocation, Session
from labfleet.resources.worker import Worker, WorkerPhase

PEOPLE = ("ana", "ben", "cy")
ROSTER = "name,seat\nana,001\nben,002\ncy,003\n"
MINUTE = timedelta(minutes=1)


class Person:
    """Somebody of role user who has a browser, and nothing else."""

    def __init__(self, browser: Browser, name: str) -> None:
        self.browser = browser
        self.name = name

    async def html(self, path: str) -> str:
        await self.browser.world.services.fresh()
        reply = await self.browser.get(path, "user", self.name)
        assert reply.status == 200, (path, reply.status)
        return plain(reply)

    async def reads(self, path: str) -> str:
        html = (await self.html(path)).partition("<main")[2]
        return " ".join(re.sub("<[^>]+>", " ", html).split())

    async def does(self, path: str, start: str, fields: dict[str, str] | None = None) -> None:
        """Follow the first link of a page whose address begins so, and send the form there."""
        links = [str(each.get("href")) for each in Reader(await self.html(path)).all("a")]
        found = [each for each in links if each.startswith(start)]
        assert found, (path, start, links)
        target = found[0]
        await self.html(target)
        done = await self.browser.send(target, fields or {}, "user", self.name)
        assert done.status == 303, plain(done)[-1500:]
        await self.browser.world.services.fresh()

    async def missed(self, path: str, start: str) -> bool:
        """Tell whether a page has no link whose address begins so."""
        links = [str(each.get("href")) for each in Reader(await self.html(path)).all("a")]
        return not any(each.startswith(start) for each in links)


async def labs(browser: Browser, seats: tuple[str, ...], **status: Any) -> None:
    """What controllers write of the labs of some seats."""
    for seat in seats:
        session = await browser.world.services.objects.get(Session, f"exam-{seat}", "default")
        await browser.world.status(session, **status)


async def until(browser: Browser, minutes: int) -> None:
    """Let the fleet's clock go to so many minutes after the exam's begin."""
    at = MORNING + minutes * MINUTE
    browser.world.clock.forward((at - browser.world.clock.now()).total_seconds())


async def server(browser: Browser) -> None:
    """A worker that hosts the labs, and whose address people may see."""
    made = await browser.world.make("Worker", "w1", {"template": "metal"})
    machine = {"public_address": "203.0.113.7", "id": "i-1", "state": "running"}
    shown = type(made.status.machine)(**machine)
    found: Worker = await browser.world.status(made, phase=WorkerPhase.ACTIVE, machine=shown)
    assert found.status.machine.public_address == "203.0.113.7"


@pytest.mark.asyncio
async def test_an_exam_day_is_run_by_people_of_role_user_alone(browser: Browser) -> None:
    """Booked, read, begun, late, extended, handed over, ended: each by who it is for."""
    await fleet(browser.world)
    await server(browser)
    teacher = Person(browser, "teacher")
    ana, ben, cy = (Person(browser, name) for name in PEOPLE)
    await booking(teacher, ana, ben)
    await beginning(browser, teacher, ana, cy)
    await ending(browser, teacher, ana, ben)


async def booking(teacher: Person, ana: Person, ben: Person) -> None:
    """The teacher books from the page of classes; those who sit there find it among theirs."""
    assert "No class is ahead." in await teacher.reads("/class")
    start = f"{MORNING:%Y-%m-%dT%H:%M}"
    form = {"definition": "two", "name": "exam", "start": start, "zone": "UTC", "minutes": "60",
            "roster": ROSTER, "spare": "1", "full": "refuse"}  # fmt: skip
    await teacher.does("/class", "/act/book/groups", form)
    room = await teacher.reads("/class/exam")
    assert "All 4" in room
    assert "001 ana" in room
    assert "spare-1 nobody named" in room
    assert "class exam" in await teacher.reads("/calendar?view=day&date=2026-12-11")
    mine = await ana.reads("/my-labs")
    assert "Next 1" in mine
    assert "booked exam-001" in mine
    assert "teacher booked it" in mine
    assert "exam-002" not in mine
    assert await ben.missed("/my-labs", "/act/cancel")


async def beginning(browser: Browser, teacher: Person, ana: Person, cy: Person) -> None:
    """Two labs are up and one is late; who is there says so; who is late reads it like the teacher."""
    await until(browser, 0)
    port = PortAllocation(name="r1", node="r1", kind="serial", number=2001)
    up = {"phase": "RUNNING", "worker": "w1", "started_at": MORNING, "ready_at": MORNING,
          "ports": (port,), "lab": LabStatus(title="exam", marker="m", id="l1")}  # fmt: skip
    await labs(browser, ("001", "002"), **up)
    await labs(browser, ("003",), phase="INSTANTIATING", worker="w1")
    await until(browser, 5)
    assert "telnet://203.0.113.7:2001" in await ana.html("/my-labs")
    assert "55 min left" in await ana.reads("/my-labs")
    await ana.does("/my-labs", "/act/check-in/sessions/exam-001")
    late = await cy.reads("/my-labs")
    assert "is being started" in late
    assert "It is late" in late
    seen = await teacher.reads("/class/exam")
    assert "late 2" in seen.lower()
    assert "✓ here" in seen
    assert "003 cy" in await teacher.reads("/class/exam?show=late")
    assert "002 ben" in await teacher.reads("/class/exam?show=absent")


async def ending(browser: Browser, teacher: Person, ana: Person, ben: Person) -> None:
    """More time for all, a seat for somebody else, the warning before the end, and the end."""
    await until(browser, 40)
    await teacher.does("/class/exam", "/act/extend/groups/exam", {"minutes": "10"})
    assert "30 min left" in await ana.reads("/my-labs")
    spare = "/sessions/exam-spare-1"
    await teacher.does(spare, "/act/hand-over/sessions/exam-spare-1", {"to": "dee"})
    assert "exam-spare-1" in await Person(browser, "dee").reads("/my-labs")
    await until(browser, 66)
    assert "Less than 5 minutes left" in await ben.reads("/my-labs")
    over = {"phase": "COMPLETED", "ended_at": MORNING + 70 * MINUTE, "reservation": None}
    await until(browser, 70)
    await labs(browser, ("001", "002"), **over)
    assert "over exam-001" in (await ana.reads("/my-labs")).partition("Past")[2]
    assert "✓ over" in await teacher.reads("/class/exam")

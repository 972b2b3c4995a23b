"""A webhook of whoever booked a class: it hears of the seats, whoever sits there."""

from __future__ import annotations

from datetime import timedelta

from virtual_time import play
from webhook_cases import begun, rounds
from world import world

from labfleet.resources.session import Session


def test_a_booker_hears_of_a_seat_that_fails_long_after_it_was_booked() -> None:
    """Also when nothing else of the booker's own changed since the last look."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, owner="teacher", types=["notice.*"])
            await w.definition("d1")
            start = (w.clock.now() + timedelta(days=1)).isoformat()
            seats = [{"person": "ana"}]
            spec = {"definition": "d1", "owner": "teacher", "slot": {"start": start}}
            await w.make("Group", "exam", {**spec, "seats": seats})
            await rounds(w, controller)
            assert sender.types() == ["notice.booked"]
            seat = next(each for each in w.cache.all(Session) if each.status.seat is not None)
            assert [each.name for each in controller.woken(seat, seat)] == ["h"]
            await w.status(seat, phase="FAILED")
            await rounds(w, controller)
            assert sender.types() == ["notice.booked", "notice.failed"]
            assert sender.posts[-1][1]["subject"] == f"sessions/{seat.name}"

    play(story)

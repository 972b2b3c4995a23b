"""What an owner was told is read from the log again, the same as was sent."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import World, who

from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.service.core import event_types
from labfleet.service.reads import notices


@pytest.mark.asyncio
async def test_the_log_tells_again_what_was_told(world: World) -> None:
    """From the making on; what came before the first event that is still known is not guessed."""
    await world.definition()
    made = await world.session("a", who("user", "ann"))
    await world.status(made, phase=SessionPhase.READY)
    await world.status(made, phase=SessionPhase.FAILED, message="its worker is gone")
    events = (await world.store.events_of(made.key, limit=10))[::-1]
    told = notices.told(events, uid=made.metadata.uid)
    kinds = [str(each.notice.type) for each in told]
    assert kinds == ["notice.booked", "notice.ready", "notice.failed"]
    assert [each.at for each in told] == [each.at for each in events]
    later = notices.told(events[1:], uid=made.metadata.uid)
    assert [str(each.notice.type) for each in later] == ["notice.failed"]
    assert notices.told(events, uid="another") == ()


def test_a_notice_has_the_same_place_wherever_it_is_counted() -> None:
    """The place among a change's events is a part of a notice's id."""
    old = Session(metadata=Metadata(name="s"), spec=SessionSpec(definition="d"))
    new = msgspec.structs.replace(old, status=SessionStatus(phase=SessionPhase.FAILED))
    names = [str(each.type) for each in event_types.changes(old, new)]
    found = [(names[place], str(each.type)) for place, each in event_types.notices(old, new)]
    assert found == [("notice.failed", "notice.failed")]

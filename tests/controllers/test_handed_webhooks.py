"""Webhooks of people between whom a session changes hands."""

from __future__ import annotations

import pytest
from virtual_time import play
from webhook_cases import begun, rounds
from world import ADMIN, world

from labfleet.resources.kinds import KINDS
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller
from labfleet.service.verbs import objects
from labfleet.service.verbs.handing import hand_over, take

HEARD = {
    "ana": ["session.offered", "notice.given_away"],
    "bo": ["notice.offered", "session.handed_over", "notice.given", "session.timeslot.extended",
           "notice.extended"],
    "cy": [],
    "": ["session.offered", "notice.offered", "session.handed_over", "notice.given",
         "notice.given_away", "session.timeslot.extended", "notice.extended"],
}  # fmt: skip


def person(name: str) -> Caller:
    """A caller of role user."""
    return Caller(Principal(f"token-{name}", Role.USER, name), "req-1")


@pytest.mark.parametrize("owner", HEARD)
def test_each_hears_what_is_for_them_and_nothing_of_the_other(owner: str) -> None:
    """Who gave it hears that it is gone, who took it all of it since, a stranger nothing."""

    async def story() -> None:
        async with world() as w:
            controller, sender = await begun(w, owner=owner, types=["notice.*", "session.*"])
            await w.definition()
            await w.session("s1", owner="ana", studentEmail="ana@x.org",
                            slot={"start": "2026-12-14T08:00:00Z", "end": "2026-12-14T08:05:00Z"})  # fmt: skip
            await rounds(w, controller)
            before = len(sender.posts)
            await hand_over(w.services, person("ana"), "s1", to="bo")
            await rounds(w, controller)
            await take(w.services, person("bo"), "s1")
            await rounds(w, controller)
            patch = {"spec": {"slot": {"end": "2026-12-14T08:09:00Z"}}}
            await objects.patch(w.services, ADMIN, KINDS["Session"], "s1", patch,
                                namespace="default")  # fmt: skip
            await rounds(w, controller)
            assert sender.types()[before:] == HEARD[owner]
            told = b"".join(body for _, _, _, body in sender.posts[before:])
            assert (b"ana@x.org" in told) is (owner in {"ana", ""})
            assert (b"2026-12-14T08:09" in told) is (owner in {"bo", ""})

    play(story)

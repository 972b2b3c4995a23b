"""Values that are right by their type and would break what reads them later."""

from __future__ import annotations

import pytest
from fleet_world import ADMIN, World

from labfleet.api.system_routes import TokenRequest
from labfleet.api.verb_routes import DrainRequest, ExtendRequest
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.service import intake, objects

FAR = ["9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+12:00"]
UNHASHABLE: list[object] = [[], {}, [[]], {"a": []}]


@pytest.mark.parametrize("instant", FAR)
@pytest.mark.parametrize(
    ("kind", "field"),
    [(TokenRequest, "expires"), (DrainRequest, "deadline"), (ExtendRequest, "end")],
)
def test_an_instant_at_the_end_of_time_is_refused(kind: type, field: str, instant: str):
    """Such a token made every later sign-in fail: its row could not be read back."""
    rest = {"role": "user", "owner": "x"} if kind is TokenRequest else {}
    with pytest.raises(errors.Invalid) as caught:
        intake.record(kind, {field: instant, **rest})
    assert caught.value.problems[0][0] == field


@pytest.mark.asyncio
@pytest.mark.parametrize("instant", FAR)
async def test_a_slot_at_the_end_of_time_is_refused_with_its_place(world: World, instant: str):
    """Bounds are looked for at every depth of an object."""
    body = {"spec": {"definition": "d", "slot": {"start": instant}}}
    with pytest.raises(errors.Invalid) as caught:
        await objects.create(world.parts, ADMIN, KINDS["Session"], body)
    assert caught.value.problems[0][0] == "spec.slot.start"


@pytest.mark.asyncio
@pytest.mark.parametrize("value", UNHASHABLE)
@pytest.mark.parametrize("place", ["kind", "apiVersion", "metadata.resourceVersion"])
async def test_lists_and_mappings_where_text_belongs_are_invalid(
    world: World, place: str, value: object
):
    """Nothing asks a set for a raw value: that is a crash for a list."""
    made = await world.make("Cluster", "c", {"capacity": {"cpu": 4}})
    body: dict[str, object] = {"metadata": {"name": "c"}, "spec": {}}
    if place.startswith("metadata."):
        body["metadata"] = {"name": "c", place.removeprefix("metadata."): value}
    else:
        body[place] = value
    if not (value == {} and place == "metadata.resourceVersion"):
        with pytest.raises(errors.Invalid):
            await objects.patch(world.parts, ADMIN, KINDS["Cluster"], "c", body)
    with pytest.raises((errors.Invalid, errors.Conflict)):
        await objects.replace(world.parts, ADMIN, KINDS["Cluster"], "c", body)
    assert (await objects.get(world.parts, ADMIN, KINDS["Cluster"], "c")) == made


def test_a_body_of_nothing_but_unknown_keys_costs_a_bounded_number_of_hints(
    monkeypatch: pytest.MonkeyPatch,
):
    """200,000 misspelt keys took the server three seconds, for anybody with a token."""
    asked: list[str] = []

    def counted(word: str, known: object) -> str:
        del known
        asked.append(word)
        return ""

    monkeypatch.setattr(intake, "hint", counted)
    body = {f"k{number}": 1 for number in range(1000)}
    with pytest.raises(errors.Invalid) as caught:
        intake.record(DrainRequest, body)
    assert len(caught.value.problems) == intake.PROBLEM_LIMIT
    assert len(asked) == intake.PROBLEM_LIMIT

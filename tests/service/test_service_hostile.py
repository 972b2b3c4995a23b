"""Values that are right by their type and would break what reads them later.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import pytest
from fleet_world import ADMIN, MACHINE, TOPOLOGY, World

from labfleet.api.verbs.system_routes import TokenRequest
from labfleet.api.verbs.verb_routes import DrainRequest, ExtendRequest
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.service.core import intake
from labfleet.service.verbs import objects

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
        await objects.create(world.services, ADMIN, KINDS["Session"], body)
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
            await objects.patch(
                world.services, ADMIN, KINDS["Cluster"], "c", body, namespace="default"
            )
    with pytest.raises((errors.Invalid, errors.Conflict)):
        await objects.replace(
            world.services, ADMIN, KINDS["Cluster"], "c", body, namespace="default"
        )
    assert (await objects.get(world.services, ADMIN, KINDS["Cluster"], "c", "default")) == made


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


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "http://2852039166/",
        "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://169.254.43518/", "http://0/",
        "http://1.2.3.0x4/", "http://[fd00:ec2::254]/", "http://Metadata.Google.Internal./",
        "http://169\u3002254\u3002169\u3002254/", "http://\u2460\u2465\u2468.254.169.254/",
        "http://x/\r\nA: b", "http://x y/", "http://u:p@x/", "file:///etc/passwd",
    ],
)  # fmt: skip
async def test_a_servers_address_is_no_way_to_a_metadata_service(world: World, url: str):
    """T45: however the address is written; resolvers take decimal, octal and hex too."""
    cml = {**MACHINE["cml"], "apiBaseUrl": url}
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Template", "t", {"machine": {**MACHINE, "cml": cml}})
    assert caught.value.problems[0][0] == "spec.machine.cml.apiBaseUrl"


@pytest.mark.asyncio
@pytest.mark.parametrize("url", ["https://10.0.0.5:8443", "http://cml-1.example.org/", "http://a1"])
async def test_plain_addresses_of_servers_are_taken(world: World, url: str):
    """Names and dotted addresses of one's own network are fine."""
    cml = {**MACHINE["cml"], "apiBaseUrl": url}
    assert await world.make("Template", "t", {"machine": {**MACHINE, "cml": cml}})


@pytest.mark.asyncio
@pytest.mark.parametrize("owner", ["a\0b", "a\x1b[2J", "a\r\nb", "a\u202eb"])
async def test_an_owner_without_a_readable_name_is_refused(world: World, owner: str):
    """Owners stand in lists, logs and queries, as those of tokens do."""
    await world.make("Definition", "d", {"topology": TOPOLOGY})
    with pytest.raises(errors.Invalid) as caught:
        await world.make("Session", "s", {"definition": "d", "owner": owner})
    assert caught.value.problems[0][0] == "spec.owner"

"""Looking machines up by id: many in one call, and nobody's trouble is another's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from labfleet.adapters.aws.lookups import LIMIT, Lookups
from labfleet.kernel import errors

REGION = "us-east-1"


class FakeCalls:
    """EC2's answer to DescribeInstances by ids: one unknown or dark id fails the whole call."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.unknown: set[str] = set()
        self.dark: set[str] = set()
        self.trouble: errors.LabfleetError | None = None

    async def ask(self, region: str, policy: str, method: str, wanted: dict[str, Any]) -> Any:
        assert (region, policy, method) == (REGION, "read", "describe_instances")
        names = wanted["InstanceIds"]
        self.asked.append(names)
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        if self.unknown & set(names):
            raise errors.Gone("The instance IDs do not exist")
        if self.dark & set(names):
            raise errors.Temporary("the zone is down", reason="Unavailable")
        rows = [{"InstanceId": name, "State": {"Name": "running"}} for name in names]
        return {"Reservations": [{"Instances": rows}]}


def lookups() -> tuple[Lookups, FakeCalls]:
    """Return lookups over a fake."""
    calls = FakeCalls()
    return Lookups(calls), calls  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_those_asked_for_at_once_are_one_call() -> None:
    """Forty machines cost one request, and each asker gets its own."""
    made, calls = lookups()
    names = [f"i-{number}" for number in range(40)]
    found = await asyncio.gather(*(made.find(REGION, name) for name in [*names, "i-0"]))
    assert [each.id for each in found if each] == [*names, "i-0"]
    assert len(calls.asked) == 1


@pytest.mark.asyncio
async def test_no_call_names_more_than_the_limit() -> None:
    """A crowd is several calls, none of them too long."""
    made, calls = lookups()
    names = [f"i-{number}" for number in range(3 * LIMIT)]
    found = await asyncio.gather(*(made.find(REGION, name) for name in names))
    assert all(found)
    assert max(len(each) for each in calls.asked) <= LIMIT
    assert len(calls.asked) <= 5


@pytest.mark.asyncio
async def test_one_that_is_gone_or_dark_spoils_nothing() -> None:
    """NotFound of one and a zone that is down are told of those alone."""
    made, calls = lookups()
    calls.unknown, calls.dark = {"i-2"}, {"i-3"}
    names = [f"i-{number}" for number in range(5)]
    found = await asyncio.gather(
        *(made.find(REGION, name) for name in names), return_exceptions=True
    )
    assert found[2] is None
    assert isinstance(found[3], errors.Temporary)
    assert [getattr(found[n], "id", None) for n in (0, 1, 4)] == ["i-0", "i-1", "i-4"]


@pytest.mark.asyncio
async def test_a_throttled_call_is_not_made_again_for_each() -> None:
    """Asking alone would only make it worse: everybody is told to slow down."""
    made, calls = lookups()
    calls.trouble = errors.Throttled("slow down")
    names = [f"i-{number}" for number in range(20)]
    found = await asyncio.gather(
        *(made.find(REGION, name) for name in names), return_exceptions=True
    )
    assert all(isinstance(each, errors.Throttled) for each in found)
    assert len(calls.asked) == 1


@pytest.mark.asyncio
async def test_whoever_leads_and_is_cancelled_leaves_nobody_waiting() -> None:
    """The others ask alone."""
    made, calls = lookups()
    first = asyncio.ensure_future(made.find(REGION, "i-0"))
    await asyncio.sleep(0)
    others = [asyncio.ensure_future(made.find(REGION, f"i-{n}")) for n in range(1, 4)]
    await asyncio.sleep(0)
    first.cancel()
    found = await asyncio.gather(*others)
    assert [each.id for each in found if each] == ["i-1", "i-2", "i-3"]
    assert len(calls.asked) == 3


@pytest.mark.asyncio
async def test_a_single_one_costs_one_call_and_its_trouble_is_its_own() -> None:
    """Absent is None, trouble is raised."""
    made, calls = lookups()
    calls.unknown = {"i-1"}
    assert await made.find(REGION, "i-1") is None
    calls.trouble = errors.Temporary("server trouble")
    with pytest.raises(errors.Temporary):
        await made.find(REGION, "i-2")
    assert len(calls.asked) == 2

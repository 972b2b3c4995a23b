"""What a thousand workers cost of EC2's request buckets.

Source: facts/aws.md#request-buckets, facts/aws-bugs.md#case-14.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from virtual_time import play

from labfleet.adapters.aws import compute, inline
from labfleet.adapters.aws.clients import Credentials
from labfleet.adapters.aws.runner import InlineRunner
from labfleet.controllers.worker.inventory import Inventory
from labfleet.rehearsal.time.virtual_host import VirtualClock

WORKERS = 1000
REGION = "eu-west-1"
TENTH_A_MINUTE = 20 * 60 / 10
"""A tenth of what Describe calls with filter or paging get back in a minute."""


def account() -> Callable[[Any], inline.Answer]:
    """Return an account's answers: a thousand running machines, all well, in pages."""

    def answer(request: Any) -> inline.Answer:
        form = inline.parameters(request)
        if form["Action"] == "DescribeInstanceStatus":
            return inline.Answer(200, b"<R><instanceStatusSet/></R>")
        first, most = int(form.get("NextToken", 0)), int(form["MaxResults"])
        rows = "".join(
            f"<item><instancesSet><item><instanceId>i-{number}</instanceId><instanceState><name>"
            "running</name></instanceState></item></instancesSet></item>"
            for number in range(first, min(first + most, WORKERS))
        )
        more = f"<nextToken>{first + most}</nextToken>" if first + most < WORKERS else ""
        return inline.Answer(200, f"<R><reservationSet>{rows}</reservationSet>{more}</R>".encode())

    return answer


def test_a_thousand_workers_keep_under_a_tenth_of_the_bucket() -> None:
    """Each looked at every 15 s for a minute: lists and checks together, counted as sent."""

    async def story() -> None:
        ec2 = compute.connect(
            owner="me",
            credentials=Credentials("a", "b"),
            before_send=account(),
            runner=InlineRunner(),
        )
        inventory = Inventory(ec2, VirtualClock())

        async def looked_at(number: int) -> None:
            await asyncio.sleep(15 * number / WORKERS)
            for _ in range(4):
                found = await inventory.find(REGION, f"i-{number}")
                assert found is not None
                assert await inventory.checks(REGION) == {}
                await asyncio.sleep(15)

        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(looked_at(number))
        sent = dict(ec2.sent())
        assert set(sent) == {(REGION, "DescribeInstances"), (REGION, "DescribeInstanceStatus")}
        assert sent[REGION, "DescribeInstances"] <= 5 * 9
        assert sent[REGION, "DescribeInstanceStatus"] <= 3 * 3
        assert all(count < TENTH_A_MINUTE for count in sent.values())
        await ec2.close()

    play(story)

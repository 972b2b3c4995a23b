"""Looks up machines by id; lookups made at about the same time share one call.

Otherwise a fleet that is ended at once would cost a call for each machine and step, and exceed
DescribeInstances' bucket (facts/aws.md#batches and #request-buckets). One id that EC2 does not
know, or one in a zone that is down, fails a whole call: then each id is looked up alone. No task
runs here: the first caller waits a moment for others and then makes the call for all.
"""

from __future__ import annotations

import asyncio

from labfleet.adapters.aws import reading
from labfleet.adapters.aws.calls import Calls
from labfleet.interfaces.compute import Instance
from labfleet.kernel import errors

GATHER = 0.02
"""Machine seconds that the first caller waits for others; far less than a call takes."""
LIMIT = 100
SHARED = (errors.Throttled, errors.Unreachable)
"""Errors after which ids are not looked up alone: that would fail too, and make them worse."""


class _Alone(Exception):
    """The shared call has no result for this id: look it up alone."""


class _Batch:
    """The callers that wait for each id."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[asyncio.Future[Instance]]] = {}

    def join(self, instance_id: str) -> asyncio.Future[Instance]:
        answer: asyncio.Future[Instance] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(instance_id, []).append(answer)
        return answer

    def tell(self, found: dict[str, Instance]) -> None:
        for name, answers in self.waiting.items():
            for answer in answers:
                if answer.done():
                    continue
                if name in found:
                    answer.set_result(found[name])
                else:
                    answer.set_exception(_Alone())

    def fail(self, problem: errors.LabfleetError) -> None:
        for answers in self.waiting.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(type(problem)(problem.message, reason=problem.reason))


class Lookups:
    """One open batch for each region."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._open: dict[str, _Batch] = {}

    async def find(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine as it is now; None only when EC2 says NotFound of it alone."""
        batch = self._open.get(region)
        if batch is not None:
            answer = batch.join(instance_id)
            if len(batch.waiting) >= LIMIT - 1:
                del self._open[region]
            try:
                return await answer
            except _Alone:
                return await self._alone(region, instance_id)
        return await self._lead(region, instance_id)

    async def _lead(self, region: str, instance_id: str) -> Instance | None:
        """Collect ids, make the call, pass on the results; the others get an answer in any case."""
        batch = self._open[region] = _Batch()
        found: dict[str, Instance] = {}
        try:
            await asyncio.sleep(GATHER)
            self._close(region, batch)
            if not batch.waiting:
                return await self._alone(region, instance_id)
            found = await self._many(region, [instance_id, *batch.waiting])
        except SHARED as problem:
            batch.fail(problem)
            raise
        except errors.LabfleetError:
            if not batch.waiting:
                raise
        finally:
            self._close(region, batch)
            batch.tell(found)
        if instance_id in found:
            return found[instance_id]
        return await self._alone(region, instance_id)

    def _close(self, region: str, batch: _Batch) -> None:
        if self._open.get(region) is batch:
            del self._open[region]

    async def _many(self, region: str, names: list[str]) -> dict[str, Instance]:
        wanted = {"InstanceIds": list(dict.fromkeys(names))}
        reply = await self._calls.ask(region, "read", "describe_instances", wanted)
        return {each.id: each for each in reading.instances(reply)}

    async def _alone(self, region: str, instance_id: str) -> Instance | None:
        try:
            found = await self._many(region, [instance_id])
        except errors.Gone:
            return None
        if instance_id not in found:
            raise errors.Protocol(f"EC2's reply about {instance_id} is about something else")
        return found[instance_id]

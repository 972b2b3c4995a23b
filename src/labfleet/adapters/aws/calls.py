"""One call, or all pages of one list: client, thread pool, translation of errors."""

from __future__ import annotations

from typing import Any

from labfleet.adapters.aws import errors as translation
from labfleet.adapters.aws.clients import Clients, Policy, Service
from labfleet.adapters.aws.runner import Runner
from labfleet.kernel import errors

PAGE = 200
PAGES = 100
Rows = list[dict[str, Any]]


def filters(**wanted: list[str]) -> list[dict[str, Any]]:
    """Return filters in the SDK's form."""
    return [{"Name": name, "Values": values} for name, values in wanted.items()]


class Calls:
    """How this process calls AWS; each call ends in a reply or in an error of ours."""

    def __init__(self, clients: Clients, runner: Runner) -> None:
        self._clients = clients
        self._runner = runner

    async def ask(
        self,
        region: str,
        policy: Policy,
        method: str,
        wanted: dict[str, Any],
        *,
        service: Service = "ec2",
    ) -> dict[str, Any]:
        """Return the reply; Ambiguous when a change may have happened."""

        def call() -> dict[str, Any]:
            client = self._clients.get(region, policy, service)
            reply: dict[str, Any] = getattr(client, method)(**wanted)
            return reply

        change = policy == "change"
        try:
            return await self._runner.run(call, change=change)
        except translation.OUTSIDE as error:
            raise translation.translate(error, action=method, mutating=change) from None

    async def pages(
        self, region: str, method: str, wanted: dict[str, Any], *, service: Service = "ec2"
    ) -> Rows:
        """Return the replies of all pages, or an error: never a part."""
        query = dict(wanted)
        found: Rows = []
        for _ in range(PAGES):
            reply = await self.ask(region, "read", method, query, service=service)
            found.append(reply)
            token = reply.get("NextToken")
            if not token:
                return found
            if token == query.get("NextToken"):
                raise errors.Protocol(f"the list of {method} in {region} does not go on")
            query = {**wanted, "NextToken": token}
        raise errors.Protocol(f"the list of {method} in {region} has more than {PAGES} pages")

    def close(self) -> None:
        """Close connections and let the threads go."""
        self._clients.close()
        self._runner.close()

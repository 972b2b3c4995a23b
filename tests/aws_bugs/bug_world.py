"""The whole product in virtual time over the AWS simulator, for the bugs of facts/aws-bugs.md."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import world as controllers
from aws_cloud import AwsCloud
from cml_on_aws import servers_on
from scripted_servers import ScriptedCml
from witness import Witness

from labfleet.resources.template import Template
from labfleet.resources.worker import Worker

INSTALLATION = "inst"


class BugWorld(controllers.World):
    """An installation whose machines are the simulator's."""

    cloud: AwsCloud
    witness: Witness
    key = "labfleet"

    def over(
        self, cloud: AwsCloud, *, owner: str = INSTALLATION, key: str = "labfleet"
    ) -> BugWorld:
        """Put the simulator beneath, where the rehearsal's account was."""
        self.cloud, self.installation, self.key = cloud, owner, key
        self.compute = cloud.adapter(owner, key=key)  # type: ignore[assignment]
        self.hosts = ScriptedCml(servers_on(cloud), cloud, self.expect, self.expect_lab)
        self.witness = Witness(self)
        return self

    def machine(self, **aws: Any) -> dict[str, Any]:
        """Return a machine that the simulator can launch: its image, its subnets, metal."""
        ready = self.cloud.ready
        given = {
            "amiId": ready["ami_id"],
            "instanceTypes": ["m5zn.metal"],
            "subnetIds": [each["id"] for each in ready["subnets"]],
            **aws,
        }
        return {**controllers.MACHINE, "provider": {"kind": "aws", **given}}

    async def worker(self, name: str = "w1", **spec: Any) -> Any:
        """Make a worker."""
        return await self.make("Worker", name, {"machine": self.machine(), **spec})

    async def pool(self, name: str = "p1", *, template: str = "metal", **spec: Any) -> Any:
        """Make a pool and, once, its template."""
        if not any(each.name == template for each in self.cache.all(Template)):
            await self.make("Template", template, {"machine": self.machine()})
            await self.services.fresh()
        return await self.make("Pool", name, {"template": template, **spec})

    def facts(self, **more: Any) -> dict[str, Any]:
        """Return what the manager's side knows, for the invariant checker.

        Intents, labs, licences and busy checks as the witness saw them when each call came; a
        deed that a person forced is named by the scenario: `forced=[instance id]`.
        """
        workers: dict[str, list[str]] = {}
        for each in self.cache.all(Worker):
            found = each.status.machine.id
            workers[each.metadata.uid] = [found] if found else []
        return {
            "owner": self.installation, "workers": workers, "grace": 120.0, "keys": [self.key],
            **self.witness.facts(), **more,
        }  # fmt: skip

    def check(self, **facts: Any) -> None:
        """Hold the simulator's invariants and the harness's own rules against what happened."""
        wrong = self.wrong + self.hosts.wrong
        assert wrong == [], wrong
        found = self.cloud.violations(**self.facts(**facts))
        assert found == [], found


@asynccontextmanager
async def bugs(*, seed: int = 1, beside: BugWorld | None = None) -> AsyncIterator[BugWorld]:
    """Open an installation over a fresh simulated account, or one more over that of another."""
    made_of = controllers.World
    controllers.World = BugWorld  # type: ignore[misc]
    try:
        async with controllers.world() as made:
            assert isinstance(made, BugWorld)
            if beside is None:
                yield made.over(AwsCloud(made.clock, seed=seed))
            else:
                made.ids.count = 1_000_000  # what is made at random is never made twice
                yield made.over(beside.cloud, owner="other", key="labfleet-b")
    finally:
        controllers.World = made_of  # type: ignore[misc]

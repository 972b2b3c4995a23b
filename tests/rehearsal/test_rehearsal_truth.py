"""The checker's truth: what stands on servers and in the account, whatever records say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cml_simulator.core import builder, lifecycle
from cml_simulator.core import topology as drawings
from cml_simulator.core.world import ADMIN_ID
from labfleet.interfaces.compute import LaunchRequest
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.people import people
from labfleet.rehearsal.rules.truth import Truth
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds import cml, ec2
from labfleet.resources import topology
from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import CmlSettings, Machine, MachineStatus
from labfleet.resources.meta import Metadata, SecretRef
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.session import (
    PortAllocation,
    Session,
    SessionPhase,
    SessionSpec,
    SessionStatus,
)
from labfleet.resources.worker import LicenceStatus, Worker, WorkerPhase, WorkerSpec, WorkerStatus

NOW = 1_800_000_000.0


class Site:
    """A cloud with one machine of the worker w1, and the truth of it."""

    def __init__(self, loop: loops.Loop) -> None:
        injector = FaultInjector(FaultPlan(), SeededRng("luck"))
        self.cml_servers = cml.CmlServers(loop, SeededRng("racks"), injector)
        self.cloud = ec2.Cloud(loop, SeededRng("cloud"), injector, self.cml_servers)
        self.found: list[tuple[str, str]] = []
        self.truth = Truth(
            self.cloud, self.cml_servers, lambda *told: self.found.append(told), set()
        )
        self.vm = self.launch("t1")

    def launch(self, token: str) -> ec2.FakeInstance:
        """Launch a machine for w1 that runs and is up at once."""
        request = LaunchRequest(
            region="us-east-1", token=token, worker="w1", worker_uid="uid-w1", attempt=1,
            choice={"image": "ami-1", "type": "m5zn.metal", "subnet": "subnet-a"}, settings=AwsSettings(),
        )  # fmt: skip
        vm = self.cloud.launch(request, "us")
        vm.state = "running"
        server = self.truth.server(vm)
        server.power.on = server.power.ready_seen = True
        return vm

    def lab(self, marker: str, nodes: list[str], *ports: int, phase: str = "RUNNING") -> None:
        """Start a lab of a session that was given ports; its nodes carry them."""
        server = self.truth.server(self.vm)
        text = people.topology(marker, nodes).encode()
        parsed = drawings.parse(drawings.load_text(text), server.config.profile)
        lab, _ = builder.import_topology(server, parsed, marker, ADMIN_ID, self.cml_servers.now())
        lab.notes = topology.with_marker("", marker)
        for node in lab.nodes.values():
            node.tags = [f"serial:{port}" for port in ports]
        lifecycle.start_lab(server, lab, self.cml_servers.now())
        given = tuple(
            PortAllocation(name=f"p{port}", node="N0", kind="serial", number=port) for port in ports
        )
        self.truth.session(
            Session(
                metadata=Metadata(name=marker, uid=marker),
                spec=SessionSpec(definition="d"),
                status=SessionStatus(phase=SessionPhase(phase), ports=given),
            )
        )

    def rules(self) -> set[str]:
        """Return which rules are broken."""
        return {rule for rule, _ in self.found}


@pytest.fixture(name="site")
def _site() -> Site:
    made: list[Site] = []

    async def main(loop: loops.Loop) -> None:
        made.append(Site(loop))

    loops.run(1, main)
    return made[0]


def worker(phase: str = "READY", instance: str | None = None, **status: object) -> Worker:
    """Return the record of w1 in a phase for an hour."""
    since = datetime.fromtimestamp(NOW - 3600, UTC)
    return Worker(
        metadata=Metadata(name="w1", uid="uid-w1"),
        spec=WorkerSpec(machine=Machine(cml=CmlSettings(admin_password=SecretRef(env="P")))),
        status=WorkerStatus(
            phase=WorkerPhase(phase),
            phase_since=since,
            machine=MachineStatus(id=instance),
            **status,  # type: ignore[arg-type]
        ),
    )


def test_what_nodes_want_together_is_judged_queued_ones_too(site: Site) -> None:
    """CML starts no more than fits, so a promise of too much stands in its queue."""
    site.lab("one", ["alpine"] * 5)
    site.truth.patrol()
    assert not site.found
    site.lab("two", ["alpine"])
    site.truth.patrol()
    assert site.rules() == {"capacity"}
    assert "6 of 5 licensed nodes" in site.found[0][1]


def test_switches_cost_nothing_and_labs_of_others_are_no_promise(site: Site) -> None:
    """A node without a VM counts nothing; a lab without a marker is not the product's."""
    site.lab("one", ["alpine"] * 5 + ["unmanaged_switch"] * 3)
    site.lab("two", ["alpine"] * 2)
    for lab in site.truth.server(site.vm).labs.values():
        if lab.title == "two":
            lab.notes = ""
    site.truth.patrol()
    assert not site.found


def test_a_port_given_to_two_labs_that_stand_is_found_whatever_records_say(site: Site) -> None:
    """That the first one's ports were taken out of its record changes nothing."""
    site.lab("one", ["alpine"], 2000)
    site.lab("two", ["alpine"], 2000)
    site.truth.patrol()
    assert site.rules() == {"port"}


def test_a_tag_that_somebody_put_there_is_no_port_of_a_session(site: Site) -> None:
    """A person's tag may clash with a session's port; nobody gave it."""
    site.lab("one", ["alpine"], 2000)
    site.lab("two", ["alpine"], 2001)
    for node in site.truth.server(site.vm).nodes.values():
        node.tags = ["serial:2000"]
    site.truth.patrol()
    assert not site.found


def test_a_port_of_an_earlier_placement_is_not_the_sessions_any_more(site: Site) -> None:
    """Seed 158: put into its lab by hand, it was given to nobody there, so it is given once."""
    site.lab("a", ["alpine"], 2000)
    again = PortAllocation(name="p2001", node="N0", kind="serial", number=2001)
    site.truth.session(
        Session(
            metadata=Metadata(name="a", uid="a"),
            spec=SessionSpec(definition="d"),
            status=SessionStatus(phase=SessionPhase.RUNNING, ports=(again,)),
        )
    )
    site.lab("b", ["alpine"], 2000)
    site.truth.patrol()
    assert not site.found


def test_a_machine_whose_id_was_forgotten_is_still_the_workers(site: Site) -> None:
    """TERMINATED is judged by every machine that was launched for the worker."""
    site.truth.machine_gone(worker("TERMINATED"), "it is TERMINATED")
    assert site.rules() == {"terminated"}


def test_the_end_of_an_earlier_machine_need_only_have_begun(site: Site) -> None:
    """It cannot be called off; the last one has to be gone."""
    last = site.launch("t2")
    site.vm.state, last.state = "ending", "gone"
    ended = worker("TERMINATED", last.id)
    site.truth.worker(ended)
    site.truth.machine_gone(ended, "it is TERMINATED")
    assert not site.found
    last.state = "ending"
    site.truth.machine_gone(ended, "it is TERMINATED")
    assert site.rules() == {"terminated"}


def test_a_licence_is_looked_for_on_every_machine_of_a_worker(site: Site) -> None:
    """A forgotten instance id hides no licence; a leak that is told does."""
    uuid = site.truth.server(site.vm).config.identity.product_uuid
    site.cml_servers.fleet.cloud.held[uuid] = 0.0
    site.truth.licence_gone(worker("TERMINATED", licence=LicenceStatus(leak="lost")))
    assert not site.found
    site.truth.licence_gone(worker("TERMINATED"))
    assert site.rules() == {"licence"}


def test_a_leak_on_record_of_an_earlier_machine_is_not_asked_of_the_worker(site: Site) -> None:
    """Seeds 281, 288: a worker that waits for its next machine may go; one that has it may not."""
    uuid = site.truth.server(site.vm).config.identity.product_uuid
    site.cml_servers.fleet.cloud.held[uuid] = 0.0
    site.truth.worker(worker("FAILED", site.vm.id))
    site.truth.leaks.add(uuid)
    site.truth.licence_gone(worker("TERMINATED"))
    assert not site.found
    site.truth.licence_gone(worker("TERMINATED", site.vm.id))
    assert site.rules() == {"licence"}


def test_two_machines_of_one_worker_are_counted_without_tags(site: Site) -> None:
    """What the product writes on them does not matter."""
    second = site.launch("t2")
    second.tags.clear()
    site.truth.alone(second, None)
    assert site.rules() == {"one-instance"}


def test_a_machine_that_was_taken_over_counts_as_its_workers(site: Site) -> None:
    """A claimed machine beside a launched one is a second one."""
    taken = site.cloud.foreign()
    site.truth.alone(taken, worker("READY", taken.id))
    assert site.rules() == {"one-instance"}


@pytest.mark.parametrize("phase", ["READY", "ACTIVE", "DRAINING", "UNLICENSING", "STOPPED"])
def test_no_phase_but_the_last_ones_excuses_a_stop_under_labs(site: Site, phase: str) -> None:
    """However long it lasts."""
    site.lab("one", ["alpine"])
    site.truth.hosting("stopping", site.vm, worker(phase), NOW)
    assert site.rules() == {"hosting"}


def test_each_way_down_has_its_own_limit(site: Site) -> None:
    """After an hour of STOPPING or TERMINATING_EC2 the machine may go."""
    site.lab("one", ["alpine"])
    for phase in ("STOPPING", "TERMINATING_EC2"):
        site.truth.hosting("stopping", site.vm, worker(phase), NOW)
        assert not site.found
    site.truth.hosting("stopping", site.vm, worker("STOPPING"), NOW - 3000)
    assert site.rules() == {"hosting"}


def test_labs_of_nobody_we_know_hold_no_machine(site: Site) -> None:
    """Only sessions that are ready or running are hosted."""
    site.lab("one", ["alpine"], phase="COLLECTING")
    site.truth.hosting("stopping", site.vm, None, NOW)
    assert not site.found
    site.lab("two", ["alpine"])
    site.truth.hosting("stopping", site.vm, None, NOW)
    assert site.rules() == {"hosting"}


def test_a_lab_comes_up_by_the_newest_size_of_its_worker() -> None:
    """A size that it had when the place was given no longer counts, but for a cache's lag."""
    seen: list[list[int]] = []

    async def main(loop: loops.Loop) -> None:
        invariants = Stage(loop, 1, FaultPlan()).invariants
        for revision, since, nodes in ((3, 0.0, 40), (7, 500.0, 5)):
            size = Amounts(nodes=nodes)
            # private _capacities, _newest: what the checker remembers of sizes, fed without a run
            invariants._capacities.setdefault("w1", []).append((revision, since, size))
        for at in (600.0, 900.0):
            future = loop.create_future()
            loop.call_later(at - loop.time(), future.set_result, None)
            await future
            seen.append([each.nodes for each in invariants._newest("w1")])

    loops.run(1, main)
    assert seen == [[40, 5], [5]]

"""An instance is a CML server: what the simulator asks of the CML simulator, with a stub for it."""

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aws_simulator_process import end_simulator, launch_simulator

from cml_simulator.shell.fixture import running as cml_running


class Stub:
    """Records control calls and gives a new loopback address for each boot."""

    def __init__(self):
        self.forget()
        self.booted = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                status, reply = stub.answer(self.path, body)
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def forget(self):
        """Begin anew."""
        self.calls = []
        self.created = {}
        self.failing = False
        self.addresses = (f"127.9.0.{number}" for number in itertools.count(1))

    def answer(self, path, body):
        """Answer one control call."""
        if self.failing:
            return 503, {}
        parts = path.strip("/").split("/")
        if len(parts) == 2:
            self.created[body["id"]] = body
            self.calls.append(("create", body["id"]))
            return 201, {}
        self.calls.append((parts[3], parts[2]))
        self.booted.set()
        if parts[3] == "boot":
            return 200, {"address": next(self.addresses), "port": 8443}
        return 200, {}

    def close(self):
        """Stop the stub."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(scope="module")
def shared():
    """One simulator for all that need no other options: a start imports moto, for seconds."""
    stub = Stub()
    fake = launch_simulator("--cml", stub.url)
    yield stub, fake
    end_simulator(fake)
    stub.close()


@pytest.fixture
def linked(shared):
    """Return the shared simulator as after its start."""
    stub, fake = shared
    fake.reset(config=True)
    fake.ask("POST", "clock", {"offset": 0, "speed": 0})
    stub.forget()
    return fake


@pytest.fixture
def stub(shared, linked):
    """Return what the shared simulator talks to."""
    return shared[0]


def run(fake, **changes):
    """Launch one instance and return its id."""
    fields = {
        "ImageId": fake.image,
        "InstanceType": "m5zn.metal",
        "MinCount": 1,
        "MaxCount": 1,
        "SubnetId": fake.ready["subnets"][0]["id"],
    }
    reply = fake.client().run_instances(**{**fields, **changes})
    return reply["Instances"][0]["InstanceId"]


def test_an_instance_lives_as_a_server(stub, linked):
    """Create at launch, boot when running, a new address at each start, stop, destroy."""
    ec2 = linked.client()
    instance_id = run(linked)

    def seen():
        reply = ec2.describe_instances(InstanceIds=[instance_id])
        found = reply["Reservations"][0]["Instances"][0]
        return found["State"]["Name"], found.get("PublicIpAddress")

    assert stub.calls == [("create", instance_id)]
    assert seen() == ("pending", None)
    linked.advance(481)
    assert seen() == ("running", "127.9.0.1")
    ec2.stop_instances(InstanceIds=[instance_id])
    linked.advance(301)
    assert seen() == ("stopped", None)
    ec2.start_instances(InstanceIds=[instance_id])
    linked.advance(481)
    assert seen() == ("running", "127.9.0.2")
    ec2.terminate_instances(InstanceIds=[instance_id])
    linked.advance(301)
    assert seen()[0] == "terminated"
    verbs = [verb for verb, _ in stub.calls]
    assert verbs == ["create", "boot", "stop", "boot", "stop", "destroy"]
    assert linked.ask("GET", "summary")["volumes_left"] == 0


def test_the_product_uuid_belongs_to_the_volume(stub, linked):
    """Two instances have two product uuids, and the boot time is passed on."""
    linked.ask("POST", "config", {"cml_server": {"boot_seconds": 7}})
    run(linked)
    run(linked)
    uuids = {body["product_uuid"] for body in stub.created.values()}
    assert len(uuids) == 2
    assert {body["boot_seconds"] for body in stub.created.values()} == {7}


def test_a_server_has_the_sizes_of_its_instance(stub, linked):
    """CPU, memory and KVM follow the type; nested virtualisation makes KVM work on a VM."""
    run(linked)
    run(linked, InstanceType="m8i.4xlarge")
    nested = {"NestedVirtualization": "enabled"}
    run(linked, InstanceType="m8i.4xlarge", CpuOptions=nested)
    metal, plain, nesting = stub.created.values()
    assert (metal["cpus"], metal["memory_bytes"], metal["kvm"]) == (48, 202_422_902_784, True)
    assert (plain["cpus"], plain["kvm"], nesting["kvm"]) == (16, False, True)


def test_a_failing_control_endpoint_delays_and_never_lies(stub, linked):
    """While the CML simulator answers 503 the instance stays pending and the error is shown."""
    stub.failing = True
    instance_id = run(linked)
    linked.advance(1000)
    state = linked.ask("GET", "state")["instances"][0]
    assert (state["id"], state["state"]) == (instance_id, "pending")
    assert "503" in linked.ask("GET", "summary")["cml_error"]


def test_servers_boot_although_nobody_asks():
    """The simulator's own tick boots a due server without any API call."""
    stub = Stub()
    fake = launch_simulator("--cml", stub.url, "--speed", "100000")
    run(fake)
    assert stub.booted.wait()  # pytest-timeout ends a wait that is in vain
    end_simulator(fake)
    stub.close()


def test_a_server_that_never_boots(stub, linked):
    """With the fate `no_boot` the instance runs while its CML server stays off."""
    linked.rule("fate", action="RunInstances", fate="no_boot")
    run(linked, InstanceType="m5.large")
    linked.advance(40)
    assert linked.state()["instances"][0]["state"] == "running"
    assert "boot" not in [verb for verb, _ in stub.calls]


def test_a_stop_is_noted_with_what_the_cml_server_held():
    """The journal holds labs, licence and reads at the moment of a stop; I9 bites on them."""
    with cml_running("--fleet", speed=1000.0) as cml:
        fake = launch_simulator("--cml", cml.control.removesuffix("/_control"))
        try:
            instance_id = run(fake, InstanceType="m5.large")
            fake.advance(40)
            fake.client().stop_instances(InstanceIds=[instance_id])
            (stop,) = fake.journal(action="StopInstances")
            facts = stop["facts"][instance_id]
            assert facts["on"] is True
            assert (facts["labs_running"], facts["licensed"]) == (0, False)
            assert facts["checked_ago"] is None
            assert [each["invariant"] for each in fake.invariants(cml=True)] == ["I9"]
        finally:
            end_simulator(fake)

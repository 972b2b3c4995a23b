"""Faults, outside hands, the journal and the command, over real sockets."""

import contextlib
import re
import subprocess
import sys
import time
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from aws_simulator_process import code_of, end_simulator, launch_simulator
from botocore.exceptions import ClientError, HTTPClientError, ReadTimeoutError
from botocore.parsers import ResponseParserError


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        ("throttle", (503, "RequestLimitExceeded")),
        ("capacity", (500, "InsufficientInstanceCapacity")),
        ("quota", (400, "VcpuLimitExceeded")),
        ("unauthorized", (403, "UnauthorizedOperation")),
        ("auth", (401, "AuthFailure")),
        ("internal", (500, "InternalError")),
    ],
)
def test_error_rules_answer_as_ec2_does(fake, launch, fault, answer):
    """Each preset is parsed by boto as the code and status that EC2 sends, then is used up."""
    fake.rule(fault, action="RunInstances", times=1)
    assert code_of(launch) == answer
    assert launch()


def test_a_drop_before_leaves_no_instance(fake, launch):
    """A connection dropped before the commit has no effect."""
    fake.rule("drop_before", action="RunInstances", times=1)
    with pytest.raises(HTTPClientError):
        launch()
    assert fake.ask("GET", "summary")["instances_total"] == 0


def test_a_drop_after_leaves_the_instance_and_the_token_finds_it(fake, launch):
    """A reply lost after the commit leaves one instance, and repeating the token returns it."""
    fake.rule("drop_after", action="RunInstances", times=1)
    with pytest.raises(HTTPClientError):
        launch()
    assert fake.ask("GET", "summary")["instances_total"] == 1
    assert len(launch()) == 1
    summary = fake.ask("GET", "summary")
    assert (summary["instances_total"], summary["run_instances_calls"]) == (1, 2)


def test_the_sdk_retries_a_lost_reply_without_a_second_launch(fake):
    """Botocore's own retry repeats its token, so one instance results."""
    fake.rule("drop_after", action="RunInstances", times=1)
    client = fake.client(attempts=3)
    client.run_instances(ImageId=fake.image, InstanceType="m5zn.metal", MinCount=1, MaxCount=1)
    assert fake.ask("GET", "summary")["instances_total"] == 1


@pytest.mark.parametrize("fault", ["html", "truncated"])
def test_rubbish_replies_do_not_parse(fake, ec2, fault):
    """HTML and truncated XML reach the client as what they are."""
    fake.rule(fault, times=1)
    with pytest.raises((ResponseParserError, ClientError)):
        ec2.describe_instances()


def test_buckets_throttle_only_when_switched_on(fake, ec2):
    """The tenth preset passes ten filtered lists, then throttles; off passes all."""
    pages = [{"Name": "instance-state-name", "Values": ["running"]}]
    for _ in range(12):
        ec2.describe_instances(Filters=pages)
    fake.ask("POST", "config", {"buckets": "tenth"})
    for _ in range(10):
        ec2.describe_instances(Filters=pages)
    assert code_of(ec2.describe_instances, Filters=pages) == (503, "RequestLimitExceeded")
    fake.advance(10)
    ec2.describe_instances(Filters=pages)


def test_the_outside_hand_acts_and_is_written_down(fake, launch, state_of):
    """Tagging and terminating from the console shows in EC2 and in the journal."""
    (instance_id,) = launch()
    fake.ask("POST", "hand", {"verb": "tag", "ids": [instance_id], "tags": {"keep": "1"}})
    assert state_of(instance_id)["Tags"] == [{"Key": "keep", "Value": "1"}]
    fake.ask("POST", "hand", {"verb": "untag", "ids": [instance_id], "keys": ["keep"]})
    assert "Tags" not in state_of(instance_id)
    fake.ask("POST", "hand", {"verb": "terminate", "ids": [instance_id]})
    assert state_of(instance_id)["State"]["Name"] == "shutting-down"
    sources = [entry["source"] for entry in fake.ask("GET", "journal")["entries"]]
    assert sources.count("hand") == 3


def test_a_failed_launch_shows_its_reason(fake, launch, state_of):
    """An instance that AWS gives up on is terminated with a state reason."""
    (instance_id,) = launch()
    fail = {"verb": "fail", "ids": [instance_id], "code": "Client.VolumeLimitExceeded"}
    assert fake.ask("POST", "hand", fail) == {instance_id: "terminated"}
    assert state_of(instance_id)["StateReason"]["Code"] == "Client.VolumeLimitExceeded"


def test_the_journal_holds_tokens_ids_and_errors(fake, ec2, launch):
    """A call leaves action, region, token, ids, result and error."""
    (instance_id,) = launch(UserData="a secret")
    code_of(ec2.stop_instances, InstanceIds=[instance_id])
    run, stop = fake.ask("GET", "journal")["entries"]
    assert (run["action"], run["region"], run["token"]) == ("RunInstances", "us-east-1", "token-1")
    assert run["result"] == [instance_id]
    assert run["params"]["InstanceType"] == "m5zn.metal"
    assert "UserData" not in run["params"]
    assert (stop["ids"], stop["error"]) == ([instance_id], "IncorrectInstanceState")
    assert fake.ask("GET", f"journal?after={run['number']}")["entries"] == [stop]


def test_double_launches_are_counted_by_worker_tag(fake, launch):
    """Two live instances with one worker tag are a double launch, and a violated invariant."""
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "labfleet:worker-uid", "Value": "w1"}]}]
    launch(TagSpecifications=tags)
    assert fake.ask("GET", "summary")["double_launches"] == 0
    launch(TagSpecifications=tags, ClientToken="another")
    assert fake.ask("GET", "summary")["double_launches"] == 1
    assert fake.ask("GET", "invariants")[0]["invariant"] == "I1"


def test_images_can_be_added_and_withdrawn(fake, ec2):
    """A foreign image with the same name is told apart by its owner; a withdrawn one is gone."""
    foreign = {"name": "cisco-cml2.9.1-lab", "owner": "999999999999"}
    ami = fake.ask("POST", "images", foreign)["ami_id"]
    named = [{"Name": "name", "Values": ["cisco-cml2*"]}]
    assert len(ec2.describe_images(Filters=named)["Images"]) == 2
    own = ec2.describe_images(Filters=named, Owners=["self"])["Images"]
    assert [image["ImageId"] for image in own] == [fake.image]
    fake.ask("DELETE", "images", {"ami_id": ami})
    assert len(ec2.describe_images(Filters=named)["Images"]) == 1


def test_bad_control_requests_are_refused_with_a_reason(fake):
    """Unknown routes, rules, verbs and settings each get a sentence."""
    assert fake.refusal("GET", "nothing")[0] == 404
    assert "unknown settings" in fake.refusal("POST", "config", {"x": 1})[1]
    assert "one of" in fake.refusal("POST", "rules", {"fault": "x"})[1]
    assert "verb" in fake.refusal("POST", "hand", {"verb": "kick", "ids": []})[1]
    assert "forward" in fake.refusal("POST", "clock", {"advance": -1})[1]


def test_sts_answers_any_credentials(fake):
    """Credentials are not checked, so the identity is the fake account."""
    identity = fake.client("sts").get_caller_identity()
    assert identity["Account"] == "123456789012"


def test_the_command_ends_in_order_on_sigterm():
    """SIGTERM stops the server with exit code 0 and frees the port."""
    fake = launch_simulator("--speed", "60")
    assert re.fullmatch(r"ami-[0-9a-f]+", fake.image)
    assert end_simulator(fake) == 0
    with pytest.raises(OSError, match="refused"):
        fake.ask("GET", "summary")


def test_bad_options_and_taken_ports_are_refused(simulator_process):
    """A bad factor, a bad URL and a taken port end the command with a sentence."""
    port = simulator_process.url.rsplit(":", 1)[-1]
    for args, code in ((["--clock", "-1"], 2), (["--cml", "ftp://x"], 2), (["--port", port], 1)):
        done = subprocess.run(
            [sys.executable, "-m", "aws_simulator.main", *args],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code
        assert "aws-simulator:" in done.stderr


@pytest.mark.parametrize(("fault", "total"), [("hang_before", 0), ("hang_after", 1)])
def test_a_server_may_never_answer(fake, launch, fault, total):
    """The connection ends without a reply, before or after the deed."""
    fake.rule(fault, action="RunInstances", times=1, delay=0.01)
    with pytest.raises(HTTPClientError):
        launch()
    assert fake.summary()["instances_total"] == total


def test_a_slow_reply_outlives_the_callers_patience(fake):
    """The read time-out comes after the deed; the SDK's repeat finds the same instance."""
    fake.rule("delay_after", action="RunInstances", times=1, delay=2.0)
    client = fake.client(attempts=2)
    sent = []

    def give_up(request, **_):
        """Send the first request, and lose patience at the deed instead of at a time."""
        if sent:
            return
        place = urlsplit(request.url)
        with contextlib.closing(HTTPConnection(place.hostname, place.port)) as connection:
            connection.request(request.method, place.path, request.body, dict(request.headers))
            sent.append(request)
            while fake.summary()["instances_total"] == 0:
                time.sleep(0.01)
        raise ReadTimeoutError(endpoint_url=request.url)

    client.meta.events.register("before-send.ec2.RunInstances", give_up)
    fields = {"ImageId": fake.image, "InstanceType": "m5zn.metal"}
    client.run_instances(**fields, MinCount=1, MaxCount=1)
    assert fake.summary()["instances_total"] == 1
    assert fake.calls("RunInstances") == 2


def test_a_rule_may_hold_for_a_time_only(fake, ec2):
    """A rule with `since` and `until` is in force between them, in simulated time."""
    now = fake.now()
    fake.rule("unavailable", since=now + 100, until=now + 200)
    ec2.describe_instances()
    fake.advance(150)
    assert code_of(ec2.describe_instances)[0] == 503
    fake.advance(100)
    ec2.describe_instances()


def test_rules_are_dropped_one_by_one(fake):
    """A rule is removed by its id, and the others stay."""
    first = fake.rule("throttle")[0]["id"]
    second = fake.rule("internal")[1]["id"]
    left = fake.ask("DELETE", "rules", {"ids": [first]})
    assert [rule["id"] for rule in left] == [second]

"""The adapter's parts that need no EC2: parameters, reading, translation, clients, runners."""

import asyncio
import datetime as dt
import threading

import pytest
from botocore import exceptions as sdk
from botocore.awsrequest import AWSResponse
from botocore.parsers import ResponseParserError

from labfleet.adapters.aws import compute, launches, reading
from labfleet.adapters.aws import errors as translation
from labfleet.adapters.aws.clients import RETRIES, Clients, Credentials
from labfleet.adapters.aws.runner import InlineRunner, ThreadRunner
from labfleet.interfaces.compute import LaunchRequest
from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.providers.trouble import Trouble


def request(aws=None, **changes):
    """Return a launch request without any cloud."""
    fields = {
        "region": "eu-west-1",
        "token": "t",
        "worker": "w",
        "worker_uid": "u",
        "attempt": 2,
        "choice": {"image": "ami-1", "type": "m5zn.metal", "subnet": "subnet-1"},
        "settings": AwsSettings(**(aws or {})),
    }
    return LaunchRequest(**{**fields, **changes})


def refused(code, status=400):
    """Return a ClientError as botocore raises it."""
    reply = {
        "Error": {"Code": code, "Message": "m"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return sdk.ClientError(reply, "RunInstances")


def parameters(**aws):
    """Return RunInstances parameters for settings."""
    return launches.parameters(request(aws), owner="me", root_device="/dev/sda1")


def test_a_launch_is_one_tagged_machine_that_cleans_up_after_itself():
    """One instance, tags on three kinds, volume and interface deleted with it, no user data."""
    wanted = parameters(security_group_ids=("sg-1",))
    assert (wanted["MinCount"], wanted["MaxCount"], wanted["ClientToken"]) == (1, 1, "t")
    kinds = [spec["ResourceType"] for spec in wanted["TagSpecifications"]]
    assert kinds == ["instance", "volume", "network-interface"]
    assert wanted["BlockDeviceMappings"][0]["Ebs"]["DeleteOnTermination"] is True
    assert wanted["NetworkInterfaces"][0]["DeleteOnTermination"] is True
    assert wanted["MetadataOptions"]["InstanceMetadataTags"] == "disabled"
    assert "UserData" not in wanted


def test_options_appear_only_when_asked_for():
    """Key, profile and nested virtualisation are sent when the template names them."""
    plain = parameters()
    assert not {"KeyName", "IamInstanceProfile", "CpuOptions"} & set(plain)
    full = parameters(
        key_name="k",
        iam_instance_profile="arn:aws:x",
        instance_types=("m8i.12xlarge",),
        nested_virtualization=True,
    )
    assert full["IamInstanceProfile"] == {"Arn": "arn:aws:x"}
    assert full["CpuOptions"] == {"NestedVirtualization": "enabled"}


@pytest.mark.parametrize(
    "aws",
    [
        {"volume_size_gib": 100, "volume_iops": 5001},
        {"volume_type": "gp3", "volume_iops": 2999},
        {"tags": {"aws:x": "y"}},
        {"tags": {"labfleet:owner": "thief"}},
        {"tags": {"k": "v" * 257}},
    ],
)
def test_what_ec2_would_refuse_is_refused_before_the_call(aws):
    """Wrong IOPS and reserved or oversized tags are Invalid, naming the field."""
    with pytest.raises(errors.Invalid) as caught:
        parameters(**aws)
    assert caught.value.problems[0][0].startswith("aws.")


def test_own_tags_stay_within_the_budget_and_charset():
    """At most ten own tags, and no key with a slash."""
    tags = launches.tags_of(request(pool="p"), "me")
    assert len(tags) <= 10
    assert not any("/" in key for key in tags)


@pytest.mark.parametrize(
    ("error", "mutating", "kind"),
    [
        (refused("RequestLimitExceeded", 503), True, errors.Throttled),
        (refused("InternalError", 500), False, errors.Temporary),
        (refused("InternalError", 500), True, errors.Ambiguous),
        (refused("InvalidSubnetID.NotFound"), True, errors.Invalid),
        (refused("InvalidInstanceID.NotFound"), True, errors.Gone),
        (refused("OperationNotPermitted"), True, errors.Permanent),
        (refused("SomethingNew"), True, errors.Permanent),
        (sdk.EndpointConnectionError(endpoint_url="http://x"), True, errors.Unreachable),
        (sdk.ReadTimeoutError(endpoint_url="http://x"), True, errors.Ambiguous),
        (sdk.ReadTimeoutError(endpoint_url="http://x"), False, errors.Unreachable),
        (sdk.NoCredentialsError(), True, errors.Denied),
        (sdk.ParamValidationError(report="r"), True, errors.Invalid),
        (ResponseParserError("x"), False, errors.Protocol),
        (ResponseParserError("x"), True, errors.Ambiguous),
    ],
)
def test_outside_errors_become_ours(error, mutating, kind):
    """Each outside error has one class; what may have happened is Ambiguous for mutations."""
    assert isinstance(error, translation.OUTSIDE)
    found = translation.translate(error, action="run_instances", mutating=mutating)
    assert type(found) is kind
    assert found.reason.isalnum()


def test_a_reply_without_its_list_is_a_protocol_error():
    """A missing list is not an empty one, and an unknown state is not guessed."""
    with pytest.raises(errors.Protocol):
        reading.instances({})
    with pytest.raises(errors.Protocol):
        reading.instance({"InstanceId": "i-1", "State": {"Name": "sulking"}})
    assert reading.instances({"Reservations": []}) == []


def test_absent_fields_are_none():
    """Fields that EC2 did not send are None, never empty text."""
    found = reading.instance({"InstanceId": "i-1", "State": {"Name": "running"}})
    assert (found.public_ip, found.launch_time, found.root_volume_id) == (None, None, None)
    image = reading.image({"ImageId": "ami-1", "CreationDate": "2026-01-02T03:04:05.000Z"})
    assert image.created == dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def test_credentials_never_show():
    """The secret is in no repr."""
    shown = repr(Credentials("AKIA", "very-secret", "also-secret"))
    assert "AKIA" in shown
    assert "very-secret" not in shown
    assert "also-secret" not in shown


def test_given_credentials_close_the_environment_out(monkeypatch, tmp_path):
    """AWS variables, profiles, endpoints and proxies of the environment have no say."""
    for name, value in {
        "AWS_PROFILE": "no-such-profile",
        "AWS_MAX_ATTEMPTS": "99",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "thief",
        "AWS_CA_BUNDLE": str(tmp_path / "none.pem"),
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }.items():
        monkeypatch.setenv(name, value)
    clients = Clients(credentials=Credentials("mine", "secret"))
    client = clients.get("eu-west-1", "change")
    assert client.meta.endpoint_url == "https://ec2.eu-west-1.amazonaws.com"
    assert client.meta.config.retries["total_max_attempts"] == 1
    assert client.meta.config.proxies == {}
    # private _request_signer, _credentials: botocore shows the key a client signs with nowhere else
    assert client._request_signer._credentials.access_key == "mine"
    clients.close()


def test_clients_are_shared_per_region_and_policy():
    """Asking twice gives the same client; another policy gives another one."""
    clients = Clients(credentials=Credentials("a", "b"))
    assert clients.get("eu-west-1", "read") is clients.get("eu-west-1", "read")
    assert clients.get("eu-west-1", "read") is not clients.get("eu-west-1", "change")
    clients.close()


class Body:
    """A body as urllib3 gives it to botocore."""

    def __init__(self, data):
        self.data = data

    def stream(self, **_):
        yield self.data


@pytest.mark.asyncio
async def test_a_rehearsal_answers_in_the_networks_place():
    """With an inline runner and a before-send answer no thread and no socket is used."""
    threads = []

    def answer(sent):
        threads.append(threading.current_thread())
        body = b"<R><reservationSet/><requestId>r</requestId></R>"
        return AWSResponse(sent.url, 200, {"Content-Type": "text/xml"}, Body(body))

    ec2 = compute.connect(
        owner="me",
        credentials=Credentials("a", "b"),
        before_send=answer,
        runner=InlineRunner(),
    )
    assert await ec2.list_owned("eu-west-1") == ()
    assert threads == [threading.current_thread()]
    await ec2.close()


@pytest.mark.asyncio
async def test_no_answer_at_all_is_unreachable():
    """A closed port is Unreachable for reads and for launches: nothing was sent."""
    ec2 = compute.connect(
        owner="me",
        credentials=Credentials("a", "b"),
        endpoint_url="http://127.0.0.1:9",
        before_send=_refuse,
        runner=InlineRunner(),
        retries=dict.fromkeys(RETRIES, ("standard", 1)),
    )
    with pytest.raises(errors.Unreachable):
        await ec2.start("eu-west-1", "i-1")
    await ec2.close()


def _refuse(_sent):
    raise sdk.EndpointConnectionError(endpoint_url="http://127.0.0.1:9")


@pytest.mark.asyncio
async def test_the_loop_lives_while_a_call_blocks():
    """A blocking call runs in a thread while the event loop goes on."""
    runner = ThreadRunner(1)
    gate = threading.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(runner.run(lambda: gate.wait(5)))
        await asyncio.sleep(0)
        gate.set()
    assert task.result() is True
    runner.close()


def test_volume_and_user_data_options_are_sent():
    """Throughput of gp3 and user data go out as they were given."""
    plain = parameters()
    assert "Throughput" not in plain["BlockDeviceMappings"][0]["Ebs"]
    full = parameters(volume_type="gp3", volume_throughput_mibps=500, user_data="#!/bin/sh\n")
    assert full["BlockDeviceMappings"][0]["Ebs"]["Throughput"] == 500
    assert full["UserData"] == "#!/bin/sh\n"


@pytest.mark.asyncio
async def test_a_full_line_is_an_answer():
    """When threads and line are taken, the next call is Throttled and never run."""
    runner = ThreadRunner(1, 1, line=1)
    gate = threading.Event()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(runner.run(lambda: gate.wait(5))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(errors.Throttled) as caught:
            await runner.run(lambda: True)
        assert caught.value.reason == "QueueFull"
        assert await runner.run(lambda: True, change=True) is True, "changes have a pool apart"
        gate.set()
    assert [task.result() for task in tasks] == [True, True]
    assert await runner.run(lambda: True) is True
    runner.close()


@pytest.mark.asyncio
async def test_a_call_that_was_given_up_in_line_is_never_sent():
    """Cancelled while waiting: not run. Cancelled under way: its result goes to nobody."""
    runner = ThreadRunner(1, 1, line=2)
    gate, begun, ran = threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        gate.wait(5)
        ran.append("slow")

    first = asyncio.ensure_future(runner.run(slow, change=True))
    second = asyncio.ensure_future(runner.run(lambda: ran.append("second"), change=True))
    await asyncio.sleep(0)
    begun.wait(5)
    for task in (second, first):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gate.set()
    await runner.run(lambda: ran.append("third"), change=True)
    assert ran == ["slow", "third"]
    runner.close()


@pytest.mark.asyncio
async def test_a_read_ends_by_its_own_deadline():
    """A read that hangs is Unreachable, whatever the SDK is doing."""
    runner = ThreadRunner(1, 1, read_seconds=0.01)
    gate = threading.Event()
    with pytest.raises(errors.Unreachable):
        await runner.run(lambda: gate.wait(5))
    gate.set()
    runner.close()


def test_requests_are_counted_by_region_and_action():
    """Each request that goes out counts, the SDK's repeats included."""
    clients = Clients(credentials=Credentials("a", "b"), before_send=_refuse)
    for region in ("eu-west-1", "eu-west-1", "us-east-1"):
        with pytest.raises(sdk.EndpointConnectionError):
            clients.get(region, "change").stop_instances(InstanceIds=["i-1"])
    assert clients.sent() == {
        ("eu-west-1", "StopInstances"): 2,
        ("us-east-1", "StopInstances"): 1,
    }
    clients.close()


# Every code that facts/aws.md#error-classes and #fault-kinds name, and what it means to us; (code,
# HTTP status, kind).
CODES = [
    ("RequestLimitExceeded", 503, errors.Throttled),
    ("EC2ThrottledException", 503, errors.Throttled),
    ("ThrottlingException", 400, errors.Throttled),
    ("InsufficientInstanceCapacity", 500, errors.OutOfCapacity),
    ("ReservationCapacityExceeded", 400, errors.OutOfCapacity),
    ("InsufficientFreeAddressesInSubnet", 400, errors.OutOfCapacity),
    ("UnfulfillableCapacity", 400, errors.OutOfCapacity),
    ("Unsupported", 400, errors.OutOfCapacity),
    ("VcpuLimitExceeded", 400, errors.QuotaExceeded),
    ("MaxSpotInstanceCountExceeded", 400, errors.QuotaExceeded),
    ("InstanceLimitExceeded", 400, errors.QuotaExceeded),
    ("PendingVerification", 400, errors.QuotaExceeded),
    ("UnauthorizedOperation", 403, errors.Denied),
    ("AuthFailure", 401, errors.Denied),
    ("RequestExpired", 400, errors.Denied),
    ("ExpiredToken", 400, errors.Denied),
    ("OptInRequired", 401, errors.Denied),
    ("IncorrectInstanceState", 400, errors.Temporary),
    ("InvalidInstanceID.NotFound", 400, errors.Gone),
    ("InvalidInstanceID.Malformed", 400, errors.Invalid),
    ("InvalidVolume.NotFound", 400, errors.Gone),
    ("InvalidAllocationID.NotFound", 400, errors.Gone),
    ("VolumeInUse", 400, errors.Conflict),
    ("IdempotentInstanceTerminated", 400, errors.Gone),
    ("IdempotentParameterMismatch", 400, errors.Conflict),
    ("InvalidParameterValue", 400, errors.Invalid),
    ("InvalidParameterDependency", 400, errors.Invalid),
    ("InvalidParameterCombination", 400, errors.Invalid),
    ("InvalidAMIID.NotFound", 400, errors.Invalid),
    ("TagLimitExceeded", 400, errors.Invalid),
    ("OperationNotPermitted", 400, errors.Permanent),
]


@pytest.mark.parametrize(("code", "status", "kind"), CODES)
@pytest.mark.parametrize("mutating", [True, False])
def test_every_code_of_ec2_has_its_class(code, status, kind, mutating):
    """A definite answer means the same for reads and changes: it was not done."""
    found = translation.translate(refused(code, status), action="x", mutating=mutating)
    assert type(found) is kind
    assert found.reason.isalnum()
    assert code in found.message


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("InternalError", 500), ("Unavailable", 503), ("ServiceUnavailable", 503),
        ("InternalFailure", 500), ("502", 502), ("", 504),
    ],
)  # fmt: skip
def test_server_trouble_is_no_answer_to_a_change(code, status):
    """A change may have happened; a read is asked again."""
    found = translation.translate(refused(code, status), action="x", mutating=True)
    assert type(found) is errors.Ambiguous
    found = translation.translate(refused(code, status), action="x", mutating=False)
    assert type(found) is errors.Temporary


def test_a_name_of_a_namespace_is_a_tag_that_metadata_takes() -> None:
    """Two workers of one name are told apart by their tags, which hold no slash."""
    found = launches.tags_of(request(worker="exam/w1", pool="exam/main"), "us")
    assert (found["Name"], found[launches.WORKER], found[launches.POOL]) == (
        "exam:w1",
        "exam:w1",
        "exam:main",
    )
    assert launches.claim_tags("us", "exam/w1", "u-1")[launches.WORKER] == "exam:w1"
    launches.parameters(request(worker="exam/w1"), owner="us", root_device="/dev/sda1")


@pytest.mark.parametrize(
    ("code", "status", "word"),
    [
        ("ExpiredToken", 400, Trouble.EXPIRED),
        ("RequestExpired", 400, Trouble.EXPIRED),
        ("AuthFailure", 401, Trouble.REFUSED),
        ("InvalidClientTokenId", 403, Trouble.REFUSED),
        ("UnauthorizedOperation", 403, Trouble.FORBIDDEN),
        ("RequestLimitExceeded", 503, Trouble.THROTTLED),
        ("InternalError", 500, Trouble.SILENT),
        ("InsufficientInstanceCapacity", 500, None),
        ("VcpuLimitExceeded", 400, None),
        ("InvalidInstanceID.NotFound", 400, None),
        ("InvalidParameterValue", 400, None),
    ],
)
def test_a_code_says_what_is_the_matter_with_aws(
    code: str, status: int, word: Trouble | None
) -> None:
    """Credentials, permission, throttling and silence are four troubles; a no to a request is none."""
    found = translation.translate(refused(code, status), action="x", mutating=False)
    assert translation.trouble(found) is word


def test_our_own_refusals_are_no_trouble_of_aws() -> None:
    """A machine of others is denied by us; missing credentials and no connection are troubles."""
    assert translation.trouble(errors.Denied("others", reason="NotOurs")) is None
    none = translation.translate(sdk.NoCredentialsError(), action="x", mutating=False)
    assert translation.trouble(none) is Trouble.REFUSED
    lost = sdk.EndpointConnectionError(endpoint_url="https://ec2")
    found = translation.translate(lost, action="x", mutating=True)
    assert translation.trouble(found) is Trouble.SILENT

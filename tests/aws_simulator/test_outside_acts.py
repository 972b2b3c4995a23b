"""The outside hand, slow and strange lives, and the order of what is due."""

import pytest
from aws_simulator_process import code_of


def status_of(ec2, instance_id):
    """Return the status of one instance, whatever its state."""
    reply = ec2.describe_instance_status(InstanceIds=[instance_id], IncludeAllInstances=True)
    return reply["InstanceStatuses"][0]


@pytest.fixture
def running(fake, launch):
    """A running metal instance whose checks have passed."""
    (instance_id,) = launch()
    fake.advance(800)
    return instance_id


@pytest.mark.parametrize("word", ["impaired", "insufficient-data", "initializing"])
def test_checks_can_be_set_one_by_one(fake, ec2, running, word):
    """The system check fails while the instance check goes on passing, until it recovers."""
    fake.hand("checks", running, system=word)
    status = status_of(ec2, running)
    assert status["SystemStatus"]["Status"] == word
    assert status["InstanceStatus"]["Status"] == "ok"
    assert ("ImpairedSince" in status["SystemStatus"]["Details"][0]) == (word == "impaired")
    found = ec2.describe_instance_status(
        Filters=[{"Name": "system-status.status", "Values": [word]}]
    )
    assert [each["InstanceId"] for each in found["InstanceStatuses"]] == [running]
    fake.hand("recover", running)
    assert status_of(ec2, running)["SystemStatus"]["Status"] == "ok"


def test_a_retirement_is_announced_and_then_stops_the_instance(fake, ec2, running, state_of):
    """The event is seen, found by its code, and done at its time with a state reason."""
    fake.hand("schedule", running, code="instance-retirement", lead=3600)
    codes = [{"Name": "event.code", "Values": ["instance-retirement", "system-reboot"]}]
    (status,) = ec2.describe_instance_status(Filters=codes)["InstanceStatuses"]
    assert status["Events"][0]["Code"] == "instance-retirement"
    fake.advance(3601)
    item = state_of(running)
    assert item["State"]["Name"] == "stopping"
    assert item["StateReason"]["Code"] == "Server.ScheduledStop"
    assert fake.ask("GET", "notices")[0]["detail"]["eventTypeCode"] == "instance-retirement"


def test_a_system_reboot_initialises_the_checks_again(fake, ec2, running):
    """After the reboot the instance still runs, its checks begin anew, the event is completed."""
    fake.hand("schedule", running, code="system-reboot", lead=60)
    fake.advance(61)
    status = status_of(ec2, running)
    assert status["InstanceStatus"]["Status"] == "initializing"
    assert status["Events"][0]["Description"].startswith("[Completed]")
    assert (
        ec2.describe_instance_status(Filters=[{"Name": "event.code", "Values": ["system-reboot"]}])[
            "InstanceStatuses"
        ]
        == []
    )


def test_an_event_can_be_withdrawn(fake, ec2, running):
    """A withdrawn event is neither shown nor done."""
    fake.hand("schedule", running, code="instance-stop", lead=60)
    fake.hand("unschedule", running)
    fake.advance(100)
    status = status_of(ec2, running)
    assert (status["InstanceState"]["Name"], status.get("Events", [])) == ("running", [])


@pytest.mark.parametrize(
    ("action", "state", "reason"),
    [
        ("terminate", "shutting-down", "Server.SpotInstanceTermination"),
        ("stop", "stopping", "Server.SpotInstanceShutdown"),
    ],
)
def test_spot_is_reclaimed_two_minutes_after_the_warning(
    fake, launch, state_of, action, state, reason
):
    """The warning comes as a notice; the instance goes 120 seconds later."""
    (spot,) = launch(InstanceMarketOptions={"MarketType": "spot"})
    fake.advance(500)
    assert state_of(spot)["InstanceLifecycle"] == "spot"
    fake.hand("interrupt", spot, action=action)
    assert fake.ask("GET", "notices")[-1]["detail"]["instance-action"] == action
    fake.advance(119)
    assert state_of(spot)["State"]["Name"] == "running"
    fake.advance(2)
    item = state_of(spot)
    assert (item["State"]["Name"], item["StateReason"]["Code"]) == (state, reason)


def test_deeds_can_be_planned_and_are_done_as_of_their_time(fake, launch, state_of):
    """Stop at 600 s, start at 1,000 s, looked at only later: the times are those of the plan."""
    (instance_id,) = launch()
    begin = fake.state()["instances"][0]["launched"]
    fake.hand("stop", instance_id, after=600, actor="cloud-custodian")
    fake.hand("start", instance_id, after=1000)
    fake.advance(1600)
    (item,) = fake.state()["instances"]
    assert item["state"] == "running"
    assert item["since"] - begin == pytest.approx(1000 + 480, abs=1)
    stop, start = (entry for entry in fake.journal() if entry["source"] == "hand")
    assert (stop["actor"], stop["time"] - begin) == ("cloud-custodian", pytest.approx(600, abs=1))
    assert start["error"] == ""


def test_a_planned_deed_that_became_illegal_is_only_written_down(fake, launch):
    """A stop planned for an instance that is gone leaves its error in the journal."""
    (instance_id,) = launch()
    fake.hand("stop", instance_id, after=100)
    fake.hand("fail", instance_id)
    fake.advance(101)
    assert "IncorrectInstanceState" in fake.journal(action="stop")[0]["error"]


def test_the_hand_modifies_and_the_api_follows(fake, ec2, running, state_of):
    """Termination protection set at the console refuses the API; a new type needs a stop."""
    fake.hand("modify", running, disable_api_termination=True)
    assert code_of(ec2.terminate_instances, InstanceIds=[running])[1] == "OperationNotPermitted"
    modify = {"InstanceId": running, "InstanceType": {"Value": "m5.metal"}}
    assert code_of(ec2.modify_instance_attribute, **modify)[1] == "IncorrectInstanceState"
    ec2.stop_instances(InstanceIds=[running])
    fake.advance(301)
    ec2.modify_instance_attribute(**modify)
    assert state_of(running)["InstanceType"] == "m5.metal"


def test_protection_refuses_its_zone_only(fake, ec2, running, state_of, launch):
    """One protected instance keeps its zone's instances; those of another zone are terminated."""
    (there,) = launch(ClientToken="b", SubnetId=fake.subnets[1])
    (beside,) = launch(ClientToken="c")
    fake.hand("modify", running, disable_api_termination=True)
    ids = {"InstanceIds": [running, there, beside]}
    assert code_of(ec2.terminate_instances, **ids)[1] == "OperationNotPermitted"
    states = [state_of(each)["State"]["Name"] for each in ids["InstanceIds"]]
    assert states == ["running", "shutting-down", "pending"]


def test_the_console_can_be_read_and_written(fake, ec2, launch):
    """A boot without a login, then with one, then what was set by hand."""
    (instance_id,) = launch()
    text = ec2.get_console_output(InstanceId=instance_id)["Output"]
    assert "Linux version" in text
    assert "login" not in text
    fake.advance(500)
    assert "login" in ec2.get_console_output(InstanceId=instance_id)["Output"]
    fake.hand("console", instance_id, text="Kernel panic")
    assert ec2.get_console_output(InstanceId=instance_id)["Output"] == "Kernel panic"
    assert code_of(ec2.get_console_output, InstanceId="i-0123456789abcdef0")[0] == 400


def test_an_instance_may_hide(fake, ec2, running):
    """A hidden instance is NotFound for the seconds that were asked for."""
    fake.hand("hide", running, seconds=30)
    ids = {"InstanceIds": [running]}
    assert code_of(ec2.describe_instances, **ids)[1] == "InvalidInstanceID.NotFound"
    fake.advance(30)
    assert ec2.describe_instances(**ids)["Reservations"]


@pytest.mark.parametrize(
    ("fate", "state", "reason"),
    [
        ("stuck", "pending", ""),
        ("dies", "terminated", "Client.VolumeLimitExceeded"),
        ("never_ok", "running", ""),
    ],
)
def test_a_launch_may_have_a_fate(fake, ec2, launch, state_of, fate, state, reason):
    """A rule decides that a launch never runs, dies, or never passes its checks."""
    fake.rule("fate", action="RunInstances", fate=fate, code=reason or "x", times=1)
    (fated,) = launch()
    (other,) = launch(ClientToken="other")
    fake.advance(100_000 if fate != "dies" else 2000)
    item = state_of(fated)
    assert item["State"]["Name"] == state
    assert item.get("StateReason", {}).get("Code", "") == reason
    if fate == "never_ok":
        assert status_of(ec2, fated)["InstanceStatus"]["Status"] == "initializing"
    assert status_of(ec2, other)["InstanceStatus"]["Status"] == "ok"


def test_a_start_may_fail(fake, ec2, running, state_of):
    """A start that AWS cannot carry out falls back to stopped with Server.InternalError."""
    ec2.stop_instances(InstanceIds=[running])
    fake.advance(301)
    fake.rule("fate", action="StartInstances", fate="start_fails", times=1)
    ec2.start_instances(InstanceIds=[running])
    assert state_of(running)["State"]["Name"] == "pending"
    fake.advance(500)
    item = state_of(running)
    assert item["State"]["Name"] == "stopped"
    assert item["StateReason"]["Code"] == "Server.InternalError"
    ec2.start_instances(InstanceIds=[running])
    fake.advance(500)
    assert state_of(running)["State"]["Name"] == "running"


def test_a_stop_may_stick_until_it_is_forced(fake, ec2, running, state_of):
    """A stuck stop lasts for ever; Force ends it."""
    fake.hand("fate", running, fate="stuck_stopping")
    ec2.stop_instances(InstanceIds=[running])
    fake.advance(100_000)
    assert state_of(running)["State"]["Name"] == "stopping"
    ec2.stop_instances(InstanceIds=[running], Force=True)
    assert state_of(running)["State"]["Name"] == "stopped"


def test_every_slow_state_can_stick(fake, ec2, launch, state_of):
    """The setting keeps terminations from ending; unstick lets one end."""
    (instance_id,) = launch()
    fake.advance(500)
    fake.config(stuck=["shutting-down"])
    ec2.terminate_instances(InstanceIds=[instance_id])
    fake.advance(100_000)
    assert state_of(instance_id)["State"]["Name"] == "shutting-down"
    fake.hand("unstick", instance_id)
    assert state_of(instance_id)["State"]["Name"] == "terminated"


def test_the_hand_is_bound_to_the_states_too(fake, launch):
    """What EC2 refuses in a state is refused at the console, as 400 with EC2's code."""
    (instance_id,) = launch()
    body = {"verb": "stop", "ids": [instance_id]}
    status, sentence = fake.refusal("POST", "hand", body)
    assert (status, sentence.split(":")[0]) == (400, "IncorrectInstanceState")


@pytest.mark.parametrize(
    ("verb", "fields", "word"),
    [
        ("kick", {}, "verb"),
        ("checks", {"system": "purple"}, "checks"),
        ("schedule", {"code": "party"}, "code"),
        ("interrupt", {"action": "hug"}, "action"),
        ("fate", {"fate": "kind"}, "fate"),
        ("modify", {"colour": 1}, "modify"),
        ("stop", {"after": -1}, "after"),
    ],
)
def test_bad_deeds_are_refused_with_a_sentence(fake, running, verb, fields, word):
    """What the hand cannot do is 400 with what it can."""
    body = {"verb": verb, "ids": [running], **fields}
    status, sentence = fake.refusal("POST", "hand", body)
    assert status == 400
    assert word in sentence
    assert "unknown instances" in fake.refusal("POST", "hand", {"verb": "stop", "ids": ["i-x"]})[1]

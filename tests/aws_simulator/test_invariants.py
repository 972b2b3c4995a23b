"""I1 to I9: each one bites when its rule is broken, and is silent when it is kept."""

import collections

import pytest

from aws_simulator import invariants
from aws_simulator.invariants import Books, parse
from aws_simulator.journal import Entry

OWNER = "labfleet:owner"


def machine(name="i-1", state="running", token="t-1", owner="me", **fields):
    """Return an instance of the true state."""
    tags = {OWNER: owner} if owner else {}
    whole = {"id": name, "state": state, "zone": "a", "token": token, "tags": tags}
    return {**whole, **fields}


def entry(action="StopInstances", at=100.0, ids=("i-1",), owners=("me",), **fields):
    """Return a call of the API."""
    given = {
        "number": 1,
        "time": at,
        "source": "api",
        "service": "ec2",
        "action": action,
        "region": "r",
        "account": "a",
        "token": "",
        "ids": ids,
        "result": (),
        "status": 200,
        "error": "",
        "fault": "",
        "owners": owners,
    }
    return Entry(**{**given, **fields})


def broken(facts=None, *entries, **books):
    """Return the names of the invariants that are broken."""
    whole = Books(**{"owner_tag": OWNER, "entries": entries, "now": 1000.0, **books})
    return [found["invariant"] for found in invariants.check(whole, parse(facts or {}))]


def test_i1_bites_on_two_living_instances_of_a_worker():
    """A worker that ever had two living instances is named."""
    assert broken(doubles=["w-1"]) == ["I1"]
    tags = {OWNER: "me", "worker": "w-1"}
    pair = [machine(tags=tags), machine("i-2", token="t-2", tags=tags)]
    assert broken(instances=pair, worker_tag="worker") == ["I1"]
    dead = [pair[0], {**pair[1], "state": "terminated"}]
    assert broken(instances=dead, worker_tag="worker") == []
    assert broken(doubles=[]) == []


@pytest.mark.parametrize(
    ("workers", "state", "owner", "names"),
    [
        ({}, "running", "me", ["I2"]),
        ({"w": ["i-1"]}, "running", "me", []),
        ({}, "terminated", "me", []),
        ({}, "running", "another", []),
    ],
)
def test_i2_bites_on_an_instance_of_ours_without_a_worker(workers, state, owner, names):
    """Our tag without a record is a leak; the dead and other people's instances are none."""
    books = {"instances": [machine(state=state, owner=owner)]}
    assert broken({"owner": "me", "workers": workers}, **books) == names


def test_i2_gives_a_fresh_instance_its_grace():
    """An instance younger than the grace is not judged."""
    books = {"instances": [machine(launched=950.0)]}
    assert broken({"owner": "me", "workers": {}, "grace": 60}, **books) == []
    assert broken({"owner": "me", "workers": {}, "grace": 40}, **books) == ["I2"]


@pytest.mark.parametrize("action", ["StopInstances", "TerminateInstances"])
def test_i3_bites_on_running_labs(action):
    """Stopping or terminating inside a busy period is named, unless a person forced it."""
    busy = {"busy": {"i-1": [[50, 150]]}}
    assert broken(busy, entry(action)) == ["I3"]
    assert broken(busy, entry(action, at=150.0)) == []
    assert broken({**busy, "forced": ["i-1"]}, entry(action)) == []
    assert broken({"busy": {"i-1": [[50, None]]}}, entry(action, at=9e9)) == ["I3"]


def test_i3_bites_on_what_the_cml_simulator_said():
    """Labs that ran when the call came count when the caller asks for them."""
    told = entry(facts={"i-1": {"on": True, "labs_running": 2, "checked_ago": 1}})
    assert broken({"cml": True}, told) == ["I3"]
    assert broken({}, told) == []
    off = entry(facts={"i-1": {"on": False, "labs_running": 2}})
    assert broken({"cml": True}, off) == []


def test_a_refused_call_did_no_harm():
    """A call that EC2 refused, or a dry run, breaks nothing."""
    facts = {"busy": {"i-1": [[0, None]]}, "owner": "x"}
    assert broken(facts, entry(status=400)) == []
    assert broken(facts, entry(dry_run=True, status=412)) == []


def test_i4_bites_on_tokens():
    """A token used twice in a zone, a launch without one, and a token without an intent."""
    assert broken(instances=[machine(), machine("i-2")]) == ["I4"]
    assert broken(instances=[machine(token="")]) == ["I4"]
    launch = entry("RunInstances", ids=(), owners=(), token="t-9")
    assert broken({"intents": ["t-1"]}, launch) == ["I4"]
    assert broken({"intents": ["t-9"]}, launch) == []


def test_i5_bites_on_what_is_not_ours():
    """A change of an untagged resource or another installation's is named, an adopted one not."""
    facts = {"owner": "me"}
    assert broken(facts, entry("CreateTags", owners=("",))) == ["I5"]
    assert broken(facts, entry("TerminateInstances", owners=("you",))) == ["I5"]
    assert broken(facts, entry("RebootInstances")) == []
    assert broken({**facts, "adopted": ["i-1"]}, entry("CreateTags", owners=("",))) == []


def test_only_the_callers_that_are_named_are_judged():
    """Somebody else's access key may do as it likes."""
    theirs = entry(owners=("you",), key="YOURS")
    assert broken({"owner": "me", "keys": ["MINE"]}, theirs) == []
    assert broken({"owner": "me", "keys": ["YOURS"]}, theirs) == ["I5"]


@pytest.mark.parametrize("what", ["volumes", "addresses"])
def test_i6_bites_on_what_is_left_behind(what):
    """A volume or an address without a living instance is named, unless it is meant to stay."""
    thing = {"id": "x-1", "instance": None, "tags": {OWNER: "me"}}
    assert broken(**{what: [thing]}) == ["I6"]
    assert broken({"kept": ["x-1"]}, **{what: [thing]}) == []
    assert broken({"owner": "you"}, **{what: [thing]}) == []
    alive = {**thing, "instance": "i-1"}
    assert broken(**{what: [alive]}, instances=[machine()]) == []
    assert broken(**{what: [alive]}, instances=[machine(state="terminated")]) == ["I6"]


@pytest.mark.parametrize(("calls", "budget", "names"), [
    (125, None, []), (126, None, ["I7"]), (12, 0.1, []), (13, 0.1, ["I7"]),
])  # fmt: skip
def test_i7_bites_on_the_rate_of_calls(calls, budget, names):
    """RunInstances passes 5 + 120 a minute; a tenth of the refill is 12."""
    minutes = collections.Counter({("a", "r", "RunInstances", True, 7): calls})
    facts = {} if budget is None else {"budget": budget}
    assert broken(facts, minutes=minutes) == names


def test_i8_bites_on_a_registered_licence():
    """A termination with the licence registered is named; a stop is not."""
    facts = {"licences": {"i-1": [[0, 200]]}}
    assert broken(facts, entry("TerminateInstances")) == ["I8"]
    assert broken(facts, entry("StopInstances")) == []
    assert broken(facts, entry("TerminateInstances", at=300.0)) == []
    told = entry("TerminateInstances", facts={"i-1": {"licensed": True}})
    assert broken({"cml": True}, told) == ["I8"]


def test_i9_bites_on_a_stop_without_a_fresh_check():
    """The last check must lie within `fresh` seconds before the stop, not after it."""
    assert broken({"checks": {}}, entry()) == ["I9"]
    assert broken({"checks": {"i-1": [95.0]}, "fresh": 10}, entry()) == []
    assert broken({"checks": {"i-1": [85.0]}, "fresh": 10}, entry()) == ["I9"]
    assert broken({"checks": {"i-1": [101.0]}, "fresh": 10}, entry()) == ["I9"]
    assert broken({}, entry()) == []


def test_i9_takes_the_reads_that_the_cml_simulator_saw():
    """A read of the labs counts as a check; none at all breaks the rule."""
    fresh = entry(facts={"i-1": {"on": True, "checked_ago": 5.0}})
    never = entry(facts={"i-1": {"on": True, "checked_ago": None}})
    assert broken({"cml": True}, fresh) == []
    assert broken({"cml": True}, never) == ["I9"]


def test_unknown_facts_are_refused():
    """A misspelt fact is an error, not a rule that never bites."""
    with pytest.raises(ValueError, match="unknown facts: wokers"):
        parse({"wokers": {}})


def test_the_invariants_are_asked_over_the_wire(fake, ec2, launch):
    """POST takes the facts and judges the true journal and state."""
    tags = [{"Key": OWNER, "Value": "me"}, {"Key": "labfleet:worker-uid", "Value": "w-1"}]
    (mine,) = launch(TagSpecifications=[{"ResourceType": "instance", "Tags": tags}])
    (other,) = launch(ClientToken="other")
    fake.advance(500)
    ec2.stop_instances(InstanceIds=[mine, other])
    fake.advance(1)
    found = fake.invariants(
        owner="me",
        workers={},
        intents=["token-1"],
        busy={mine: [[0, None]]},
        checks={mine: [fake.now()]},
        fresh=30,
    )
    assert [each["invariant"] for each in found] == ["I2", "I4", "I5", "I3", "I9", "I9"]
    assert fake.ask("GET", "invariants") == []
    assert "unknown facts" in fake.refusal("POST", "invariants", {"x": 1})[1]

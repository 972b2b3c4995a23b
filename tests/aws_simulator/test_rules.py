"""Fault rules, buckets and the scaled clock: pure parts."""

import random

import pytest

from aws_simulator.buckets import Buckets
from aws_simulator.clock import ScaledClock
from aws_simulator.faults import choose, parse_rule
from aws_simulator.settings import Config


def test_a_rule_matches_by_globs_and_counts_down():
    """A rule fires as often as it says, for the calls it names only."""
    rules = [
        parse_rule({"fault": "capacity", "action": "Run*", "match": {"Sub*": "s-a"}, "times": 1}, 1)
    ]
    rng = random.Random(1)

    def fires(action, subnet):
        return (
            choose(rules, rng, service="ec2", action=action, region="r", form={"SubnetId": subnet})
            is not None
        )

    assert not fires("RunInstances", "s-b")
    assert not fires("StopInstances", "s-a")
    assert fires("RunInstances", "s-a")
    assert not fires("RunInstances", "s-a")


def test_chances_follow_the_seed():
    """The same seed makes the same requests fail."""

    def run(seed):
        rng = random.Random(seed)
        rules = [parse_rule({"fault": "throttle", "p": 0.3}, 1)]
        return [
            choose(rules, rng, service="ec2", action="X", region="r", form={}) is not None
            for _ in range(50)
        ]

    assert run(7) == run(7)
    assert 0 < sum(run(7)) < 50


@pytest.mark.parametrize("data", [{"fault": "sulk"}, {"fault": "throttle", "actoin": "x"}])
def test_an_unknown_rule_is_refused(data):
    """A misspelt rule is an error, not a rule that never fires."""
    with pytest.raises(ValueError, match=r"actoin|one of"):
        parse_rule(data, 1)


def test_a_bucket_passes_its_burst_and_refills():
    """RunInstances passes 5 at once, then 2 per second."""
    buckets = Buckets()

    def take(now):
        return buckets.take("a", "r", "RunInstances", narrowed=False, now=now)

    assert [take(0.0) for _ in range(6)] == [True] * 5 + [False]
    assert [take(1.0) for _ in range(3)] == [True, True, False]


def test_the_clock_is_scaled_from_its_epoch():
    """Simulated time runs at the factor and jumps when told."""
    real = [1000.0]
    clock = ScaledClock(epoch=1000.0, speed=60.0, real=lambda: real[0])
    real[0] = 1010.0
    assert clock.now() == 1600.0
    clock.advance(5)
    assert clock.now() == 1605.0


def test_settings_refuse_unknown_keys_and_keep_the_old_values():
    """A bad change of settings changes nothing."""
    config = Config()
    with pytest.raises(ValueError, match="lagz"):
        config.merge({"lagz": {}, "jitter": 0.5})
    with pytest.raises(ValueError, match="lags"):
        config.merge({"jitter": 0.5, "lags": {"everything": 1}})
    assert config.jitter == 0.0


def test_metal_types_take_longer():
    """The metal preset applies by type name, an own entry beats it."""
    config = Config()
    assert config.times_for("m5zn.metal").pending == 480
    config.merge({"times": {"m5zn.metal": {"pending": 9}}})
    assert config.times_for("m5zn.metal").pending == 9
    assert config.times_for("m5zn.metal").stopping == 300

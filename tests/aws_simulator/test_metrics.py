"""CloudWatch: a load model nobody has to feed, limits, and what goes wrong with it."""

import datetime as dt

import pytest
from aws_simulator_process import code_of


def stamp(at):
    """Return Unix seconds as a time."""
    return dt.datetime.fromtimestamp(at, tz=dt.UTC)


def query(instance_id, name="CPUUtilization", number=0, period=300, stat="Average"):
    """Return one query."""
    metric = {
        "Namespace": "AWS/EC2",
        "MetricName": name,
        "Dimensions": [{"Name": "InstanceId", "Value": instance_id}],
    }
    return {
        "Id": f"m{number}",
        "MetricStat": {"Metric": metric, "Period": period, "Stat": stat},
    }


@pytest.fixture
def watch(fake):
    return fake.client("cloudwatch")


@pytest.fixture
def ask(fake, watch):
    def run(*queries, hours=1.0, **fields):
        now = fake.now()
        return watch.get_metric_data(
            StartTime=stamp(now - hours * 3600),
            EndTime=stamp(now),
            MetricDataQueries=list(queries),
            **fields,
        )

    return run


@pytest.fixture
def running(fake, launch):
    """A default instance that has been running for two hours."""
    (instance_id,) = launch(InstanceType="m5.large")
    fake.advance(7200)
    return instance_id


def test_a_running_instance_has_metrics_without_anybody_putting_them(ask, running):
    """CPU in percent and traffic in bytes a period, newest first, every five minutes."""
    names = ("CPUUtilization", "NetworkIn", "NetworkOut")
    reply = ask(*(query(running, name, number) for number, name in enumerate(names)))
    cpu, incoming, outgoing = reply["MetricDataResults"]
    assert [each["Label"] for each in (cpu, incoming, outgoing)] == list(names)
    assert 11 <= len(cpu["Values"]) <= 12
    assert all(0 < value < 10 for value in cpu["Values"])
    assert all(value > 1_000_000 for value in incoming["Values"])
    assert cpu["Timestamps"] == sorted(cpu["Timestamps"], reverse=True)
    assert all(at.timestamp() % 300 == 0 for at in cpu["Timestamps"])
    assert cpu["StatusCode"] == "Complete"


def test_the_model_is_the_same_each_time(ask, running):
    """Two readings of the same hour are equal."""
    one, two = (ask(query(running))["MetricDataResults"][0] for _ in range(2))
    shared = set(one["Timestamps"]) & set(two["Timestamps"])
    assert len(shared) >= 10
    first, second = (dict(zip(r["Timestamps"], r["Values"], strict=True)) for r in (one, two))
    assert all(first[at] == second[at] for at in shared)


def test_a_load_can_be_set(fake, ask, running):
    """A load set by hand shows from its time on, exactly."""
    fake.hand("load", running, cpu=93.0, network_in=1000)
    fake.advance(1800)
    cpu, incoming = ask(query(running), query(running, "NetworkIn", 1), hours=0.4)[
        "MetricDataResults"
    ]
    assert cpu["Values"][0] == 93.0
    assert incoming["Values"][0] == 300_000.0


def test_a_stopped_instance_publishes_nothing(fake, ec2, ask, running):
    """After a stop there are no newer datapoints, and an unknown instance has none at all."""
    ec2.stop_instances(InstanceIds=[running])
    fake.advance(7200)
    reply = ask(query(running), query("i-0123456789abcdef0", number=1))
    assert [each["Values"] for each in reply["MetricDataResults"]] == [[], []]


def test_statistics_and_wide_periods_fold_samples(ask, running):
    """An hour's sum is twelve samples; average lies between minimum and maximum."""
    names = ("Minimum", "Average", "Maximum", "SampleCount", "p90")
    queries = [query(running, number=n, period=3600, stat=s) for n, s in enumerate(names)]
    results = ask(*queries, hours=3)["MetricDataResults"]
    low, mean, high, count, p90 = (each["Values"][0] for each in results)
    assert low <= mean <= high
    assert low <= p90 <= high
    assert 1 <= count <= 12


def test_status_checks_are_metrics_too(fake, ask, running):
    """A failed check is 1 from the moment it failed."""
    fake.hand("checks", running, system="impaired")
    fake.advance(700)
    results = ask(
        query(running, "StatusCheckFailed"),
        query(running, "StatusCheckFailed_System", 1),
        query(running, "StatusCheckFailed_Instance", 2),
        hours=0.2,
    )["MetricDataResults"]
    assert [each["Values"][0] for each in results] == [1.0, 1.0, 0.0]


def test_put_data_takes_the_models_place(fake, watch, ask, running):
    """What somebody put for a metric of an instance is what is read; the rest stays modelled."""
    dimension = [{"Name": "InstanceId", "Value": running}]
    at = stamp(fake.now() - 600)
    datum = {"MetricName": "CPUUtilization", "Dimensions": dimension, "Timestamp": at, "Value": 42}
    watch.put_metric_data(Namespace="AWS/EC2", MetricData=[datum])
    cpu, network = ask(query(running), query(running, "NetworkIn", 1))["MetricDataResults"]
    assert cpu["Values"] == [42.0]
    assert len(network["Values"]) >= 11


def test_datapoints_may_be_late_missing_torn_and_shifted(fake, ask, running):
    """Each switch does what it says and no more."""
    whole = ask(query(running))["MetricDataResults"][0]
    fake.config(cloudwatch={"late": 900})
    late = ask(query(running))["MetricDataResults"][0]
    assert whole["Timestamps"][0] - late["Timestamps"][0] >= dt.timedelta(minutes=15)
    fake.config(cloudwatch={"late": 0, "gaps": 0.5})
    gaps = ask(query(running))["MetricDataResults"][0]
    assert 0 < len(gaps["Values"]) < len(whole["Values"])
    fake.config(cloudwatch={"gaps": 0, "unaligned": 17})
    shifted = ask(query(running))["MetricDataResults"][0]
    assert all(at.timestamp() % 300 == 17 for at in shifted["Timestamps"])
    fake.config(cloudwatch={"unaligned": 0, "absent": [running]})
    assert ask(query(running))["MetricDataResults"][0]["Values"] == []


def test_a_torn_answer_is_partial_data_and_the_rest(fake, watch, ask, running):
    """PartialData comes with a token; both pages together are the whole."""
    whole = ask(query(running))["MetricDataResults"][0]["Values"]
    fake.config(cloudwatch={"partial": True})
    first = ask(query(running))
    assert first["MetricDataResults"][0]["StatusCode"] == "PartialData"
    rest = ask(query(running), NextToken=first["NextToken"])
    parts = [page["MetricDataResults"][0]["Values"] for page in (first, rest)]
    assert rest["MetricDataResults"][0]["StatusCode"] == "Complete"
    assert abs(len(parts[0] + parts[1]) - len(whole)) <= 1


def test_pages_are_followed_and_one_may_be_throttled(fake, ask, running):
    """Three results in pages of two; the second page is throttled once."""
    fake.config(cloudwatch={"page": 2})
    fake.rule("throttling", service="monitoring", match={"NextToken": "*"}, times=1)
    queries = [query(running, number=number) for number in range(3)]
    first = ask(*queries)
    assert len(first["MetricDataResults"]) == 2
    assert code_of(lambda: ask(*queries, NextToken=first["NextToken"]))[1] == "Throttling"
    second = ask(*queries, NextToken=first["NextToken"])
    assert [each["Id"] for each in second["MetricDataResults"]] == ["m2"]
    assert "NextToken" not in second


@pytest.mark.parametrize(
    "queries",
    [
        [query("i-1", number=number) for number in range(501)],
        [query("i-1"), query("i-1")],
        [{**query("i-1"), "Id": "Upper"}],
        [query("i-1", period=90)],
    ],
    ids=["too many", "the same id twice", "an upper-case id", "a period of 90 s"],
)
def test_bad_queries_are_refused(ask, queries):
    """The limits that moto does not keep."""
    assert code_of(lambda: ask(*queries)) == (400, "ValidationError")


def test_statistics_come_in_no_order_and_are_bounded(fake, watch, running):
    """GetMetricStatistics is unordered, and 1,440 points are the most."""
    fields = {
        "Namespace": "AWS/EC2",
        "MetricName": "CPUUtilization",
        "Dimensions": [{"Name": "InstanceId", "Value": running}],
        "Period": 300,
        "Statistics": ["Average", "Maximum"],
        "EndTime": stamp(fake.now()),
    }
    points = watch.get_metric_statistics(StartTime=stamp(fake.now() - 7200), **fields)["Datapoints"]
    stamps = [each["Timestamp"] for each in points]
    assert len(points) >= 20
    assert stamps not in (sorted(stamps), sorted(stamps, reverse=True))
    assert all(each["Unit"] == "Percent" for each in points)
    long = {**fields, "StartTime": stamp(fake.now() - 1500 * 300)}
    assert code_of(watch.get_metric_statistics, **long)[1] == "InvalidParameterCombination"

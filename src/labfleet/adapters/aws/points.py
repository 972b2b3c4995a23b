"""CloudWatch in both directions: queries for machines' numbers, and points from the replies.

Pure. Units as CloudWatch has them: percent, and bytes over the period, never megabytes
(facts/aws-bugs.md#case-29). Limits of facts/aws.md#cloudwatch: 500 metrics and 100,800 points a
request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from labfleet.interfaces.compute import MetricPoint
from labfleet.kernel.errors import Invalid, Protocol, Temporary

METRICS = (
    ("cpu_percent", "CPUUtilization", "Average"),
    ("network_in_bytes", "NetworkIn", "Sum"),
    ("network_out_bytes", "NetworkOut", "Sum"),
)
QUERIES = 500
POINTS = 100_800
Values = dict[str, dict[datetime, dict[str, float]]]


def batches(
    instance_ids: Sequence[str], start: datetime, end: datetime, period: int
) -> Iterator[dict[str, Any]]:
    """Yield GetMetricData's parameters; Invalid for spans that no request can hold."""
    if period < 60 or period % 60 or end <= start:
        raise Invalid("a period is whole minutes in seconds, and a span ends after it starts")
    each = int((end - start).total_seconds() // period) + 1
    most = min(QUERIES, POINTS // each) // len(METRICS)
    if most < 1:
        raise Invalid(f"{each} points of one machine are more than CloudWatch gives at once")
    names = list(dict.fromkeys(instance_ids))
    for first in range(0, len(names), most):
        yield {
            "StartTime": start,
            "EndTime": end,
            "ScanBy": "TimestampAscending",
            "MetricDataQueries": [
                _query(f"{field}_{number}", metric, statistic, name, period)
                for number, name in enumerate(names[first : first + most])
                for field, metric, statistic in METRICS
            ],
        }


def _query(
    query_id: str, metric: str, statistic: str, instance_id: str, period: int
) -> dict[str, Any]:
    return {
        "Id": query_id,
        "Label": f"{instance_id} {query_id.rpartition('_')[0]}",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/EC2",
                "MetricName": metric,
                "Dimensions": [{"Name": "InstanceId", "Value": instance_id}],
            },
            "Period": period,
            "Stat": statistic,
        },
        "ReturnData": True,
    }


def names(wanted: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return instance and field of each query of a batch, by query id."""
    return {
        query["Id"]: (
            query["MetricStat"]["Metric"]["Dimensions"][0]["Value"],
            query["Id"].rpartition("_")[0],
        )
        for query in wanted["MetricDataQueries"]
    }


def collect(found: Values, reply: Mapping[str, Any], asked: Mapping[str, tuple[str, str]]) -> None:
    """Add one page of a reply; Temporary when CloudWatch could not read a metric.

    `PartialData` says that more pages come, and gaps are gaps: neither is an error.
    """
    results = reply.get("MetricDataResults")
    if not isinstance(results, list):
        raise Protocol("CloudWatch's reply has no results")
    for result in results:
        if result.get("StatusCode") in {"InternalError", "Forbidden"}:
            raise Temporary(f"CloudWatch: {result['StatusCode']}", reason="MetricsFailed")
        if result.get("Id") not in asked:
            raise Protocol("CloudWatch answered a query that was not asked")
        instance_id, field = asked[result["Id"]]
        for at, value in zip(result.get("Timestamps", []), result.get("Values", []), strict=False):
            moment = at.astimezone(UTC)
            found.setdefault(instance_id, {}).setdefault(moment, {})[field] = float(value)


def points(found: Values) -> dict[str, tuple[MetricPoint, ...]]:
    """Return each machine's points, oldest first."""
    return {
        name: tuple(MetricPoint(at=at, **found[name][at]) for at in sorted(found[name]))
        for name in sorted(found)
    }

"""CloudWatch for EC2: datapoints from a load model, so that tests need no PutMetricData.

The model is a pure function of seed, instance, metric and time. Data put for a metric of an
instance replaces the model; moto handles expressions and other namespaces. Limits, ids,
periods and the late, missing, torn and shifted answers follow facts/aws.md#fault-kinds and
#cloudwatch.
"""

import dataclasses
import datetime as dt
import math
import re
import statistics
import zlib
from collections.abc import Iterator
from typing import Any

from moto.cloudwatch.exceptions import InvalidParameterCombination, ValidationError
from moto.core.responses import ActionResult

from aws_simulator.active import ORIGINALS, world
from aws_simulator.clock import naive
from aws_simulator.machine import Machine
from aws_simulator.world import World

QUERIES_LIMIT = 500
STATISTICS_LIMIT = 1440
NAMESPACE = "AWS/EC2"
METRICS_PAGE = 500
# Series without a point for two weeks are not listed; RecentlyActive asks for three hours.
RECENT, FORGOTTEN = 3 * 3600.0, 14 * 86400.0
BASIC, DETAILED = 300, 60
QUERY_ID = re.compile(r"[a-z][a-zA-Z0-9_]*")
UNITS = {
    "CPUUtilization": "Percent",
    "NetworkIn": "Bytes",
    "NetworkOut": "Bytes",
    "StatusCheckFailed": "Count",
    "StatusCheckFailed_Instance": "Count",
    "StatusCheckFailed_System": "Count",
}
# Default load of an instance: CPU in percent, network in bytes per second.
IDLE = {"cpu": 6.0, "network_in": 20_000.0, "network_out": 15_000.0}
LOAD_OF = {"CPUUtilization": "cpu", "NetworkIn": "network_in", "NetworkOut": "network_out"}
NOISE = 0.2


@dataclasses.dataclass(frozen=True)
class Stat:
    """One wanted series: what of which instance, the statistic, the period in seconds."""

    metric: str
    instance_id: str
    stat: str
    period: int


def get_metric_data(self: Any) -> ActionResult:
    """Answer GetMetricData; the drop-in for moto's method."""
    params = self._get_params()
    queries = params.get("MetricDataQueries", [])
    _check_queries(queries)
    start, end = _unix(params["StartTime"]), _unix(params["EndTime"])
    if start >= end:
        raise ValidationError("The parameter EndTime must be greater than StartTime.")
    put = _put_series(self.cloudwatch_backend)
    others = [query for query in queries if _stat_of(query, put) is None]
    if others:
        params["MetricDataQueries"] = others
    theirs = {}
    if others:
        answer = self.cloudwatch_backend.get_metric_data(
            start_time=naive(start),
            end_time=naive(end),
            queries=others,
            scan_by=params.get("ScanBy") or "TimestampDescending",
        )
        theirs = {_name(result): result for result in answer}
    newest_first = (params.get("ScanBy") or "TimestampDescending") == "TimestampDescending"
    results = []
    for query in queries:
        stat = _stat_of(query, put)
        if stat is None:
            if query["Id"] in theirs:
                results.append(theirs[query["Id"]])
        elif str(query.get("ReturnData", True)).lower() != "false":
            results.append(_result(query, stat, start, end, newest_first=newest_first))
    return ActionResult(_paged(results, params.get("NextToken")))


def get_metric_statistics(self: Any) -> ActionResult:
    """Answer GetMetricStatistics, in no order; the drop-in for moto's method."""
    params = self._get_params()
    dimensions = params.get("Dimensions", [])
    query = {
        "MetricStat": {
            "Metric": {
                "Namespace": params.get("Namespace"),
                "MetricName": params.get("MetricName"),
                "Dimensions": dimensions,
            },
            "Period": params.get("Period"),
            "Stat": "Average",
        }
    }
    stat = _stat_of(query, _put_series(self.cloudwatch_backend))
    if stat is None:
        found: ActionResult = ORIGINALS["get_metric_statistics"](self)
        return found
    start, end = _unix(params["StartTime"]), _unix(params["EndTime"])
    if (end - start) / stat.period > STATISTICS_LIMIT:
        raise InvalidParameterCombination("You have requested more than 1,440 datapoints.")
    wanted = params.get("Statistics", [])
    points = []
    for at, values in _bins(world(), stat, start, end):
        point: dict[str, Any] = {"Timestamp": naive(at), "Unit": UNITS[stat.metric]}
        points.append(point | {name: _aggregate(name, values) for name in wanted})
    points.sort(key=lambda point: zlib.crc32(str(point["Timestamp"]).encode()))
    return ActionResult({"Label": stat.metric, "Datapoints": points})


def list_metrics(self: Any) -> ActionResult:
    """Answer ListMetrics with the model's series too; the drop-in for moto's method."""
    params = self._get_params()
    put = self.cloudwatch_backend.get_all_metrics()
    theirs = [
        {
            "Namespace": str(datum.namespace),
            "MetricName": str(datum.name),
            "Dimensions": [{"Name": d.name, "Value": d.value} for d in datum.dimensions],
        }
        for datum in put
    ]
    recent = params.get("RecentlyActive") == "PT3H"
    ours = _modelled(self.current_account, self.region, RECENT if recent else FORGOTTEN)
    found = {repr(row): row for row in [*ours, *theirs] if _wanted(row, params)}
    rows = [found[key] for key in sorted(found)]
    begin = params.get("NextToken") or "0"
    if not begin.isdecimal():
        raise ValidationError("NextToken is not valid.")
    following = int(begin) + METRICS_PAGE
    page = rows[int(begin) : following]
    return ActionResult(
        {
            "Metrics": page,
            "NextToken": str(following) if following < len(rows) else None,
        }
    )


def _modelled(account: str, region: str, age: float) -> Iterator[dict[str, Any]]:
    """Yield the series that have data not older than `age` seconds."""
    here = world()
    until = here.clock.now()
    for instance_id, instance in list(here.instances.items()):
        backend = instance.ec2_backend
        if (str(backend.account_id), str(backend.region_name)) != (account, region):
            continue
        for name in UNITS:
            stat = Stat(name, instance_id, "Average", BASIC)
            if next(_bins(here, stat, until - age, until), None) is not None:
                dimensions = [{"Name": "InstanceId", "Value": instance_id}]
                yield {"Namespace": NAMESPACE, "MetricName": name, "Dimensions": dimensions}


def _wanted(row: dict[str, Any], params: dict[str, Any]) -> bool:
    """Tell whether a series passes the request's filters; a dimension may come without value."""
    has = {each["Name"]: each["Value"] for each in row["Dimensions"]}
    return all(
        each.get("Name") in has and each.get("Value") in (None, has[each["Name"]])
        for each in params.get("Dimensions", [])
    ) and all(params.get(key) in (None, row[key]) for key in ("Namespace", "MetricName"))


def _check_queries(queries: list[dict[str, Any]]) -> None:
    if len(queries) > QUERIES_LIMIT:
        raise ValidationError("The collection MetricDataQueries must not have a size over 500.")
    seen = set()
    for query in queries:
        name = str(query.get("Id", ""))
        if not QUERY_ID.fullmatch(name):
            raise ValidationError(f'The value "{name}" for Id must begin with a lower-case letter.')
        if name in seen:
            raise ValidationError(f'The values for parameter id are not unique: "{name}"')
        seen.add(name)
        if "MetricStat" not in query and "Expression" not in query:
            raise ValidationError("The parameter MetricDataQueries.member.1.MetricStat is required")
        if "MetricStat" in query:
            period = int(query["MetricStat"]["Period"])
            if period not in (1, 5, 10, 30) and (period < 60 or period % 60):
                raise ValidationError("Period must be 1, 5, 10, 30 or a multiple of 60.")


def _stat_of(query: dict[str, Any], put: set[tuple[str, str]]) -> Stat | None:
    """Return what the model is asked for; None when the query is not about the model."""
    wanted = query.get("MetricStat")
    if not wanted:
        return None
    metric = wanted["Metric"]
    dimensions = metric.get("Dimensions") or []
    if metric.get("Namespace") != NAMESPACE or metric.get("MetricName") not in UNITS:
        return None
    if [each.get("Name") for each in dimensions] != ["InstanceId"]:
        return None
    instance_id = str(dimensions[0].get("Value"))
    if (metric["MetricName"], instance_id) in put:
        return None
    return Stat(metric["MetricName"], instance_id, wanted["Stat"], int(wanted["Period"]))


def _put_series(backend: Any) -> set[tuple[str, str]]:
    """Return the (metric, instance) pairs for which somebody put data."""
    return {
        (datum.name, dimension.value)
        for datum in backend.metric_data
        if datum.namespace == NAMESPACE
        for dimension in datum.dimensions
        if dimension.name == "InstanceId"
    }


def _result(
    query: dict[str, Any], stat: Stat, start: float, end: float, *, newest_first: bool
) -> dict[str, Any]:
    points = [
        (naive(at + world().config.cloudwatch.unaligned), _aggregate(stat.stat, values))
        for at, values in _bins(world(), stat, start, end)
    ]
    points.sort(reverse=newest_first)
    return {
        "Id": query["Id"],
        "Label": query.get("Label") or stat.metric,
        "Timestamps": [at for at, _ in points],
        "Values": [value for _, value in points],
        "StatusCode": "Complete",
    }


def _bins(here: World, stat: Stat, start: float, end: float) -> Iterator[tuple[float, list[float]]]:
    """Yield (start of period, samples) of each period that has data, aligned to the period."""
    machine, instance = here.machines.get(stat.instance_id), here.instances.get(stat.instance_id)
    config = here.config.cloudwatch
    if machine is None or instance is None or {"*", stat.instance_id} & set(config.absent):
        return
    step = DETAILED if instance.monitored else BASIC
    period = max(stat.period, step)
    first = math.floor(start / period) * period
    born, published = machine.launched, here.clock.now() - config.late
    last = min(end, published)
    at = max(first, math.floor(born / period) * period)
    while at < last:
        values = [
            _sample(here, machine, stat, moment, step)
            for moment in range(int(at), int(at + period), step)
            if moment + step <= published
            and _ran(machine, moment, moment + step)
            and (not config.gaps or _rng(here, stat, moment, "gap") >= config.gaps)
        ]
        if values:
            yield at, values
        at += period


def _ran(machine: Machine, since: float, until: float) -> bool:
    return any(began < until and ended > since for began, ended in machine.runs)


def _sample(here: World, machine: Machine, stat: Stat, at: float, step: int) -> float:
    if stat.metric.startswith("StatusCheckFailed"):
        which = ("system", "instance")
        if "_" in stat.metric:
            which = (stat.metric.split("_")[1].lower(),)  # type: ignore[assignment]
        forced = [machine.checks.get(each, ("ok", math.inf)) for each in which]
        return float(any(word == "impaired" and since <= at + step for word, since in forced))
    kind = LOAD_OF[stat.metric]
    set_load = machine.load(at + step - 1)
    level = float(set_load.get(kind, IDLE[kind]))
    if kind not in set_load:
        level *= 1 + NOISE * (2 * _rng(here, stat, at, "level") - 1)
    return round(min(level, 100.0) if kind == "cpu" else level * step, 3)


def _rng(here: World, stat: Stat, at: float, what: str) -> float:
    """Return a number in [0, 1) that depends on nothing but its arguments and the seed."""
    text = f"{here.seed}/{stat.instance_id}/{stat.metric}/{int(at)}/{what}"
    return zlib.crc32(text.encode()) / 2**32


def _aggregate(stat: str, values: list[float]) -> float:
    if stat == "SampleCount":
        return float(len(values))
    if stat == "Sum":
        return math.fsum(values)
    if stat == "Minimum":
        return min(values)
    if stat == "Maximum":
        return max(values)
    if stat.startswith("p") and stat[1:].replace(".", "").isdecimal():
        ordered = sorted(values)
        rank = math.ceil(float(stat[1:]) / 100 * len(ordered))
        return ordered[max(0, min(rank, len(ordered)) - 1)]
    return statistics.fmean(values)


def _paged(results: list[dict[str, Any]], token: str | None) -> dict[str, Any]:
    """Return one page; a torn answer gives half of each series first, marked PartialData."""
    config = world().config.cloudwatch
    at, _, part = (token or "0").partition(":")
    if not at.isdecimal() or part not in ("", "rest"):
        raise ValidationError("NextToken is not valid.")
    begin = int(at)
    page = results[begin : begin + config.page]
    following = begin + config.page
    next_token = str(following) if following < len(results) else None
    if config.partial:
        page = [_half(result, first=not part) for result in page]
        if not part:
            next_token = f"{begin}:rest"
    return {"MetricDataResults": page, "NextToken": next_token, "Messages": []}


def _half(result: dict[str, Any], *, first: bool) -> dict[str, Any]:
    if "Timestamps" not in result:
        return result
    middle = len(result["Timestamps"]) // 2
    kept = slice(None, middle) if first else slice(middle, None)
    return {
        **result,
        "Timestamps": result["Timestamps"][kept],
        "Values": result["Values"][kept],
        "StatusCode": "PartialData" if first else "Complete",
    }


def _name(result: dict[str, Any]) -> str:
    return str(result.get("Id", result.get("id", "")))


def _unix(at: dt.datetime) -> float:
    return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp()

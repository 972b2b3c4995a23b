"""DescribeInstances of 1,000 instances: the AWS simulator's own writer beside moto's serializer.

Over a socket of the loopback, server and client in one process, so CPU is both sides'. The first
limit is what a client needs to parse the same answer with botocore; nothing faster is of use.
"""

from __future__ import annotations

import urllib.parse
import urllib.request
from typing import Any

import botocore.parsers
import botocore.session

from aws_simulator.fixture import Running, inside
from benchmarks.measure import Plan, ratio, row, timed

SUMMARY = "lists of 1,000 instances from the AWS simulator, beside moto's own serializer"
INSTANCES = 1000
BATCH = 100
# Any signature is taken; the scope tells the region and the service.
SCOPE = (
    "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/ec2/aws4_request, "
    "SignedHeaders=host, Signature=none"
)
TAGS = ("labfleet:owner", "labfleet:worker", "labfleet:worker-uid", "labfleet:pool")


def measure(plan: Plan) -> dict[str, Any]:
    """Return rows in lists per second; one list is `instances` instances unless its name says."""
    count = plan.size(INSTANCES, 20)
    found: dict[str, list[Any]] = {}
    with inside(seed=1) as aws:
        _launch(aws, count)
        parse = _parser()
        for _ in range(plan.rounds):
            whole = _list(aws)
            assert whole.count(b"<instanceId>") == count
            for name, work in (
                ("own writer, all", lambda: _list(aws)),
                ("own writer, first 100", lambda: _list(aws, MaxResults="100")),
                ("own writer, all of one tag", lambda: _list(aws, **_filter("tag:labfleet:pool"))),
                ("own writer, status of all", lambda: _list(aws, "DescribeInstanceStatus")),
                ("limit: botocore parses all", lambda: parse(whole)),
            ):
                found.setdefault(name, []).append(timed(work, plan.seconds / 2))
            aws.config(own_writer=False)
            most = str(max(5, count))
            theirs = timed(lambda: _list(aws, MaxResults=most), plan.seconds / 2, least=1)
            found.setdefault("moto's serializer, all", []).append(theirs)
            aws.config(own_writer=True)
    rows = [row(name, samples) for name, samples in found.items()]
    rates = {each["name"]: each["per_second"] for each in rows}
    whole_rate = rates["own writer, all"]
    ratios = {
        "own_to_moto": ratio(whole_rate, rates["moto's serializer, all"]),
        "own_to_parse_limit": ratio(whole_rate, rates["limit: botocore parses all"]),
    }
    return {"instances": count, "rows": rows, "peers": [], "ratios": ratios}


def _launch(aws: Running, count: int) -> None:
    for first in range(0, count, BATCH):
        number = str(min(BATCH, count - first))
        fields = {
            "ImageId": aws.image,
            "InstanceType": "m5zn.metal",
            "MinCount": number,
            "MaxCount": number,
            "ClientToken": f"token-{first}",
            "SubnetId": aws.subnets[0],
            "TagSpecification.1.ResourceType": "instance",
        }
        for index, key in enumerate(TAGS, 1):
            fields[f"TagSpecification.1.Tag.{index}.Key"] = key
            fields[f"TagSpecification.1.Tag.{index}.Value"] = f"value-{first}"
        _call(aws, "RunInstances", fields)


def _filter(name: str) -> dict[str, str]:
    return {"Filter.1.Name": name, "Filter.1.Value.1": "value-*"}


def _list(aws: Running, action: str = "DescribeInstances", **fields: str) -> bytes:
    more = {"IncludeAllInstances": "true"} if action == "DescribeInstanceStatus" else {}
    return _call(aws, action, {**more, **fields})


def _call(aws: Running, action: str, fields: dict[str, str]) -> bytes:
    body = urllib.parse.urlencode({"Action": action, "Version": "2016-11-15", **fields}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": SCOPE}
    request = urllib.request.Request(aws.url, data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        return reply.read()


def _parser() -> Any:
    model = botocore.session.get_session().get_service_model("ec2")
    shape = model.operation_model("DescribeInstances").output_shape
    parser = botocore.parsers.create_parser("ec2")
    return lambda body: parser.parse({"body": body, "headers": {}, "status_code": 200}, shape)

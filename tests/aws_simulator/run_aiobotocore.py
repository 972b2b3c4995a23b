"""Runs aiobotocore, unchanged and in an environment of its own, against the AWS simulator.

Usage: run_aiobotocore.py URL IMAGE SUBNET. One JSON line a step on stdout; exit 1 at a failure.
"""

import asyncio
import datetime as dt
import json
import sys

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError


def say(step, ok=True, **more):
    """Print one step."""
    print(json.dumps({"step": step, "ok": bool(ok), **more}), flush=True)


async def main(url, image, subnet):
    """Launch, list, page, watch, stop, refuse and terminate."""
    config = AioConfig(retries={"mode": "standard", "total_max_attempts": 2}, read_timeout=10)
    account = {
        "region_name": "us-east-1",
        "endpoint_url": url,
        "aws_access_key_id": "any",
        "aws_secret_access_key": "any",
        "config": config,
    }
    session = get_session()
    async with session.create_client("ec2", **account) as ec2:
        fields = {"ImageId": image, "InstanceType": "m5zn.metal", "SubnetId": subnet}
        launches = [
            ec2.run_instances(**fields, MinCount=1, MaxCount=1, ClientToken=f"t-{number % 7}")
            for number in range(14)
        ]
        ids = {reply["Instances"][0]["InstanceId"] for reply in await asyncio.gather(*launches)}
        say("fourteen launches with seven tokens", len(ids) == 7)
        pages = [
            len(page["Reservations"])
            async for page in ec2.get_paginator("describe_instances").paginate(
                PaginationConfig={"PageSize": 5}
            )
        ]
        say("pages", pages == [5, 2], pages=pages)
        status = await ec2.describe_instance_status(IncludeAllInstances=True)
        say("status", len(status["InstanceStatuses"]) == 7)
        (first, *_) = ids
        try:
            await ec2.stop_instances(InstanceIds=[first])
            say("a stop while pending", ok=False)
        except ClientError as error:
            say("a stop while pending", error.response["Error"]["Code"] == "IncorrectInstanceState")
        await ec2.create_tags(Resources=[first], Tags=[{"Key": "a", "Value": "b"}])
        tagged = await ec2.describe_instances(Filters=[{"Name": "tag:a", "Values": ["b"]}])
        say("tags", len(tagged["Reservations"]) == 1)
        await ec2.terminate_instances(InstanceIds=sorted(ids))
        say("terminate")
    async with session.create_client("cloudwatch", **account) as watch:
        now = dt.datetime.now(dt.UTC)
        metric = {"Namespace": "AWS/EC2", "MetricName": "CPUUtilization"}
        metric["Dimensions"] = [{"Name": "InstanceId", "Value": first}]
        query = {"Id": "m", "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Average"}}
        data = await watch.get_metric_data(
            StartTime=now - dt.timedelta(hours=1), EndTime=now, MetricDataQueries=[query]
        )
        say("metrics", data["MetricDataResults"][0]["StatusCode"] == "Complete")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))

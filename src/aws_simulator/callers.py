"""Checks of the caller: expired credentials, a wrong clock, a region that is not enabled.

Any signature is accepted. The caller's X-Amz-Date is compared with AWS's clock, which is real time
plus the configured offset: signatures use real time even when instances use scaled time.
"""

import datetime as dt

from aws_simulator.calls import Call
from aws_simulator.checks import Error
from aws_simulator.settings import Config

TOLERANCE = 300.0


def check(config: Config, call: Call, now: float) -> Error | None:
    """Return why a caller is refused, or None; `now` is real Unix seconds."""
    aws_now = now + config.clock_offset
    expires = config.credentials.get(call.key)
    if expires is not None and aws_now >= expires:
        return _expired(call)
    signed = _signed_at(call.date)
    if signed is not None and aws_now - signed > TOLERANCE:
        return _expired(call)
    if signed is not None and signed - aws_now > TOLERANCE:
        if call.service == "ec2":
            return (
                401,
                "AuthFailure",
                "AWS was not able to validate the provided access credentials",
            )
        return 403, "SignatureDoesNotMatch", "Signature not yet current"
    if call.region in config.regions_disabled:
        return 401, "AuthFailure", f"The region {call.region} is not enabled for the account"
    return None


def _expired(call: Call) -> Error:
    if call.service == "ec2":
        return 400, "RequestExpired", "Request has expired."
    return 403, "ExpiredToken", "The security token included in the request is expired"


def _signed_at(date: str) -> float | None:
    try:
        return dt.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC).timestamp()
    except ValueError:
        return None

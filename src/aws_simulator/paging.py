"""Pages of the lists that moto answers whole: EC2's MaxResults and NextToken, for every action.

Which field of a reply is paged, and within which bounds, is read from botocore's own model of the
API. Replies that moto or `listing` page themselves are left alone.
"""

import base64
import binascii
import itertools
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import get_pagination_model, get_service_model

from aws_simulator.active import ORIGINALS
from aws_simulator.calls import Call, Refusal

PREFIX = "after-"
# How many a page has when nobody says: elsewhere EC2 sends everything that fits one reply.
UNASKED = {"DescribeInstanceTypes": 100}


def check(call: Call) -> None:
    """Refuse a page size outside the bounds of the API's model, or no number, and a made-up token."""
    asked = call.form.get("MaxResults")
    if asked is not None and call.action in get_pagination_model("ec2"):
        shape = get_service_model("ec2").operation_model(call.action).input_shape
        bounds = shape.members["MaxResults"].metadata if shape is not None else {}
        least, most = bounds.get("min", 1), bounds.get("max", 1000)
        if not (asked.isdecimal() and least <= int(asked) <= most):
            message = f"Value ( {asked} ) for parameter maxResults is invalid: {least}..{most}"
            raise Refusal(400, "InvalidParameterValue", message)


def serialized(self: Any, answer: ActionResult) -> Any:
    """Write a reply, of which only the asked page is left; the drop-in for moto's method."""
    return ORIGINALS["serialized"](self, _page(self, answer))


def _page(response: Any, answer: ActionResult) -> ActionResult:
    action, found = str(response._get_action()), answer.result
    model = get_pagination_model("ec2").get(action, {})
    key = model.get("result_key")
    if not isinstance(found, dict) or "NextToken" in found or not isinstance(key, str):
        return answer
    asked, token = response._get_param("MaxResults"), response._get_param("NextToken")
    size = int(asked) if asked else UNASKED.get(action)
    if (size is None and not token) or found.get(key) is None:
        return answer
    begin = number_of(token)
    # Never indexed: some of moto's lists are views of dicts.
    rows = list(itertools.islice(found[key], begin, None))
    page = rows[:size]
    more = len(page) < len(rows)
    return ActionResult(
        {
            **found,
            key: page,
            "NextToken": token_of(begin + len(page)) if more else None,
        }
    )


def token_of(number: int) -> str:
    """Return the token of the page that begins after a number."""
    return base64.urlsafe_b64encode(f"{PREFIX}{number}".encode()).decode()


def number_of(token: str | None) -> int:
    """Return the number that a token names, 0 without one; Refusal for one that we did not give."""
    if not token:
        return 0
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, ValueError):
        text = ""
    if not text.startswith(PREFIX) or not text.removeprefix(PREFIX).isdecimal():
        raise Refusal(400, "InvalidNextToken", "The page token is not valid.")
    return int(text.removeprefix(PREFIX))

"""Reads what the HTTP API of Prometheus and VictoriaMetrics answers, and what it means. Pure.

Whatever is not plainly a number is unknown: NaN, infinities, negative uses, numbers larger than
anything that there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from labfleet.adapters.http.transport import NotSent, Reply, ReplyLost
from labfleet.kernel import errors, json_bounds
from labfleet.resources.amounts import MOST

SERIES = 5000
"""Most series of one answer: more than all runs and nodes that are looked at."""
VALUES = 200_000
WORDS = 300
"""Most characters of a server's words in an error of ours."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Sample(msgspec.Struct, frozen=True):
    """One series of a vector: its labels, and (instant, value)."""

    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""
    error_type: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False


def samples(reply: Reply, where: str) -> list[Sample]:
    """Return the vector of an answer, of a scalar one sample without labels.

    Raises errors of the kernel; one with warnings or parts missing is Temporary: its sums would be
    too small, and nobody could tell.
    """
    answer = _answer(reply, where)
    if answer.status != "success" or answer.data is None:
        words = f"{answer.error_type}: {answer.error}"[:WORDS]
        raise errors.Temporary(f"{where}: {words}", reason="QueryFailed")
    if answer.is_partial or answer.warnings:
        told = "; ".join(answer.warnings or ())[:WORDS] or "the answer is partial"
        raise errors.Temporary(f"{where}: {told}", reason="Partial")
    try:
        if answer.data.result_type == "scalar":
            value = msgspec.json.decode(answer.data.result, type=tuple[float, str])
            return [Sample({}, value)]
        if answer.data.result_type != "vector":
            kind = answer.data.result_type[:20]
            message = f"{where}: the query gives a {kind}, and must give an instant vector"
            raise errors.Invalid(message, reason="BadQuery")
        found = msgspec.json.decode(answer.data.result, type=list[Sample])
    except _UNREADABLE:
        raise errors.Protocol(f"{where}: the answer is none of PromQL") from None
    if len(found) > SERIES:
        message = f"{where}: the query gives {len(found)} series, and at most {SERIES} are read"
        raise errors.Invalid(message, reason="TooManySeries")
    return found


def _answer(reply: Reply, where: str) -> _Answer:
    """Return the envelope; the error of a reply that has none."""
    if reply.status // 100 == 2 or reply.status in (400, 422, 503):
        if json_bounds.fault(reply.body, VALUES) is None:
            try:
                answer = msgspec.json.decode(reply.body, type=_Answer)
            except _UNREADABLE:
                pass
            else:
                if reply.status // 100 == 2 or answer.status == "error":
                    return _refused(reply.status, answer, where)
        if reply.status // 100 == 2:
            message = f"{where}: {len(reply.body)} bytes came back that are no answer of PromQL"
            raise errors.Protocol(message)
    raise _status(reply, where)


def _refused(status: int, answer: _Answer, where: str) -> _Answer:
    """Return an answer that is none of a wrong query."""
    if answer.status == "error" and (status == 400 or answer.error_type == "bad_data"):
        raise errors.Invalid(f"{where}: {answer.error[:WORDS]}", reason="BadQuery")
    return answer


def _status(reply: Reply, where: str) -> errors.LabfleetError:
    message = f"{where}: status {reply.status}"
    match reply.status:
        case 401:
            return errors.Denied(message, reason="Unauthorized")
        case 403:
            return errors.Denied(message, reason="Forbidden")
        case 404:
            message += ": the URL must be that of the HTTP API, without /api/v1"
            return errors.Invalid(message, reason="NoSuchApi")
        case 429:
            return errors.Throttled(message)
        case each if each >= 500:
            return errors.Temporary(message, reason="ServerError")
        case each if 300 <= each < 400:
            return errors.Invalid(f"{message}: it leads elsewhere", reason="Redirected")
    return errors.Invalid(message, reason="Refused")


def lost(problem: NotSent | ReplyLost, where: str) -> errors.LabfleetError:
    """Return the error of a query that got no usable reply; asking again does no harm."""
    text = f"{where}: {problem.detail}"
    if problem.cause == "certificate":
        return errors.Denied(text, reason="Certificate")
    if problem.cause in ("truncated", "broken", "too_large", "tls"):
        return errors.Protocol(text)
    reason = {"timeout": "Timeout", "no_route": "NoRoute", "refused": "Refused"}
    return errors.Unreachable(text, reason=reason.get(problem.cause, "Closed"))


def number(sample: Sample, scale: float = 1.0, most: float = MOST) -> float | None:
    """Return a sample's value in our unit; None when it can be none of a use."""
    try:
        value = float(sample.value[1]) * scale
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= most else None


def key_of(metric: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of these labels that a series has; empty when it has none."""
    return next((str(metric[name]) for name in names if metric.get(name)), "")

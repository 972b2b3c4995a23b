"""The adapter against servers whose answers are HTTP but sense nowhere: typed errors or records.

What comes below, bytes that are not HTTP, is tests/adapters_http.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_cml import LAB, address

from labfleet.adapters.cml import client
from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines, NotSent, Reply, ReplyLost
from labfleet.kernel import errors

KEYS = st.sampled_from(
    [
        "id", "state", "nodes", "labs", "description", "code", "computes", "stats", "cpu", "memory",
        "count", "percent", "features", "registration", "authorization", "status", "valid", "label",
        "node_definition", "tags", "compute_id", "version", "ready", "created", "events", "data",
        "lab_title", "operational", "interfaces", "total", "free", "used", "disk", "all", LAB,
    ]
)  # fmt: skip
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=8),
    st.sampled_from([LAB, "BOOTED", "STOPPED", "2026-11-28T00:00:00Z", "1e999", "-0"]),
)  # fmt: skip
JSON = st.recursive(
    LEAF,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=25,
)
DEEP = [b"[" * 20_000, b'{"a":' * 20_000, b"[" * 20_000 + b"]" * 20_000]
BODY = st.one_of(
    JSON.map(lambda value: json.dumps(value).encode("utf-8", "replace")),
    st.sampled_from(
        [*DEEP, b"", b"null", b'"OK"', b"<html>", b"NaN", b"\xff\xfe", b'"\\ud800"', b"9" * 6000]
    ),
    st.binary(max_size=30),
)
HEADERS = st.sampled_from(
    [
        {}, {"content-type": "application/json"}, {"content-type": "text/html"},
        {"retry-after": "9" * 5000}, {"retry-after": "-1"}, {"retry-after": "soon"},
    ]
)  # fmt: skip
STATUS = st.sampled_from(
    [200, 200, 200, 201, 204, 302, 400, 401, 403, 404, 409, 429, 500, 502, 503, 999]
)
ANSWER = st.one_of(
    st.builds(Reply, STATUS, HEADERS, BODY),
    st.builds(Reply, STATUS, HEADERS, BODY),
    st.sampled_from([NotSent("refused", "refused"), ReplyLost("truncated", "broke off")]),
)
READS = (
    "readiness", "system_stats", "system_health", "maintenance", "licensing", "activity", "labs",
    "all_nodes", "queue",
)  # fmt: skip
OF_LAB = ("lab", "nodes", "converged", "start", "stop", "wipe", "delete", "observe")


class Senseless:
    """A Transport that logs in and then answers whatever was drawn, the last for ever."""

    fingerprint = None

    def __init__(self, answers: list[Reply | Exception]) -> None:
        self.answers = answers

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
    ) -> Reply:
        del method, body, deadlines, headers
        if path.startswith("authenticate"):
            return Reply(200, {}, b'"token"')
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Hold nothing."""


async def called(name: str, answers: list[Reply | Exception]) -> Any:
    """Call one method; LabfleetError is an answer, anything else is raised."""
    hosts = CmlHosts(lambda *_: Senseless(list(answers)))
    host = hosts.at(address())
    try:
        return await getattr(host, name)(*((LAB,) if name in OF_LAB else ()))
    except errors.LabfleetError as problem:
        return problem
    finally:
        await hosts.close()


@settings(max_examples=120, deadline=None)
@given(name=st.sampled_from([*READS, *OF_LAB]), answers=st.lists(ANSWER, min_size=1, max_size=4))
def test_no_answer_raises_anything_but_a_kernel_error(
    name: str, answers: list[Reply | Exception]
) -> None:
    """Wrong types, wild numbers, broken text and depth: a record, or an error with a short message."""
    found = asyncio.run(called(name, answers))
    if isinstance(found, errors.LabfleetError):
        assert len(found.message) < 5000


@pytest.mark.parametrize("name", ["system_stats", "labs", "licensing", "lab", "nodes"])
@pytest.mark.parametrize("body", DEEP, ids=["lists", "objects", "closed"])
def test_json_that_is_too_deep_is_not_json(name: str, body: bytes) -> None:
    """A server that answers twenty thousand brackets has not found a bug of ours."""
    assert isinstance(asyncio.run(called(name, [Reply(200, {}, body)])), errors.Protocol)
    refused = asyncio.run(called(name, [Reply(400, {}, body)]))
    assert isinstance(refused, errors.LabfleetError)


@pytest.mark.parametrize("name", ["system_stats", "labs", "licensing", "lab", "readiness"])
def test_a_reply_with_millions_of_values_is_not_decoded(name: str) -> None:
    """Within the bound on bytes, a list of empty lists would hold up everybody for seconds."""
    body = b"[" + b"[]," * (client.REPLY_VALUES + 1) + b"0]"
    assert len(body) < Limits().reply_bytes
    found = asyncio.run(called(name, [Reply(200, {}, body)]))
    if name == "readiness":
        assert (found.stage, "too full" in found.detail) == ("bad_gateway", True)
    else:
        assert isinstance(found, errors.Protocol)
        assert "too full to be read" in found.message
    refused = asyncio.run(called("labs", [Reply(400, {}, b'{"description": ' + body + b"}")]))
    assert isinstance(refused, errors.LabfleetError)

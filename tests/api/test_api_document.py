"""The OpenAPI document, and a fuzz over every route that it names."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import quote

import pytest
from api_caller import Api
from api_caller import api as opened
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from labfleet.resources import descriptions
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Record, Resource
from labfleet.service.core.roles import FOR_TOKENS


async def document(api: Api):
    """Return the document as a client gets it."""
    return (await api.call("GET", "/api/v1/openapi.json", role=None)).json


@pytest.mark.asyncio
async def test_the_document_is_valid(api: Api):
    """OpenAPI 3.1, by the validator."""
    found = await document(api)
    assert found["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(found).validate()


@pytest.mark.asyncio
async def test_the_document_covers_every_route(api: Api):
    """Each route of the application is in it, with problems as the default reply."""
    paths = (await document(api))["paths"]
    assert len(api.app.routes) == sum(len(operations) for operations in paths.values())
    for route in api.app.routes.values():
        path = re.sub(r"\{(\w+?)_?:str\}", r"{\1}", route.path)
        operation = paths[path][route.method.lower()]
        assert operation["responses"]["default"]["$ref"].endswith("/Problem")
        assert operation["summary"] == route.summary
        assert operation["description"] == inspect.cleandoc(route.run.__doc__)


@pytest.mark.asyncio
async def test_every_reply_says_what_comes_back(api: Api):
    """A sentence of its own for each reply that is no refusal, never the name of its status."""
    paths, said = (await document(api))["paths"], {}
    for operations in paths.values():
        for operation in operations.values():
            for status, reply in operation["responses"].items():
                if status.startswith("2"):
                    text = said[operation["operationId"], status] = reply["description"]
                    assert re.fullmatch(r"(?s)[A-Z`].*[.]", text), (operation["operationId"], text)
                    assert text not in {f"{each.description}." for each in HTTPStatus}
                    assert "follows" not in text
    assert said["getSession", "200"] == "The session as it is now."
    assert said["createSession", "201"] == "The new session."
    assert said["deleteWorker", "202"] == "The worker, which is ending: what it holds goes first."
    assert said["listImages", "200"] == "A page of images, and where the next one begins."
    assert said["getSettings", "200"] == "The settings object as it is now."
    assert said["listLeaders", "200"] == "Which process leads each role."
    assert said["events", "200"] == "Server-sent events, until one side ends the stream."


@pytest.mark.asyncio
async def test_every_kind_has_its_article(api: Api):
    """No summary, description or refusal says "a image"."""
    names = "|".join(row.name for row in KINDS.values())
    text = json.dumps(await document(api))
    wrong = [
        found[0]
        for found in re.finditer(rf"\b(an?) ({names})\b", text, re.IGNORECASE)
        if (found[1].lower() == "an") != (found[2][0].lower() in "aeio")
    ]
    assert wrong == []
    assert [KINDS[each].one for each in ("Image", "Session")] == ["an image", "a session"]


@pytest.mark.asyncio
async def test_every_kind_has_its_schemas(api: Api):
    """Request and reply of each kind refer to the kind's own schema."""
    found = await document(api)
    schemas = found["components"]["schemas"]
    for row in KINDS.values():
        assert {row.name, f"{row.name}Spec", f"{row.name}Status", f"{row.name}List"} <= set(schemas)
        one = found["paths"][f"/api/v1/{row.plural}/{{name}}"]
        content = one["put"]["requestBody"]["content"]["application/json"]
        assert content["schema"]["$ref"].endswith(f"/{row.name}")
        assert "application/merge-patch+json" in one["patch"]["requestBody"]["content"]
    parameters = found["paths"]["/api/v1/workers"]["get"]["parameters"]
    assert {"limit", "cursor", "sort", "labelSelector", "namespace", "phase"} <= {
        each["name"] for each in parameters
    }
    assert found["paths"]["/healthz"]["get"]["security"] == []


def described(found: dict) -> Iterator[tuple[str, str]]:
    """Yield each thing of the document that has to say what it is, with what it says."""
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            yield f"{method} {path}", operation.get("description", "")
            for each in operation.get("parameters", ()):
                yield f"{method} {path} {each['name']}", each.get("description", "")
    for each in found["tags"]:
        yield each["name"], each["description"]
    for name, schema in found["components"]["schemas"].items():
        yield name, schema.get("description", "")
        waiting = [(name, schema)]
        while waiting:
            place, below = waiting.pop()
            for field, inner in below.get("properties", {}).items():
                yield f"{place}.{field}", inner.get("description", "")
            waiting += [(f"{place}.{key}", each) for key, each in below.items()
                        if isinstance(each, dict)]  # fmt: skip


@pytest.mark.asyncio
async def test_everything_says_what_it_is(api: Api):
    """Each operation, parameter, group, record and field has a description, and it is a sentence."""
    found = await document(api)
    told = list(described(found))
    assert len(told) > 1600
    assert [place for place, text in told if not text] == []
    sentence = re.compile(r"[A-Z`0-9].*[.?]", re.DOTALL)
    assert [(place, text) for place, text in told if not sentence.fullmatch(text)] == []
    assert [place for place, text in told if "facts/" in text] == []


def test_a_field_line_of_a_docstring_is_a_field():
    """Every line of a record that looks like one of a field names a field: a typo hides none."""
    looks_so = re.compile(r"[a-z_]+(?:, [a-z_]+)*: [A-Z].*")
    wrong = []
    waiting = [Resource, *Record.__subclasses__()]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        wrong += [(kind.__name__, line) for line in descriptions.about(kind).splitlines()
                  if looks_so.fullmatch(line)]  # fmt: skip
    assert wrong == []


def documented(operation: dict, status: int) -> dict:
    """Return the documented content of a reply, by media type."""
    found = operation["responses"].get(str(status), operation["responses"]["default"])
    return {"application/problem+json": {}} if "$ref" in found else found["content"]


@pytest.mark.asyncio
async def test_what_comes_back_is_what_the_document_says(api: Api):
    """Media type and outer shape of each reading are the documented ones, ready or not."""
    paths = (await document(api))["paths"]
    asked = 0
    for waiting in (None, "waiting for the lease"):
        api.waiting["scheduler"] = waiting
        for path, operations in paths.items():
            said = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
            if not said or "text/event-stream" in said:
                continue
            reply = await api.call("GET", path.format_map(defaultdict(lambda: "x")))
            content = documented(operations["get"], reply.status)
            media_type = reply.headers["content-type"].partition(";")[0]
            assert media_type in content, (path, reply.status)
            assert reply.headers["content-type"].count("charset") < 2, path
            shape = content[media_type].get("schema", {}).get("type", "object")
            if media_type.endswith("json"):
                assert isinstance(reply.json, list if shape == "array" else dict), path
            asked += 1
    assert asked > 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["metadata", "spec", "name", "labels", "slot", "end", "cost", "cpu", "capacity",
             "machine", "topology", "params", "status", "resourceVersion", "observed_ports",
             "observed_resources", "simulation_id", "cluster", "x"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
WORDS = st.text(max_size=12) | st.sampled_from(["x", "s", "default", "-status.end", "a=b", "5"])


@pytest.fixture(scope="module")
def fuzzed():
    """One running installation with objects in it, its routes, and the loop that it runs in."""
    with asyncio.Runner() as runner:
        context = opened()
        api = runner.run(context.__aenter__())
        runner.run(api.world.definition("x"))
        runner.run(api.world.session("s", definition="x"))
        runner.run(api.world.make("Cluster", "default", {"capacity": {"cpu": 1}}))
        paths = runner.run(document(api))["paths"]
        routes = [
            (method.upper(), path, operation)
            for path, operations in paths.items()
            for method, operation in operations.items()
            if operation["operationId"] not in {"events", "seedEvents", "statusStream"}
        ]
        yield runner, api, routes
        runner.run(context.__aexit__(None, None, None))


# Without the explain phase, whose tracing takes most of the time. `make fuzz` sends more.
@settings(
    max_examples=int(os.environ.get("LABFLEET_FUZZ", "400")), deadline=None, derandomize=True, database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(data=st.data())
def test_no_input_makes_a_500(fuzzed, data: st.DataObject):
    """Any name, query and body on every route, by every role: an answer below 500."""
    runner, api, routes = fuzzed
    method, path, operation = data.draw(st.sampled_from(routes))
    target = re.sub(r"\{\w+\}", lambda _: quote(data.draw(WORDS), safe="") or "x", path)
    names = [e["name"] for e in operation.get("parameters", ()) if e["in"] == "query"]
    chosen = {}
    if names:
        chosen = data.draw(st.dictionaries(st.sampled_from(names), WORDS, max_size=2))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in chosen.items())
    raw = json.dumps(data.draw(JSON)).encode() if "requestBody" in operation else None
    role = str(data.draw(st.sampled_from(FOR_TOKENS)))
    found = runner.run(api.call(method, f"{target}?{query}", raw=raw, role=role))
    assert found.status < 500 or path == "/readyz", (method, target, found.raw)
    assert api.defects == []

"""The examples of the OpenAPI document are what the server really takes and answers."""

from __future__ import annotations

import json
from typing import Any

import example_story
import pytest
from api_caller import Api
from jsonschema import Draft202012Validator

NO_BODY = {
    "events", "getCalendarFile", "getCalendarFeedFile", "getKeptLab", "metrics", "openapi",
    "seedEvents", "statusStream",
}  # fmt: skip
"""Operations without an example: streams, text, and the document itself."""


async def contents(api: Api) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (operation, where, content) of each body of a document's operations."""
    found = (await api.call("GET", "/api/v1/openapi.json", role=None)).json
    made = []
    for operations in found["paths"].values():
        for each in operations.values():
            bodies = {"request": each.get("requestBody", {})} | each["responses"]
            made += [(each["operationId"], where, content)
                     for where, body in bodies.items()
                     for content in body.get("content", {}).values()]  # fmt: skip
    return made


@pytest.mark.asyncio
async def test_the_examples_are_those_of_a_story_that_was_played() -> None:
    """Each was sent to a server and answered with success; the file is what was recorded."""
    played = await example_story.record()
    stored = example_story.FILE.read_text(encoding="utf-8")
    assert stored == played, "run .venv/bin/python tests/api/example_story.py and commit the file"


@pytest.mark.asyncio
async def test_every_operation_has_examples(api: Api) -> None:
    """Every body that is sent has an example, and nearly every reply."""
    found = await contents(api)
    sent = [(name, "example" in content) for name, where, content in found if where == "request"]
    assert len(sent) > 60
    assert [name for name, there in sent if not there] == []
    replied = {name for name, where, content in found if "example" in content and where[0] == "2"}
    missing = {name for name, _, _ in found} - replied - NO_BODY
    assert missing == {"eventsOfWorker", "regionWorkers"}  # too long to help anybody


@pytest.mark.asyncio
async def test_the_examples_fit_the_schemas(api: Api) -> None:
    """What was answered is what the document says of it, by a validator that knows nothing of us."""
    document = (await api.call("GET", "/api/v1/openapi.json", role=None)).json
    wrong = []
    for name, where, content in await contents(api):
        if "example" in content and where != "request":
            schema = {**content["schema"], "components": document["components"]}
            wrong += [
                (name, each.json_path, each.message[:200])
                for each in Draft202012Validator(schema).iter_errors(content["example"])
            ]
    assert wrong == []


def test_no_example_shows_a_secret() -> None:
    """The text of the token that the story made is left out."""
    stored = json.loads(example_story.FILE.read_text(encoding="utf-8"))
    assert stored["createToken"]["reply"]["token"] == "lf_..."
    assert "secret0" not in json.dumps(stored)

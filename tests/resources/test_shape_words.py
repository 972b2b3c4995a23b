"""A refused value is told with what may stand there instead, wherever it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labfleet.kernel import errors
from labfleet.resources import fleet_settings, manifests
from labfleet.resources.kinds import KINDS
from labfleet.service.core import intake

INSTANT = "write an instant with seconds and its zone, for example 2026-12-02T10:00:00Z"
CASES = [
    ("Session", {"slot": {"start": "2026-12-02 10:00"}}, "spec.slot.start", INSTANT),
    ("Session", {"slot": {"end": "tomorrow"}}, "spec.slot.end", INSTANT),
    ("Session", {"slot": {"start": 5}}, "spec.slot.start", INSTANT),
    ("Pool", {"desired": "Redy"}, "spec.desired", "is one of Draining, Ready, Terminated, not 'Redy'"),
    (
        "Definition", {"licenceAffinity": ["x"]}, "spec.licenceAffinity[0]",
        "is one of enterprise, evaluation, personal, not 'x'",
    ),
    (
        "Template", {"machine": {"provider": {"kind": "azure"}}}, "spec.machine.provider.kind",
        "is one of aws, static, not 'azure'",
    ),
    ("Definition", {"topology": ""}, "spec.topology", "must not be empty"),
]  # fmt: skip
NEEDED = {
    "Session": {"definition": "d"}, "Pool": {"template": "m"}, "Definition": {"topology": "x"},
    "Template": {},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "where", "said"), CASES)
def test_a_body_and_a_manifest_say_what_to_write(
    kind: str, spec: dict[str, Any], where: str, said: str
) -> None:
    """The API and the command line have the same words, each at the field's place."""
    body = {"metadata": {"name": "x"}, "spec": {**NEEDED[kind], **spec}}
    with pytest.raises(errors.Invalid) as caught:
        intake.typed(KINDS[kind], body)
    assert caught.value.problems == ((where, said),)
    with pytest.raises(errors.Invalid) as told:
        manifests.load(json.dumps({"kind": kind, **body}))
    assert f"{where}: {said}" in told.value.message


def test_a_slot_without_a_zone_is_told_at_its_field() -> None:
    """The record's own rule names the field; the place has it too."""
    spec = {"definition": "d", "slot": {"start": "2026-12-02T10:00:00"}}
    with pytest.raises(errors.Invalid) as caught:
        intake.typed(KINDS["Session"], {"metadata": {"name": "x"}, "spec": spec})
    ((where, said),) = caught.value.problems
    assert where == "spec.slot.start"
    assert said == "give a time zone, for example 2026-11-27T09:00:00Z, or say slot.zone"


def test_a_setting_of_fixed_words_names_them_once() -> None:
    """As text of the command line, and as a value of the API."""
    said = "access.userSees: is one of all, nothing, ports, not 'prts'"
    with pytest.raises(ValueError, match="userSees") as caught:
        fleet_settings.from_text("access.userSees", "prts")
    assert str(caught.value) == said
    assert fleet_settings.section_problem("access", {"userSees": "prts"}) == said


@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_an_empty_topology_file_is_named(text: str) -> None:
    """Where the definition names it, not as a length of a field that nobody wrote."""
    made = "kind: Definition\nmetadata: {name: d}\nspec:\n  topologyFile: pod.yaml\n"
    with pytest.raises(errors.Invalid) as caught:
        manifests.load(made, topology_file=lambda _: text)
    assert "line 4" in caught.value.message
    assert "topologyFile: pod.yaml is empty" in caught.value.message

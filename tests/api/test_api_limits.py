"""What people send is bounded and plain: numbers, amounts, control characters, driver texts."""

from __future__ import annotations

import pytest
from api_caller import Api

from labfleet.kernel import errors
from labfleet.resources.amounts import MOST

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("text", ["1e3", "1e2", "+5", "0x10", "5.0", "%205", "1_0", "٥"])
async def test_a_number_in_the_query_is_digits(api: Api, text: str) -> None:
    """What a body may not have as a number, a query may not have either."""
    found = await api.call("GET", f"/api/v1/workers?limit={text}")
    assert found.status == 400
    assert found.json["problems"][0]["where"] == "limit"


@pytest.mark.parametrize("revision", [2**53, 2**63, 10**23, -1])
async def test_a_revision_in_the_query_is_bounded(api: Api, revision: int) -> None:
    """Refused in our words, before a database says what it cannot convert."""
    await api.world.definition("x")
    found = await api.call("GET", f"/api/v1/definitions/x/events?before={revision}")
    assert (found.status, found.json["problems"][0]["where"]) == (400, "before")
    assert "Python" not in found.raw.decode()


@pytest.mark.parametrize(
    "capacity",
    [
        {"cpuMilli": MOST + 1}, {"memoryMib": 2**63}, {"storageMib": 2**70}, {"labs": 2**53},
        {"cpu": MOST}, {"cpu": f"{MOST + 1}m"}, {"memory": f"{MOST + 1}Mi"}, {"network": MOST},
    ],
)  # fmt: skip
async def test_one_bound_for_all_spellings_of_an_amount(api: Api, capacity: dict) -> None:
    """The same bound in base units, in text and in friendly words."""
    body = {"metadata": {"name": "c"}, "spec": {"capacity": capacity}}
    found = await api.call("POST", "/api/v1/clusters", body)
    assert found.status == 400
    most = {"metadata": {"name": "c"}, "spec": {"capacity": {"cpuMilli": MOST, "labs": MOST}}}
    assert (await api.call("POST", "/api/v1/clusters", most)).status == 201
    run = await api.call("POST", "/request_run", {"cost": capacity, "cluster": "c"})
    assert run.status == 400


@pytest.mark.parametrize(
    "text", ["\x1b]0;owned\x07", "a\rb", "\x00", "\x7f", "\x9b2J", "\u202egnp.exe", "\u2066x"]
)
async def test_control_characters_are_refused_in_every_text(api: Api, text: str) -> None:
    """In titles, annotations, their keys and reasons; the place is named, the text not repeated."""
    definition = {
        "metadata": {"name": "d", "annotations": {"note": text, f"key{text}": "v"}},
        "spec": {"title": text, "topology": "lab: {}\nnodes: []\nlinks: []\n"},
    }
    found = await api.call("POST", "/api/v1/definitions", definition)
    assert (found.status, found.json["reason"]) == (400, "ControlCharacters")
    places = [each["where"] for each in found.json["problems"]]
    assert {"metadata.annotations.note", "spec.title"} < set(places)
    assert text not in found.json["detail"] + "".join(places)
    await api.world.definition("x")
    await api.world.session("s", definition="x")
    cancelled = await api.call("POST", "/api/v1/sessions/s/cancel", {"reason": text})
    assert (cancelled.status, cancelled.json["reason"]) == (400, "ControlCharacters")


async def test_lines_and_a_banner_in_a_topology_are_no_control_characters(api: Api) -> None:
    """A text may have lines, and a device's configuration whatever its device writes."""
    annotations = {"note": "two\nlines\tand a tab, ä, 日本, \N{SLIGHTLY SMILING FACE}"}
    await api.world.definition("x")
    found = await api.call(
        "PATCH", "/api/v1/definitions/x", {"metadata": {"annotations": annotations}}
    )
    assert found.status == 200
    topology = 'lab: {}\nnodes:\n- {configuration: "banner motd \x03hi\x03"}\n'
    banner = {"metadata": {"name": "b"}, "spec": {"topology": topology}}
    refused = await api.call("POST", "/api/v1/definitions", banner)
    assert refused.json.get("reason") != "ControlCharacters"


async def test_the_words_of_a_driver_reach_nobody(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the store away, a caller with or without a token learns neither its host nor its port."""
    inner = "PostgreSQL at db.internal: connection to server at 10.0.0.7, port 5432 failed"
    token = await api.token("admin")

    async def away() -> None:
        raise errors.Unreachable("the store does not answer", inner=inner)

    monkeypatch.setattr(api.world.store, "tokens", away)
    monkeypatch.setattr(api.tokens, "_read_at", float("-inf"))
    for shown in (token, "lf_0000000000000000_nonsense"):
        found = await api.call("GET", "/api/v1/workers", role=None, Authorization=f"Bearer {shown}")
        assert found.status == 503
        assert "10.0.0.7" not in found.raw.decode()
        assert "db.internal" not in found.raw.decode()

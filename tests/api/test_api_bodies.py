"""Bodies are bounded before anything is made of them, and large ones hold up nobody."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import msgspec
import pytest
from api_caller import Api
from hypothesis import given
from hypothesis import strategies as st

from labfleet.api import application
from labfleet.api.core import json_bounds, large_bodies, served
from labfleet.api.core.large_bodies import LargeBodies
from labfleet.api.core.route import SMALL
from labfleet.engine.aside import LARGE, OneThread
from labfleet.kernel import errors
from labfleet.kernel.json_bounds import DEPTH_LIMIT
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller

T = TypeVar("T")
LEAVES = st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[]{}"\\:é\n', max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text('a"\\[', max_size=3), inner)
    ),
    max_leaves=40,
)


def counted(value: Any) -> tuple[int, int, int]:
    """Return how many values a JSON value has, how many are empty containers, and its depth."""
    if not isinstance(value, dict | list):
        return 1, 0, 0
    inner = list(value.values()) if isinstance(value, dict) else value
    parts = [counted(each) for each in inner]
    return (
        1 + sum(each[0] for each in parts),
        sum(each[1] for each in parts) + (not parts),
        1 + max((each[2] for each in parts), default=0),
    )


def passes(raw: bytes, most: int) -> bool:
    """Whether the text is within the bounds."""
    try:
        json_bounds.check(raw, most)
    except errors.Invalid:
        return False
    return True


@given(VALUES, st.booleans())
def test_values_are_counted_without_decoding(value: Any, escaped: bool) -> None:
    """Whatever stands in strings: a text with more values never passes, one with fewer always."""
    raw = json.dumps(value, ensure_ascii=escaped).encode()
    values, empty, _ = counted(value)
    assert passes(raw, values + empty)
    if values > 1:
        assert not passes(raw, values - 1)


@given(st.integers(1, 2 * DEPTH_LIMIT), st.booleans())
def test_depth_is_counted_without_decoding(depth: int, mapping: bool) -> None:
    """64 levels pass and 65 do not, in lists and mappings, with brackets in a string beside them."""
    begin, end = (b'{"[[[":', b"}") if mapping else (b'["}]\\"[",', b"]")
    raw = begin * depth + b"0" + end * depth
    assert counted(json.loads(raw))[2] == depth
    assert passes(raw, 10_000) is (depth <= DEPTH_LIMIT)


@given(st.binary(max_size=60) | st.text(alphabet='[]{},:"\\0', max_size=60).map(str.encode))
def test_what_is_no_json_is_for_the_decoder(raw: bytes) -> None:
    """On whatever bytes the check raises nothing but Invalid, and that only for many marks."""
    marks = sum(raw.count(each) for each in (b",", b"[", b"{"))
    assert passes(raw, 10) or marks >= 10 or raw.count(b'"') > 40


EVIL = {
    "many lists": b'{"spec":{"slot":[' + b",".join([b"[" * 58 + b"]" * 58] * 60_000) + b"]}}",
    "many mappings": b'{"spec":{"slot":[' + b"{}," * 2_500_000 + b"{}]}}",
    "many texts": b'{"spec":{"slot":[' + b'"",' * 2_500_000 + b'""]}}',
    "many labels": json.dumps(
        {"metadata": {"labels": {f"k{n}": "" for n in range(300_000)}}}
    ).encode(),
    "too deep": b'{"spec":' + b"[" * 3_000_000,
}


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.asyncio
async def test_seven_megabytes_of_values_cost_little_and_make_nothing(
    api: Api, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cost 2 to 7 CPU seconds on the loop; now it is refused, and the decoder is not asked."""
    asked = []
    monkeypatch.setattr(msgspec.json, "decode", lambda raw: asked.append(len(raw)))
    begun = time.process_time()
    found = await api.call("POST", "/api/v1/definitions", raw=EVIL[name])
    cpu = time.process_time() - begun
    monkeypatch.undo()
    assert found.status == (400 if name == "too deep" else 413), found.raw
    assert ("64 levels" if name == "too deep" else "at most 65536 values") in found.json["detail"]
    assert asked == []
    assert cpu < 1.5


@pytest.mark.asyncio
async def test_a_small_body_is_bounded_too(api: Api) -> None:
    """30,000 empty lists fit into 64 KiB."""
    found = await api.call("POST", "/api/v1/clusters", raw=b"[" + b"[]," * 20_000 + b"[]]")
    assert found.status == 413
    found = await api.call("POST", "/api/v1/clusters", raw=b"[" * 16_000)
    assert (found.status, "64 levels" in found.json["detail"]) == (400, True)


class Watched(OneThread):
    """Work aside whose threads are noted, with its size."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[bool, bool]] = []

    async def run(self, size: int, work: Callable[[], T]) -> T:
        def noted() -> T:
            self.seen.append((size > LARGE, threading.current_thread().name.startswith("aside")))
            return work()

        return await super().run(size, noted)


def with_aside(api: Api, aside: OneThread) -> None:
    """Build the application anew, with large bodies read aside."""
    services = dataclasses.replace(api.world.services, aside=aside)
    api.app = application.build(
        services, api.tokens, api.ring, readiness=lambda: api.waiting,
        metrics=lambda: (b"", "text/plain"),
    )  # fmt: skip


def topology(size: int) -> str:
    """Return a legal topology of about so many bytes."""
    notes = "x" * size
    return f'lab: {{title: t, version: 0.1.0, notes: "{notes}"}}\nnodes: []\nlinks: []\n'


@pytest.mark.asyncio
async def test_large_bodies_and_topologies_are_read_aside_and_small_ones_here(api: Api) -> None:
    """The JSON and the YAML in it are two pieces of work; each is done where it holds up nobody."""
    aside = Watched()
    with_aside(api, aside)
    for name, size in (("small", 100), ("large", 2 * SMALL)):
        body = {"metadata": {"name": name}, "spec": {"topology": topology(size)}}
        made = await api.call("POST", "/api/v1/definitions", body)
        assert made.status == 201, made.raw
    assert aside.seen == [(False, False)] * 2 + [(True, True)] * 2


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold the decoding of large bodies until it is set."""
    opened, real = threading.Event(), msgspec.json.decode

    def decode(raw: bytes) -> Any:
        if len(raw) > LARGE:
            opened.wait()
        return real(raw)

    monkeypatch.setattr(msgspec.json, "decode", decode)
    yield opened
    opened.set()


@pytest.mark.asyncio
async def test_others_are_served_while_large_bodies_wait(api: Api, gate: threading.Event) -> None:
    """Six large bodies stopped the loop for 43 s; now reads and small writes go on meanwhile."""
    with_aside(api, OneThread())
    bodies = [
        {"metadata": {"name": f"d{number}"}, "spec": {"topology": topology(2 * SMALL)}}
        for number in range(10)
    ]
    async with asyncio.TaskGroup() as group:
        large = [
            group.create_task(api.call("POST", "/api/v1/definitions", body)) for body in bodies
        ]
        refused, waiting = await asyncio.wait(large, return_when=asyncio.FIRST_COMPLETED)
        assert (await api.call("GET", "/api/v1/definitions")).json["items"] == []
        cluster = {"metadata": {"name": "c"}, "spec": {"capacity": {"cpu": 1}}}
        assert (await api.call("POST", "/api/v1/clusters", cluster)).status == 201
        refused |= {each for each in waiting if each.done()}
        gate.set()
    found = sorted(task.result().status for task in large)
    assert found == [201] * 8 + [503] * 2
    busy = [task.result() for task in refused]
    assert {(each.json["reason"], each.headers["retry-after"]) for each in busy} == {("Busy", "2")}


def test_one_caller_s_large_bodies_leave_room_for_others() -> None:
    """Two at a time of one user, six of all users, eight in all; each place comes back."""
    places = LargeBodies()
    with ExitStack() as held:
        for number in range(large_bodies.OF_LIMITED):
            user = Principal(str(number // large_bodies.OF_ONE), Role.USER)
            held.enter_context(places.place(user))
            if number % large_bodies.OF_ONE:
                with pytest.raises(errors.Temporary, match="of yours"), places.place(user):
                    pass
        another = Principal("another", Role.RUNNER)
        with pytest.raises(errors.Temporary) as caught, places.place(another):
            pass
        assert (caught.value.reason, caught.value.retry_after) == ("Busy", 2.0)
        operator = Principal("o", Role.OPERATOR)
        for _ in range(large_bodies.AT_ONCE - large_bodies.OF_LIMITED):
            held.enter_context(places.place(operator))
        with pytest.raises(errors.Temporary), places.place(operator):
            pass
    for _ in range(3):
        with pytest.raises(KeyError), places.place(another):
            raise KeyError
    with places.place(another), places.place(another):
        pass


@pytest.mark.asyncio
async def test_slow_uploads_of_one_token_hold_two_places_and_no_more() -> None:
    """Bytes are asked for only by who has a place: memory does not grow with the callers."""
    eve = Principal("eve", Role.USER)
    scope: dict[str, Any] = {
        "headers": [],
        served.LARGE_BODIES: LargeBodies(),
        served.CALLER: Caller(eve, "r"),
    }
    chunk = b"x" * (LARGE + 1)
    reading = asyncio.Event()

    async def slow() -> dict[str, Any]:
        if reading.is_set():
            await asyncio.Event().wait()
        reading.set()
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def upload() -> None:
        with ExitStack() as held:
            reading.clear()
            await served.whole(scope, slow, 16 * 2**20, held)

    tasks = []
    for _ in range(large_bodies.OF_ONE):
        tasks.append(asyncio.create_task(upload()))
        for _ in range(5):
            await asyncio.sleep(0)
    with pytest.raises(errors.Temporary, match="of yours"):
        await upload()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with scope[served.LARGE_BODIES].place(eve):
        pass

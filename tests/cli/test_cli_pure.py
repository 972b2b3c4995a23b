"""Durations, paths and YAML text: the pure parts of the command line."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.cli.commands import waiting, watching
from labfleet.cli.kit import exits, human_units, paths, sse, targets
from labfleet.resources import documents, yamltext
from labfleet.resources.kinds import KINDS

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
OBJ = {
    "metadata": {"name": "w-1", "labels": {"app/x": "y"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Drained"}]},
}


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800)]
)
def test_durations_carry_units(text, seconds):
    """A duration is a number with a unit, or several of them."""
    assert human_units.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "-5m", "5 m", "1e3s", "x"])
def test_durations_without_unit_are_refused(text):
    """A bare number could mean two things and is refused."""
    with pytest.raises(ValueError, match="write 90s"):
        human_units.duration(text)


def test_instants_are_shown_absolute_and_relative():
    """A time says when it is and how far away."""
    assert human_units.when("2026-11-27T12:25:00Z", NOW) == "2026-11-27 12:25:00Z (in 25m)"
    assert human_units.when("2026-11-27T13:00:00+02:00", NOW) == "2026-11-27 11:00:00Z (1h ago)"
    assert human_units.when(None, NOW) == "-"


def test_amounts_carry_their_units():
    """A number of a dimension never stands without its unit."""
    assert human_units.amount("cpu_milli", 14000) == "14 CPU"
    assert human_units.amount("memoryMib", 53248) == "52GiB memory"
    assert human_units.amount("network_kbps", 100000) == "100 Mbit/s"


def test_cells_hold_no_control_characters():
    """A title of somebody cannot move the cursor or paint the terminal."""
    assert "\x1b" not in human_units.plain("a\x1b[31mb")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.metadata.name}", "w-1"),
        (".metadata.name", "w-1"),
        ("{.metadata.labels['app/x']}", "y"),
        ('{.status.conditions[?(@.type=="Ready")].status}', "True"),
        ("{.status.conditions[*].type}", "Ready Drained"),
        ("{.status.conditions[-1].type}", "Drained"),
        ('{range .status.conditions[*]}{.type}{"\\n"}{end}', "Ready\nDrained\n"),
        ("{.status.absent}", ""),
        ("{.status.conditions[0]}", '{"type": "Ready", "status": "True"}'),
    ],
)
def test_jsonpath_selects_what_it_names(template, text):
    """The supported part of JSONPath gives what kubectl gives."""
    assert paths.render(OBJ, template) == text


@pytest.mark.parametrize(
    "template", ["{.a", "{range .a}x", "{end}", "{.a..b}", "{.a[1:2]}", '{"x}']
)
def test_jsonpath_refuses_what_it_does_not_know(template):
    """An expression that is not understood is an error, never silently empty."""
    with pytest.raises(ValueError, match=r"."):
        paths.render({"a": {}}, template)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.text(max_size=12), plain, min_size=1, max_size=5))
def test_written_yaml_reads_back_the_same(value):
    """What `get -o yaml` writes is what `apply -f -` reads."""
    surrogates = any(0xD800 <= ord(each) <= 0xDFFF for each in repr(value))
    if surrogates:
        return
    assert documents.read(yamltext.dump(value))[0].value == value


@pytest.mark.parametrize(
    "text", ["yes", "on", "010", "1e3", "22:22", "~", "", " x", "a: b", "- a", "x\n\n"]
)
def test_text_that_looks_like_something_else_is_quoted(text):
    """Text stays text for every reader of YAML."""
    written = yamltext.dump({"key": text})
    assert documents.read(written)[0].value == {"key": text}
    assert text in {"", "x"} or '"' in written


def test_topologies_are_written_as_blocks():
    """Text of several lines stays readable."""
    assert (
        yamltext.dump({"topology": "lab:\n  title: x\n"}) == "topology: |\n  lab:\n    title: x\n"
    )


@pytest.mark.parametrize(
    ("selector", "fits"),
    [("a=b", True), ("a==b,c!=d", True), ("a!=b", False), ("a", True), ("!a", False),
     ("a in (x,b)", True), ("a notin (x,b)", False), ("", True), ("z=", False)],
)  # fmt: skip
def test_selectors_are_judged_like_the_server_does(selector, fits):
    """Changes of a stream are held against the same selector as the list."""
    obj = {"kind": "Session", "metadata": {"name": "s", "labels": {"a": "b"}}}
    scope = watching.Scope([KINDS["Session"]], None, selector)
    assert scope.holds(obj) is fits


def test_the_stream_is_split_into_events():
    """Comments, half events and CRLF do not confuse the reader."""
    raw = b": ping\r\n\r\nid: e.1\nevent: ADDED\ndata: {\ndata: }\n\nid: e.2\ndata: half"
    assert list(sse.messages(io.BytesIO(raw))) == [sse.Message("ADDED", "e.1", "{\n}")]


@pytest.mark.parametrize(
    ("args", "shown"),
    [(["worker", "a", "b"], ["worker/a", "worker/b"]), (["w/a", "s/b"], ["worker/a", "session/b"]),
     (["lablet", "x"], ["session/x"])],
)  # fmt: skip
def test_objects_are_named_in_two_ways(args, shown):
    """`KIND NAME...` and `KIND/NAME...` mean the same."""
    assert [str(each) for each in targets.parse(args)] == shown


@pytest.mark.parametrize(
    "args", [[], ["worker"], ["worker/"], ["worker/a", "b"], ["worker", "s/x"]]
)
def test_incomplete_names_are_usage_errors(args):
    """What does not name an object exits with 2."""
    with pytest.raises(exits.Failure) as caught:
        targets.parse(args)
    assert caught.value.code == exits.USAGE


@pytest.mark.parametrize(
    ("kind", "phase", "wish", "verdict"),
    [
        ("Session", "READY", "phase=READY", "met"),
        ("Session", "RUNNING", "phase=ready", "met"),
        ("Session", "PENDING", "phase=READY", "open"),
        ("Session", "STOPPING", "phase=READY", "hopeless"),
        ("Session", "STOPPING", "phase=COMPLETED", "open"),
        ("Session", "FAILED", "phase=COMPLETED", "hopeless"),
        ("Session", "FAILED", "phase=FAILED", "met"),
        ("Session", "FAILED", "condition=Ready", "hopeless"),
        ("Worker", "ACTIVE", "phase=READY", "met"),
        ("Worker", "FAILED", "phase=READY", "hopeless"),
        ("Worker", "TERMINATED", "delete", "open"),
    ],
)
def test_a_wish_is_met_open_or_hopeless(kind, phase, wish, verdict):
    """Waiting knows when it has become pointless."""
    judged = waiting.judge(kind, {"status": {"phase": phase}}, waiting.parse(wish))
    assert judged.value == verdict


@pytest.mark.parametrize("wish", ["phase=", "phase", "condition=", "condition=X=maybe", "gone"])
def test_unknown_wishes_are_usage_errors(wish):
    """A wish that is not understood is refused at once."""
    with pytest.raises(exits.Failure):
        waiting.parse(wish)


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("cpuMilli", "CPU"),
        ("cooldownUpSeconds", "Cooldown up"),
        ("ad1243dc-d700-4e21-89ac-4de95079e2b3", "ad1243dc-d700-4e21-89ac-4de95079e2b3"),
        ("r1/i0", "r1/i0"),
    ],
)
def test_a_field_has_a_title_and_an_id_stays_as_it_is(key: str, title: str) -> None:
    """Keys of mappings that are no fields, such as ids of nodes, can be copied."""
    assert human_units.titled(key) == title

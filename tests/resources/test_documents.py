"""Bounded reading of YAML and JSON."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import errors
from labfleet.resources import documents
from labfleet.resources.documents import Limits


def one(text: str | bytes):
    """The value of the only document."""
    (found,) = documents.read(text)
    return found.value


def refused(text: str | bytes, limits: Limits | None = None) -> str:
    """The message that the text gives."""
    with pytest.raises(errors.Invalid) as caught:
        documents.read(text, limits=limits)
    assert caught.value.problems[0][0].startswith("line ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("yes", "yes"), ("No", "No"), ("true", True), ("False", False),
        ("010", "010"), ("08", "08"), ("0o14", "0o14"), ("22:22", "22:22"), ("1_000", "1_000"),
        ("12", 12), ("-3", -3), ("0", 0), ("0x1F", 31), ("1.5", 1.5), ("1e3", "1e3"),
        ("2026-11-27", "2026-11-27"), ("~", None), ("", None), ("null", None), ("'12'", "12"),
        (".inf", ".inf"), (".nan", ".nan"), ("9" * 40, "9" * 40), ("!!str 12", "12"),
        ("!!int '12'", 12), ("!!float '3'", 3.0), ("1.10", 1.1), ("=", "="),
    ],
)  # fmt: skip
def test_plain_scalars_hold_no_trap(text, value):
    """What YAML 1.1 would turn into a bool, octal, sexagesimal or date stays text."""
    found = one(f"a: {text}\n")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: duplicate key 'a', first given on line 1"),
        ("a: {x: 1, x: 2}\n", "duplicate key 'x'"),
        ("a: [1\n", "line 2"),
        ("\ta: 1\n", "line 1"),
        ("a: *nobody\n", "unknown alias *nobody"),
        ("a: &x [*x]\n", "unknown alias *x"),
        ("a: !!python/object:os.system {}\n", "is not allowed"),
        ("a: !!binary aGk=\n", "is not allowed"),
        ("a: !!int x\n", "not of type int"),
        ("a: &b {c: 1}\nd: {<<: *b}\n", "merge keys"),
        ("1: x\n", "key '1' is not text; write \"1\""),
        ("[a]: x\n", "a key must be plain text"),
        ("a: \x00\n", "line 1"),
        (b"\xff\xfe\x00", "not UTF-8"),
        ("a: \ud800\n", "not UTF-8"),
        ("[" * 100 + "]" * 100, "nested deeper than 60"),
        ("x" * (4 * 2**20 + 1), "larger than"),
        ("[" + "a," * 10001 + "]", "more than 10000 values"),
    ],
)
def test_refused_with_a_line(text, words):
    """Every refusal says what and where."""
    assert words in refused(text)


def test_alias_bombs_are_counted_expanded():
    """Ten times ten times ten is a thousand, whoever writes it in three lines."""
    bomb = (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]\n"
    )
    assert "aliases expanded" in refused(bomb, Limits(nodes=300))
    long = f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 20)}]\n"
    assert "characters, aliases expanded" in refused(long, Limits(characters=10_000))


def test_small_aliases_are_fine():
    """An alias is a convenience as long as it stays small."""
    assert one("a: &x {k: v}\nb: *x\n") == {"a": {"k": "v"}, "b": {"k": "v"}}


def test_several_documents_and_empty_ones():
    """Documents are counted as they stand; empty ones are left out."""
    found = documents.read("# only words\n---\na: 1\n---\n---\nb: 2\n")
    assert [(each.value, each.index, each.line) for each in found] == [
        ({"a": 1}, 0, 3), ({"b": 2}, 2, 6),
    ]  # fmt: skip
    assert documents.read("") == []


def test_lines_of_paths():
    """Every key and item has its line; an absent one has that of the nearest part."""
    (found,) = documents.read("a:\n  b:\n    - 1\n    - c: 2\nd: 3\n")
    lines = [("a",), ("a", "b"), ("a", "b", 1), ("a", "b", 1, "c"), ("d",), ("a", "zz", 3)]
    assert [found.line_of(each) for each in lines] == [1, 2, 4, 4, 5, 1]


def test_bytes_with_a_mark_are_read():
    """A byte order mark is no part of the first key."""
    assert one(b"\xef\xbb\xbfa: 1\n") == {"a": 1}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), values, min_size=1, max_size=4), st.booleans())
def test_json_comes_back(value, ascii_only):
    """What JSON says is read as it was, in escapes or raw."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    try:
        yaml.safe_load(text)
    except yaml.YAMLError:
        if not ascii_only:
            return  # raw control characters are JSON but not YAML
    if ascii_only or not any(mark in text for mark in "\x85\u2028\u2029\ufeff"):
        assert one(text) == value


@given(st.dictionaries(st.text(max_size=8), values, min_size=1, max_size=4))
def test_what_yaml_dumps_comes_back(value):
    """A safe dump of plain data is read as it was."""
    text = yaml.safe_dump(value, allow_unicode=False)
    assert one(text) == yaml.safe_load(text)


@given(st.text(max_size=80) | st.binary(max_size=80))
def test_any_text_is_read_or_refused(text):
    """No input fails in another way than by errors.Invalid."""
    try:
        found = documents.read(text)
    except errors.Invalid:
        return
    assert all(each.value is not None for each in found)

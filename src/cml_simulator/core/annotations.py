"""Drawings of a lab: text, rectangle, ellipse, line; and what smart annotations may change."""

from collections.abc import Mapping
from typing import Any

from cml_simulator.core.fields import Reader

TYPES = ("text", "rectangle", "ellipse", "line")
KEPT = 5000
BORDERS = ("", "2,2", "4,2")
GREY, WHITE, CLEAR = "#808080FF", "#FFFFFFFF", "#00000000"
ARROWS = ("arrow", "square", "circle")

COMMON: dict[str, Any] = {
    "border_color": GREY,
    "border_style": "",
    "color": WHITE,
    "thickness": 1,
    "x1": 0,
    "y1": 0,
    "z_index": 0,
}
OWN: dict[str, dict[str, Any]] = {
    "text": {
        "border_color": CLEAR,
        "color": GREY,
        "rotation": 0,
        "text_bold": False,
        "text_content": "text annotation",
        "text_font": "monospace",
        "text_italic": False,
        "text_size": 12,
        "text_unit": "pt",
    },
    "rectangle": {"x2": 100, "y2": 100, "rotation": 0, "border_radius": 0},
    "ellipse": {"x2": 100, "y2": 100, "rotation": 0},
    "line": {"x2": 100, "y2": 100, "line_start": None, "line_end": None},
}
NUMBERS = {
    "x1": (-15_000, 15_000),
    "y1": (-15_000, 15_000),
    "x2": (-15_000, 15_000),
    "y2": (-15_000, 15_000),
    "z_index": (-10_240, 10_240),
    "thickness": (0, 32),
    "rotation": (0, 360),
    "border_radius": (0, 128),
    "text_size": (1, 128),
}
TEXTS = {"border_color": 32, "color": 32, "text_content": 8192, "text_font": 128}
WORDS = {
    "border_style": BORDERS,
    "text_unit": ("pt", "px", "em"),
    "line_start": (None, *ARROWS),
    "line_end": (None, *ARROWS),
}
SMART_NUMBERS = {
    "padding": (1, 200),
    "tag_offset_x": (-1000, 1000),
    "tag_offset_y": (-1000, 1000),
    "tag_size": (1, 128),
    "group_distance": (0, 10_000),
    "thickness": (0, 32),
    "z_index": (-10_240, 10_240),
}
SMART_TEXTS = {"label": 256, "fill_color": 32, "border_color": 32}
SMART_KEYS = (*SMART_NUMBERS, *SMART_TEXTS, "tag", "is_on", "border_style")


def defaults(kind: str) -> dict[str, Any]:
    """Return the values of a new annotation of one type."""
    return {"type": kind, **COMMON, **OWN[kind]}


def keys(kind: str) -> tuple[str, ...]:
    """Return the keys of an annotation of one type."""
    return tuple(defaults(kind))


def values(row: Mapping[str, Any], kind: str, read: Reader) -> dict[str, Any]:
    """Return the checked values of those keys that are given."""
    known = set(keys(kind)) - {"type"}
    return _values(row, known, (NUMBERS, TEXTS, WORDS, ("text_bold", "text_italic")), read)


def smart_values(row: Mapping[str, Any], read: Reader) -> dict[str, Any]:
    """Return the checked values of a smart annotation; its tag stays what it is."""
    words = {"border_style": BORDERS}
    return _values(row, set(SMART_KEYS), (SMART_NUMBERS, SMART_TEXTS, words, ("is_on",)), read)


Rules = tuple[
    Mapping[str, tuple[int, int]],
    Mapping[str, int],
    Mapping[str, tuple[str | None, ...]],
    tuple[str, ...],
]


def _values(row: Mapping[str, Any], known: set[str], rules: Rules, read: Reader) -> dict[str, Any]:
    numbers, texts, words, flags = rules
    found: dict[str, Any] = {}
    for key in known & row.keys():
        value = row[key]
        if key in numbers:
            found[key] = read.number(row, key, *numbers[key], needed=True)
        elif key in texts:
            found[key] = read.text(row, key, texts[key], needed=True)
        elif key in words:
            if value not in words[key]:
                read.fail(key, "enum", f"Input should be one of {list(words[key])}")
            found[key] = value
        elif key in flags:
            if not isinstance(value, bool):
                read.fail(key, "bool_type", "Input should be a valid boolean")
            found[key] = value
    return found

"""Dotted paths and the JSONPath subset of `-o jsonpath=` and `-o custom-columns=`; pure.

Supported: `.a.b`, `['a-b']`, `[0]`, `[-1]`, `[*]`, `[?(@.type=="Ready")]`, templates of
`{...}` with quoted text, `{range .items[*]}...{end}`. Anything else is refused, not guessed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from labfleet.resources import spellings

_STEP = re.compile(
    r"""\.?\[\s*\?\(\s*@\.(?P<field>[\w.]+)\s*(?P<op>==|!=)\s*
        (?P<quote>["'])(?P<wanted>.*?)(?P=quote)\s*\)\s*\]
      | \.?\[\s*(?P<index>-?\d+)\s*\]
      | \.?\[\s*(?P<star>\*)\s*\]
      | \.?\[\s*(?P<mark>["'])(?P<key>.*?)(?P=mark)\s*\]
      | \.(?P<dotstar>\*)
      | \.?(?P<name>[A-Za-z_][\w/-]*(?:\\.[\w/-]+)*)""",
    re.VERBOSE,
)
_PIECE = re.compile(r"\{([^{}]*)\}")


def simple(root: Any, dotted: str) -> Any:
    """Return the value at `status.machine.publicAddress`, or None when any part is absent.

    `a.b|c.d` gives the first that is there; a field of a list of records gives a list.
    """
    first, _, others = dotted.partition("|")
    value = _plain(root, first)
    return simple(root, others) if value is None and others else value


def _plain(root: Any, dotted: str) -> Any:
    value = root
    for step in dotted.split("."):
        if isinstance(value, list):
            value = [each.get(step) if isinstance(each, dict) else None for each in value]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    if value is None and (present := spellings.path(dotted)) != dotted:
        return _plain(root, present)
    return value


def select(root: Any, path: str) -> list[Any]:
    """Return every value that the path leads to; ValueError when it is not understood."""
    plain = spellings.path(path.strip().removeprefix("$").removeprefix("@"))
    values, at = [root], 0
    while at < len(plain) and plain != ".":
        step = _STEP.match(plain, at)
        if step is None:
            message = f"cannot understand {plain[at:]!r} in the path {path!r}"
            raise ValueError(message)
        values = [found for value in values for found in _follow(value, step)]
        at = step.end()
    return values


def _follow(value: Any, step: re.Match[str]) -> list[Any]:
    if step["star"] or step["dotstar"]:
        return list(value.values() if isinstance(value, dict) else _items(value))
    if step["index"] is not None:
        items, index = _items(value), int(step["index"])
        return [items[index]] if -len(items) <= index < len(items) else []
    if step["field"]:
        same = step["op"] == "=="
        return [
            each
            for each in _items(value)
            if (_scalar(simple(each, step["field"])) == step["wanted"]) == same
        ]
    key = step["key"] if step["key"] is not None else step["name"].replace("\\.", ".")
    return [value[key]] if isinstance(value, dict) and key in value else []


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@dataclass(frozen=True)
class _Loop:
    path: str
    body: list[Any]


def render(root: Any, template: str) -> str:
    """Return the template's text for this object; ValueError when it is not understood."""
    text = template if "{" in template else "{" + template + "}"
    pieces = _parse(text)
    return "".join(_render(root, piece) for piece in pieces)


def _parse(text: str) -> list[Any]:
    stack: list[list[Any]] = [[]]
    loops: list[str] = []
    at = 0
    for found in _PIECE.finditer(text):
        if found.start() > at:
            stack[-1].append(("text", text[at : found.start()]))
        at = found.end()
        inner = found[1].strip()
        if inner.startswith("range "):
            loops.append(inner.removeprefix("range ").strip())
            stack.append([])
        elif inner == "end":
            if not loops:
                raise ValueError("{end} without {range ...}")
            body = stack.pop()
            stack[-1].append(_Loop(loops.pop(), body))
        elif inner[:1] in {'"', "'"}:
            stack[-1].append(("text", _quoted(inner)))
        else:
            stack[-1].append(("path", inner))
    if loops:
        raise ValueError("{range ...} without {end}")
    if "{" in text[at:]:
        raise ValueError("a brace is not closed")
    if at < len(text):
        stack[-1].append(("text", text[at:]))
    return stack[0]


def _quoted(text: str) -> str:
    inner = text[1:-1] if len(text) > 1 and text[-1] == text[0] else None
    if inner is None:
        raise ValueError(f"the quote in {{{text}}} is not closed")
    for written, meant in (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\'", "'")):
        inner = inner.replace(written, meant)
    return inner


def _render(root: Any, piece: Any) -> str:
    if isinstance(piece, _Loop):
        return "".join(
            _render(each, part) for each in select(root, piece.path) for part in piece.body
        )
    kind, text = piece
    if kind == "text":
        return str(text)
    return " ".join(_scalar(each) for each in select(root, text))


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)

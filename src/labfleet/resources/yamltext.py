"""Writing plain values as YAML that every reader understands the same way; pure.

`documents` reads YAML. Text is quoted unless every YAML version reads it as the same
text; text of several lines is written as a block when that is exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


def dump(value: Any) -> str:
    """Return the value as one YAML document without markers, ending in a line end."""
    return "\n".join(_block(value, 0)) + "\n"


def _block(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _entry(f"{pad}{_text(str(key))}:", inner, depth + 1)
    elif isinstance(value, list) and value:
        for inner in value:
            if isinstance(inner, dict | list) and inner:
                lines = list(_block(inner, depth + 1))
                yield f"{pad}- {lines[0].lstrip(' ')}"
                yield from lines[1:]
            else:
                yield from _entry(f"{pad}-", inner, depth + 1)
    else:
        yield f"{pad}{_flow(value)}"


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from _block(value, depth)
    elif isinstance(value, str) and _fits_block(value):
        body, pad = value, "  " * depth
        mark = "|" if body.endswith("\n") else "|-"
        yield f"{head} {mark}"
        for line in body.removesuffix("\n").split("\n"):
            yield f"{pad}{line}" if line else ""
    else:
        yield f"{head} {_flow(value)}"


def _fits_block(text: str) -> bool:
    """Tell whether a literal block is exact: no leading blanks, odd characters, extra ends."""
    if "\n" not in text or text[0] in " \n\t" or text.endswith("\n\n") or text.strip() == "":
        return False
    return all(each in "\n\t" or each.isprintable() for each in text)


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value, ensure_ascii=False)


def _text(text: str) -> str:
    if _SAFE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())

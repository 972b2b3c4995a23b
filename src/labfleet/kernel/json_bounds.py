"""How deep and how full a JSON text is, told from its bytes before anything is made of it.

Decoding makes an object of each value: 7 MB of empty lists cost seconds that nothing can interrupt.
Counting brackets and commas outside of strings costs milliseconds.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Literal

DEPTH_LIMIT = 64
"""Levels; no text of ours, of a caller's or of a server's has a third of them."""
_OPEN, _CLOSE = b"[{", b"]}"
_NOT_BRACKETS = bytes(each for each in range(256) if each not in _OPEN + _CLOSE)
_STEPS = [0] * 256
for _each in _OPEN:
    _STEPS[_each] = 1
for _each in _CLOSE:
    _STEPS[_each] = -1


def fault(raw: bytes, most: int) -> Literal["full", "deep"] | None:
    """Tell what is wrong with a text: more than `most` values, or nested too deep; None if neither.

    Keys are no values. What is no JSON may pass: the decoder stops at its first error, and up to
    there the text was counted right.
    """
    # Most texts are so small that no way of reading them is too deep or too full.
    opened = raw.count(b"[") + raw.count(b"{")
    if opened <= DEPTH_LIMIT and opened + raw.count(b",") < most and len(raw) <= 4 * most:
        return None
    # Escaped backslashes first, so that what is left before a quote escapes it.
    text = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A value that is a string has two quotes and so has its key.
    if text.count(b'"') > 4 * most + 4:
        return "full"
    outside = b"".join(text.split(b'"')[::2])
    # As many as a text within the bound may have, so that looking at each costs little.
    brackets = outside.translate(None, _NOT_BRACKETS)[: 2 * most]
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEPTH_LIMIT:
        return "deep"
    return "full" if sum(outside.count(each) for each in (b",", b"[", b"{")) >= most else None
